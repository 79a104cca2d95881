"""What a task server's answers mean: reads the ``data`` of observation frames into the session's plain types.

Serves OpenEnv's own server and ours: a tool's answer is OpenEnv's CallToolObservation, whose ``result`` is MCP's
CallToolResult (foreign servers also send a bare string or any JSON), plus ``metadata.observation`` from our server.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from agent_env.errors import EpisodeFailed, EpisodeUnscored, NotATaskServer, SessionLost

Json = dict[str, Any]

MODEL_MISTAKES = frozenset({"tool_not_found", "invalid_args", "execution_error"})
"""OpenEnv's error types that are text for the model. The others (timeout, transport_error) are the server's own."""


@dataclass(frozen=True)
class Answer:
    """A tool's answer.

    Args:
        text: for the model.
        is_error: whether the tool, or the call itself, went wrong; the text says how.
        images: as URLs, ``data:`` ones for pictures that came with the answer.
        observation: what the environment observed, a dict with the fields of `agent_env.Observation`; None if the tool
            answered with anything else.
    """

    text: str
    is_error: bool = False
    images: tuple[str, ...] = ()
    observation: Json | None = None


@dataclass(frozen=True)
class NextTurn:
    """The turn that opened when the one before it ended."""

    prompt: str
    system_prompt: str = ""
    observation: Json | None = None


@dataclass(frozen=True)
class Ended:
    """The end of an episode: its reward, a finite number, and its scores by step id."""

    reward: float
    scores: Mapping[str, float] = field(default_factory=dict)


def metadata_of(data: Json, what: str) -> Json:
    """The observation's metadata.

    Raises:
        NotATaskServer: there is none on the wire.
        EpisodeFailed: it says that the episode cannot go on.
    """
    observation = data.get("observation")
    metadata = observation.get("metadata") if isinstance(observation, dict) else None
    if metadata is None:
        metadata = data.get("metadata")
    if not isinstance(metadata, dict):
        raise NotATaskServer(
            f"{what}: the answer has no observation.metadata, where a task server puts prompts and scores; "
            "openenv-core 0.3 drops it: the server needs openenv 0.9 or newer"
        )
    if metadata.get("status") == "error":
        raise EpisodeFailed(f"{what}: {metadata.get('error') or 'the server gave no reason'}")
    return metadata


def end_of(data: Json, metadata: Json, what: str) -> Ended | None:
    """The episode's end, if this answer is one.

    Raises:
        EpisodeUnscored: it ended with something other than finite numbers for its reward and scores.
    """
    if data.get("done") is not True:
        return None
    reward, scores = data.get("reward"), metadata.get("scores")
    if scores is not None and not isinstance(scores, dict):
        raise EpisodeUnscored(f"{what}: the episode ended with scores {scores!r}; expected one number per step id")
    bad = {step: score for step, score in (scores or {}).items() if not _finite(score)}
    if bad:
        raise EpisodeUnscored(f"{what}: the episode ended with scores that are no finite numbers: {bad!r}")
    if not _finite(reward):
        said = "without a reward" if reward is None else f"with reward {reward!r}, which is no finite number"
        raise EpisodeUnscored(f"{what}: the episode ended {said}, and without saying that it failed; check its scoring")
    return Ended(float(cast(float, reward)), {str(step): float(score) for step, score in (scores or {}).items()})


def prompt_of(metadata: Json, what: str) -> tuple[str, str]:
    """A turn's prompt and system prompt.

    Raises:
        NotATaskServer: there is no prompt.
    """
    prompt, system_prompt = metadata.get("prompt"), metadata.get("system_prompt")
    if not isinstance(prompt, str):
        raise NotATaskServer(f"{what}: the answer's observation.metadata has no prompt: this server plays no tasks")
    return prompt, system_prompt if isinstance(system_prompt, str) else ""


def observed(metadata: Json) -> Json | None:
    """The environment's observation, if the answer carries one."""
    observation = metadata.get("observation")
    return observation if isinstance(observation, dict) else None


