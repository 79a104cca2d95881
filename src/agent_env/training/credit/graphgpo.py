"""GraphGPO: each step by how near it came to the goal on the graph of all that the group's trajectories did.

    A = beta_G A^G + beta_E A^E
    A^G = (R - mean(R)) / std(R)           over the steps of the group whose state is s
    R(s -> s') = r omega^(d(s') + c)       with r the reward of success, c = 1 the cost of the step

d(s) is the least number of steps from s to the goal over the edges that any trajectory of the group took; a state with
no way to it is one step further than the furthest that has one. The goal is where every successful trajectory's last
step led to. A^E is `gigpo`'s. ``gamma`` is omega, ``step_weight`` beta_G, ``episode_weight`` beta_E.
``normalize_distance``: R = r omega^(d(s') - d(s) + c), which a step far from the goal has in full.
Beyond Trajectory-Level Attribution: Graph-Based Credit Assignment, arXiv:2605.26684, equation 4. The deviation is the
sample's, as in the authors' code.

Divided by its own deviation, a state's R may have any unit. Its unit is then the best step from that state: omega to
the power of a distance beyond the state's least. So no power underflows, and an invalid action's penalty weighs at
every distance what it weighs one step from the goal. With ``normalize="mean"``, or an epsilon, R is as the equation
says.

verl-agent: c = 0; the 1e-6 added to a deviation that falls as omega^d takes the signal away beyond 8 steps from the
goal, and the penalty, 0.1 at any distance, outweighs it; success is an episode reward above 0; states are compared by
similarity in A^G but not on the graph (ours are in both, in either form).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from agent_env.errors import InputError, Problem
from agent_env.training.credit.estimator import Estimator
from agent_env.training.credit.grpo import VERL_AGENT, grpo
from agent_env.training.credit.labels import BoolArray, IntArray
from agent_env.training.credit.relative import Alone, Deviation, Normalize, Votes, relative
from agent_env.training.credit.returns import Penalty
from agent_env.training.credit.rows import FloatArray, Rows
from agent_env.training.credit.states import same_states


def graphgpo(
    rows: Rows,
    *,
    gamma: float = 0.1,
    normalize: Normalize = "mean_std",
    step_weight: float = 1.0,
    episode_weight: float = 1.0,
    invalid_penalty: float = 0.1,
    similarity: float | None = None,
    normalize_distance: bool = False,
    success_reward: float = 10.0,
    success_by: Literal["success", "episode_reward"] = "success",
    edge_cost: float = 1.0,
    penalty: Penalty = "reward",
    votes: Votes = "trajectory",
    deviation: Deviation = "sample",
    epsilon: float = 0.0,
    alone: Alone = "zero",
) -> FloatArray:
    """One advantage a row.

    Args:
        rows: with states and next states.
        success_by: a trajectory succeeded if `Steps.success` says so, or (verl-agent) if its reward is above 0.
    """
    here, there, success = nodes(rows, similarity, success_by)
    to_goal = distances(rows, here, there, success)
    exponent = to_goal[1] + edge_cost - (to_goal[0] if normalize_distance else 0.0)
    if normalize == "mean_std" and epsilon == 0:
        least = np.full(int(here.max(initial=-1)) + 1, np.inf)
        np.minimum.at(least, here, exponent)
        exponent = exponent - least[here]
    returns = success_reward * np.power(float(gamma), exponent) - invalid_penalty * rows.invalid
    _, state = np.unique(here, return_inverse=True)
    of_step = relative(returns, state, normalize=normalize, deviation=deviation, epsilon=epsilon)
    of_episode = grpo(
        rows,
        normalize=normalize,
        invalid_penalty=invalid_penalty,
        penalty=penalty,
        votes=votes,
        deviation=deviation,
        epsilon=epsilon,
        alone=alone,
    )
    return step_weight * of_step + episode_weight * of_episode


def nodes(rows: Rows, similarity: float | None, success_by: str = "success") -> tuple[IntArray, IntArray, BoolArray]:
    """The nodes that each row's edge leaves and reaches, and whether the edge leads to the goal instead."""
    assert rows.state is not None
    assert rows.next_state is not None
    succeeded = rows.episode_reward > 0 if success_by == "episode_reward" else rows.success
    if succeeded is None:
        raise InputError(Problem("steps.success", "is missing", "say which trajectories reached the goal"))
    states = [*rows.state, *rows.next_state]
    order = np.stack([rows.order, rows.order + len(rows)], axis=1).ravel()  # each state, then what it led to
    node = same_states(np.tile(rows.group, 2), states, order, similarity)
    return node[: len(rows)], node[len(rows) :], succeeded & rows.last


def distances(rows: Rows, here: IntArray, there: IntArray, success: BoolArray) -> tuple[FloatArray, FloatArray]:
    """The steps to the goal from each row's state and from what it led to.

    Breadth first, backwards from the goals of all groups at once: no edge joins two groups.
    """
    size = int(max(here.max(initial=-1), there.max(initial=-1))) + 1
    goal = size
    target = np.where(success, goal, there)
    by_target = np.argsort(target, kind="stable")
    source = here[by_target]
    begin = np.searchsorted(target[by_target], np.arange(size + 2))
    distance = np.full(size + 1, np.inf)
    distance[goal] = 0
    front, steps = np.array([goal]), 0
    while len(front):
        steps += 1
        reached = source[_ranges(begin[front], begin[front + 1])]
        front = np.unique(reached[np.isinf(distance[reached])])
        distance[front] = steps
    group = np.zeros(size + 1, np.int64)
    group[here], group[there] = rows.group, rows.group
    finite = np.isfinite(distance)
    furthest = np.zeros(int(rows.group.max(initial=-1)) + 1)
    np.maximum.at(furthest, group[:-1][finite[:-1]], distance[:-1][finite[:-1]])
    distance[:-1][~finite[:-1]] = furthest[group[:-1][~finite[:-1]]] + 1
    return distance[here], distance[target]


def _ranges(begin: IntArray, end: IntArray) -> IntArray:
    """begin[0] .. end[0] - 1, begin[1] .. end[1] - 1, and so on, in one array."""
    length = end - begin
    return np.repeat(begin - np.cumsum(length) + length, length) + np.arange(length.sum())


GRAPHGPO = Estimator(
    graphgpo,
    needs=("state", "next_state"),
    compares=True,
    verl_agent={**VERL_AGENT, "edge_cost": 0.0, "success_by": "episode_reward"},
)
