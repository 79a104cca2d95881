"""The environment: one action moves the player by one cell, and the box before it."""

from __future__ import annotations

from agent_env import Observation, Task, TextEnvironment

from .making import make_puzzle
from .picture import render
from .room import ACTIONS, draw, move

STEP, BOX, ALL = -0.1, 1.0, 10.0
SOLVED, USED_UP = "Every box is on a target.", "No steps are left."


class Sokoban(TextEnvironment):
    """The room of the episode's seed, ``task.env["size"]`` cells wide with ``task.env["boxes"]`` boxes.

    There are twice as many steps as the shortest solution takes that is known (`Puzzle.solution`). With
    ``task.env["pictures"]`` the room is shown as a picture, and the text holds what there is to say beside it.
    """

    def reset(self, task: Task, seed: int) -> Observation:
        puzzle = make_puzzle(task.env["size"], task.env["boxes"], seed, held_out=task.env["held_out"])
        self.room, self.state = puzzle.room, puzzle.start
        self.steps_left = 2 * len(puzzle.solution)
        self.deltas = {**self.room.deltas(), "still": 0}
        self.solved = False
        self.pictures = bool(task.env.get("pictures"))
        return self._observation(0.0)

    def step(self, action: str) -> Observation:
        """Do an action; one that there is not, changes nothing and takes a step as well."""
        self.steps_left -= 1
        delta = self.deltas.get(action.strip().lower())
        if not delta:
            return self._observation(STEP, "" if delta == 0 else f"There is no such action: use {', '.join(ACTIONS)}.")
        targets, before = self.room.targets, self.state.boxes
        self.state = move(self.room, self.state, delta)
        boxes = self.state.boxes
        self.solved = boxes == targets
        reward = STEP + BOX * (len(boxes & targets) - len(before & targets)) + (ALL if self.solved else 0.0)
        return self._observation(round(reward, 6))

    def score(self, reply: str) -> float:
        """1 if every box is on a target, else 0."""
        return float(self.solved)

    def _observation(self, reward: float, note: str = "") -> Observation:
        state = draw(self.room, self.state)
        truncated = not self.solved and self.steps_left <= 0
        note = SOLVED if self.solved else USED_UP if truncated else note
        shown = "" if self.pictures else state
        return Observation(
            f"{shown}\n{note}".strip("\n") if note else shown,
            images=[render(self.room, self.state)] if self.pictures else (),
            actions=ACTIONS,
            state=state,
            reward=reward,
            terminated=self.solved,
            truncated=truncated,
            info={"success": self.solved} if self.solved or truncated else {},
        )
