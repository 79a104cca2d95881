"""What keeps tasks from being had, found without asking anybody for them."""

from __future__ import annotations

import pytest

from agent_env.errors import InputError
from agent_env.tokens import NO_TOKEN, TokenSource
from agent_env.training.verl.source import check_source, check_splits

SPLITS = {"--train-split": "train", "--eval-split": "eval"}


def test_a_bundle_and_a_url_that_can_be_used():
    check_source("inbox", NO_TOKEN, {**SPLITS, "--split": "all"})
    check_source("https://tasks.example/inbox", NO_TOKEN, SPLITS)


def test_all_problems_of_a_bundle_at_once(monkeypatch):
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    with pytest.raises(InputError) as caught:
        check_source("inbox", TokenSource("NO_SUCH_TOKEN"), {"--train-split": "trian", "--eval-split": "dev"})
    assert [problem.where for problem in caught.value.problems] == [
        "environment variable NO_SUCH_TOKEN",
        "--train-split",
        "--eval-split",
    ]
    with pytest.raises(InputError, match=r"^URL 'ftp://tasks': is no http or https URL with a host"):
        check_source("ftp://tasks", NO_TOKEN, SPLITS)


def test_splits_of_a_server_are_checked_by_their_tasks():
    check_splits("inbox", SPLITS, {"train": 4, "eval": 1})
    with pytest.raises(InputError, match=r"^--eval-split: inbox has no.*its splits: train \(4\), eval \(0\)"):
        check_splits("inbox", SPLITS, {"train": 4, "eval": 0})
