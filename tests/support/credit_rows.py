"""Rows for the tests of credit, written as the trajectories that they are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from agent_env.training.credit import Steps

Fields = dict[str, list[Any]]


def fields_of(trajectories: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]) -> Fields:
    """Fields of `Steps` from rows by (group, trajectory). A row may say reward, state, next_state, valid, success."""
    fields: Fields = {name: [] for name in ("group", "trajectory", "step", "step_reward", "episode_reward", "state")}
    fields |= {"next_state": [], "valid": [], "success": []}
    for (group, trajectory), rows in trajectories.items():
        for step, row in enumerate(rows):
            fields["group"].append(group)
            fields["trajectory"].append(trajectory)
            fields["step"].append(step)
            fields["step_reward"].append(row.get("reward", 0.0))
            fields["episode_reward"].append(sum(each.get("reward", 0.0) for each in rows))
            fields["state"].append(row.get("state", ""))
            fields["next_state"].append(row.get("next_state", ""))
            fields["valid"].append(row.get("valid", True))
            fields["success"].append(rows[-1].get("success", False))
    return fields


def episodes(rewards: Mapping[str, Sequence[float]], rows: int = 1) -> Steps:
    """Trajectories of so many rows each, with their episode reward at the last, by group."""
    return Steps(
        **fields_of(
            {
                (group, f"{group}{number}"): [{}] * (rows - 1) + [{"reward": reward}]
                for group, of_group in rewards.items()
                for number, reward in enumerate(of_group)
            }
        )
    )


def taken(fields: Fields, at: Sequence[int]) -> Fields:
    """Some rows, in the order given."""
    return {name: [values[place] for place in at] for name, values in fields.items()}


@st.composite
def batches(draw: st.DrawFn, groups: int = 3, trajectories: int = 4, steps: int = 6) -> Fields:
    """A batch of rows in a drawn order: few states, so that they meet; rewards that tie now and then."""
    reward = st.sampled_from([0.0, 0.0, 1.0, -0.5, 0.3]) | st.floats(-5, 5).map(lambda value: round(value, 3))
    state = st.sampled_from("abcd")
    made: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for group in range(draw(st.integers(1, groups))):
        for trajectory in range(draw(st.integers(1, trajectories))):
            visited = draw(st.lists(state, min_size=2, max_size=steps + 1))
            success = draw(st.booleans())
            made[f"g{group}", f"g{group}t{trajectory}"] = [
                {
                    "state": here,
                    "next_state": there,
                    "reward": draw(reward),
                    "valid": draw(st.sampled_from([True, True, False])),
                    "success": success,
                }
                for here, there in pairwise(visited)
            ]
    fields = fields_of(made)
    return taken(fields, draw(st.permutations(range(len(fields["group"])))))
