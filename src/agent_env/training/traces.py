"""The record of a rollout, one JSON object a line, and its reader.

A process writes a file of its own and appends whole lines, so rollouts that end at once in many workers never mix. A
process that is killed can leave its last line torn; the reader leaves that out and says so. Pictures are files beside
them, named by their bytes, so that one that is seen often is kept once. ``version`` grows when a
field changes its meaning; a reader skips fields it does not know and refuses versions it does not know.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from agent_env.errors import InputError, Problem
from agent_env.pictures import bytes_of, name_of, travels

VERSION = 1


@dataclass(frozen=True)
class TraceStep:
    """A step of a rollout in the step layout.

    Args:
        number: from 1.
        prompt: the message the model answered, as the template made it.
        reply: the model's, without special tokens.
        action: what the reply does, in words.
        outcome: what came back.
        format_valid: whether the reply could be read.
        admissible: whether the environment admits what it does.
        reward: of the step, as the environment said; None if it said nothing.
        state: key of the state that the model acted in.
        next_state: key of the state after it.
        terminated, truncated: whether the episode ended, or was cut off, with this step.
        prompt_tokens: of the prompt.
        cached_tokens: of those the rollout server had cached; None if it does not say.
        response_tokens: that the model wrote.
        observation_cut: characters of the observation that the prompt had no room for.
        images: that the prompt showed: files in the folder of the traces, or URLs.
    """

    number: int
    prompt: str
    reply: str
    action: str
    outcome: str
    format_valid: bool
    admissible: bool
    reward: float | None
    state: str
    next_state: str
    terminated: bool
    truncated: bool
    prompt_tokens: int
    cached_tokens: int | None
    response_tokens: int
    observation_cut: int = 0
    images: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trace:
    """What happened in a rollout.

    Args:
        env: the environment's name.
        split: of the task.
        index: of the task in its split.
        task_id: of the task.
        status: ``ok`` for a rollout that was scored; ``failed`` for one whose attempts all failed, or that was stopped.
        attempts: episodes begun, or waited for.
        errors: ``Type: message`` of each attempt that failed, oldest first.
        reward: of the episode; None if failed.
        scores: by step id.
        messages: the conversation in the chat format, prompt first: ``{"role", "content", "tool_calls"?}``; empty in
            the step layout. Where pictures are shown, the content is a list of ``{"type": "text", "text"}`` and
            ``{"type": "image", "image"}``, the latter with a file in the folder of the traces, or a URL.
        steps: of the attempt that counted, in the step layout; else empty.
        tools: names of the tools the model was shown.
        turns: of the task that were opened.
        calls: tool calls made in the attempt that counted.
        prompt_tokens: of the first prompt with its tools; in the step layout of all prompts.
        response_tokens: that the model wrote.
        model_seconds: generating, over all attempts.
        env_seconds: waiting for sessions, in resets, calls, turns' ends and scoring, over all attempts.
        seconds: from the rollout's start to its end.
        seed: of the episode, if one was set.
        step: of the training, if known.
        rollout: an id, the same over all attempts.
        at: when it ended, in seconds since 1970.
        version: of this format.
        info: whatever else a trainer wants to keep; JSON-able.
    """

    env: str
    split: str
    index: int
    task_id: str
    status: Literal["ok", "failed"]
    attempts: int
    errors: tuple[str, ...] = ()
    reward: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    messages: tuple[Mapping[str, Any], ...] = ()
    steps: tuple[TraceStep, ...] = ()
    tools: tuple[str, ...] = ()
    turns: int = 1
    calls: int = 0
    prompt_tokens: int | None = None
    response_tokens: int | None = None
    model_seconds: float = 0.0
    env_seconds: float = 0.0
    seconds: float = 0.0
    seed: int | None = None
    step: int | None = None
    rollout: str = field(default_factory=lambda: uuid.uuid4().hex)
    at: float = field(default_factory=time.time)
    version: int = VERSION
    info: Mapping[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        """As JSON, without a newline in it. Raises ValueError for NaN, TypeError for what is no JSON."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)


