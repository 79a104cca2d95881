"""Choose the games that `textworld` plays: ``make_textworld_games.py [--jobs N]``.

Writes ``games.jsonl`` of the bundle: 90 games to train on and 30 others, the kinds in turn and each kind's levels in
turn. A game is taken if the commands that TextWorld gives lead to the goal. Takes ten minutes of one core, and fills
the cache.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from textworld.generator import QuestGenerationError

from agent_env.bundles.textworld.game import Game
from agent_env.bundles.textworld.making import LEVELS, generate
from agent_env.files import write_atomically

BUNDLE = Path(__file__).resolve().parents[1] / "src" / "agent_env" / "bundles" / "textworld"
SPLITS = {"train": (90, 0), "eval": (30, 100_000)}
"""Of each split: how many games, and the first seed."""
SHORTEST, LONGEST = 2, 30


def slots() -> list[tuple[str, str, int, int]]:
    """Split, kind, level and first seed of every game."""
    kinds = list(LEVELS)
    found = []
    for split, (size, first) in SPLITS.items():
        for index in range(size):
            kind = kinds[index % len(kinds)]
            level = LEVELS[kind][index // len(kinds) % len(LEVELS[kind])]
            found.append((split, kind, level, first + 100 * index))
    return found


def chosen(slot: tuple[str, str, int, int]) -> dict[str, Any]:
    """The first game from a slot's seed on whose own commands win it."""
    split, kind, level, first = slot
    for seed in count(first):
        instance = {"kind": kind, "level": level, "seed": seed}
        try:
            game = Game(instance, plans=True)
        except QuestGenerationError:  # a map on which no quest of this length fits
            continue
        game.start()
        plan = game.plan()
        if SHORTEST <= len(plan) <= LONGEST:
            won = [game.do(command).won for command in plan]
            if won == [False] * (len(plan) - 1) + [True]:
                goal = " ".join(generate(kind, level, seed).objective.split())
                return {"split": split, **instance, "goal": goal, "plan": len(plan)}
        game.close()
    raise AssertionError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    jobs = parser.parse_args().jobs
    rows = []
    with get_context("spawn").Pool(jobs) as pool:
        for row in pool.imap(chosen, slots()):
            rows.append(row)
            print(f"{len(rows)}: {json.dumps(row)}", file=sys.stderr, flush=True)
    write_atomically(BUNDLE / "games.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))


if __name__ == "__main__":
    main()
