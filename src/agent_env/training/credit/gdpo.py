"""GDPO: several scores, each trajectory against its group in each of them, then against the whole batch.

    A^k_i = (r^k_i - mean(r^k_1 .. r^k_N)) / std(r^k_1 .. r^k_N)        for each score k, over the group
    S_i   = sum over k of w_k A^k_i
    A_i   = (S_i - mean(S)) / std(S)                                    over the trajectories of the batch

Summed first, as in `grpo`, a score that varies much drowns one that varies little. GDPO: Group reward-Decoupled
Normalization Policy Optimization, arXiv:2601.05242. A trajectory that has no score k takes no part in its mean, and
gets nothing of it. The paper doesn't say which deviation; as in `grpo` it is the sample's in groups, and as in
`reinforce_pp` the population's in the batch. The episode's reward is not read.

verl-agent has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from agent_env.errors import InputError, Problem
from agent_env.training.credit.estimator import Estimator
from agent_env.training.credit.reinforce_pp import whitened
from agent_env.training.credit.relative import Normalize, relative, votes_of
from agent_env.training.credit.rows import FloatArray, Rows
from agent_env.training.credit.steps import as_floats


def gdpo(
    rows: Rows,
    *,
    scores: Mapping[str, Any],
    weights: Mapping[str, float] | None = None,
    normalize: Normalize = "mean_std",
) -> FloatArray:
    """One advantage a row, the same for all rows of a trajectory.

    Args:
        scores: by name, one for each row of the `Steps`, the same on each row of a trajectory; NaN or None for a
            trajectory that does not have it.
        weights: of the scores by name; 1 for one that is not named.
    """
    _check(rows, scores, weights or {})
    total = np.zeros(len(rows))
    for name, given in scores.items():
        score = as_floats(given)[rows.at]
        there = np.isfinite(score)
        if there.any():
            _, groups = np.unique(rows.group[there], return_inverse=True)
            votes = votes_of(rows, "trajectory")[there]
            part = relative(score[there], groups, normalize=normalize, deviation="sample", votes=votes)
            total[there] += (weights or {}).get(name, 1.0) * part
    return whitened(rows, total, "trajectory", "population", None)


def _check(rows: Rows, scores: Mapping[str, Any], weights: Mapping[str, float]) -> None:
    problems = [] if scores else [Problem("scores", "there are none", "give one array of numbers or more, by name")]
    for name in weights.keys() - scores.keys():
        problems.append(Problem(f"weights.{name}", "is no score", f"the scores: {', '.join(scores) or 'none'}"))
    for name, weight in weights.items():
        if not isinstance(weight, (int, float)) or not np.isfinite(weight):
            problems.append(Problem(f"weights.{name}", f"got {weight!r}", "expected a number"))
    for name, given in scores.items():
        score = as_floats(given)
        if score.shape != (rows.batch,):
            what = f"has the shape {score.shape} where the steps have {rows.batch} rows"
            problems.append(Problem(f"scores.{name}", what, "give it one entry for each row"))
            continue
        of_row = score[rows.at]
        first = np.full(int(rows.trajectory.max(initial=-1)) + 1, np.nan)
        first[rows.trajectory[rows.first]] = of_row[rows.first]
        other = ~np.isclose(of_row, first[rows.trajectory], rtol=0, atol=0, equal_nan=True)
        if other.any():
            named = ", ".join(map(str, rows.at[other][:8]))
            what = "another score than on the first row of their trajectory"
            problems.append(Problem(f"scores.{name}, rows {named}", what, "one for all rows of a trajectory"))
    if problems:
        raise InputError(problems)


GDPO = Estimator(gdpo, compares=True, verl_agent=None)
