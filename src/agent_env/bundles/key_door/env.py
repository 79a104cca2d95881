"""The environment: one action moves the player by one cell."""

from __future__ import annotations

from agent_env import Observation, Task, TextEnvironment

from .grid import MOVES, draw, make_room, move, shortest

REWARD = 10.0
REACHED, USED_UP = "The goal is reached.", "No steps are left."


class KeyDoor(TextEnvironment):
    """The room of the episode's seed, ``task.env["size"]`` cells wide; twice as many steps as it needs."""

    def reset(self, task: Task, seed: int) -> Observation:
        self.room, self.place = make_room(task.env["size"], seed, held_out=task.env["held_out"])
        self.steps_left = 2 * len(shortest(self.room, self.place))
        self.won = False
        return self._observation()

    def step(self, action: str) -> Observation:
        """Do an action; one that there is not, changes nothing and takes a step as well."""
        self.steps_left -= 1
        known = action.strip().lower()
        if known not in MOVES:
            return self._observation(f"There is no such action: use {', '.join(MOVES)}.")
        self.place = move(self.room, self.place, known)
        self.won = self.place.cell == self.room.goal
        return self._observation()

    def score(self, reply: str) -> float:
        """1 if the goal was reached, else 0."""
        return float(self.won)

    def _observation(self, note: str = "") -> Observation:
        state = draw(self.room, self.place)
        truncated = not self.won and self.steps_left <= 0
        note = REACHED if self.won else USED_UP if truncated else note
        return Observation(
            f"{state}\n{note}" if note else state,
            actions=tuple(MOVES),
            state=state,
            reward=REWARD if self.won else 0.0,
            terminated=self.won,
            truncated=truncated,
            info={"success": self.won} if self.won or truncated else {},
        )
