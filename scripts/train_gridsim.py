"""Train a policy on GridSim from nothing, and report on held-out days: what `make train` runs.

Five parts, each by the function that the command of the same name calls: a tiny model is made and warm-started
(`agent-env warm-start`), trained by verl with GRPO on the 400 training days and evaluated on the 200 held-out ones at
steps 0, 20 and 40 (`agent-env train`), played greedily before and after (`agent-env eval`), and reported. A run that
was stopped goes on where it was; one that is finished is reported again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent_env import load_bundle
from agent_env.cli.progress import Tell, progress_bars
from agent_env.errors import AgentEnvError, InputError
from agent_env.stopping import Stopped, stopping
from agent_env.training.model_layout import record_of
from agent_env.training.report import Mean, draw_curve, read_curve, screen_of, summary_of, write_summary
from agent_env.training.traces import read_traces
from agent_env.training.verl import launch
from agent_env.training.verl.plan import TrainOptions
from agent_env.training.verl.runfolder import RunFolder

BUNDLE, STEPS = "gridsim", 40

OVERRIDES = (
    # A conversation has about 240 tokens, 60 of them in the prompt; verl pads each to the limits.
    "data.max_prompt_length=64",
    "data.max_response_length=256",
)


class Stopwatch:
    """Seconds that each part of a run took, over all its starts, kept in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.seconds: dict[str, float] = {}
        with contextlib.suppress(FileNotFoundError):
            self.seconds = json.loads(file.read_text(encoding="utf-8"))

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add what the block takes, also if it is stopped."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - begun
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text(json.dumps(self.seconds), encoding="utf-8")


def run(folder: RunFolder, seed: int, tell: Tell) -> None:
    """All parts that are not done yet; ends with ``summary.json`` and ``curve.png``."""
    watch = Stopwatch(folder.path / ".seconds.json")
    if _seed_of(folder.model) != seed:
        print(f"making a model that can play {BUNDLE}, from its demonstrator", flush=True)
        with watch.part("warm_start"):
            _warm_start(folder.model, seed, tell)
    options = TrainOptions(BUNDLE, str(folder.model), folder.path, seed=seed, steps=STEPS, overrides=OVERRIDES)
    with watch.part("train"):
        done = launch.train(options, say=lambda line: print(line, flush=True), tell=tell)
    trained = done.checkpoint
    if done.missing:
        raise launch.RunFailed(f"evaluations are missing after steps {done.missing}: {folder.log} says why")
    if trained is None:
        raise launch.RunFailed(f"{folder.path} has its {STEPS} steps and no checkpoint: remove it and train again")
    print("playing the held-out days greedily, before and after", flush=True)
    with watch.part("greedy"):
        greedy = _greedy({0: folder.model, STEPS: trained / "actor" / "huggingface"}, seed, tell)
    curve = read_curve(read_traces(folder.traces))
    draw_curve(curve, greedy, folder.path / "curve.png", f"GridSim, seed {seed}: GRPO on a tiny model")
    seconds = {**_install_seconds(), **watch.seconds}
    write_summary(summary_of(curve, greedy, seconds, seed), folder.path / "summary.json")


def _warm_start(model: Path, seed: int, tell: Tell) -> None:
    from agent_env.training.tiny.warm_start import warm_start  # takes seconds to import

    warm_start(load_bundle(BUNDLE), model, seed=seed, progress=tell)


def _greedy(models: Mapping[int, Path], seed: int, tell: Tell) -> dict[int, Mean]:
    """The mean reward of each model on the held-out days, by the keys of `models`."""
    # verl would warn of every call that the model writes badly.
    os.environ.setdefault("VERL_LOGGING_LEVEL", "ERROR")
    from agent_env.training.verl.cpu.asked import evaluation_config
    from agent_env.training.verl.cpu.evaluate import evaluate, rows_of

    configs = {step: evaluation_config(str(model), seed=seed, overrides=OVERRIDES) for step, model in models.items()}
    with rows_of(BUNDLE, configs[0], progress=tell) as data:
        return {
            step: evaluate(config, data, "eval", temperature=0.0, progress=tell).mean
            for step, config in configs.items()
        }


def _seed_of(model: Path) -> int | None:
    """The seed that a model was warm-started with; None if there is no such model."""
    with contextlib.suppress(TypeError, ValueError, KeyError):
        return int(record_of(model)["seed"])
    return None


def _install_seconds() -> dict[str, float]:
    """How long the environment took to build, as `make venv` noted it in the environment."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        return {"install": float(json.loads((Path(sys.prefix) / "built.json").read_text())["seconds"])}
    return {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=1, help="of the model, the data order and the sampling")
    parser.add_argument("--run", default="gridsim-seed-1", help="the run's folder is runs/RUN")
    asked = parser.parse_args()
    folder = RunFolder(Path("runs") / asked.run)
    summary = folder.path / "summary.json"
    try:
        if asked.seed < 0 or Path(asked.run).name != asked.run:
            raise InputError("the seed is a number from 0 up, and the run a plain name")
        if summary.exists():
            print(f"the run {asked.run} is finished; another RUN, or removing {folder.path}, trains anew\n")
        else:
            with stopping(), progress_bars() as tell:
                run(folder, asked.seed, tell)
        told = json.loads(summary.read_text(encoding="utf-8"))
        print("\n" + screen_of(told, folder.path, f"GridSim, seed {told['seed']}"))
    except launch.RunFailed as error:
        print(f"make train: {error}", file=sys.stderr)
        return 1
    except Stopped as signal:
        print(f"make train: stopped; the same command goes on with {folder.path}", file=sys.stderr)
        return 128 + signal.number
    except AgentEnvError as error:
        print(f"make train: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
