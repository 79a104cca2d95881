import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from agent_env import BundleError, InputError, Task, Turn, load_bundle
from agent_env.bundle import built_in_bundles, find_bundle
from support.bundles import ENV, TOML, jsonl, task, write_bundle


def problems(folder):
    with pytest.raises(BundleError) as caught:
        load_bundle(folder)
    return [str(problem) for problem in caught.value.problems]


def turns(*verifiers):
    return [{"id": f"t{i}", "prompt": "?", "verifier": verifier} for i, verifier in enumerate(verifiers, 1)]


NO_RESET = "import agent_env\nclass Counter(agent_env.Environment):\n  def score(self, reply): return 1"
REGEX = {"type": "regex", "pattern": "x"}


# --- what is loaded -------------------------------------------------------------------------------------------


def test_a_folder(tmp_path):
    folder = write_bundle(
        tmp_path,
        {
            "bundle.toml": TOML.replace('["train"]', '["train", "eval"]'),
            "tasks/train.jsonl": jsonl(task("a", seed=7, name="First"), task("b", system_prompt="Be brief.")),
            "tasks/eval.jsonl": jsonl(task("c", env={"start": 3})) + "\n",
            "step_prompt.md": "{{ observation }}",
        },
    )
    bundle = load_bundle(folder)
    assert (bundle.name, bundle.description, bundle.path) == ("counter", "A counter.", folder)
    turn = Turn("count", "Bring the counter to 5.", {"type": "env"})
    assert bundle.splits == {
        "train": [Task("a", (turn,), seed=7, name="First"), Task("b", (turn,), "Be brief.", name="b")],
        "eval": [Task("c", (turn,), env={"start": 3}, name="c")],
    }
    assert [item.id for item in bundle.tasks("all")] == ["a", "b", "c"]
    assert bundle.tasks("eval") == bundle.splits["eval"]
    assert bundle.environment.__name__ == "Counter"
    assert bundle.step_prompt == "{{ observation }}"
    assert bundle.demonstrator is None
    assert bundle.reward({"count": 0.5}) == 0.5


def test_an_unknown_split_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="no split 'test'; its splits are all, train"):
        load_bundle(write_bundle(tmp_path)).tasks("test")


def test_tasks_by_a_script(tmp_path):
    script = """
    from agent_env import Task, Turn
    from .rooms import ROOMS

    def tasks(split):
        for index, room in enumerate(ROOMS[split]):
            yield Task(f"{split}-{index}", (Turn("count", room, {"type": "env"}),), env={"rooms": (room,)}, seed=index)
        if split == "eval":
            yield {"id": "plain", "turns": [{"id": "count", "prompt": "?", "verifier": {"type": "env"}}]}
    """
    rooms = "ROOMS = {'train': ['hall', 'attic'], 'eval': ['cellar']}"
    toml = TOML.replace('["train"]', '["train", "eval"]')
    folder = write_bundle(
        tmp_path, {"tasks/train.jsonl": None, "tasks.py": script, "rooms.py": rooms, "bundle.toml": toml}
    )
    bundle = load_bundle(folder)
    assert [item.id for item in bundle.tasks("all")] == ["train-0", "train-1", "eval-0", "plain"]
    assert bundle.tasks("train")[1].env == {"rooms": ["attic"]}


def test_an_empty_split_may_stand_beside_one_with_tasks(tmp_path):
    toml = TOML.replace('["train"]', '["train", "eval"]')
    bundle = load_bundle(write_bundle(tmp_path, {"bundle.toml": toml, "tasks/eval.jsonl": ""}))
    assert bundle.tasks("eval") == []


def test_toolsets_are_the_same_if_and_only_if_the_tools_are(tmp_path):
    one = load_bundle(write_bundle(tmp_path / "one"))
    same = load_bundle(write_bundle(tmp_path / "same", {"tasks/train.jsonl": jsonl(task("other"))}))
    other = load_bundle(write_bundle(tmp_path / "other", {"env.py": ENV.replace("how much", "how little")}))
    sets = [bundle.toolset(bundle.tasks("train")[0]) for bundle in (one, same, other)]
    assert [spec.name for spec in sets[0].tools] == ["add"]
    assert sets[0].hash == sets[1].hash != sets[2].hash


