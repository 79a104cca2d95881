"""The process that plays a bundle being checked: ``python -m agent_env.checking.child FOLDER FD CROWD PARENT``.

Each line it writes to the descriptor FD is a JSON object: ``problems`` (that keep the bundle from being loaded) or
``loaded`` (what it holds), ``doing`` (what, and the seconds it may take), ``played`` (a plan and its events), ``crowd``
(the same, of a play among CROWD at once), ``left`` (what the plays left in the process), ``end``.
On the signal `WHERE` it writes to stderr where each of its threads is.
A process of its own lets the check survive a bundle that crashes, blocks or exits; it ends with its parent, whose
process id is PARENT.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import os
import sys
from pathlib import Path
from typing import Any, TextIO

from agent_env.bundle import Bundle, load_bundle
from agent_env.checking.play import Plan, Played, loaded, plans, play_plan
from agent_env.checking.remains import WHERE, growth, remains
from agent_env.errors import BundleError
from agent_env.hosting.parent_death import die_with_parent

LOAD_SECONDS = 60.0
"""To read the bundle's files and to import its modules; some import torch, and a busy machine takes its time."""


def main(folder: str, descriptor: int, crowd: int) -> None:
    """Play every plan alone, then `crowd` episodes of those that did not fail at once, and say what came of it."""
    os.set_inheritable(descriptor, False)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        asyncio.run(_Child(out, crowd).run(Path(folder)))


class _Child:
    def __init__(self, out: TextIO, crowd: int) -> None:
        self.out, self.crowd = out, crowd
        self.sound: list[Plan] = []

    async def run(self, folder: Path) -> None:
        self._doing("loading the bundle", LOAD_SECONDS)
        try:
            bundle = load_bundle(folder)
        except BundleError as error:
            self._say(problems=[(problem.where, problem.what, problem.fix) for problem in error.problems])
        else:
            self._say(loaded=loaded(bundle))
            await self._play_all(bundle)
        self._say(end=True)

    async def _play_all(self, bundle: Bundle) -> None:
        for plan in plans(bundle):
            played = await play_plan(bundle, plan, self._doing)
            self._say(played=_told(plan, played))
            if played.error is None:
                self.sound.append(plan)
        if self.crowd and self.sound:
            before = remains()
            await self._play_crowd(bundle)
            left = await growth(before)
            if left:
                # A pool that had room for fewer grows once and stays; what leaks grows again.
                before = remains()
                await self._play_crowd(bundle)
                left = await growth(before)
            self._say(left=left)

    async def _play_crowd(self, bundle: Bundle) -> None:
        chosen = [self.sound[i % len(self.sound)] for i in range(self.crowd)]
        plays = await asyncio.gather(*(play_plan(bundle, plan, self._doing) for plan in chosen))
        for plan, played in zip(chosen, plays, strict=True):
            self._say(crowd=_told(plan, played))

    def _doing(self, what: str, seconds: float) -> None:
        self._say(doing=[what, seconds])

    def _say(self, **line: Any) -> None:
        self.out.write(json.dumps(line) + "\n")
        self.out.flush()


def _told(plan: Plan, played: Played) -> dict[str, Any]:
    return {"plan": plan, **played._asdict()}


if __name__ == "__main__":
    die_with_parent(int(sys.argv[4]))
    faulthandler.register(WHERE)
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
