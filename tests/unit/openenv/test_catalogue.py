"""Splits of one bundle and of a mapping, and rewards in place of a bundle's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from agent_env.bundle import Bundle, load_bundle
from agent_env.errors import BundleError
from agent_env.openenv.catalogue import Catalogue
from support.bundles import jsonl, task, write_bundle
from support.trials import write_trials


@pytest.fixture
def trials(tmp_path: Path) -> Bundle:
    return load_bundle(write_trials(tmp_path / "trials"))


@pytest.fixture
def counter(tmp_path: Path) -> Bundle:
    tasks = jsonl(task("c1"), task("c2"))
    return load_bundle(write_bundle(tmp_path / "counter", {"tasks/train.jsonl": tasks}))


def ids(catalogue: Catalogue, split: str) -> list[str]:
    return [entry.task.id for entry in catalogue.entries(split)]


def test_a_bundles_splits_and_all_of_them(trials: Bundle) -> None:
    catalogue = Catalogue(trials, capacity=1)
    assert (catalogue.name, catalogue.description) == ("trials", "Trials of a server.")
    assert list(catalogue.splits) == ["all", "train", "eval"]
    assert ids(catalogue, "eval") == ["held-out"]
    assert ids(catalogue, "all") == [*ids(catalogue, "train"), "held-out"]
    assert [entry.index for entry in catalogue.entries("all")] == list(range(6))
    assert {entry.split for entry in catalogue.entries("all")} == {"all"}
    assert len(catalogue.hosts) == 1


def test_a_task_as_the_task_api_tells_of_it(trials: Bundle) -> None:
    catalogue = Catalogue(trials, capacity=1)
    assert catalogue.entry("all", 0).described() == {
        "id": "plain",
        "name": "plain",
        "index": 0,
        "prompt": "What is your score?",
        "system_prompt": "Be brief.",
        "toolset": next(iter(catalogue.toolsets)),
        "turns": 1,
        "steps": ["first"],
        "draw_seeds": False,
    }
    assert catalogue.entry("train", 1).described()["turns"] == 2
    assert catalogue.entry("train", 1).described()["steps"] == ["first", "second"]


def test_a_mapping_of_splits_to_bundles(trials: Bundle, counter: Bundle) -> None:
    catalogue = Catalogue({"train": trials, "dev": counter, "test": counter}, capacity=1)
    assert catalogue.name == "trials-counter"
    assert list(catalogue.splits) == ["all", "train", "dev", "test"]
    assert ids(catalogue, "train") == [t.id for t in trials.tasks("all")]
    assert ids(catalogue, "dev") == ids(catalogue, "test") == ["c1", "c2"]
    assert len(ids(catalogue, "all")) == 10
    assert [entry.index for entry in catalogue.entries("all")] == list(range(10))
    # One place for the environments of each bundle, though one of them is in two splits.
    assert len(catalogue.hosts) == 2
    assert len(catalogue.toolsets) == 2


def test_what_is_not_there_is_named_with_what_is(trials: Bundle) -> None:
    catalogue = Catalogue(trials, capacity=1)
    with pytest.raises(LookupError, match="there is no split 'test'; the splits are all, train, eval"):
        catalogue.entries("test")
    with pytest.raises(LookupError, match="split 'eval' has 1 tasks; there is none at index 1"):
        catalogue.entry("eval", 1)


@pytest.mark.parametrize("name", ["empty", "all"])
def test_a_mapping_that_cannot_be(trials: Bundle, name: str) -> None:
    source: Mapping[str, Bundle] = {} if name == "empty" else {"all": trials}
    with pytest.raises(BundleError, match="is empty" if name == "empty" else "every other split"):
        Catalogue(source, capacity=1)


def reward_of(catalogue: Catalogue, scores: dict[str, float]) -> float:
    return catalogue.entry("train", 1).bundle.reward(scores)


def test_the_reward_may_be_another_than_the_bundles(trials: Bundle) -> None:
    scores = {"first": 0.5, "second": 1.0}
    assert reward_of(Catalogue(trials, capacity=1), scores) == 0.75
    assert reward_of(Catalogue(trials, reward="first", capacity=1), scores) == 0.5
    assert reward_of(Catalogue(trials, reward="sum", capacity=1), scores) == 1.5
    assert reward_of(Catalogue(trials, reward=lambda s: s["second"] - s["first"], capacity=1), scores) == 0.5
    # The bundle itself stays as it was.
    assert trials.reward(scores) == 0.75


def test_a_reward_that_some_task_cannot_give_names_every_such_task(trials: Bundle) -> None:
    with pytest.raises(BundleError) as caught:
        Catalogue(trials, reward="second", capacity=1)
    assert {problem.where for problem in caught.value.problems} == {
        f"task {name!r}" for name in ("plain", "reset-raise", "reset-sleep", "reset-nan", "held-out")
    }
