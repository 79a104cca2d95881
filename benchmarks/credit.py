"""How long credit takes: 100,000 rows for each estimator, 5,120 texts by similarity; prints docs/credit.md's tables.

Seconds of processor time of one core, the least of a few runs: checking the rows is in them. Beside ours stand plain
ways to do the same, measured in the same run on what they can manage (a mask of the whole batch for each row, which is
quadratic; difflib for similarity), and what verl-agent's own functions were measured to take on another machine.
"""

from __future__ import annotations

import argparse
import difflib
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from agent_env.training.credit import ESTIMATORS, Steps, advantages, step_groups
from agent_env.training.credit.returns import discounted

VERL_AGENT = {
    "grpo": "0.97",
    "gigpo": "2.60, and 86.1 for step returns",
    "hgpo": "5.12, and 86.1 for step returns",
    "graphgpo": "93.1 for its returns",
}
"""Seconds for 100,000 rows by verl-agent's functions, on one core of a 2-core AMD EPYC virtual machine."""

THRESHOLD = 0.9
FEW = 4  # groups that difflib clusters


def seconds(work: Callable[[], object], runs: int) -> float:
    """The least processor time of some runs."""
    least = float("inf")
    for _ in range(runs):
        started = time.process_time()
        work()
        least = min(least, time.process_time() - started)
    return least


