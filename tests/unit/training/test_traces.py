"""Traces: whole lines only, from many writers at once and from writers that were killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from agent_env.errors import InputError
from agent_env.pictures import as_url, bytes_of, name_of
from agent_env.training.traces import VERSION, Trace, TraceStep, TraceWriter, read_traces


def trace(**fields) -> Trace:
    return Trace(**{"env": "e", "split": "train", "index": 0, "task_id": "t", "status": "ok", "attempts": 1, **fields})


def test_what_is_written_is_read(tmp_path):
    ok = trace(
        reward=0.5,
        scores={"a": 1.0, "b": 0.0},
        messages=({"role": "user", "content": "é\n\u2028"}, {"role": "assistant", "content": "x", "tool_calls": []}),
        tools=("add",),
        prompt_tokens=7,
        response_tokens=3,
        info={"any": [1, None]},
    )
    bad = trace(status="failed", attempts=2, errors=("SessionLost: x", "CallTimedOut: y"), at=ok.at + 1)
    with TraceWriter(tmp_path / "traces") as writer:
        writer.write(bad)
        writer.write(ok)
    read = read_traces(tmp_path / "traces")
    assert read.traces == (ok, bad)  # in the order they ended
    assert read.left_out == ()


def test_a_rollout_that_was_not_scored_has_no_reward():
    assert json.loads(trace(status="failed").line())["reward"] is None


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_json_has_not_is_refused(tmp_path, value):
    with TraceWriter(tmp_path) as writer, pytest.raises(ValueError):
        writer.write(trace(reward=value))
    assert len(read_traces(tmp_path)) == 0


def test_half_a_surrogate_pair_does_not_cost_the_line(tmp_path):
    with TraceWriter(tmp_path) as writer:
        writer.write(trace(messages=({"role": "assistant", "content": "a\ud800b"},)))
    assert read_traces(tmp_path).traces[0].messages[0]["content"] == "a?b"


awkward = st.text('a\n\r\u2028\\"\x00é😀\x7f{}')


@given(awkward, st.dictionaries(awkward, st.integers(-9, 9) | awkward, max_size=3))
@settings(deadline=None)
def test_any_text_survives(tmp_path_factory, text, info):
    folder = tmp_path_factory.mktemp("traces")
    with TraceWriter(folder) as writer:
        writer.write(trace(messages=({"role": "user", "content": text},), info=info))
    (read,) = read_traces(folder)
    assert (read.messages[0]["content"], read.info) == (text, info)


def test_each_writer_has_a_file_and_threads_do_not_mix_lines(tmp_path):
    writers = [TraceWriter(tmp_path) for _ in range(3)]

    def write(writer: TraceWriter, number: int) -> None:
        for index in range(50):
            writer.write(trace(index=index, task_id=f"{number}", messages=({"role": "user", "content": "x" * 5000},)))

    threads = [threading.Thread(target=write, args=(writers[i % 3], i)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for writer in writers:
        writer.close()
    assert len({writer.path for writer in writers}) == 3
    read = read_traces(tmp_path)
    assert len(read) == 300
    assert {(t.task_id, t.index) for t in read} == {(str(i), j) for i in range(6) for j in range(50)}


def test_a_closed_writer_begins_another_file(tmp_path):
    writer = TraceWriter(tmp_path)
    assert list(tmp_path.iterdir()) == []
    for _ in range(2):
        writer.write(trace())
        writer.close()
    assert len(list(tmp_path.iterdir())) == 2
    assert len(read_traces(tmp_path)) == 2


def test_a_torn_last_line_is_left_out_and_said(tmp_path):
    with TraceWriter(tmp_path) as writer:
        writer.write(trace())
        writer.write(trace())
    assert writer.path is not None
    whole = writer.path.read_bytes()
    writer.path.write_bytes(whole[:-20])
    read = read_traces(tmp_path)
    assert len(read) == 1
    (said,) = read.left_out
    assert said.startswith(f"{writer.path}:2: torn")


def test_a_writer_killed_while_writing_loses_at_most_its_last_line(tmp_path):
    code = textwrap.dedent(
        """
        import sys
        from agent_env.training.traces import Trace, TraceWriter

        writer = TraceWriter(sys.argv[1])
        for index in range(10**9):
            writer.write(Trace("e", "train", index, "t", "ok", 1, messages=({"role": "user", "content": "x" * 9999},)))
            print(index, flush=True)
        """
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(20):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate()
    acknowledged = 20 + len(rest.splitlines())
    read = read_traces(tmp_path)
    assert [t.index for t in read][:acknowledged] == list(range(acknowledged))


def test_unknown_versions_and_garbage_are_all_named(tmp_path):
    line = json.loads(trace().line())
    newer = json.dumps(line | {"version": VERSION + 1})
    known = json.dumps(line | {"field_of_tomorrow": 1})
    (tmp_path / "a.jsonl").write_text(f"{newer}\nnot json\n{known}\n[]\n" + json.dumps(line | {"attempts": "x"}) + "\n")
    with pytest.raises(InputError) as caught:
        read_traces(tmp_path)
    assert [problem.where for problem in caught.value.problems] == [f"{tmp_path}/a.jsonl:{n}" for n in (1, 2, 4, 5)]
    assert f"version {VERSION + 1}" in str(caught.value)


def test_a_picture_is_a_file_and_kept_once(tmp_path):
    url = as_url(Image.new("RGB", (64, 64), "red"))
    other = as_url(Image.new("RGB", (64, 64), "blue"))
    step = TraceStep(1, "p", "r", "a", "o", True, True, None, "s", "t", False, False, 1, None, 1, images=(url, other))
    content = [{"type": "text", "text": "see"}, {"type": "image", "image": url}]
    with TraceWriter(tmp_path) as writer:
        for _ in range(3):
            writer.write(trace(steps=(step, step)))
        writer.write(trace(messages=({"role": "user", "content": content},)))
    files = sorted(file.name for file in (tmp_path / "images").iterdir())
    assert files == sorted([name_of(url), name_of(other)])
    read = read_traces(tmp_path)
    assert read.traces[0].steps[1].images == (f"images/{name_of(url)}", f"images/{name_of(other)}")
    assert read.traces[3].messages[0]["content"] == [content[0], {"type": "image", "image": f"images/{name_of(url)}"}]
    assert (tmp_path / "images" / name_of(url)).read_bytes() == bytes_of(url)
    assert "base64" not in writer.path.read_text()


def test_what_is_only_named_stays_a_url(tmp_path):
    content = [{"type": "image", "image": "https://example.org/x.png"}]
    with TraceWriter(tmp_path) as writer:
        writer.write(trace(messages=({"role": "user", "content": content},)))
    assert read_traces(tmp_path).traces[0].messages[0]["content"] == content


def test_no_folder(tmp_path):
    with pytest.raises(InputError, match="is no folder of traces"):
        read_traces(tmp_path / "none")
