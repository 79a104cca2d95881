"""What would fail in training, found before it: a bundle is loaded, then played alone, in a crowd, and again.

All of it happens in two processes with different hash seeds, each in fresh working and temporary folders. Two plays of
a task with its seed must be one episode: observation for observation, score for score.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import jsonschema

from agent_env.bundle import find_bundle
from agent_env.checking.play import Plan, Played
from agent_env.checking.runner import Run, Said, Waiting, run_child
from agent_env.errors import Problem

CROWD = 100


@dataclass(frozen=True)
class Report:
    """What a check found, in one line what it did, and whether the bundle could be loaded at all."""

    findings: tuple[Problem, ...]
    summary: str
    loaded: bool


def check_bundle(path: str | Path, said: Said = lambda at: None, scratch: Path | None = None) -> Report:
    """Check the bundle in a folder, or a built-in one by its name.

    Args:
        said: told as the check goes on, and each second in which it does not.
        scratch: folder to play in; one of the system's for temporary files if None.

    Raises:
        BundleError: there is no bundle at `path`. What is wrong with one that is there, is in the report.
    """
    folder = find_bundle(path)
    alone, again = run_child(folder, hash_seed=0, crowd=CROWD, said=said, scratch=scratch), Run()
    before = len(alone.played) + len(alone.crowd)

    def so_far(at: Waiting) -> None:
        said(replace(at, episodes=before + at.episodes))

    if not alone.died and not alone.problems:
        again = run_child(folder, hash_seed=1, crowd=0, said=so_far, scratch=scratch)
    findings = [
        *alone.problems,
        *_splits(alone),
        *_schemas(alone),
        *_deaths(alone, again),
        *_failures(alone),
        *_differences(alone, again),
        *_verifiers(alone),
        *_rewards(alone),
        *_pictures(alone),
        *_leftovers(alone),
    ]
    summary = _summary(folder, alone, again)
    if not findings and all(plan.player != "demonstrator" for plan in alone.played):
        summary += "; no demonstrator.py, so no verifier was seen to be met"
    return Report(tuple(findings), summary, alone.loaded is not None)


def _summary(folder: Path, alone: Run, again: Run) -> str:
    held = alone.loaded
    if held is None:
        return f"{folder.name}: cannot be loaded"
    counts = [(sum(held.splits.values()), "task"), (len(held.splits), "split"), (len(held.tools), "tool")]
    words = ", ".join(f"{count} {word}{'s' * (count != 1)}" for count, word in counts)
    episodes = len(alone.played) + len(again.played) + len(alone.crowd)
    return f"{held.name}: {words}; played {episodes} episodes, {len(alone.crowd)} of them at once"


def _splits(run: Run) -> Iterable[Problem]:
    for split, tasks in run.loaded.splits.items() if run.loaded else ():
        if not tasks:
            yield Problem("bundle.toml splits", f"split {split!r} has no task", "write one, or take the split out")


def _schemas(run: Run) -> Iterable[Problem]:
    for name, schema in run.loaded.tools.items() if run.loaded else ():
        try:
            jsonschema.Draft202012Validator.check_schema(schema)
        except jsonschema.SchemaError as error:
            place = "".join(f"[{part!r}]" for part in error.absolute_path)
            what = f"no valid JSON Schema at {place or 'its root'}: {error.message}"
            yield Problem(f"tool {name}", what, "correct what the annotation says of its schema")


def _deaths(alone: Run, again: Run) -> Iterable[Problem]:
    died = alone.died or again.died
    if died:
        yield Problem("playing", died, "env code must not exit, crash or block its process")


def _failures(run: Run) -> Iterable[Problem]:
    """One finding per kind of failure, with the first task it happened to."""
    kinds: dict[tuple[str, str], list[tuple[Plan, str]]] = {}
    for plan, played in [*run.played.items(), *run.crowd]:
        if played.error is not None:
            kinds.setdefault((played.line, played.error.split(":")[0]), []).append((plan, played.error))
    for (line, _), plays in kinds.items():
        plan, error = plays[0]
        others = len({plan.task for plan, _ in plays}) - 1
        title = str(plan) + (f" (and {others} more)" if others else "")
        fix = "raise ToolError to answer the model; anything else ends the episode" if "tool '" in error else ""
        yield Problem(line or "playing", f"{title}: {error}", fix)


def _differences(alone: Run, again: Run) -> Iterable[Problem]:
    """Tasks that are not the same twice; then those, of the others, that are not the same in a crowd."""
    both = alone.played.keys() & again.played.keys()
    differing = {p: d for p in alone.played if p in both and (d := _difference(alone.played[p], again.played[p]))}
    for plan, difference in [*differing.items()][:1]:
        also = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
        fix = "take all randomness from the seed of reset, and nothing from the clock, sets' order or other episodes"
        yield Problem(str(plan) + also, f"two plays with one seed differ: {difference}", fix)
    crowd = [(p, d) for p, played in alone.crowd if p not in differing and (d := _difference(alone.played[p], played))]
    for plan, difference in crowd[:1]:
        what = f"{len(crowd)} of {len(alone.crowd)} episodes at once differ from the same played alone: {difference}"
        yield Problem(str(plan), what, "keep what changes in self, not in the class or the module")


def _difference(one: Played, other: Played) -> str:
    """The first event in which two plays differ, in words; "" if they are the same."""
    for a, b in zip(one.events, other.events, strict=False):
        if a != b:
            if a.did != b.did:
                return f"{a.did} became {b.did}"
            return f"{a.did} gave {_around(a.got, b.got)} and {_around(b.got, a.got)}"
    if one.error != other.error:
        return f"one {_ending(one)}, the other {_ending(other)}"
    return "" if len(one.events) == len(other.events) else "one went on for longer"


def _ending(played: Played) -> str:
    return "came to its end" if played.error is None else f"failed ({played.error})"


def _around(text: str, other: str) -> str:
    """The part of `text` where it differs from `other`."""
    start = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))
    start = max(0, start - 20)
    part = text[start : start + 60]
    return f"{'…' * (start > 0)}{part}{'…' * (start + 60 < len(text))}"


def _verifiers(run: Run) -> Iterable[Problem]:
    """Turns that were played but never scored above 0 by a demonstrator who makes no errors."""
    scores: dict[str, list[float]] = {}
    for plan, played in run.played.items():
        if plan.player == "demonstrator":
            for step, score in (played.scores or {}).items():
                scores.setdefault(step, []).append(score)
    for step, found in scores.items():
        if not any(found):
            what = f"the demonstrator never scored above 0 in {len(found)} plays"
            yield Problem(f"step {step!r}", what, "correct the verifier, or the demonstrator")


def _rewards(run: Run) -> Iterable[Problem]:
    for plan, played in run.played.items():
        if run.loaded is None or played.reward is None or played.scores is None:
            continue
        low = run.loaded.low
        high = float(len(played.scores)) if run.loaded.high is None else run.loaded.high
        if not low - 1e-9 <= played.reward <= high + 1e-9:
            what = f"the reward {run.loaded.reward!r} is {played.reward:g} for {played.scores}"
            yield Problem(str(plan), what, f"keep it in {low:g}..{high:g}")
            return


def _pictures(run: Run) -> Iterable[Problem]:
    for plan, played in run.played.items():
        if played.unseen:
            fix = "give the picture itself: a Pillow image, or the bytes of a PNG, JPEG or WebP file"
            yield Problem(str(plan), f"a picture that no model is shown: {played.unseen}", fix)
            return


def _leftovers(run: Run) -> Iterable[Problem]:
    fix = "end and close in close() what reset and the tools start and open"
    for kind, names in run.left.items():
        yield Problem("close", f"{len(names)} {kind} more after {CROWD} episodes than before: {_some(names)}", fix)
    if run.outlived and "processes" not in run.left:
        yield Problem("close", f"{len(run.outlived)} processes outlived the play: {_some(run.outlived)}", fix)
    for place, files in run.files.items():
        if files:
            yield Problem("close", f"{len(files)} files left in {place}: {_some(files)}", "remove them in close()")


def _some(names: list[str]) -> str:
    """Distinct names, numbers aside, three at most."""
    distinct = list({re.sub(r"\d+", "", name): name for name in reversed(names)}.values())[::-1]
    return ", ".join(distinct[:3]) + (", …" if len(distinct) > 3 else "")