def batch(rows: int, rng: np.random.Generator) -> dict[str, list[object] | NDArray[np.generic]]:
    """Fields of `Steps`: groups of 8 trajectories of 5 to 45 steps, 40 states a group, sparse rewards."""
    lengths = rng.integers(5, 46, rows // 5)
    lengths = lengths[: int(np.searchsorted(np.cumsum(lengths), rows)) + 1]
    of = np.repeat(np.arange(len(lengths)), lengths)[:rows]
    step = np.concatenate([np.arange(length) for length in lengths])[:rows]
    success = rng.random(len(lengths)) < 0.4
    last = np.append(of[1:] != of[:-1], True)
    visited = rng.integers(0, 40, rows)
    state = [f"You are in room {place} of house {group}." for place, group in zip(visited, of // 8, strict=True)]
    return {
        "group": [f"task-{group}" for group in of // 8],
        "trajectory": [f"episode-{trajectory}" for trajectory in of],
        "step": step,
        "step_reward": np.where(last & success[of], 10.0, 0.0),
        "episode_reward": np.where(success[of], 10.0, 0.0),
        "state": state,
        "next_state": [*state[1:], state[0]],
        "valid": rng.random(rows) < 0.9,
        "success": success[of],
    }


def shuffled(fields: dict[str, list[object] | NDArray[np.generic]], rng: np.random.Generator) -> dict[str, object]:
    """The same rows in another order."""
    order = rng.permutation(len(fields["step"]))
    return {
        name: values[order] if isinstance(values, np.ndarray) else [values[place] for place in order.tolist()]
        for name, values in fields.items()
    }


def checked_and_computed(name: str, fields: dict[str, object], options: dict[str, object]) -> None:
    """What a trainer does."""
    advantages(name, Steps(**fields), **options)


def plain_returns(trajectory: NDArray[np.object_], reward: NDArray[np.float64], gamma: float) -> NDArray[np.float64]:
    """Discounted returns of rows in order, by looking for each row's trajectory in the whole batch."""
    result = np.zeros(len(reward))
    for row in range(len(reward)):
        later = np.flatnonzero(trajectory == trajectory[row])
        later = later[later >= row]
        result[row] = (reward[later] * gamma ** np.arange(len(later))).sum()
    return result


def texts(groups: int, rows: int, characters: int, rng: np.random.Generator) -> list[list[str]]:
    """Search results by group: a few texts of random words, each seen several times with some words changed."""
    words = np.array(
        ["".join(chr(97 + letter) for letter in rng.integers(0, 26, rng.integers(2, 9))) for _ in range(4000)]
    )
    result = []
    for _ in range(groups):
        originals = [rng.choice(words, characters) for _ in range(rows // 4)]
        group = []
        for row in range(rows):
            text = originals[row % len(originals)].copy()
            changed = rng.random(characters) < rng.choice([0.0, 0.02, 0.3])
            text[changed] = rng.choice(words, int(changed.sum()))
            group.append(" ".join(text)[:characters])
        result.append(group)
    return result


def plain_clusters(group: list[str]) -> list[int]:
    """Greedy first fit with difflib."""
    heads: list[str] = []
    cluster = []
    for text in group:
        for number, head in enumerate(heads):
            if difflib.SequenceMatcher(None, head, text).ratio() >= THRESHOLD:
                cluster.append(number)
                break
        else:
            cluster.append(len(heads))
            heads.append(text)
    return cluster


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)

    rows = arguments.rows
    fields = shuffled(batch(rows, rng), rng)
    print(f"{rows:,} rows in any order, {len(set(fields['group'])):,} groups, exact keys: seconds of one core\n")  # type: ignore[call-overload]
    print("| estimator | ours | verl-agent |\n|---|---|---|")
    for name in ESTIMATORS:
        options = {"values": rng.normal(size=rows)} if name == "gae" else {}
        least = seconds(partial(checked_and_computed, name, fields, options), arguments.runs)
        print(f"| `{name}` | {least:.2f} | {VERL_AGENT.get(name, '')} |", flush=True)
    print(f"\nof which checking the rows takes {seconds(partial(Steps, **fields), arguments.runs):.2f} s")

    few = batch(10_000, rng)
    steps = Steps(**few)
    trajectory, reward = np.array(few["trajectory"], object), np.asarray(few["step_reward"], np.float64)
    assert np.allclose(
        steps.rows.scattered(discounted(steps.rows, reward, 0.95)), plain_returns(trajectory, reward, 0.95)
    )
    ours = seconds(lambda: discounted(Steps(**few).rows, reward, 0.95), arguments.runs)
    plain = seconds(lambda: plain_returns(trajectory, reward, 0.95), 1)
    print("\n10,000 rows, discounted returns, rows checked and sorted:")
    print(f"ours {ours:.4f} s, a mask of the batch for each row {plain:.2f} s: {plain / ours:.0f} times")

    images = rng.integers(0, 256, (100, 96, 96, 3), np.uint8)
    seen = np.arange(3000)
    frames = [images[number].copy() for number in seen % 100]
    ours = seconds(
        lambda: step_groups(Steps(seen // 100, seen // 10, seen % 10, seen, seen // 10, frames)), arguments.runs
    )
    print(f"\n3,000 images of 96 x 96 pixels, checked and grouped: ours {ours:.2f} s, verl-agent 2.51 s")

    groups = texts(256, 20, 1500, rng)
    flat = [text for group in groups for text in group]
    at = np.arange(len(flat))
    alike = Steps(at // 20, at // 4, at % 4, np.zeros(len(at)), np.zeros(len(at)), flat)
    ours = seconds(lambda: step_groups(alike, similarity=THRESHOLD), arguments.runs)
    theirs: list[list[int]] = []
    plain = seconds(lambda: theirs.extend(plain_clusters(group) for group in groups[:FEW]), 1) / FEW
    found = step_groups(alike, similarity=THRESHOLD)
    print(f"\n256 groups of 20 texts of 1,500 characters, similarity {THRESHOLD}:")
    print(f"ours {ours:.2f} s, difflib {plain:.3f} s a group, {256 * plain:.0f} s: {256 * plain / ours:.0f} times")
    states = [len(set(found[20 * number : 20 * number + 20].tolist())) for number in range(FEW)]
    print(f"states in the first {FEW} groups: ours {states}, difflib's {[max(group) + 1 for group in theirs]}")


if __name__ == "__main__":
    main()
