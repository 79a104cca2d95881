"""Each check on a bundle that has its defect, and on one that has none."""

import pytest

from agent_env import BundleError
from agent_env.checking import check_bundle
from support.bundles import ENV, TOML, jsonl, task, write_bundle

DEMONSTRATOR = """
from agent_env import Call, Reply


def demonstrate(turn, rng, error_rate):
    yield Call("add", {"amount": 2})
    yield Call("add", {"amount": 3})
    yield Reply("5")
"""


def found(folder, env=ENV, **files):
    """What a check finds in the counter's bundle with these files, as text."""
    named = {name.replace("__", "/").replace("_dot_", "."): text for name, text in files.items()}
    report = check_bundle(write_bundle(folder, {"env.py": env, **named}))
    return [str(finding) for finding in report.findings]


def env(old="", new="", head=""):
    """The counter's environment with a defect written into it."""
    assert old in ENV
    return head + "\n" + ENV.lstrip().replace(old, new)


RESET = "        self.value = task.env"
ANSWER = '        return f"The counter shows {self.value}."'


def test_a_sound_bundle(tmp_path):
    said = []
    report = check_bundle(write_bundle(tmp_path, {"demonstrator.py": DEMONSTRATOR}), said.append)
    assert report.findings == ()
    assert report.summary == "counter: 1 task, 1 split, 1 tool; played 104 episodes, 100 of them at once"
    # Two plays alone, a hundred at once, and the two again in another process.
    assert list(dict.fromkeys(at.episodes for at in said)) == [*range(105)]
    assert said[0].doing == "starting"
    assert {at.most for at in said if at.doing == "loading the bundle"} == {75.0}


def test_what_is_no_bundle(tmp_path):
    with pytest.raises(BundleError, match="is a folder without a bundle"):
        check_bundle(tmp_path)


def test_a_bundle_that_cannot_be_loaded(tmp_path):
    lines = found(tmp_path, env=env("def add", "def state"), tasks__train_dot_jsonl=jsonl(task("a"), task("a")))
    assert [line.split(":")[0] for line in lines] == ["env.py", "tasks/train.jsonl"]
    assert "the name 'state' is reserved" in lines[0]
    assert "the id 'a' is taken by tasks/train.jsonl:1" in lines[1]


def test_randomness_that_is_not_of_the_seed(tmp_path):
    (line,) = found(tmp_path, env(RESET, "        self.noise = random.random()\n" + RESET, "import random").replace(
        "shows {self.value}", "shows {self.value} {self.noise}", 1
    ))  # fmt: skip
    assert line.startswith("task 't1' played with drawn arguments: two plays with one seed differ: reset gave ")
    assert "(take all randomness from the seed of reset" in line


def test_an_order_that_depends_on_the_process(tmp_path):
    line, *rest = found(tmp_path, env(ANSWER, "        return ' '.join({'red', 'green', 'blue', 'black', 'white'})"))
    assert rest == []
    assert "two plays with one seed differ: turn 'count', add(" in line


def test_state_shared_between_episodes(tmp_path):
    line, *rest = found(tmp_path, env(RESET, "        TOTALS.append(seed)\n" + RESET, "TOTALS = []").replace(
        "shows {self.value}", "shows {self.value} of {len(TOTALS)}", 1
    ))  # fmt: skip
    assert rest == []
    assert "100 of 100 episodes at once differ from the same played alone: reset gave " in line
    assert "(keep what changes in self, not in the class or the module)" in line


def test_state_shared_only_by_episodes_at_once(tmp_path):
    """A value on the class is set anew by each reset, so that one episode after another looks right."""
    shared = ENV.replace("self.value", "Counter.value")
    (line,) = found(tmp_path, shared)
    assert "episodes at once differ from the same played alone: turn 'count', add(" in line


def test_a_tool_that_raises_on_arguments_its_schema_allows(tmp_path):
    line, *rest = found(tmp_path, env("        self.value += amount", "        [0][amount + 100]"))
    assert rest == []
    assert line.startswith("env.py:20: task 't1' played with drawn arguments: tool 'add' raised IndexError")
    assert line.endswith("(raise ToolError to answer the model; anything else ends the episode)")


@pytest.mark.parametrize(
    ("images", "said"),
    [
        ("['https://example.org/x.png']", "reset: no data: URL in base64: 'https://example.org/x.png'"),
        ("['data:image/png;base64,AAAA']", "reset: bytes that are no PNG, JPEG or WebP file (they begin with b'"),
    ],
)
def test_a_picture_that_reaches_no_model(tmp_path, images, said):
    head = "from agent_env import Observation"
    (line,) = found(
        tmp_path, env(RESET, f"        self.value = 0\n        return Observation('', images={images})\n{RESET}", head)
    )
    assert line.startswith(f"task 't1' played with drawn arguments: a picture that no model is shown: {said}")
    assert line.endswith("(give the picture itself: a Pillow image, or the bytes of a PNG, JPEG or WebP file)")


def test_a_score_out_of_range(tmp_path):
    (line,) = found(tmp_path, env("return 1.0 if self.value == 5 else 0.0", "return 5.0"))
    assert "step 'count': the score is 5.0, expected a number in 0..1" in line


def test_a_reward_out_of_range(tmp_path):
    toml = TOML + 'reward = "checks:reward"\n'
    (line,) = found(tmp_path, bundle_dot_toml=toml, checks_dot_py="def reward(scores): return 7 + scores['count']")
    assert "the reward 'checks:reward' is 7 for {'count': 0.0} (keep it in 0..1)" in line