def test_built_in_bundles_are_found_by_name(tmp_path, monkeypatch):
    assert "inbox" in built_in_bundles()
    assert load_bundle("inbox").name == "inbox"
    monkeypatch.chdir(tmp_path)
    write_bundle(tmp_path / "inbox")
    assert find_bundle("inbox") == tmp_path / "inbox"


def test_a_bundle_is_loaded_anew_where_it_is_unpickled(tmp_path):
    bundle = load_bundle(write_bundle(tmp_path))
    script = "import pickle, sys; b = pickle.load(sys.stdin.buffer); print(b.name, b.environment.__name__)"
    result = subprocess.run(
        [sys.executable, "-c", script], input=pickle.dumps(bundle), capture_output=True, timeout=60, check=True
    )
    assert result.stdout.decode().split() == ["counter", "Counter"]


# --- rewards --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reward", "expected"),
    [('"mean"', 0.75), ('"sum"', 1.5), ('"t1"', 0.5), ("{t1 = 1, t2 = -0.25}", 0.25), ('"checks:product"', 0.5)],
)
def test_rewards(tmp_path, reward, expected):
    files = {
        "bundle.toml": f"{TOML}reward = {reward}\n",
        "tasks/train.jsonl": jsonl(task(turns=turns(REGEX, REGEX))),
        "checks.py": "def product(scores): return scores['t1'] * scores['t2']",
    }
    assert load_bundle(write_bundle(tmp_path, files)).reward({"t1": 0.5, "t2": 1.0}) == expected


def test_a_reward_may_name_a_score_of_the_environment(tmp_path):
    bundle = load_bundle(write_bundle(tmp_path, {"bundle.toml": f'{TOML}reward = "count/cost"\n'}))
    assert bundle.reward({"count/cost": 0.25, "count/time": 1.0}) == 0.25


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        ("", ["bundle.toml reward: missing, and tasks/train.jsonl:1 has 2 scores (write reward = \"mean\")"]),
        ('"t3"', ["bundle.toml:5 reward: step 't3' is not scored by tasks/train.jsonl:1 (known: t1, t2, mean, sum)"]),
        ("{}", ["bundle.toml:5 reward: the table of weights is empty (write reward = \"mean\")"]),
        ("{t1 = 1, x = 1}", ["bundle.toml:5 reward: step 'x' is not scored by tasks/train.jsonl:1 (known: t1, t2)"]),
        ('"checks:none"', ["bundle.toml:5 reward: module 'checks' has no 'none' (it has: number)"]),
        ('"checks:number"', ["bundle.toml:5 reward: checks:number is not a function of the scores"]),
    ],
)  # fmt: skip
def test_rewards_that_cannot_be(tmp_path, reward, expected):
    files = {
        "bundle.toml": TOML + (f"reward = {reward}\n" if reward else ""),
        "tasks/train.jsonl": jsonl(task(turns=turns(REGEX, REGEX))),
        "checks.py": "number = 3",
    }
    assert problems(write_bundle(tmp_path, files)) == expected


# --- problems -------------------------------------------------------------------------------------------------


def test_what_is_no_bundle(tmp_path):
    (tmp_path / "empty").mkdir()
    assert problems(tmp_path / "empty")[0].startswith(f"{tmp_path}/empty: is a folder without a bundle.toml")
    assert problems(tmp_path / "none")[0].startswith(f"{tmp_path}/none: is no folder")
    assert "built in are: " in problems("inbax")[0]
    assert "inbox" in problems("inbax")[0]


