"""GiGPO and GRPO on key_door in the step layout, over seeds; GridSim in both layouts beside it. Prints markdown tables.

Every run is `agent-env warm-start`, `agent-env train` and `agent-env eval` by the functions behind them. Each estimator
has a learning rate of its own, the one of `RATES` whose model wins most rooms of the split `validation`, trained from
seed 0. Then come the seeds asked for, each measured on the 200 rooms of `eval` before and after. Runs are kept in
`runs/step-credit-…`, with what they came to in ``result.json``: a script that was stopped goes on where it was.

Exit status 1 if any run gains less than --gate of success at temperature 1.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from agent_env import load_bundle
from agent_env.cli.progress import Tell, progress_bars
from agent_env.errors import InputError
from agent_env.files import write_atomically
from agent_env.stopping import Stopped, stopping
from agent_env.training.report import Mean
from agent_env.training.verl import launch
from agent_env.training.verl.plan import TrainOptions

RATES = (1.5e-4, 3e-4)
"""Learning rates to choose from."""
STEPS, CHOICE_STEPS, DAY_STEPS = 50, 20, 40
"""Training steps of a run on rooms, of one that a learning rate is chosen by, and of one on GridSim's days."""
ROOMS = (
    # 8 rooms x 8 rollouts a step, in two optimizer steps. What drew the tokens is the actor itself: its
    # log-probabilities need not be computed again.
    "data.train_batch_size=8",
    "actor_rollout_ref.actor.ppo_mini_batch_size=4",
    "algorithm.rollout_correction.bypass_mode=true",
    # A prompt has up to 98 tokens, a reply 6; verl pads each to the limits.
    "data.max_prompt_length=100",
    "data.max_response_length=8",
    # An optimizer step's rows in one micro-batch: prompts are computed once for those that are together.
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=65536",
)
TEACHING = {"error_rate": 0.4, "steps": 1500}
"""Of the warm start on rooms: long enough to read a grid, and from plays with room for a policy to become surer in. A
model taught for a third as long wins as often and by luck: its greedy plays win half as often, and nothing improves."""
DAYS = ("data.max_prompt_length=64", "data.max_response_length=256")
DAYS_IN_STEPS = ("data.max_prompt_length=256", "data.max_response_length=64")


