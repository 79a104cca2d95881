"""BabyAI's levels, and the worlds that a seed makes of them."""

from __future__ import annotations

import os
import random
import zlib
from typing import Any

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # pygame, which minigrid imports, greets on stdout

import gymnasium
from minigrid.envs.babyai.core import roomgrid_level  # importing minigrid registers the levels

LEVELS = {
    "go": "BabyAI-GoToLocal-v0",
    "pickup": "BabyAI-PickupLoc-v0",
    "put": "BabyAI-PutNextLocal-v0",
    "unlock": "BabyAI-UnlockLocalDist-v0",
    "maze": "BabyAI-GoTo-v0",
    "synth": "BabyAI-Synth-v0",
}
"""Minigrid's names, the easiest first."""

# The generator prints each draw that it rejects.
roomgrid_level.print = lambda *_: None


def make_world(level: str, seed: int, *, held_out: bool) -> Any:
    """A level's world, just reset: Minigrid's environment without wrappers.

    One world in five, chosen by a checksum of it and its mission, is held out: it is made for ``held_out=True`` alone.

    Raises:
        ValueError: there is no such level.
    """
    if level not in LEVELS:
        raise ValueError(f"level: expected {', '.join(LEVELS)}, got {level!r}")
    world = gymnasium.make(LEVELS[level], disable_env_checker=True).unwrapped
    rng = random.Random(seed)
    while True:
        world.reset(seed=rng.getrandbits(31))
        if (zlib.crc32(state_of(world)) % 5 == 0) == held_out:
            return world


def state_of(world: Any) -> bytes:
    """All of a world that can change, and the mission."""
    carried = None if world.carrying is None else world.carrying.encode()
    agent = (*map(int, world.agent_pos), int(world.agent_dir), carried)
    return repr((world.mission, agent)).encode() + bytes(world.grid.encode())
