"""tau2-bench on its own engine: tickets without a customer, and conversations with one that a real endpoint plays."""

import asyncio
import json
import re
import time

import jsonschema
import pytest

from agent_env import Episode, EpisodeError, load_bundle
from agent_env.bundles.tau2.catalogue import DOMAINS, SOLO, catalogue, tools
from agent_env.bundles.tau2.env import CALLS
from agent_env.errors import EpisodeFailed
from agent_env.hosting.local import LocalHandle
from agent_env.training.sessions import Shared, opened
from support.chat_endpoint import calling, chat_endpoint, saying
from support.servers import serving
from support.text_games import demonstrated

VARIABLES = ("URL", "MODEL", "KEY", "TIMEOUT")


@pytest.fixture(autouse=True)
def nobody(monkeypatch):
    """Whoever runs this may have a model for customers."""
    for name in VARIABLES:
        monkeypatch.delenv(f"AGENT_ENV_TAU2_USER_{name}", raising=False)


@pytest.fixture
def with_customer(monkeypatch):
    """Name an endpoint that plays the customer, and load the bundle."""

    def named(endpoint, **more):
        for name, value in {"URL": endpoint.url, "MODEL": "scripted", "KEY": "sk-secret", **more}.items():
            monkeypatch.setenv(f"AGENT_ENV_TAU2_USER_{name}", value)
        return load_bundle("tau2")

    return named


def obliging(messages):
    """A customer who does what they are asked to, and leaves when they hear that it is done."""
    last = messages[-1]
    if last["role"] == "tool":
        return saying("I did that.")
    if asked := re.match(r"Please do this on your device: (\w+) (\{.*\})", last["content"]):
        return calling(asked[1], json.loads(asked[2]))
    return saying("Thank you. ###STOP###" if "done" in last["content"] else "I have a problem.")


def task_of(bundle, domain, split="eval", where=lambda row: True):
    """A task of a domain whose row of the catalogue fits, and that row."""
    rows = {row["id"]: row for row in catalogue()[domain]["tasks"] if where(row)}
    task = next(task for task in bundle.tasks(split) if task.env["domain"] == domain and task.env["task"] in rows)
    return task, rows[task.env["task"]]


async def played(bundle, task, *calls, reply=""):
    """What is seen at the start and after each call, and the reward."""
    episode = Episode(bundle, task, LocalHandle(bundle))
    try:
        seen = [await episode.start()]
        seen += [await episode.call(name, arguments) for name, arguments in calls]
        return seen, (await episode.end_turn(reply)).reward
    finally:
        await episode.close()


def test_the_splits_are_tau2_bench_s_own():
    counts = {
        domain: {
            split: sum(row["split"] == split for row in catalogue()[domain]["tasks"]) for split in ("train", "eval")
        }
        for domain in DOMAINS
    }
    assert counts == {
        "airline": {"train": 30, "eval": 20},
        "retail": {"train": 74, "eval": 40},
        "telecom": {"train": 74, "eval": 40},
    }
    bundle = load_bundle("tau2")
    assert {split: len(tasks) for split, tasks in bundle.splits.items()} == {"train": 74, "eval": 40}
    assert all(task.env["solo"] for task in bundle.tasks("all"))


def test_with_a_customer_there_are_three_domains_each_with_its_tools(with_customer):
    with chat_endpoint(obliging) as endpoint:
        bundle = with_customer(endpoint)
    assert {split: len(tasks) for split, tasks in bundle.splits.items()} == {"train": 178, "eval": 100}
    sets = {task.env["domain"]: bundle.toolset(task) for task in bundle.tasks("all")}
    assert {domain: len(found.tools) for domain, found in sets.items()} == {"airline": 15, "retail": 16, "telecom": 14}
    assert len({found.hash for found in sets.values()}) == 3
    assert all(found.tools[-1].name == "message_user" for found in sets.values())
    assert endpoint.asked == []


def test_the_policy_is_in_the_prompt_and_what_solves_the_task_is_not():
    task = load_bundle("tau2").tasks("eval")[0]
    assert "# Telecom Agent Policy" in task.system_prompt
    assert "<tech_support_policy>" in task.system_prompt
    assert task.turns[0].id == "telecom"
    assert task.env.keys() == {"domain", "task", "solo"}


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_reference_action_fits_its_tool_s_schema(domain):
    known = {tool.name: tool.parameters for tool in tools(domain, solo=domain == SOLO)}
    for parameters in known.values():
        jsonschema.Draft202012Validator.check_schema(parameters)
        assert '"title"' not in json.dumps(parameters)
    for row in catalogue()[domain]["tasks"]:
        for action in row["actions"]:
            jsonschema.validate(action["arguments"], known[action["name"]])


