"""The writer against our own server: what it writes, what it refuses, and that it writes all of it or nothing."""

from __future__ import annotations

import asyncio
import json
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from agent_env.bundle import load_bundle
from agent_env.errors import InputError, NotATaskServer, TokenRefused
from agent_env.openenv import build_app
from agent_env.training.sessions import Shared
from agent_env.training.tasks import END_TURN_TOOL
from agent_env.training.verl.__main__ import main
from agent_env.training.verl.writer import LoopOptions, PromptOptions, write
from support.bundles import ENV, jsonl, task, write_bundle
from support.inprocess import Running, running
from support.peers import free_port, http_peer, peer, sums
from support.tokenizers import save_tokenizer
from unit.training.test_task_api import Serves

SCHEMA = pa.schema(
    [
        ("data_source", pa.string()),
        ("agent_name", pa.string()),
        ("prompt", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
        ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
        (
            "extra_info",
            pa.struct(
                [
                    ("split", pa.string()),
                    ("index", pa.int64()),
                    ("task_id", pa.string()),
                    ("turns", pa.int64()),
                    ("tools", pa.string()),
                ]
            ),
        ),
    ]
)


@pytest.fixture(scope="module")
def inbox() -> Iterator[Running]:
    with running(build_app(load_bundle("inbox"))) as server:
        yield server


@pytest.fixture
def counter(tmp_path: Path) -> Iterator[Running]:
    """Three tasks of one turn, the second with a prompt of 50 words."""
    turn = {"id": "count", "prompt": "word " * 50, "verifier": {"type": "env"}}
    tasks = [task("short"), task("long", turns=[turn]), task("other")]
    folder = write_bundle(tmp_path / "bundle", {"tasks/train.jsonl": jsonl(*tasks)})
    with running(build_app(load_bundle(folder))) as server:
        yield server


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


@pytest.fixture
def run(monkeypatch, capsys) -> Callable[..., Result]:
    """The command: what a process of it would do, without the seconds that one takes to import transformers."""

    def command(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["python -m agent_env.training.verl", *arguments])
        try:
            main()
            status: Any = 0
        except SystemExit as ended:
            status = ended.code or 0
        said = capsys.readouterr()
        return Result(status, said.out, said.err)

    return command


class Result(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


class TestWhatIsWritten:
    def test_a_row_per_task_of_each_split(self, inbox, tmp_path):
        written = write(Shared(inbox.url), tmp_path / "data")
        assert written.files == ("agent_loop.yaml", "all.parquet", "eval.parquet", "train.parquet")
        assert written.rows == {"all": 140, "train": 100, "eval": 40}
        assert written.longest_prompt is None
        first = rows(tmp_path / "data" / "train.parquet")[0]
        tools = json.loads(first["extra_info"].pop("tools"))
        bundle = load_bundle("inbox")
        served = bundle.tasks("train")[0]
        assert first == {
            "data_source": "agentenv/inbox",
            "agent_name": "agentenv",
            "prompt": [
                {"role": "system", "content": served.system_prompt},
                {"role": "user", "content": served.turns[0].prompt},
            ],
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {"split": "train", "index": 0, "task_id": served.id, "turns": 2},
        }
        assert tools == [*(tool.openai() for tool in bundle.toolset(served).tools), END_TURN_TOOL]
        for split in ("all", "train", "eval"):
            found = rows(tmp_path / "data" / f"{split}.parquet")
            assert [row["extra_info"]["index"] for row in found] == list(range(written.rows[split]))
            assert [row["extra_info"]["task_id"] for row in found] == [task.id for task in bundle.tasks(split)]
            assert {row["extra_info"]["split"] for row in found} == {split}

    def test_a_task_without_a_system_prompt_has_no_such_message(self, counter, tmp_path):
        write(Shared(counter.url), tmp_path / "data")
        assert [message["role"] for message in rows(tmp_path / "data" / "train.parquet")[0]["prompt"]] == ["user"]

    def test_the_loops_configuration(self, inbox, tmp_path):
        shared = Shared(inbox.url, connect_timeout=3, call_timeout=4.5, reset_timeout=60)
        write(shared, tmp_path / "data", loop=LoopOptions(attempts=5, traces="runs/x/traces"))
        assert yaml.safe_load((tmp_path / "data" / "agent_loop.yaml").read_text()) == [
            {
                "name": "agentenv",
                "_target_": "agent_env.training.verl.loop.AgentEnvAgentLoop",
                "url": inbox.url,
                "token_var": None,
                "token_file": None,
                "attempts": 5,
                "reset_timeout": 60,
                "call_timeout": 4.5,
                "connect_timeout": 3,
                "steps": ["answer-1", "answer-2"],
                "draw_seeds": [],
                "traces": "runs/x/traces",
            }
        ]

    async def test_an_empty_split_keeps_its_columns(self, tmp_path):
        served = {"train": [{"id": "a", "prompt": "p", "toolset": "h", "turns": 1}], "test": []}
        async with http_peer(Serves(served, toolset=(200, {"tools": []}))) as server:
            await asyncio.to_thread(write, Shared(server.url), tmp_path / "data")
        for split, count in (("train", 1), ("test", 0)):
            table = pq.read_table(tmp_path / "data" / f"{split}.parquet")
            assert table.num_rows == count
            assert table.schema.equals(SCHEMA)

    async def test_tools_of_different_shapes_stay_themselves(self, tmp_path):
        # As a column of structs they would be merged into one type, and each show the others' fields as nulls.
        schemas = [
            {"type": "object", "properties": {"n": {"type": "integer", "enum": [1, 2]}}, "required": ["n"]},
            {"type": "object", "properties": {"n": {"anyOf": [{"type": "null"}, {"type": "string"}]}, "é": {}}},
        ]
        toolset = {"tools": [{"name": f"t{i}", "description": "", "input_schema": s} for i, s in enumerate(schemas)]}
        served = {"train": [{"id": "a", "prompt": "p", "toolset": "h", "turns": 1}]}
        async with http_peer(Serves(served, toolset=(200, toolset))) as server:
            await asyncio.to_thread(write, Shared(server.url), tmp_path / "data")
        text = rows(tmp_path / "data" / "train.parquet")[0]["extra_info"]["tools"]
        assert [tool["function"]["parameters"] for tool in json.loads(text)] == schemas
        assert "null" not in text.replace('"type": "null"', "")

    async def test_a_server_that_does_not_say_the_number_of_turns(self, tmp_path):
        toolset = {"tools": [{"name": "add", "input_schema": {}}]}
        served = {"train": [{"id": "a", "prompt": "p", "toolset": "h"}]}
        async with http_peer(Serves(served, toolset=(200, toolset))) as server:
            await asyncio.to_thread(write, Shared(server.url), tmp_path / "data")
        extra = rows(tmp_path / "data" / "train.parquet")[0]["extra_info"]
        assert extra["turns"] is None
        assert [tool["function"]["name"] for tool in json.loads(extra["tools"])] == ["add", "end_turn"]

    def test_the_command_prints_one_line_and_counting_a_second(self, inbox, tmp_path, run, monkeypatch):
        tokenizer = save_tokenizer(tmp_path / "model")
        out = str(tmp_path / "data")
        line = f"wrote agent_loop.yaml, all.parquet, eval.parquet, train.parquet to {out}"
        command = [sys.executable, "-m", "agent_env.training.verl", inbox.url, out]
        plain = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
        assert (plain.returncode, plain.stdout, plain.stderr) == (0, line + "\n", "")
        monkeypatch.chdir(tmp_path)
        options = ("--max-prompt-length", "3072", "--attempts", "2", "--traces", "traces")
        counted = run(inbox.url, out, "--tokenizer", str(tokenizer), *options)
        first, second = counted.out.splitlines()
        assert (first, counted.err) == (line, "")
        longest = write(Shared(inbox.url), tmp_path / "again", prompts=PromptOptions(str(tokenizer))).longest_prompt
        assert second == f"the longest prompt is {longest} tokens with its tools"
        (entry,) = yaml.safe_load((tmp_path / "data" / "agent_loop.yaml").read_text())
        assert (entry["attempts"], entry["traces"]) == (2, str(tmp_path / "traces"))


class TestToken:
    def test_a_server_that_asks_for_one_is_read_with_it_and_no_file_holds_it(self, tmp_path, run, monkeypatch):
        out = tmp_path / "data"
        with running(build_app(load_bundle("inbox"), token="tokens-secret-value")) as server:
            named = (server.url, str(out), "--token-var", "TOKEN_OF_TEST")
            for token, message in [
                ("another", "HTTP 401: the server refuses the token in environment variable TOKEN_OF_TEST"),
                ("", "environment variable TOKEN_OF_TEST: is empty"),
            ]:
                monkeypatch.setenv("TOKEN_OF_TEST", token)
                refused = run(*named)
                assert refused.status == 2
                assert message in refused.err
            unnamed = run(server.url, str(out))
            assert unnamed.status == 2
            assert "the server asks for a token; say where it is (--token-var or --token-file)" in unnamed.err
            assert not out.exists()
            monkeypatch.setenv("TOKEN_OF_TEST", "tokens-secret-value")
            done = run(*named)
        assert (done.status, done.err) == (0, "")
        assert yaml.safe_load((out / "agent_loop.yaml").read_text())[0]["token_var"] == "TOKEN_OF_TEST"
        for path in out.iterdir():
            assert b"tokens-secret-value" not in path.read_bytes()
            if path.suffix == ".parquet":
                assert "tokens-secret-value" not in str(rows(path))

    def test_a_wrong_one_is_the_servers_word(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TOKEN_OF_TEST", "wrong")
        with running(build_app(load_bundle("inbox"), token="right")) as server, pytest.raises(TokenRefused):
            write(Shared(server.url, "TOKEN_OF_TEST"), tmp_path / "data")


class TestPromptLength:
    def test_a_prompt_over_the_limit_is_named_and_nothing_is_written(self, counter, tmp_path, run):
        tokenizer, out = str(save_tokenizer(tmp_path / "model")), tmp_path / "data"
        longest = write(Shared(counter.url), out, prompts=PromptOptions(tokenizer)).longest_prompt
        assert longest is not None
        before = {path.name: path.read_bytes() for path in out.iterdir()}
        result = run(counter.url, str(out), "--tokenizer", tokenizer, "--max-prompt-length", str(longest - 1))
        assert (result.status, result.out) == (2, "")
        assert f"1 prompts are over {longest - 1} tokens; nothing was written" in result.err
        assert f"train[1] (long): its prompt has {longest} tokens with its tools" in result.err
        assert "all[1]" not in result.err
        assert "(short)" not in result.err
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before
        assert write(Shared(counter.url), out, prompts=PromptOptions(tokenizer, max_length=longest)).rows["train"] == 3

    def test_many_are_counted(self, inbox, tmp_path):
        prompts = PromptOptions(str(save_tokenizer(tmp_path / "model")), max_length=1)
        with pytest.raises(InputError) as caught:
            write(Shared(inbox.url), tmp_path / "data", prompts=prompts)
        assert "140 prompts are over 1 tokens" in str(caught.value)
        assert "and 120 more" in str(caught.value)
        assert not (tmp_path / "data").exists()


class TestWhatIsRefused:
    def test_options_all_at_once_before_the_server_is_read(self, tmp_path):
        (tmp_path / "file").write_text("")
        shared = Shared(f"http://127.0.0.1:{free_port()}")
        with pytest.raises(InputError) as caught:
            write(
                shared,
                tmp_path / "file",
                loop=LoopOptions(attempts=0),
                prompts=PromptOptions(max_length=0, template_kwargs={"enable_thinking": False}),
            )
        assert [problem.where for problem in caught.value.problems] == [
            str(tmp_path / "file"),
            "--attempts",
            "--max-prompt-length",
            "--chat-template-kwargs",
        ]
        with pytest.raises(InputError, match="--max-prompt-length: counts nothing without a tokenizer"):
            write(shared, tmp_path / "data", prompts=PromptOptions(max_length=5))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--chat-template-kwargs", "{enable_thinking"], "--chat-template-kwargs: is no JSON"),
            (["--chat-template-kwargs", "[1]"], "--chat-template-kwargs: expected a JSON object"),
            (["--tokenizer", "/no/such/model"], "--tokenizer '/no/such/model': is no folder"),
            (["--attempts", "0"], "--attempts: expected 1 or more"),
            (["--call-timeout", "-1"], "--call-timeout: expected a positive number of seconds"),
            (["--attempts", "many"], "--attempts: Input should be a valid integer"),
        ],
    )
    def test_on_the_command_line_with_status_2(self, tmp_path, run, options, message):
        result = run(f"http://127.0.0.1:{free_port()}", str(tmp_path / "data"), *options)
        assert result.status == 2
        assert message in " ".join(result.err.replace("│", " ").split())
        assert "Traceback" not in result.err
        assert list(tmp_path.iterdir()) == []

    def test_options_of_all_kinds_at_once_on_the_command_line(self, tmp_path, run, monkeypatch):
        monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
        (tmp_path / "file").write_text("")
        url, out = f"http://127.0.0.1:{free_port()}", str(tmp_path / "file")
        unread = run(url, out, "--attempts", "many", "--reset-timeout", "long")
        assert (unread.status, unread.out) == (2, "")
        assert [line.split(":")[0] for line in unread.err.removeprefix("error: ").splitlines()] == [
            "--attempts",
            "--reset-timeout",
        ]
        options = ["--reset-timeout", "-1", "--connect-timeout", "0", "--chat-template-kwargs", "{", "--attempts", "0"]
        wrong = run(url, out, *options, "--max-prompt-length", "0", "--tokenizer", "/wrong")
        assert (wrong.status, wrong.out) == (2, "")
        assert [line.split(":")[0] for line in wrong.err.removeprefix("error: ").splitlines()] == [
            "--connect-timeout",
            "--reset-timeout",
            "--chat-template-kwargs",
            out,
            "--attempts",
            "--max-prompt-length",
            "--tokenizer '/wrong'",
        ]
        tokenless = run(url, out, "--token-var", "NO_SUCH_TOKEN")
        assert [line.split(":")[0] for line in tokenless.err.removeprefix("error: ").splitlines()] == [
            out,
            "environment variable NO_SUCH_TOKEN",
        ]
        assert list(tmp_path.iterdir()) == [tmp_path / "file"]

    def test_a_tokenizer_without_a_chat_template(self, tmp_path):
        tokenizer = save_tokenizer(tmp_path / "model", template=None)
        with pytest.raises(InputError, match="has no chat template"):
            write(Shared("http://127.0.0.1:1"), tmp_path / "data", prompts=PromptOptions(str(tokenizer)))

    def test_a_url_where_nothing_is(self, tmp_path, run):
        result = run(f"http://127.0.0.1:{free_port()}", str(tmp_path / "data"))
        assert result.status == 2
        assert result.err.startswith("error: http://127.0.0.1:")
        assert "Traceback" not in result.err

    async def test_a_url_that_is_no_task_server(self, tmp_path):
        def typed(url: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", "agent_env.training.verl", url, str(tmp_path / "data")]
            return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)

        async with http_peer(lambda method, path, body: (404, b"<html>")) as server:
            with pytest.raises(NotATaskServer, match=r"not an OpenEnv 0\.9\+ task server"):
                await asyncio.to_thread(write, Shared(server.url), tmp_path / "data")
            result = await asyncio.to_thread(typed, server.url)
        assert result.returncode == 2
        assert "not an OpenEnv 0.9+ task server" in result.stderr
        async with peer(sums) as socket_only:
            result = await asyncio.to_thread(typed, socket_only.url)
        assert result.returncode == 2
        assert list(tmp_path.iterdir()) == []

    async def test_a_split_that_cannot_be_a_files_name(self, tmp_path):
        async with http_peer(Serves({"../evil": [], ".hidden": [], "fine-1.0": []})) as server:
            with pytest.raises(InputError) as caught:
                await asyncio.to_thread(write, Shared(server.url), tmp_path / "data")
        assert [problem.where for problem in caught.value.problems] == ["split '../evil'", "split '.hidden'"]
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(("module", "options"), [("pyarrow", []), ("transformers", ["--tokenizer", "m/m"])])
    def test_a_missing_extra_is_named(self, tmp_path, module, options):
        # None in sys.modules is how Python itself marks a module as not importable.
        code = f"import sys; sys.modules[{module!r}] = None; from agent_env.training.verl.__main__ import main; main()"
        result = subprocess.run(
            [sys.executable, "-c", code, "http://127.0.0.1:1", str(tmp_path / "data"), *options],
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 2
        assert f"{module!r} is not installed: pip install 'agentenv-rl[verl]'" in result.stderr


class TestAllOrNothing:
    def test_written_again_it_is_replaced_and_what_is_not_ours_stays(self, inbox, counter, tmp_path):
        out = tmp_path / "data"
        write(Shared(inbox.url), out)
        (out / "notes.txt").write_text("mine")
        pq.write_table(pa.table({"x": [1]}), out / "mine.parquet")
        write(Shared(counter.url), out)
        # The split eval is gone with the server that had it.
        names = ["agent_loop.yaml", "all.parquet", "mine.parquet", "notes.txt", "train.parquet"]
        assert sorted(path.name for path in out.iterdir()) == names
        assert rows(out / "mine.parquet") == [{"x": 1}]

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
    def test_a_writer_that_is_ended_while_writing_leaves_the_old_rows(self, inbox, counter, tmp_path, number):
        out = tmp_path / "data"
        write(Shared(counter.url), out)
        before = {path.name: path.read_bytes() for path in out.iterdir()}
        # Stops itself, by a real signal, at its first sign of having begun to write files.
        code = f"""
import os, signal, sys
from pathlib import Path
from agent_env.training.shared import Shared
from agent_env.training.verl.writer import write

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit an ignored one

def stop(what, done, total):
    if what == "writing" and done == 2:
        os.kill(os.getpid(), signal.{number.name})

write(Shared({inbox.url!r}), Path({str(out)!r}), progress=stop)
"""
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=100)
        assert ended.returncode != 0
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before
        write(Shared(inbox.url), out)
        assert {path.name for path in out.iterdir()} == {
            "agent_loop.yaml",
            "all.parquet",
            "eval.parquet",
            "train.parquet",
        }
        assert not list(tmp_path.glob(".data*"))

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    async def test_a_command_that_is_stopped_says_so_in_a_line(self, counter, tmp_path, number):
        out, asked, answer = tmp_path / "data", asyncio.Event(), asyncio.Event()
        await asyncio.to_thread(write, Shared(counter.url), out)
        before = {path.name: path.read_bytes() for path in out.iterdir()}

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.set()
            await answer.wait()
            writer.close()

        async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            command = [sys.executable, "-m", "agent_env.training.verl", f"http://127.0.0.1:{port}", str(out)]
            process = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
            await asyncio.wait_for(asked.wait(), 60)
            process.send_signal(number)
            said, errors = await asyncio.wait_for(process.communicate(), 60)
            answer.set()
        assert (process.returncode, said.decode()) == (128 + number, "")
        assert errors.decode() == f"agent-env: stopped: {out} is as it was\n"
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before
        assert not list(tmp_path.glob(".data*"))

    def test_a_full_disk_is_one_message_and_changes_nothing(self, inbox, counter, tmp_path, run):
        out = tmp_path / "data"
        write(Shared(counter.url), out)
        before = {path.name: path.read_bytes() for path in out.iterdir()}
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, limits[1]))  # as a disk with room for 3,000 bytes
        try:
            result = run(inbox.url, str(out))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, ignored)
        assert result.status == 2
        assert f"error: {out}: cannot be written: " in result.err
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before
        assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "data"]


def test_ten_thousand_tasks_of_three_toolsets(tmp_path):
    bundles = {}
    for number, count in enumerate((3334, 3333, 3333)):
        files = {
            "env.py": ENV.replace("def add(", f"def add_{number}("),
            "tasks/train.jsonl": jsonl(*(task(f"t{i}") for i in range(count))),
        }
        bundles[f"part-{number}"] = load_bundle(write_bundle(tmp_path / f"bundle-{number}", files))
    with running(build_app(bundles)) as server:
        command = [sys.executable, "-m", "agent_env.training.verl", server.url, str(tmp_path / "data")]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.returncode == 0, done.stderr
        assert sum(request.endswith("/toolset") for request in server.requests) == 3
        assert server.count("WS /ws") == 0
    # Seconds of work, whatever else this machine has to do; it is meant to take under 20 by the clock.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 20
    rows_of_all = pq.read_table(tmp_path / "data" / "all.parquet").column("extra_info").to_pylist()
    assert len(rows_of_all) == 10000
    names = {tool["function"]["name"] for extra in rows_of_all for tool in json.loads(extra["tools"])}
    assert names == {"add_0", "add_1", "add_2"}
