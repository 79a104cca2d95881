"""verl's agent loop over a task server: each row's episode is played by the policy, through the session layer.

Stock verl does the rollout: it tokenizes, generates, parses calls, counts turns and cuts what is too long. This class
gives it the row's tools, carries each call to the row's episode, ends the turns, and makes an episode's end the
rollout's reward. What a loop knows comes from its row (prompt, task, tools) and from ``agent_loop.yaml``, both made by
``python -m agent_env.training.verl``.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterator, Sequence
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
from verl.experimental.agent_loop.tool_agent_loop import AgentData, AgentState, ToolAgentLoop
from verl.experimental.agent_loop.tool_parser import FunctionCall
from verl.tools.schemas import ToolResponse

from agent_env.errors import PromptTooLong, RolloutFailed
from agent_env.training.sessions import Session
from agent_env.training.step_game import images_of
from agent_env.training.verl.attempt import Attempt, EpisodeTool, NotedServers
from agent_env.training.verl.calls import CheckedParser, UnreadCall
from agent_env.training.verl.episodes import LoopSettings, seeded, taken, while_open
from agent_env.training.verl.pictures import Eyes, data_of
from agent_env.training.verl.record import Recorder, conversation
from agent_env.training.verl.row import Row


class AgentEnvAgentLoop(ToolAgentLoop):
    """verl's `ToolAgentLoop` with the row's tools in place of verl's configured ones.

    One instance plays one rollout. Its reward is the episode's; an episode its environment lost is played again from
    the start, on a new one, which is a fresh sample of the same policy.

    Args (of ``agent_loop.yaml``; the others are verl's): those of `episodes.LoopSettings`, each under its name.

    Raises (from `run`; verl's V1 trainer logs the error and leaves the rollout out of loss, baseline and evals):
        RolloutFailed: every attempt failed, or the time for another one was up.
        PromptTooLong: the first prompt has more tokens than ``rollout.prompt_length``.
        TokenRefused, EpisodeUnscored, NotATaskServer: something is set up wrongly.
        InputError: the row is not the writer's, or not of this server.
        RuntimeError: the instance has run before.

    What it leans on in verl, checked against the installed verl by ``tests/verl/test_internals.py``:

    * `ToolAgentLoop` takes its rollout through `run`, `_handle_generating_state(agent_data, sampling_params,
      ignore_termination)`, `_handle_processing_tools_state(agent_data)` and `_call_tool(tool_call, tools_kwargs,
      agent_data)`; the last returns (response, reward or None, dict), and the first three return an `AgentState`.
    * It generates through `server_manager.generate(prompt_ids=…, …)`, by keyword, and gets a `TokenOutput`.
    * It reads `tools` (name to an object with ``name``, ``tool_schema``, ``create`` and ``execute``), `tool_schemas`
      (dicts for the template), `tool_parser` and `tool_parser_name` from the instance when it runs, cuts answers by
      `max_tool_response_length` and rows by `response_length`, and runs a message's first `max_parallel_calls` calls.
      `tokenizer`, `rollout_config` and `server_manager` are there once it is made.
    * `AgentData` has `prompt_ids`, `response_ids` (of the last generation), `response_mask`, `response_logprobs`,
      `tool_calls`, `user_turns`, `assistant_turns` and `messages`; verl replaces these lists and does not change them
      in place, `messages` apart.
    * `AgentLoopBase.ct_build_initial_tokens` passes the rendered prompt through `_cap_text_prompt_length`.
    * Pictures: `run` asks `process_multi_modal_info(messages)` for those of the first prompt, and gives them to
      `ct_build_initial_tokens(…, images=…)`; an answer's come as `ToolResponse.image`, and are appended to
      `AgentData.image_data`, which an output has as ``multi_modal_data["images"]``.
    * The parsers `hermes` and `qwen3_coder` have `tool_call_start_token` and `tool_call_regex` (see `calls`).
    """

    server_manager: Any

    def __init__(self, *args: Any, tools: Any = None, **kwargs: Any) -> None:
        self._settings = LoopSettings(**taken(LoopSettings, kwargs))
        super().__init__(*args, **kwargs)  # without `tools`: verl's configured ones are not the row's
        self.tool_parser = CheckedParser(self.tool_parser_name, self.tokenizer)
        self._eyes = Eyes(self.processor, self.tokenizer)
        self.server_manager = NotedServers(self.server_manager, self._eyes, self._note_generation)
        self._row: Row | None = None
        self._fields: dict[str, Any] = {}
        self._opened: list[Attempt] = []
        self._model_seconds = 0.0

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        """Play the row's task; see the class for what it raises.

        Args:
            sampling_params: verl's.
            kwargs: the row's fields, as verl's dataset makes them.
        """
        if self._row is not None:
            raise RuntimeError(f"this loop has played {self._row}: an instance plays one rollout")
        self._row, self._fields = Row.read(kwargs), kwargs
        self.tools = {tool.name: tool for tool in (EpisodeTool(tool, self._call) for tool in self._row.tools)}
        self.tool_schemas = list(self._row.tools)
        recorder = Recorder(self._settings.traces, self._row, kwargs)
        try:
            # A prompt that does not fit is refused before an episode is opened for it.
            await self.ct_build_initial_tokens(list(kwargs["raw_prompt"]), tools=self.tool_schemas)
            played = await self._settings.play(
                self._row,
                kwargs,
                self.rollout_config,
                lambda session: self._play(session, sampling_params, kwargs),
            )
        except BaseException as error:
            sessions = [attempt.session for attempt in self._opened]
            await recorder.failed(error, sessions, self._model_seconds, **self._told(kwargs))
            raise
        output = played.value
        tokens = {"prompt_tokens": len(output.prompt_ids), "response_tokens": sum(output.response_mask)}
        await recorder.played(played, self._model_seconds, **tokens, **self._told(kwargs))
        output.reward_score = played.reward
        output.extra_fields["reward_extra_info"] = self._settings.info(played, self._model_seconds)
        return output

    async def _play(self, session: Session, sampling_params: dict[str, Any], fields: dict[str, Any]) -> AgentLoopOutput:
        """One attempt: verl's loop from the first prompt on, then the end of the turn it left open."""
        assert self._row is not None
        self._row.check_served(session, self._settings.shared.url)
        attempt = Attempt(session, self.max_tool_response_length, self._settings.shared.url, self._eyes)
        self._opened.append(attempt)
        images = await attempt.look(images_of(session.observation))
        messages = _with_observation(list(fields["raw_prompt"]), session, images)
        messages, _ = await self._eyes.shown(messages)
        output = await super().run(sampling_params, **{**fields, "raw_prompt": messages})
        if session.ended is None:
            await session.finish(self._last_reply())
        output = _ending_on_a_model_token(output)
        output.multi_modal_data = data_of(
            self._eyes.within(
                [*output.prompt_ids, *output.response_ids], (output.multi_modal_data or {}).get("images") or ()
            )
        )
        return output

    @property
    def _attempt(self) -> Attempt:
        """The attempt under way, or the last one."""
        return self._opened[-1]

    def _last_reply(self) -> str:
        """The text of the last generation, as far as the row has its tokens: nothing else may earn the reward."""
        data = self._attempt.data if self._opened else None
        if data is None:
            return ""
        over = max(0, len(data.response_mask) - self.response_length)
        kept = data.response_ids[: len(data.response_ids) - over]
        return str(self.tokenizer.decode(kept, skip_special_tokens=True))

    def _told(self, fields: dict[str, Any]) -> dict[str, Any]:
        """What a trace says of the last attempt's conversation."""
        if not self._opened:
            return {}
        return conversation(self._attempt, self._last_reply(), fields["raw_prompt"], self.tokenizer.eos_token or "")

    def _note_generation(self, prompt_tokens: int, cached_tokens: int | None) -> None:
        self._attempt.generations.append((prompt_tokens, cached_tokens))

    # --- what verl's loop calls ---------------------------------------------------------------------------------

    async def process_multi_modal_info(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """The pictures of messages, which are open already: verl's own would want a package for reading them."""
        _, images = await self._eyes.shown(messages)
        return data_of(images) or {}

    async def ct_build_initial_tokens(
        self, messages: list[dict[str, Any]], tools: Any = None, images: Any = None, **media: Any
    ) -> list[int]:
        """verl's; a prompt with pictures that is too long is refused as one without is."""
        if not images:
            return list(await super().ct_build_initial_tokens(messages, tools=tools, **media))
        build = functools.partial(self.continuous_token_builder.build_initial_tokens, messages, tools=tools)
        ids = await self.loop.run_in_executor(None, functools.partial(build, images=images, **media))
        return self._cap_text_prompt_length(list(ids))

    def _cap_text_prompt_length(self, prompt_ids: list[int]) -> list[int]:
        """Refuse where verl would cut the prompt from the left, and lose the system prompt and the tools."""
        if len(prompt_ids) > self.prompt_length:
            raise PromptTooLong(
                f"{self._row}: the first prompt has {len(prompt_ids)} tokens with its tools, over "
                f"rollout.prompt_length={self.prompt_length}: raise data.max_prompt_length, or have the writer refuse "
                "such rows (--tokenizer, --max-prompt-length)"
            )
        return prompt_ids

    async def _handle_generating_state(
        self, agent_data: AgentData, sampling_params: dict[str, Any], ignore_termination: bool = False
    ) -> AgentState:
        self._attempt.data = agent_data
        assert self._row is not None
        attempt, generation = len(self._opened), len(self._attempt.generations)
        sampling = seeded(
            sampling_params, self.rollout_config, self._row, self._fields, attempt=attempt, generation=generation
        )
        generating = super()._handle_generating_state(agent_data, sampling, ignore_termination)
        with self._model_timer():
            return await while_open(self._attempt.session, generating)

    async def _handle_processing_tools_state(self, agent_data: AgentData) -> AgentState:
        self._attempt.turn_over = False
        self._attempt.warn_if_unrun(len(agent_data.tool_calls), self.max_parallel_calls)
        before = (agent_data.prompt_ids, agent_data.response_mask, agent_data.response_logprobs, agent_data.user_turns)
        images = list(agent_data.image_data or ())  # to which verl appends in place
        state = await super()._handle_processing_tools_state(agent_data)
        if self._attempt.session.ended is None:
            return state
        # Nobody reads the answer that came with the end. Without it the row ends on a token of the model's, where a
        # reward counts for every estimator.
        agent_data.prompt_ids, agent_data.response_mask, agent_data.response_logprobs, agent_data.user_turns = before
        agent_data.image_data = images or None
        return AgentState.TERMINATED

    async def _call_tool(
        self, tool_call: FunctionCall, tools_kwargs: dict[str, Any], agent_data: AgentData
    ) -> tuple[ToolResponse, float | None, dict[str, Any]]:
        attempt = self._attempt
        if isinstance(tool_call, UnreadCall):
            return ToolResponse(text=tool_call.problem), None, {}
        async with attempt.one_at_a_time:  # its waiters are served in the order of the calls
            attempt.check()
            response, reward, details = await super()._call_tool(tool_call, tools_kwargs, agent_data)
            attempt.check()
        return response, reward, details

    async def _call(self, name: str, arguments: Any) -> ToolResponse:
        return await self._attempt.call(name, arguments)

    @contextlib.contextmanager
    def _model_timer(self) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self._model_seconds += time.monotonic() - started


def _with_observation(messages: list[dict[str, Any]], session: Session, images: Sequence[Any]) -> list[dict[str, Any]]:
    """What the environment showed at its reset follows the task's prompt, in the same message: pictures, then words."""
    said, text = messages[-1]["content"], (session.observation or {}).get("text")
    content: Any = f"{said}\n\n{text}" if text else said
    if images:
        blocks = [{"type": "text", "text": f"{said}\n\n"}, *({"type": "image", "image": image} for image in images)]
        content = [*blocks, *([{"type": "text", "text": f"\n{text}"}] if text else [])]
    return [*messages[:-1], {**messages[-1], "content": content}]


def _ending_on_a_model_token(output: AgentLoopOutput) -> AgentLoopOutput:
    """`output` without what follows the model's last token, where a reward would be lost.

    Raises:
        RolloutFailed: there is no token of the model's.
    """
    if 1 not in output.response_mask:
        raise RolloutFailed("the rollout server generated no token")
    length = len(output.response_mask) - output.response_mask[::-1].index(1)
    output.response_ids, output.response_mask = output.response_ids[:length], output.response_mask[:length]
    if output.response_logprobs is not None:
        output.response_logprobs = output.response_logprobs[:length]
    return output