async def test_a_ticket_is_solved_by_its_reference_actions_and_by_none_of_them_is_not():
    bundle = load_bundle("tau2")
    for task in bundle.tasks("train")[::15]:
        play = await demonstrated(bundle, task, 0.0)
        assert play.observation.text == next(
            row["ticket"] for row in catalogue()[SOLO]["tasks"] if row["id"] == task.env["task"]
        )
        assert play.ended.reward == 1.0
        assert (await played(bundle, task))[1] == 0.0


async def test_equal_databases_are_one_state_and_others_another():
    bundle = load_bundle("tau2")
    task = bundle.tasks("eval")[0]
    moves = [("check_status_bar", {}), ("toggle_airplane_mode", {}), ("toggle_airplane_mode", {})]
    (first, *rest), _ = await played(bundle, task, *moves)
    states = [first.state, *(result.observation.state for result in rest)]
    assert states[0] == states[1] != states[2]
    assert states[3] == states[0]


async def test_a_tool_that_fails_says_why_and_ten_that_fail_are_the_end():
    bundle = load_bundle("tau2")
    task, row = task_of(bundle, SOLO)
    wrong = ("get_customer_by_id", {"customer_id": "nobody"})
    seen, _ = await played(bundle, task, wrong, ("get_customer_by_id", {"customer": 1}))
    assert seen[1].text.startswith("Error: ")
    assert not seen[1].observation.over
    assert seen[2].kind == "invalid_args"
    done = [(action["name"], action["arguments"]) for action in row["actions"]]
    seen, reward = await played(bundle, task, *done, *[wrong] * 9)
    assert (seen[-1].observation.over, reward) == (False, 1.0)
    seen, reward = await played(bundle, task, *done, *[wrong] * 10)
    assert (seen[-1].observation.truncated, seen[-1].observation.terminated, reward) == (True, False, 0.0)


async def test_so_many_calls_are_the_end():
    bundle = load_bundle("tau2")
    task, row = task_of(bundle, SOLO)
    done = [(action["name"], action["arguments"]) for action in row["actions"]]
    for count, over, reward in ((CALLS - 1, False, 1.0), (CALLS, True, 0.0)):
        looks = [("check_status_bar", {})] * (count - len(done))
        seen, scored = await played(bundle, task, *looks, *done)
        assert (seen[-1].observation.truncated, scored) == (over, reward)


@pytest.mark.timeout(900)
async def test_what_a_model_may_try_is_answered(with_customer):
    with chat_endpoint(obliging) as endpoint:
        bundle = with_customer(endpoint)
        task, _ = task_of(bundle, "airline")
        tries = [
            *("1 + 2 * (3 - 1) / 4", "9**9**9**9", "9 * *9", "().__class__", "1/0", "(" * 5_000),
            "9*" * 50_000 + "9",
        ]
        seen, _ = await played(
            bundle,
            task,
            *[("calculate", {"expression": expression}) for expression in tries],
            ("message_user", {"message": " "}),
        )
    texts = [result.text for result in seen[1:]]
    assert texts[0] == "2.0"
    assert texts[1] == "Error: Invalid operator in expression"
    assert all(text.startswith("Error: ") for text in texts[2:7])
    assert texts[-1].startswith("Invalid arguments for message_user:\n- message: ' ' does not match")
    assert len(endpoint.asked) == 1


@pytest.mark.parametrize("domain", DOMAINS)
async def test_a_customer_is_helped(with_customer, domain):
    with chat_endpoint(obliging) as endpoint:
        bundle = with_customer(endpoint)
        task, row = task_of(bundle, domain, where=lambda row: len(row["actions"]) > 2)
        play = await demonstrated(bundle, task, 0.0)
    assert play.observation.text == "I have a problem."
    assert play.ended.scores == {domain: 1.0}
    assert {*endpoint.keys} == {"Bearer sk-secret"}
    assert {(body["model"], body["temperature"]) for body in endpoint.asked} == {("scripted", 0.0)}
    assert "<scenario>" in endpoint.asked[0]["messages"][0]["content"]
    asked = [move.calls[0].name for move in play.turns[0].moves].count("message_user")
    by_user = [action for action in row["actions"] if action["by"] == "user"]
    # A call of the customer's, and then their answer.
    assert (asked, len(endpoint.asked)) == (len(by_user), 1 + 2 * len(by_user))
    assert bool(by_user) == (domain == "telecom")