def answer_of(data: Json, metadata: Json, name: str) -> Answer:
    """A tool's answer.

    Raises:
        SessionLost: the answer is another tool's.
        EpisodeFailed: the server could not run the tool.
    """
    observation = data.get("observation")
    observation = observation if isinstance(observation, dict) else {}
    answered = observation.get("tool_name", name)
    if answered != name:
        raise SessionLost(f"{name}: the answer that came is {answered!r}'s")
    error = observation.get("error")
    if error is not None:
        kind = error.get("error_type") if isinstance(error, dict) else None
        message = str(error.get("message") or kind) if isinstance(error, dict) else str(error)
        if kind not in MODEL_MISTAKES:
            raise EpisodeFailed(f"{name}: {message} ({kind})")
        return Answer(message, is_error=True)
    result, seen = observation.get("result"), observed(metadata)
    text, images, is_error = _tool_result(result)
    if seen is not None:
        # Our server has a picture in the answer's content alone; what it only names, by a URL, in the observation.
        named = seen.get("images")
        images = (*images, *(str(image) for image in named if image not in images)) if named else images
        seen = {**seen, "images": list(images)}
    return Answer(text, is_error, images, seen)


def turn_of(data: Json, metadata: Json, what: str) -> NextTurn:
    """The turn that an ``end_turn`` opened. Raises what `prompt_of` raises, or EpisodeFailed if none opened."""
    observation = data.get("observation")
    observation = observation if isinstance(observation, dict) else {}
    error = observation.get("error")
    if error is not None:
        message = error.get("message") if isinstance(error, dict) else error
        raise EpisodeFailed(f"{what}: the server did not end the turn: {message}")
    result = observation.get("result")
    opened = result.get("data") if isinstance(result, dict) and isinstance(result.get("data"), dict) else result
    # Our server says the next prompt in both places; AgentEnv's other server in the result alone.
    said = {**(opened if isinstance(opened, dict) else {}), **metadata}
    prompt, system_prompt = prompt_of(said, what)
    return NextTurn(prompt, system_prompt, observed(metadata))


def openai_tool(tool: object, what: str) -> Json:
    """A tool of ``list_tools``, or of our server's toolset, as OpenAI's chat API writes it.

    Raises:
        NotATaskServer: it has no name, or its schema is no object.
    """
    name = tool.get("name") if isinstance(tool, dict) else None
    schema = tool.get("input_schema") if isinstance(tool, dict) else None
    if not isinstance(tool, dict) or not isinstance(name, str) or not isinstance(schema, dict | None):
        raise NotATaskServer(f"{what}: {tool!r} is no tool with a name and an input_schema")
    # In the server's order: a model reads the schema as text, and was taught on that text perhaps.
    parameters = dict(schema or {})
    parameters.setdefault("type", "object")
    parameters.setdefault("properties", {})
    function = {"name": name, "description": str(tool.get("description") or ""), "parameters": parameters}
    return {"type": "function", "function": function}


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _tool_result(result: object) -> tuple[str, tuple[str, ...], bool]:
    """Text, images and whether it is an error, of a CallToolResult or of whatever else came."""
    if result is None:
        return "", (), False
    if isinstance(result, str):
        return result, (), False
    if not isinstance(result, dict) or not isinstance(result.get("content"), list):
        return _json_text(result), (), False
    parts = [part for part in result["content"] if isinstance(part, dict)]
    texts = [str(part.get("text", "")) for part in parts if part.get("type") == "text"]
    images = tuple(
        f"data:{part.get('mimeType') or part.get('mime_type') or 'image/png'};base64,{part.get('data', '')}"
        for part in parts
        if part.get("type") == "image"
    )
    is_error = result.get("is_error", result.get("isError")) is True
    if texts or images:
        return "\n".join(texts), images, is_error
    structured = result.get("structured_content")
    data = structured if structured is not None else result.get("data")
    return ("" if data is None else data if isinstance(data, str) else _json_text(data)), (), is_error


def _json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
