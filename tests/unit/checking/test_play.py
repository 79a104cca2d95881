import asyncio

from agent_env import load_bundle
from agent_env.checking.play import Plan, plans, play_plan
from support.bundles import TOML, jsonl, task, write_bundle

TURNS = [{"id": "count", "prompt": "?", "verifier": {"type": "exact", "text": "x"}}]


def bundle(folder, tasks, **files):
    return load_bundle(write_bundle(folder, {"tasks/train.jsonl": jsonl(*tasks), **files}))


def test_tasks_are_spread_over_a_split_and_every_verifier_is_among_them(tmp_path):
    tasks = [task(f"t{i}", turns=TURNS) if i == 33 else task(f"t{i}") for i in range(40)]
    chosen = plans(bundle(tmp_path, tasks))
    assert [plan.task for plan in chosen] == ["t0", "t5", "t10", "t15", "t20", "t25", "t30", "t35", "t33"]
    assert {plan.player for plan in chosen} == {"drawn"}


def test_every_split_has_its_share_and_a_demonstrator_plays_too(tmp_path):
    files = {
        "bundle.toml": TOML.replace('["train"]', '["train", "eval"]'),
        "tasks/eval.jsonl": jsonl(task("e")),
        "demonstrator.py": "def demonstrate(turn, rng, error_rate): yield None",
    }
    chosen = plans(bundle(tmp_path, [task("a"), task("b")], **files))
    assert chosen == [Plan(name, player) for player in ("demonstrator", "drawn") for name in ("a", "b", "e")]


def test_a_play_is_written_down_event_by_event(tmp_path):
    script = """
    from agent_env import Call, Reply
    def demonstrate(turn, rng, error_rate):
        (answer,) = yield Call("add", {"amount": 5})
        yield Reply(answer)
    """
    doing = []
    loaded = bundle(tmp_path, [task()], **{"demonstrator.py": script})
    played = asyncio.run(play_plan(loaded, Plan("t1", "demonstrator"), lambda *told: doing.append(told)))
    title = "task 't1' played by the demonstrator"
    assert doing == [
        (f"{title}: reset", 300.0),
        (f"{title}: tool 'add'", 60.0),
        (f"{title}: the score of turn 'count'", 60.0),
    ]
    assert [event.did for event in played.events] == [
        "reset",
        "turn 'count', add({\"amount\": 5})",
        "the end of turn 'count' with \"The counter shows 5.\"",
    ]
    assert '"text": "The counter shows 0."' in played.events[0].got
    assert (played.reward, played.scores, played.error) == (1.0, {"count": 1.0}, None)