def test_everything_wrong_with_a_folder_at_once(tmp_path):
    env = """
    from agent_env import Environment, tool

    class Counter(Environment):
        def __init__(self, size):
            self.size = size

        def reset(self, task):
            pass

        @tool
        def state(self, x):
            pass
    """
    lines = [
        jsonl(task("a")),
        '{"id": "b", "turns": [}\n',
        jsonl(task("a")),
        jsonl(task("c", turns=turns({"type": "regexp", "pattern": "x"}))),
        jsonl(task("d", sed=3)),
        jsonl(task("e", turns=[])),
        jsonl(task("f", seed="7")),
        '{"id": "g", "id": "h"}\n',
        jsonl(task("i", env={"x": float("nan")})),
        jsonl(task("j", turns=turns(REGEX, REGEX)[:1] * 2)),
        "[1]\n",
        jsonl(task("k", turns=turns(None))),
        jsonl(task("l", turns=[{"id": "t1", "prompt": "", "verifier": REGEX}])),
    ]
    files = {
        "bundle.toml": TOML.replace('["train"]', '["train", "eval"]') + 'reward = "mean"',
        "env.py": env,
        "tasks/train.jsonl": "".join(lines),
        "tasks/eval.jsonl": jsonl(task("a")),
        "tasks/test.jsonl": "",
        "demonstrator.py": "def demonstrate(turn, rng, error_rate): return []",
    }
    expected = [
        "env:Counter __init__: missing a required argument: 'size' (define __init__(self))",
        "env:Counter reset: too many positional arguments (define reset(self, task, seed))",
        "env.py:10 Counter.state: the name 'state' is reserved (rename the tool)",
        "env.py:10 Counter.state: argument 'x' has no annotation (say its type)",
        "tasks/test.jsonl: not a split of bundle.toml (add 'test' to splits)",
        "tasks/train.jsonl:2: not JSON: Expecting value at column 23",
        "tasks/train.jsonl:5 sed: unknown key 'sed' (did you mean 'seed'?)",
        "tasks/train.jsonl:6 turns: List should have at least 1 item after validation, not 0, got []",
        "tasks/train.jsonl:7 seed: Input should be a valid integer, got '7'",
        "tasks/train.jsonl:8: not JSON: the key 'id' is written twice",
        "tasks/train.jsonl:9: not JSON: NaN is no JSON value",
        "tasks/train.jsonl:10 turns: two turns have the id 't1' (scores are recorded by it)",
        "tasks/train.jsonl:11: expected a table with the keys id, turns, system_prompt, env, seed, name, got [1]",
        "tasks/train.jsonl:13 turns[0].prompt: is empty: the agent would be asked nothing (write what to do)",
        "tasks/train.jsonl:3: the id 'a' is taken by tasks/train.jsonl:1 (rename it)",
        "tasks/train.jsonl:1 turns[0].verifier: Counter has no score (define score(self, reply))",
        "tasks/train.jsonl:3 turns[0].verifier: Counter has no score (define score(self, reply))",
        "tasks/train.jsonl:4 turns[0].verifier: there is no verifier 'regexp' (did you mean 'regex'?)",
        "tasks/eval.jsonl:1: the id 'a' is taken by tasks/train.jsonl:1 (rename it)",
        "tasks/eval.jsonl:1 turns[0].verifier: Counter has no score (define score(self, reply))",
        "tasks/train.jsonl:12: no turn has a verifier, so it would end without a reward (add one)",
        "demonstrator.py demonstrate: it is no generator function (yield Call and Reply)",
    ]
    assert sorted(problems(write_bundle(tmp_path, files))) == sorted(expected)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"env.py": "class Counter: ..."}, "bundle.toml:3 env: env:Counter is no subclass of agent_env.Environment"),
        ({"env.py": NO_RESET}, "env:Counter: it has no reset"),
        ({"env.py": "1 / 0"}, "env.py:1: ZeroDivisionError: division by zero"),
        ({"env.py": None}, "bundle.toml:3 env: there is no env.py in the bundle"),
        ({"tasks/train.jsonl": None}, "tasks/train.jsonl: there is no such file"),
        ({"tasks/train.jsonl": ""}, "tasks: the bundle has no task"),
        ({"tasks.py": "def tasks(split): return []"}, "tasks: there is a folder tasks/ and a tasks.py"),
        ({"demonstrator.py": "x = 1"}, "demonstrator.py: module 'demonstrator' has no 'demonstrate'"),
    ],
)
def test_single_problems(tmp_path, files, expected):
    (found,) = problems(write_bundle(tmp_path, files))
    assert found.startswith(expected)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("def tasks(split): return 3", "tasks.py tasks('train'): TypeError: expected a list of tasks, got a int"),
        ("def tasks(split): return [{'id': 'a'}]", "tasks.py tasks('train')[0] turns: 'turns' is missing"),
        ("def tasks(split): return [{'id': object()}]", "tasks.py tasks('train')[0]: a dict that is not JSON-able"),
        ("def tasks(split):\n  yield from ()\n  1 / 0", "tasks.py tasks('train'): ZeroDivisionError"),
        ("def task(split): ...", "tasks.py: module 'tasks' has no 'tasks' (it has: task)"),
    ],
)
def test_problems_of_a_script(tmp_path, script, expected):
    (found,) = problems(write_bundle(tmp_path, {"tasks/train.jsonl": None, "tasks.py": script}))
    assert found.startswith(expected)


