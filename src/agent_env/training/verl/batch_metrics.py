"""What a training step's episodes and step groups were like: metrics that verl's own, which count rows, leave out."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent_env.training.credit import step_groups
from agent_env.training.verl import step_fields as fields
from agent_env.training.verl.batch_credit import BatchRows


def batch_metrics(rows: BatchRows) -> dict[str, float]:
    """Metrics by name, each a number.

    * ``episode/reward``, ``episode/length`` (steps; 1 in the conversation layout): mean, max and min over episodes;
      ``episode/count``.
    * ``episode/<key>/mean``: of what every rollout reports, ``score/<step>`` among it, over the episodes that have it.
    * In the step layout ``episode/success``, ``episode/terminated``, ``episode/truncated``: shares of the episodes;
      ``step/invalid_share``, ``step/format_invalid_share``, ``step/inadmissible_share``: of the steps;
      ``step/penalty/mean``; and of the step groups, in which steps from one state are compared,
      ``step_group/singleton_share`` (of the groups), ``step_group/alone_share`` (of the steps) and
      ``step_group/size/mean`` and ``max``.
    """
    real = ~rows.padding
    ends = np.flatnonzero(rows.last & real)
    if not len(ends):
        return {"episode/count": 0.0}
    _, episode = np.unique(rows.session[real], return_inverse=True)
    metrics = {"episode/count": float(len(ends))}
    for name, values in (("reward", rows.scores[ends]), ("length", np.bincount(episode))):
        for how, value in (("mean", values.mean()), ("max", values.max()), ("min", values.min())):
            metrics[f"episode/{name}/{how}"] = float(value)
    told: dict[str, list[float]] = defaultdict(list)
    for at in ends:
        for key, value in rows.extra_info[int(at)].items():
            if isinstance(value, (int, float)):
                told[key].append(float(value))
    metrics |= {f"episode/{key}/mean": float(np.mean(values)) for key, values in told.items()}
    return metrics if rows.fields is None else metrics | _of_steps(rows, real, ends)


def _of_steps(rows: BatchRows, real: NDArray[Any], ends: NDArray[Any]) -> dict[str, float]:
    said = rows.fields or {}

    def share(name: str, where: NDArray[Any]) -> float:
        return float(np.mean(np.array(said[name], np.float64)[where]))

    metrics = {f"episode/{name}": share(name, ends) for name in (fields.SUCCESS, fields.TERMINATED, fields.TRUNCATED)}
    metrics["step/invalid_share"] = 1.0 - share(fields.VALID, real)
    metrics["step/format_invalid_share"] = 1.0 - share(fields.FORMAT_VALID, real)
    metrics["step/inadmissible_share"] = 1.0 - share(fields.ADMISSIBLE, real)
    metrics["step/penalty/mean"] = share(fields.PENALTY, real)
    if rows.counts.any():
        sizes = np.bincount(step_groups(rows.steps())[rows.counts])
        sizes = sizes[sizes > 0]
        metrics["step_group/singleton_share"] = float(np.mean(sizes == 1))
        metrics["step_group/alone_share"] = float(np.sum(sizes == 1) / sizes.sum())
        metrics["step_group/size/mean"], metrics["step_group/size/max"] = float(sizes.mean()), float(sizes.max())
    return metrics