@dataclass(frozen=True)
class Asked:
    """A run to make: what it trains on and how. `teaching` is of the warm start, where it is not the layout's own."""

    bundle: str
    context: str
    estimator: str
    seed: int
    rate: float | None
    overrides: tuple[str, ...]
    steps: int = STEPS
    teaching: Mapping[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> Path:
        """Where the model lies that it begins with: runs of one seed share it."""
        return Path("runs") / f"step-credit-{self.bundle}-{self.context}-seed{self.seed}-start"

    @property
    def folder(self) -> Path:
        rate = "" if self.rate is None else f"-lr{self.rate:g}"
        return Path("runs") / f"step-credit-{self.bundle}-{self.context}-{self.estimator}{rate}-seed{self.seed}"


def measured(asked: Asked, split: str, tell: Tell) -> dict[str, dict[str, dict[str, float]]]:
    """What a run came to on a split: rewards, rows and entropy of an episode, before and after.

    Makes whatever of it is not there yet.
    """
    file = asked.folder / f"result-{split}.json"
    if file.exists():
        told: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return told
    if not asked.model.is_dir():
        _warm_start(asked, tell)
    trained = _train(asked, tell)
    found = {
        "before": _once(asked.model / f".result-{split}.json", lambda: _played(asked, asked.model, split, tell)),
        "after": _played(asked, trained, split, tell),
    }
    write_atomically(file, json.dumps(found, indent=2))
    return found


def _once(file: Path, make: Any) -> Any:
    """What `make` returns, kept in a file for the next who asks."""
    if not file.exists():
        write_atomically(file, json.dumps(make()))
    return json.loads(file.read_text(encoding="utf-8"))


def _warm_start(asked: Asked, tell: Tell) -> None:
    from agent_env.training.step_layout import combined
    from agent_env.training.tiny.warm_start import warm_start

    bundle = load_bundle(asked.bundle)
    layout = combined([bundle.step_layout], {}, bundle.path) if asked.context == "steps" else None
    warm_start(bundle, asked.model, layout=layout, seed=asked.seed, progress=tell, **asked.teaching)


def _train(asked: Asked, tell: Tell) -> Path:
    rate = () if asked.rate is None else (f"actor_rollout_ref.actor.optim.lr={asked.rate}",)
    options = TrainOptions(
        asked.bundle,
        str(asked.model),
        asked.folder,
        recipe=asked.estimator,
        context=asked.context,
        seed=asked.seed,
        steps=asked.steps,
        # It is measured before and after, outside.
        overrides=(*asked.overrides, *rate, "trainer.val_before_train=false", "trainer.test_freq=-1"),
    )
    done = launch.train(options, say=lambda line: print(f"{asked.folder.name}: {line}", flush=True), tell=tell)
    if done.checkpoint is None:
        raise launch.RunFailed(f"{asked.folder} has its steps and no checkpoint: remove it and train again")
    return done.checkpoint / "actor" / "huggingface"


def _played(asked: Asked, model: Path, split: str, tell: Tell) -> dict[str, dict[str, float]]:
    # verl would log every call that the model writes badly.
    os.environ.setdefault("VERL_LOGGING_LEVEL", "CRITICAL")
    from agent_env.training.verl.cpu.asked import evaluation_config
    from agent_env.training.verl.cpu.evaluate import evaluate, rows_of
    from agent_env.training.verl.source import loop_options

    config = evaluation_config(str(model), seed=asked.seed, overrides=asked.overrides)
    found = {}
    with rows_of(asked.bundle, config, loop=loop_options(asked.bundle, asked.context, ()), progress=tell) as data:
        for name, temperature in (("drawn", 1.0), ("greedy", 0.0)):
            played = evaluate(config, data, split, temperature=temperature, progress=tell).played
            found[name] = asdict(Mean.of([episode.reward for episode in played]))
            found[f"{name} length"] = asdict(Mean.of([float(episode.rows) for episode in played]))
            if temperature:
                # Of a step: the policy is asked once a step.
                found["entropy"] = asdict(Mean.of([episode.surprise / episode.rows for episode in played]))
    return found


def chosen_rate(estimator: str, tell: Tell) -> float:
    """The learning rate with which a run of seed 0 wins most rooms of `validation`; prints all of them."""
    wins = {}
    for rate in RATES:
        found = measured(replace(_rooms(estimator, 0, rate), steps=CHOICE_STEPS), "validation", tell)
        wins[rate] = found["after"]["drawn"]["mean"]
        print(f"{estimator}, learning rate {rate:g}: {_text(found['after']['drawn'])} of validation", flush=True)
    return max(wins, key=lambda rate: wins[rate])


def _rooms(estimator: str, seed: int, rate: float) -> Asked:
    return Asked("key_door", "steps", estimator, seed, rate, ROOMS, teaching=TEACHING)


def _text(mean: dict[str, float]) -> str:
    return f"{mean['mean']:.3f} ± {mean['stderr']:.3f}"


def _row(asked: Asked, found: dict[str, dict[str, dict[str, float]]]) -> str:
    before, after = found["before"], found["after"]
    cells = [asked.estimator, asked.context, f"{asked.seed}"]
    cells += [f"{_text(before[name])} → {_text(after[name])}" for name in ("drawn", "greedy")]
    cells += [f"{before[name]['mean']:.2f} → {after[name]['mean']:.2f}" for name in ("drawn length", "entropy")]
    return f"| {' | '.join(cells)} |"


def report(runs: Iterable[tuple[Asked, Any]]) -> list[float]:
    """Print a table of runs; returns each one's gain at temperature 1."""
    print("| recipe | layout | seed | temperature 1 | greedy | rows an episode | nats a row |")
    print("|---|---|---|---|---|---|---|")
    gains: dict[str, list[float]] = {}
    for asked, found in runs:
        print(_row(asked, found))
        gain = found["after"]["drawn"]["mean"] - found["before"]["drawn"]["mean"]
        gains.setdefault(f"{asked.estimator}, {asked.context}", []).append(gain)
    print()
    for name, each in gains.items():
        told = ", ".join(f"{gain:+.3f}" for gain in each)
        print(f"{name}: gains at temperature 1 {told}; mean {statistics.fmean(each):+.3f}")
    return [gain for each in gains.values() for gain in each]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--estimators", nargs="+", default=["gigpo", "grpo"])
    parser.add_argument("--rate", type=float, help="use this learning rate, and choose none")
    parser.add_argument("--gridsim", action="store_true", help="GridSim in both layouts, instead of key_door")
    parser.add_argument("--gate", type=float, default=0.25, help="what every run of key_door has to gain")
    given = parser.parse_args()
    try:
        with stopping(), progress_bars(60.0) as tell:
            if given.gridsim:
                asked = [
                    Asked("gridsim", context, "grpo", seed, None, overrides, DAY_STEPS)
                    for context, overrides in (("conversation", DAYS), ("steps", DAYS_IN_STEPS))
                    for seed in given.seeds
                ]
            else:
                rates = {name: given.rate or chosen_rate(name, tell) for name in given.estimators}
                asked = [_rooms(name, seed, rate) for name, rate in rates.items() for seed in given.seeds]
            gains = report([(run, measured(run, "eval", tell)) for run in asked])
    except Stopped as signal:
        print("stopped; the same command goes on", file=sys.stderr)
        return 128 + signal.number
    except (InputError, launch.RunFailed) as error:
        print(f"step_credit: {error}", file=sys.stderr)
        return 1
    if not given.gridsim and min(gains) < given.gate:
        print(f"a run gained {min(gains):+.3f}, less than {given.gate:g}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