def test_files_that_lead_outside_the_folder(tmp_path):
    outside = tmp_path / "outside.jsonl"
    outside.write_text(json.dumps(task()))
    folder = write_bundle(tmp_path / "bundle", {"tasks/train.jsonl": None})
    (folder / "tasks").mkdir()
    (folder / "tasks" / "train.jsonl").symlink_to(outside)
    (folder / "step_prompt.md").symlink_to(outside)
    assert [line.split(",")[0] for line in problems(folder)] == [
        "tasks/train.jsonl: leads outside the bundle's folder",
        "step_prompt.md: leads outside the bundle's folder",
    ]


def test_task_files_are_read_beside_a_manifest_that_cannot_be(tmp_path):
    files = {"bundle.toml": TOML + "nmae = 1", "tasks/train.jsonl": jsonl(task("a")) + "{]\n"}
    named, line = problems(write_bundle(tmp_path, files))
    assert named.startswith("bundle.toml:")
    assert line.startswith("tasks/train.jsonl:2: not JSON")


def test_a_manifest_that_leads_outside_the_folder_is_not_read(tmp_path):
    outside = tmp_path / "outside.toml"
    outside.write_text("secret = ")
    folder = write_bundle(tmp_path / "bundle", {"bundle.toml": None})
    (folder / "bundle.toml").symlink_to(outside)
    assert [line.split(",")[0] for line in problems(folder)] == ["bundle.toml: leads outside the bundle's folder"]


@pytest.mark.parametrize("name", ["../outside", "/outside", "a/b", "..", "."])
def test_a_split_cannot_name_a_file_elsewhere(tmp_path, name):
    toml = f'name = "x"\nenv = "env:Counter"\nsplits = ["{name}"]\n'
    assert "so that tasks/NAME.jsonl is in the folder" in problems(write_bundle(tmp_path, {"bundle.toml": toml}))[0]


def test_what_it_says_of_the_step_layout_is_checked_with_the_rest(tmp_path):
    memory = "class Half:\n    def add(self, past): ...\n\nvalue = 1\n"
    layout = "\n[steps]\nmemory = {memory!r}\nmax_steps = {steps}\n"

    def found(memory_name, steps=5, template="{{ observation }}"):
        toml = TOML + layout.format(memory=memory_name, steps=steps)
        files = {"bundle.toml": toml, "notes.py": memory, "step_prompt.md": template}
        return problems(write_bundle(tmp_path / "bundle", files))

    assert found("notes:Half", template="{{ histroy }}\n{{ observation }}") == [
        "step_prompt.md: uses 'histroy', which there is not (the names there are: task, memory, observation, images, "
        "actions, step, steps_left, max_steps, note, tags, text_actions)",
        "bundle.toml:7 steps.memory: notes:Half has no render (define add(self, past) and "
        "render(self, observation, budget, size))",
    ]
    assert found("notes:value")[0].startswith("bundle.toml:7 steps.memory: notes:value is no class")
    assert "Nobody" in found("notes:Nobody")[0]
    assert found("recent(2)", steps=0)[0].startswith("bundle.toml:8 steps.max_steps")


