"""Choose the problems that `alfworld` plays without official data: ``make_alfworld_problems.py [--jobs N]``.

Writes ``problems.jsonl`` of the bundle: 200 of rooms to train in, 60 more of those rooms, 60 of rooms that are held
out, the six task types in turn and each type's rooms in turn. A problem is taken if the planner finds a plan and the
engine, told each command of it, says that the goal is reached by the last one and by none before. Takes half an hour of
one core.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from agent_env.bundles.alfworld.game import Game
from agent_env.bundles.alfworld.making import TYPES, goals, make_problem
from agent_env.bundles.alfworld.scenes import scene, scene_numbers
from agent_env.files import write_atomically

BUNDLE = Path(__file__).resolve().parents[1] / "src" / "agent_env" / "bundles" / "alfworld"
SPLITS = {"train": (200, False, 0), "eval": (60, False, 100_000), "eval-unseen": (60, True, 200_000)}
"""Of each split: how many problems, whether of held-out rooms, and the first seed."""
SHORTEST, LONGEST = 3, 30
PLANNING = 8.0
"""Seconds of processor time that the planner may take; two objects to be put side by side have taken it minutes. Which
problems are within it depends on the machine."""
WORLD = get_context("forkserver")
WORLD.set_forkserver_preload(["agent_env.bundles.alfworld.game"])


def slots() -> list[tuple[str, str, int, int]]:
    """Split, task type, room and first seed of every problem."""
    rooms = {
        (unseen, kind): [number for number in scene_numbers(unseen=unseen) if goals(kind, scene(number))]
        for unseen in (False, True)
        for kind in TYPES
    }
    found = []
    for split, (size, unseen, first) in SPLITS.items():
        for index in range(size):
            kind = TYPES[index % len(TYPES)]
            possible = rooms[unseen, kind]
            # Rooms of all kinds early on: their numbers tell kitchens, living rooms, bedrooms and bathrooms apart.
            number = possible[(index // len(TYPES)) * 7 % len(possible)]
            found.append((split, kind, number, first + 100 * index))
    return found


def chosen(slot: tuple[str, str, int, int]) -> dict[str, Any]:
    """The first problem from a slot's seed on that the planner solves as it should be, in time."""
    split, kind, number, first = slot
    for seed in count(first):
        ours, theirs = WORLD.Pipe(duplex=False)
        # A process for each: the planner cannot be stopped otherwise.
        process = WORLD.Process(target=solve, args=(theirs, kind, number, seed))
        process.start()
        theirs.close()
        try:
            solved = ours.recv()
        except EOFError:
            solved = None
        process.join()
        if solved is not None:
            return {"split": split, "type": kind, "scene": number, "seed": seed, **solved}
    raise AssertionError


def solve(out: Connection, kind: str, number: int, seed: int) -> None:
    """Send goal and length of the plan of a problem, or None if it is not to be taken; if it takes long, nothing."""
    problem = make_problem(kind, number, seed)
    game = Game(problem.data())
    game.start()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, PLANNING)
    plan = game.plan()
    signal.setitimer(signal.ITIMER_PROF, 0)
    won = [game.do(command).won for command in plan]
    right = SHORTEST <= len(plan) <= LONGEST and won == [False] * (len(plan) - 1) + [True]
    out.send({"goal": problem.words, "plan": len(plan)} if right else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    jobs = parser.parse_args().jobs
    rows = []
    with ThreadPool(jobs) as pool:
        for row in pool.imap(chosen, slots()):
            rows.append(row)
            print(f"{len(rows)}: {json.dumps(row)}", file=sys.stderr, flush=True)
    write_atomically(BUNDLE / "problems.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))


if __name__ == "__main__":
    main()