def test_a_verifier_that_raises(tmp_path):
    turns = [{"id": "a", "prompt": "?", "verifier": {"type": "python", "function": "checks:judge"}}]
    checks = "def judge(reply, task, turn):\n    return 1 / 0"
    (line,) = found(tmp_path, tasks__train_dot_jsonl=jsonl(task(turns=turns)), checks_dot_py=checks)
    assert line.startswith("checks.py:2: task 't1' played with drawn arguments: the verifier of turn 'a' raised ZeroDi")


def test_a_rare_verifier_is_played_too(tmp_path):
    """Of 50 tasks 8 are played, and the one whose verifier none of those has."""
    turns = [{"id": "count", "prompt": "?", "verifier": {"type": "python", "function": "checks:judge"}}]
    tasks = [task(f"t{i}", turns=turns) if i == 31 else task(f"t{i}") for i in range(50)]
    checks = "def judge(reply, task, turn):\n    return 1 / 0"
    (line,) = found(tmp_path, tasks__train_dot_jsonl=jsonl(*tasks), checks_dot_py=checks)
    assert "task 't31' played with drawn arguments: the verifier of turn 'count' raised ZeroDivisionError" in line


def test_a_bundle_without_a_demonstrator_is_told_what_was_not_tried(tmp_path):
    report = check_bundle(write_bundle(tmp_path, {}))
    assert report.findings == ()
    assert report.summary.endswith("100 of them at once; no demonstrator.py, so no verifier was seen to be met")


def test_a_verifier_that_the_demonstrator_cannot_satisfy(tmp_path):
    turns = [{"id": "a", "prompt": "?", "verifier": {"type": "exact", "text": "6"}}]
    (line,) = found(tmp_path, tasks__train_dot_jsonl=jsonl(task(turns=turns)), demonstrator_dot_py=DEMONSTRATOR)
    assert line.startswith("step 'a': the demonstrator never scored above 0 in 1 plays (correct")


def test_a_demonstrator_that_never_ends(tmp_path):
    endless = DEMONSTRATOR.replace(
        '    yield Call("add", {"amount": 2})', '    while True: yield Call("add", {"amount": 2})'
    )
    (line,) = found(tmp_path, demonstrator_dot_py=endless)
    assert "task 't1' played by the demonstrator: the player made 1000 calls and no end is in sight" in line


def test_a_schema_that_is_none(tmp_path):
    head = "from typing import Annotated\nfrom pydantic import WithJsonSchema"
    line, *_ = found(tmp_path, env("amount: int", 'amount: Annotated[int, WithJsonSchema({"type": "whole"})]', head))
    assert line.startswith("tool add: no valid JSON Schema at ['properties']['amount']['type']: 'whole' is not valid")


def test_what_episodes_leave_behind(tmp_path):
    leave = """
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        KEPT.append(open(__file__))
        KEPT.append(asyncio.ensure_future(asyncio.sleep(600)))
        subprocess.Popen(["sleep", "600"])
        open("scratch.txt", "w").close()
        tempfile.NamedTemporaryFile(prefix="kept-", delete=False).close()
        open(os.path.join(os.path.dirname(__file__), "log"), "w").close()
"""
    head = "import asyncio, os, subprocess, tempfile, threading, warnings\nwarnings.simplefilter('ignore')\nKEPT = []"
    lines = found(tmp_path, env(RESET, leave + RESET, head))
    more, fix = (
        "100 {} more after 100 episodes than before: ",
        "(end and close in close() what reset and the tools start",
    )
    assert lines[0].startswith("close: " + more.format("threads") + "Thread-")
    assert lines[1].startswith("close: " + more.format("asyncio tasks") + f"sleep {fix}")
    assert lines[2].startswith("close: " + more.format("open files") + f"{tmp_path}/env.py {fix}")
    assert lines[3].startswith("close: " + more.format("processes") + f"sleep 600 {fix}")
    assert lines[4] == "close: 1 files left in the working folder: scratch.txt (remove them in close())"
    assert lines[5].startswith("close: 201 files left in the temporary folder: kept-")
    assert lines[6] == "close: 1 files left in the bundle's folder: log (remove them in close())"
    assert len(lines) == 7


def test_a_process_started_at_import_and_never_ended(tmp_path):
    (line,) = found(tmp_path, env(head="import subprocess\nONE = subprocess.Popen(['sleep', '600'])"))
    assert line.startswith("close: 1 processes outlived the play: sleep 600")


def test_a_process_that_exits(tmp_path):
    line, *rest = found(tmp_path, env(RESET, "        print('so long')\n        os._exit(3)\n" + RESET, "import os"))
    assert rest == []
    said = "playing: task 't1' played with drawn arguments: reset: the process ended with status 3: "
    assert line.startswith(said)
    assert "RuntimeWarning" not in line  # of ours


def test_code_that_blocks_its_process(tmp_path):
    block = "        time.sleep(3600)\n"
    toml = TOML + "[limits]\nreset_timeout = 0.5\n"
    line, *rest = found(tmp_path, env(RESET, block + RESET, "import time"), bundle_dot_toml=toml)
    assert rest == []
    assert line.startswith(
        "playing: task 't1' played with drawn arguments: reset: after 15.5 s there was still no answer"
    )


def test_a_split_without_a_task(tmp_path):
    toml = TOML.replace('["train"]', '["train", "eval"]')
    tasks = {"tasks/train.jsonl": "", "tasks/eval.jsonl": jsonl(task())}
    report = check_bundle(write_bundle(tmp_path, {"bundle.toml": toml, **tasks}))
    (finding,) = map(str, report.findings)
    assert finding == "bundle.toml splits: split 'train' has no task (write one, or take the split out)"
    assert report.loaded
