"""Which states are the same: exactly, or nearly so by how alike their texts are.

Alike is rapidfuzz's normalised Indel similarity, 2 * LCS / (length + length), with LCS the length of the longest common
subsequence. verl-agent uses difflib's ratio, 2 * M / (length + length), with M the characters that difflib matches;
those are a common subsequence, so ours is never the lower one. Where the two differ is in docs/credit.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np

from agent_env.errors import InputError, MissingExtra, Problem
from agent_env.training.credit.labels import IntArray, codes, pairs
from agent_env.training.credit.rows import Rows
from agent_env.training.credit.steps import Steps

_ROUNDING = 1e-12


def step_groups(steps: Steps, *, similarity: float | None = None) -> IntArray:
    """The step group of each row: a number for each state of each trajectory group, -1 for rows that don't count.

    Args:
        steps: with ``state``.
        similarity: as in `same_states`.
    """
    groups = np.full(len(steps), -1, np.int64)
    groups[steps.rows.at] = state_groups(steps.rows, similarity)
    return groups


def state_groups(rows: Rows, similarity: float | None) -> IntArray:
    """A number from 0 for each row, one for each state of each group."""
    assert rows.state is not None
    return same_states(rows.group, rows.state, rows.order, similarity)


def same_states(group: IntArray, states: Sequence[Any], order: IntArray, similarity: float | None) -> IntArray:
    """A number from 0 for each state, the same for those of one group that are the same state.

    Args:
        group: of each state.
        states: hashable.
        order: of the states, in which clusters of similar ones are made.
        similarity: None compares exactly. Otherwise, from the first state on, each joins the oldest cluster whose first
            state it is at least so similar to, 0 to 1, and begins a cluster of its own if there is none.

    Raises:
        InputError: states that are no text can't be compared by similarity.
        MissingExtra: rapidfuzz is not installed.
    """
    if similarity is None:
        return pairs(group, codes(states))
    texts = states.tolist() if isinstance(states, np.ndarray) else states
    kinds = {kind.__name__ for kind in set(map(type, texts)) if not issubclass(kind, str)}
    if kinds:
        raise InputError(Problem("similarity", f"compares texts, and there are states of type {', '.join(kinds)}"))
    ordered = order[np.argsort(group[order], kind="stable")]
    bounds = np.flatnonzero(np.diff(group[ordered])) + 1
    clusters = np.empty(len(group), np.int64)
    for members in np.split(ordered, bounds):
        distinct = dict.fromkeys([texts[member] for member in members])
        cluster = dict(zip(distinct, _clusters(list(distinct), similarity), strict=True))
        clusters[members] = [cluster[texts[member]] for member in members]
    return pairs(group, clusters)


def _clusters(texts: list[str], threshold: float) -> list[int]:
    """Greedy first fit: the first text without a cluster heads the next one, and takes in all others it is like."""
    try:
        from rapidfuzz.distance import Indel
        from rapidfuzz.process import cdist
    except ImportError as error:
        raise MissingExtra("verl", "rapidfuzz") from error

    cluster = np.full(len(texts), -1)
    number = 0
    while (free := cluster < 0).any():
        rest = list(compress(texts, free))
        alike = cdist(
            rest[:1], rest, scorer=Indel.normalized_similarity, score_cutoff=threshold - 1e-6, dtype=np.float64
        )[0]
        cluster[np.flatnonzero(free)[alike >= threshold - _ROUNDING]] = number
        number += 1
    return cluster.tolist()
