"""verl's agent loop in the step layout: a fresh prompt each step, and a row of training data a step.

A step's prompt is made of the task, a memory of the steps before and what the environment shows now, by the template
of the bundle. The model's reply is an action, tool calls, or the end of a turn; it is played on the same sessions as
the conversation loop's, and an episode that is lost is played again from the start, with no row kept of the lost one.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
from verl.workers.rollout.replica import TokenOutput

from agent_env.errors import PromptTooLong, RolloutFailed
from agent_env.step_prompt import StepPrompt, View
from agent_env.training.memory import memory_of
from agent_env.training.sessions import Session
from agent_env.training.step_fit import Fitted
from agent_env.training.step_game import Game
from agent_env.training.step_options import StepOptions
from agent_env.training.step_player import StepPlayer, messages_of
from agent_env.training.verl.attempt import warn_once
from agent_env.training.verl.episodes import LoopSettings, seed_of, seeded, taken, while_open
from agent_env.training.verl.pictures import Eyes
from agent_env.training.verl.record import Recorder
from agent_env.training.verl.row import Row
from agent_env.training.verl.step_readers import reader_of
from agent_env.training.verl.step_rows import PlayedEpisode, PlayedStep, ended, outputs


class AgentEnvStepLoop(AgentLoopBase):
    """Plays a row's episode step by step; one instance plays one rollout.

    Args (of ``agent_loop.yaml``; the others are verl's):
        those of `episodes.LoopSettings` and of `StepOptions`, each under its name.

    Raises (from `run`):
        RolloutFailed, TokenRefused, EpisodeUnscored, NotATaskServer, RuntimeError: as the conversation loop.
        PromptTooLong: task, actions and tools alone have more tokens than ``rollout.prompt_length``.
        InputError: the row is not the writer's, or not of this server; an option that cannot be used; a template that
            fails.

    What it leans on in verl: `AgentLoopBase.ct_build_initial_tokens(messages, tools=…)`, which passes the rendered
    prompt through `_cap_text_prompt_length`; ``server_manager.generate(request_id=…, prompt_ids=…,
    sampling_params=…, image_data=…)``, which knows ``max_tokens`` and ``logit_bias``; that a list of outputs is a row
    each; and, for pictures, ``continuous_token_builder.build_initial_tokens(messages, tools=…, images=…)`` and
    ``multi_modal_data`` of an output (``tests/verl/test_internals.py`` checks them).
    """

    def __init__(self, *args: Any, tools: Any = None, **kwargs: Any) -> None:
        self._settings = LoopSettings(**taken(LoopSettings, kwargs))
        given = taken(StepOptions, kwargs)
        super().__init__(*args, **kwargs)
        if not isinstance(given.get("step_prompt", ""), str | None):
            given["step_prompt"] = "".join(given["step_prompt"])  # in parts, where OmegaConf would read a reference
        if given.get("tags") is not None:
            given["tags"] = dict(given["tags"])  # as hydra gives it, it is OmegaConf's
        self._options = StepOptions().with_(given)
        self._template = StepPrompt(self._options.step_prompt, "step_prompt")
        self._new_memory = memory_of(self._options.memory)
        self._budget = min(
            self._options.max_step_tokens or self.rollout_config.response_length, self.rollout_config.response_length
        )
        self._eyes = Eyes(self.processor, self.tokenizer)
        self._sizes: dict[str, int] = {}
        self._request_id = uuid.uuid4().hex
        self._row: Row | None = None
        self._fields: dict[str, Any] = {}
        self._sessions: list[Session] = []
        self._game: Game | None = None
        self._played: list[PlayedStep] = []
        self._model_seconds = 0.0

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> list[AgentLoopOutput]:
        """Play the row's task; see the class for what it raises.

        Args:
            sampling_params: verl's.
            kwargs: the row's fields, as verl's dataset makes them.
        """
        if self._row is not None:
            raise RuntimeError(f"this loop has played {self._row}: an instance plays one rollout")
        self._row, self._fields = Row.read(kwargs), kwargs
        row = self._row
        parser = self.rollout_config.multi_turn.format
        self._reader = reader_of(row.tools, self._options.tags, self.tokenizer, parser)
        self._request_id = (
            f"det-{kwargs.get('priority', 0)}" if self.rollout_config.full_determinism else uuid.uuid4().hex
        )
        recorder = Recorder(self._settings.traces, row, kwargs)
        try:
            await self._check_fits(list(kwargs["raw_prompt"]))
            played = await self._settings.play(
                row, kwargs, self.rollout_config, lambda session: self._play(session, sampling_params)
            )
        except BaseException as error:
            await recorder.failed(error, self._sessions, self._model_seconds, **self._told(self._played))
            raise
        await recorder.played(played, self._model_seconds, **self._told(played.value.steps))
        key = f"{kwargs['uid']}_{kwargs['session_id']}" if {"uid", "session_id"} <= kwargs.keys() else self._request_id
        return outputs(played, key, self._options, self._settings.info(played, self._model_seconds))

    async def _play(self, session: Session, sampling_params: dict[str, Any]) -> PlayedEpisode:
        """One attempt, from the first step to the end of the last turn."""
        assert self._row is not None
        self._row.check_served(session, self._settings.shared.url)
        offered = frozenset(tool["function"]["name"] for tool in self._row.tools)
        self._sessions.append(session)
        most_calls = self.rollout_config.multi_turn.max_parallel_calls
        warn = partial(warn_once, self._settings.shared.url)
        self._game = game = Game(session, offered, most_calls, warn, sees=self._eyes.open)
        player = StepPlayer(game, self._options, self._template, self._new_memory(), self._reader.tags)
        steps: list[PlayedStep] = []
        self._played = steps
        while player.goes_on:
            prompt = await self._prompt(player)
            images = [await self._eyes.look(url) for url in prompt.view.images]
            images = self._eyes.within(prompt.prompt_ids, images)
            started = time.monotonic()
            generated = await while_open(session, self._generate(prompt.prompt_ids, images, sampling_params))
            model_seconds = time.monotonic() - started
            move = await self._reader.read(generated.token_ids)
            state, env_before = game.state, session.env_seconds
            outcome = await player.play(move)
            steps.append(
                PlayedStep(
                    player.steps,
                    prompt,
                    self._template.render(prompt.view),
                    generated,
                    move,
                    outcome,
                    state,
                    game.state,
                    model_seconds,
                    session.env_seconds - env_before,
                    tuple(images),
                )
            )
        if session.ended is None:
            await session.finish(steps[-1].move.reply)
        return ended(steps, game.success, over=player.over)

    async def _prompt(self, player: StepPlayer) -> Fitted:
        try:
            return await player.prompt(self.rollout_config.prompt_length, self._tokenize, self._size)
        except PromptTooLong as error:
            raise self._too_long(error) from None

    async def _tokenize(self, messages: list[dict[str, Any]]) -> list[int]:
        assert self._row is not None
        tools = None if self._reader.tags else list(self._row.tools)
        if not self._eyes.open:
            return list(await self.ct_build_initial_tokens(messages, tools=tools))
        messages, images = await self._eyes.shown(messages)
        if not images:
            return list(await self.ct_build_initial_tokens(messages, tools=tools))
        # verl's own method refuses what is too long, which `fitted` is to make fit.
        build = partial(self.continuous_token_builder.build_initial_tokens, messages, tools=tools, images=images)
        return list(await self.loop.run_in_executor(None, build))

    async def _check_fits(self, raw_prompt: list[dict[str, Any]]) -> None:
        """Refuse a task that cannot be shown before an episode is opened for it."""
        system_prompt = "\n".join(str(m["content"]) for m in raw_prompt if m["role"] == "system")
        task = str(raw_prompt[-1]["content"])
        view = View(task, "", 1, self._options.max_steps, tags=[tag.name for tag in self._reader.tags])
        messages = messages_of(system_prompt, self._template.render(view))
        tokens, limit = len(await self._tokenize(messages)), self.rollout_config.prompt_length
        if tokens > limit:
            raise self._too_long(
                PromptTooLong(f"step 1: the prompt has {tokens} tokens before anything is seen, over {limit}")
            )

    def _too_long(self, error: PromptTooLong) -> PromptTooLong:
        fix = "raise data.max_prompt_length, or shorten step_prompt and task"
        return PromptTooLong(f"{self._row}: {error} (rollout.prompt_length): {fix}")

    async def _generate(self, prompt_ids: list[int], images: list[Any], sampling_params: dict[str, Any]) -> TokenOutput:
        stops = list({*(sampling_params.get("stop_token_ids") or []), *self._reader.stop_token_ids})
        params = {**sampling_params, "max_tokens": self._budget, **({"stop_token_ids": stops} if stops else {})}
        assert self._row is not None
        attempt, generation = len(self._sessions), len(self._played)
        params = seeded(params, self.rollout_config, self._row, self._fields, attempt=attempt, generation=generation)
        shown = {"image_data": images, "mm_processor_kwargs": self._get_mm_processor_kwargs()} if images else {}
        started = time.monotonic()
        try:
            generated = await self.server_manager.generate(
                request_id=self._request_id, prompt_ids=prompt_ids, sampling_params=self._eyes.sampling(params), **shown
            )
        finally:
            self._model_seconds += time.monotonic() - started
        generated = self._eyes.cut(generated)
        if not generated.token_ids:
            raise RolloutFailed("the rollout server generated no token")
        if len(generated.token_ids) > self._budget:
            cut = {"token_ids": generated.token_ids[: self._budget]}
            if generated.log_probs:
                cut["log_probs"] = generated.log_probs[: self._budget]
            generated = generated.model_copy(update=cut)
        return generated

    def _size(self, text: str) -> int:
        if text not in self._sizes:
            self._sizes[text] = len(self.tokenizer.encode(text, add_special_tokens=False))
        return self._sizes[text]

    def _told(self, steps: Sequence[PlayedStep]) -> dict[str, Any]:
        """What a trace says of an attempt."""
        if self._game is None:
            return {}
        return {
            "steps": tuple(step.traced() for step in steps),
            "calls": self._game.calls,
            "seed": seed_of(self._sessions[-1]),
            "turns": self._game.turns,
            "prompt_tokens": sum(len(step.prompt.prompt_ids) for step in steps),
            "response_tokens": sum(len(step.generated.token_ids) for step in steps),
        }

    def _cap_text_prompt_length(self, prompt_ids: list[int]) -> list[int]:
        """Cut nothing: where verl would cut the prompt from the left, `fitted` makes it fit."""
        return prompt_ids
