"""Rows that begin with the same prompt, for a trainer to compute that prompt once.

In the step layout most prompts of a batch are another row's too: rollouts of a group that stand in the same state. A
prompt and the replies to it are laid one after another, and each reply sees the prompt and itself, at the positions it
would have alone: what the model says of a token is what it says of it in a row of its own. Several such trees share a
line of the batch, and see nothing of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

WIDTH = 256
"""Tokens of a line at least. Attention costs their square, and is small beside the rest of a layer up to here."""
WORTH = 0.75
"""Share of the tokens, padding included, that must be left: a mask costs something, too."""

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Packed:
    """Rows as lines of trees.

    Attributes:
        ids: token ids, of shape (lines, width).
        positions: of each token in the row that it is part of; same shape.
        mask: which tokens (last axis) each token sees, of shape (lines, 1, width, width).
        places: where each token of the rows, one after the other, is in the flattened `ids`; of shape (tokens,).
    """

    ids: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor
    places: torch.Tensor


def packed(rows: Sequence[Ids], prompts: Sequence[int]) -> Packed | None:
    """The rows with every prompt once for as many replies as a line takes; None if that saves little.

    Args:
        rows: token ids of each row, its prompt first.
        prompts: how many of them are its prompt.
    """
    longest = max(len(row) for row in rows)
    width = max(WIDTH, longest)
    trees = _trees(rows, prompts, width)
    lines = _lines([prompts[tree[0]] + sum(len(rows[row]) - prompts[row] for row in tree) for tree in trees], width)
    if len(lines) * width > WORTH * len(rows) * longest:
        return None
    shape = (len(lines), width)
    ids, positions = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    # The numbers of a token's tree, 0 for padding, and of its reply, 0 for the prompt.
    of_tree, of_reply = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    places = [np.zeros(0, np.int64)] * len(rows)
    for line, there in enumerate(lines):
        at = 0
        for tree in there:
            first = trees[tree][0]
            said = prompts[first]
            prompt = slice(at, at + said)
            ids[line, prompt], positions[line, prompt] = rows[first][:said], np.arange(said)
            of_tree[line, prompt] = tree + 1
            at += said
            for number, row in enumerate(trees[tree], 1):
                reply = slice(at, at + len(rows[row]) - said)
                ids[line, reply], positions[line, reply] = rows[row][said:], np.arange(said, len(rows[row]))
                of_tree[line, reply], of_reply[line, reply] = tree + 1, number
                places[row] = line * width + np.r_[prompt, reply]
                at = reply.stop
    trees_of, replies_of = torch.from_numpy(of_tree), torch.from_numpy(of_reply)
    mask = (trees_of[:, :, None] == trees_of[:, None, :]) & torch.ones(width, width, dtype=torch.bool).tril()
    mask &= (replies_of[:, None, :] == 0) | (replies_of[:, :, None] == replies_of[:, None, :])
    flat = torch.from_numpy(np.concatenate(places))
    return Packed(torch.from_numpy(ids), torch.from_numpy(positions), mask[:, None], flat)


def _trees(rows: Sequence[Ids], prompts: Sequence[int], width: int) -> list[list[int]]:
    """Rows of one prompt, as many together as `width` tokens hold."""
    trees: list[list[int]] = []
    free: dict[bytes, tuple[int, int]] = {}  # of a prompt: its last tree, and the tokens that this still takes
    for row, (told, prompt) in enumerate(zip(rows, prompts, strict=True)):
        key = told[:prompt].tobytes()
        reply = len(told) - prompt
        tree, left = free.get(key, (0, -1))
        if reply > left:
            tree, left = len(trees), width - prompt
            trees.append([])
        trees[tree].append(row)
        free[key] = tree, left - reply
    return trees


def _lines(sizes: Sequence[int], width: int) -> list[list[int]]:
    """Numbers of trees that share a line, the largest first, each where it fits first."""
    lines: list[list[int]] = []
    free: list[int] = []
    for tree in sorted(range(len(sizes)), key=lambda tree: -sizes[tree]):
        line = next((line for line, left in enumerate(free) if left >= sizes[tree]), len(lines))
        if line == len(lines):
            lines.append([])
            free.append(width)
        lines[line].append(tree)
        free[line] -= sizes[tree]
    return lines