async def test_the_customer_ends_the_conversation(with_customer):
    with chat_endpoint(obliging) as endpoint:
        bundle = with_customer(endpoint)
        task, row = task_of(bundle, "retail", where=lambda row: not row["told"] and row["actions"])
        done = [(action["name"], action["arguments"]) for action in row["actions"]]
        seen, reward = await played(bundle, task, *done, ("message_user", {"message": "It is done."}))
    assert (seen[-1].text, seen[-1].observation.terminated) == ("Thank you.", True)
    assert reward == 1.0


async def test_what_the_customer_is_to_be_told_counts(with_customer):
    with chat_endpoint(obliging) as endpoint:
        bundle = with_customer(endpoint)
        task, row = task_of(bundle, "retail", where=lambda row: row["told"])
        done = [(action["name"], action["arguments"]) for action in row["actions"]]
        told = " ".join(row["told"])
        assert (await played(bundle, task, *done))[1] == 0.0
        assert (await played(bundle, task, *done, reply=f"<think>{told}</think>"))[1] == 0.0
        assert (await played(bundle, task, *done, reply=told))[1] == 1.0
        assert (await played(bundle, task, *done, ("message_user", {"message": told})))[1] == 1.0


def failing(how):
    """A customer who says what their problem is, and fails as soon as they are talked to again."""

    def script(messages):
        return how(messages) if sum(message["role"] == "user" for message in messages) > 1 else saying("Hello.")

    return script


def never(messages):
    time.sleep(30)
    return 500


@pytest.mark.parametrize(
    ("how", "why"),
    [
        (lambda _: 500, "InternalServerError"),
        (lambda _: 401, "AuthenticationError"),
        (lambda _: b"<html>", "Error"),
        (lambda _: saying(" "), "must have either content or tool calls"),
        (lambda _: calling("toggle_data", {}), "called tools 30 times and said nothing"),
        (never, "Timeout"),
    ],
    ids=["500", "401", "html", "silent", "endless", "hanging"],
)
async def test_a_customer_who_fails_is_a_failure_and_no_zero(with_customer, how, why):
    with chat_endpoint(failing(how)) as endpoint:
        bundle = with_customer(endpoint, TIMEOUT="2")
        task, _ = task_of(bundle, "telecom")
        with pytest.raises(EpisodeError, match=why) as caught:
            await played(bundle, task, ("message_user", {"message": "What is it?"}))
    assert "sk-secret" not in str(caught.value)


async def test_an_endpoint_that_nobody_listens_at(with_customer):
    with chat_endpoint(obliging) as endpoint:
        bundle = with_customer(endpoint)
    with pytest.raises(EpisodeError, match=r"the simulated customer at http://127.0.0.1:\d+/v1 failed: "):
        await played(bundle, task_of(bundle, "airline")[0])


@pytest.mark.timeout(900)
async def test_32_episodes_at_once_on_a_server():
    rows = [row for row in catalogue()[SOLO]["tasks"] if row["split"] == "eval"]
    with serving("tau2", "--max-sessions", "40") as server:
        shared = Shared(server.url, reset_timeout=600, call_timeout=600)

        async def episode(index):
            async with opened(shared, "eval", index) as session:
                assert session.observation["text"] == rows[index]["ticket"]
                assert len(await session.list_tools()) == 13 + 30
                for action in rows[index]["actions"]:
                    assert not (await session.call(action["name"], action["arguments"])).is_error
                return (await session.finish("done")).reward

        assert await asyncio.gather(*(episode(index) for index in range(32))) == [1.0] * 32
    assert not [line for line in server.log if "Traceback" in line]


@pytest.mark.timeout(900)
async def test_a_customer_who_fails_on_a_server():
    with chat_endpoint(failing(lambda _: 500)) as endpoint:
        env = {"AGENT_ENV_TAU2_USER_URL": endpoint.url, "AGENT_ENV_TAU2_USER_MODEL": "scripted"}
        with serving("tau2", env=env) as server:
            async with opened(Shared(server.url, reset_timeout=600), "eval", 0) as session:
                assert session.observation["text"] == "Hello."
                with pytest.raises(EpisodeFailed, match=r"the simulated customer at .* failed"):
                    await session.call("message_user", {"message": "What is it?"})