class TraceWriter:
    """Appends traces to a file that is this process's own; safe for threads.

    Args:
        folder: made if it is not there.

    Attributes:
        path: of the file; None until the first trace makes it.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._lock = threading.Lock()
        self._file: int | None = None
        self.path: Path | None = None

    def write(self, trace: Trace) -> None:
        """Append a trace, whose pictures may be ``data:`` URLs: they become files.

        It is in the file, for any reader, when this returns. Raises what `Trace.line` raises.
        """
        trace = self._with_files(trace)
        # Half of a surrogate pair, which a model can write into a call's arguments, has no UTF-8.
        data = trace.line().encode("utf-8", "replace") + b"\n"
        with self._lock:
            if self._file is None:
                self.folder.mkdir(parents=True, exist_ok=True)
                self.path = self._named()
                self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            try:
                while data:
                    data = data[os.write(self._file, data) :]
            except OSError:
                # A full disk may have taken half a line: the next one begins another file.
                self._close()
                raise

    def close(self) -> None:
        """Close the file; a later `write` begins another one."""
        with self._lock:
            self._close()

    def _with_files(self, trace: Trace) -> Trace:
        """A trace with paths within the folder in place of its pictures."""
        steps = tuple(
            replace(step, images=tuple(map(self._kept, step.images))) if step.images else step for step in trace.steps
        )
        return replace(trace, steps=steps, messages=tuple(map(self._message, trace.messages)))

    def _message(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        content = message.get("content")
        if not isinstance(content, list):
            return message
        blocks = [
            {**block, "image": self._kept(block["image"])} if block.get("type") == "image" else block
            for block in content
        ]
        return {**message, "content": blocks}

    def _kept(self, url: str) -> str:
        """Where a picture is kept, ``images/9f86d081….png``; a URL that is no picture itself, as it is."""
        if not travels(url):
            return url
        name = f"images/{name_of(url)}"
        path = self.folder / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
            fresh.write_bytes(bytes_of(url))
            os.replace(fresh, path)
        return name

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _named(self) -> Path:
        # Workers of one run may share the folder from several hosts, and a process id comes again after a resume.
        return self.folder / f"{time.time_ns():020d}-{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.jsonl"


@dataclass(frozen=True)
class Traces:
    """What was read: the traces in order of their end, and what was left out, in words."""

    traces: tuple[Trace, ...]
    left_out: tuple[str, ...]

    def __iter__(self) -> Iterator[Trace]:
        return iter(self.traces)

    def __len__(self) -> int:
        return len(self.traces)


def read_traces(folder: str | os.PathLike[str]) -> Traces:
    """Read every trace in a folder; a file that is still being written gives what is whole in it.

    Raises:
        InputError: the folder is not there; or lines, other than a torn last one, that are no traces: all of them.
    """
    root = Path(folder)
    if not root.is_dir():
        raise InputError(Problem(str(root), "is no folder of traces", "name the traces/ folder of a run"))
    traces: list[Trace] = []
    left_out: list[str] = []
    problems: list[Problem] = []
    for path in sorted(root.glob("*.jsonl")):
        lines = path.read_bytes().split(b"\n")
        torn = lines.pop()
        if torn:
            left_out.append(f"{path}:{len(lines) + 1}: torn, its writer was killed or is writing it now; left out")
        for number, line in enumerate(lines, 1):
            try:
                traces.append(_trace(line))
            except msgspec.DecodeError as error:
                problems.append(Problem(f"{path}:{number}", f"is no trace: {error}"))
    if problems:
        raise InputError(problems)
    return Traces(tuple(sorted(traces, key=lambda trace: trace.at)), tuple(left_out))


class _Versioned(msgspec.Struct):
    version: int


_version = msgspec.json.Decoder(_Versioned)
_decoder = msgspec.json.Decoder(Trace)


def _trace(line: bytes) -> Trace:
    version = _version.decode(line).version
    if version != VERSION:
        raise msgspec.ValidationError(f"version {version}, and this reader knows {VERSION}")
    return _decoder.decode(line)
