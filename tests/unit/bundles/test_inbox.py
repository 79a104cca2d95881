"""Two questions about three emails, the second once the first is answered."""

import json
import random

import pytest

from agent_env import Ended, Episode, load_bundle
from agent_env.demonstrator import play
from agent_env.hosting.local import LocalHandle

BUNDLE = load_bundle("inbox")


@pytest.fixture
async def episode():
    task = next(task for task in BUNDLE.tasks("train") if task.id == "inbox-0-1")
    episode = Episode(BUNDLE, task, LocalHandle(BUNDLE))
    await episode.start()
    yield episode
    await episode.close()


async def search(episode, query):
    return json.loads((await episode.call("search_emails", {"query": query})).text)


async def test_an_inbox_is_searched_and_read(episode):
    every = await search(episode, "")
    assert sorted(email["id"] for email in every) == ["mail-1", "mail-2", "mail-3"]
    (meeting,) = await search(episode, "MEETING room")
    text = (await episode.call("read_email", {"id": meeting["id"]})).text
    assert text.startswith(f"From: {meeting['sender']}\nSubject: Meeting about the ")
    assert await search(episode, "meeting zebra") == []
    missing = await episode.call("read_email", {"id": "mail-4"})
    assert (missing.is_error, missing.text) == (True, "id: there is no email 'mail-4'; search_emails lists them")


async def test_the_second_question_opens_once_the_first_is_answered(episode):
    second = episode.task.turns[1]
    assert (episode.turn.id, episode.turn.prompt) == ("answer-1", "In which room is the project meeting?")
    (meeting,) = await search(episode, "meeting")
    room = (await episode.call("read_email", {"id": meeting["id"]})).text.split("in room ")[1].strip(".")
    assert await episode.end_turn(f"It is in {room}.") == second
    assert (second.id, second.prompt) == ("answer-2", "How many euros is the invoice for?")
    assert await episode.end_turn("I do not know") == Ended(0.5, {"answer-1": 1.0, "answer-2": 0.0})


def test_each_inbox_has_three_emails_and_four_tasks_that_ask_each_question_twice():
    assert [len(BUNDLE.tasks(split)) for split in ("train", "eval")] == [100, 40]
    for number in (0, 1000):
        prompts = [turn.prompt for t in BUNDLE.tasks("all") if t.env == {"inbox": number} for turn in t.turns]
        assert len(prompts) == 8
        assert all(prompts.count(prompt) == 2 for prompt in prompts)


async def test_no_email_is_in_both_splits():
    texts = {}
    for split in ("train", "eval"):
        texts[split] = set()
        for task in BUNDLE.tasks(split):
            episode = Episode(BUNDLE, task, LocalHandle(BUNDLE))
            await episode.start()
            for email in await search(episode, ""):
                texts[split].add((await episode.call("read_email", {"id": email["id"]})).text)
    assert [len(found) for found in texts.values()] == [75, 30]
    assert not texts["train"] & texts["eval"]


@pytest.mark.parametrize(("error_rate", "low", "high"), [(0.0, 1.0, 1.0), (1.0, 0.0, 0.0), (0.5, 0.35, 0.65)])
async def test_the_demonstrator_errs_as_often_as_it_is_asked_to(error_rate, low, high):
    rewards = []
    for task in BUNDLE.tasks("all"):
        played = await play(
            Episode(BUNDLE, task, LocalHandle(BUNDLE)), BUNDLE.demonstrator, random.Random(task.id), error_rate
        )
        rewards.append(played.ended.reward)
    assert low <= sum(rewards) / len(rewards) <= high