def test_its_tags_are_checked_against_its_tools(tmp_path):
    tags = '\n[steps]\ntags = {say = "say", add = "add", think = "end_turn", shout = "shuot", answer = "end_turn"}\n'
    env = ENV + "\n    @tool\n    def say(self, text: str) -> str:\n        return text\n"
    assert problems(write_bundle(tmp_path, {"bundle.toml": TOML + tags, "env.py": env})) == [
        "bundle.toml:7 steps.tags.add: 'add' does not require one text (name one that does: say, end_turn)",
        "bundle.toml:7 steps.tags.think: <think> is what thoughts stand in (name the tag otherwise)",
        "bundle.toml:7 steps.tags.shout: 'shuot' is no tool (name one that does: say, end_turn)",
    ]
    good = TOML + '\n[steps]\ntags = {say = "say", answer = "end_turn"}\n'
    bundle = load_bundle(write_bundle(tmp_path, {"bundle.toml": good, "env.py": env}))
    assert bundle.step_layout["tags"] == {"say": "say", "answer": "end_turn"}


def test_the_verifier_of_a_turn(tmp_path):
    bundle = load_bundle(write_bundle(tmp_path))
    with pytest.raises(InputError, match="turn 'x' has no verifier"):
        bundle.verifier(Turn("x", "?"))
    with pytest.raises(InputError, match=r"turn 'x' verifier.pattern: not a regular expression"):
        bundle.verifier(Turn("x", "?", {"type": "regex", "pattern": "("}))


def test_ten_thousand_tasks_load(tmp_path):
    lines = jsonl(*(task(f"t{i}", turns=turns(REGEX)) for i in range(10_000)))
    assert len(load_bundle(write_bundle(tmp_path, {"tasks/train.jsonl": lines})).tasks("train")) == 10_000


def test_nothing_but_the_folder_is_touched(tmp_path):
    before = list(sys.path)
    load_bundle(write_bundle(tmp_path))
    assert sys.path == before
    assert {item.name for item in Path(tmp_path).iterdir()} <= {"bundle.toml", "env.py", "tasks", "__pycache__"}


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path):
    folder = write_bundle(tmp_path)
    for name in ("bundle.toml", "tasks/train.jsonl"):
        (folder / name).write_bytes(b"\xef\xbb\xbf" + (folder / name).read_bytes())
    assert [t.id for t in load_bundle(folder).tasks("train")] == ["t1"]


def test_a_task_that_is_not_utf_8_has_its_line(tmp_path):
    folder = write_bundle(tmp_path)
    with (folder / "tasks/train.jsonl").open("ab") as file:
        file.write(b'{"id": "\xff"}\n')
    expected = ["tasks/train.jsonl:2: not UTF-8 at byte 8 of the line (save the file as UTF-8)"]
    assert problems(folder) == expected


def test_half_a_surrogate_pair_is_refused_with_its_place(tmp_path):
    turn = {"id": "count", "prompt": "\ud83d", "verifier": {"type": "env"}}
    tasks = jsonl(task("a"), task("b", turns=[turn], env={"names": ["\udc00"]}))
    what = "holds half of a surrogate pair, which is no character (write the whole character)"
    expected = [f"tasks/train.jsonl:2 {place}: {what}" for place in ("turns[0].prompt", "env.names[0]")]
    assert problems(write_bundle(tmp_path, {"tasks/train.jsonl": tasks})) == expected
