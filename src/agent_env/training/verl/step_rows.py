"""The rows of an episode in the step layout: one `AgentLoopOutput` a step, with the fields that trainers read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput
from verl.workers.rollout.replica import TokenOutput

from agent_env.training.rollout import Played
from agent_env.training.step_fit import Fitted
from agent_env.training.step_game import Outcome
from agent_env.training.step_moves import Move
from agent_env.training.step_options import StepOptions
from agent_env.training.traces import TraceStep
from agent_env.training.verl.pictures import data_of
from agent_env.training.verl.step_fields import StepFields


@dataclass(frozen=True)
class PlayedStep:
    """A step that was played.

    Args:
        number: from 1.
        prompt: as it was shown.
        message: that the template made of it.
        generated: by the rollout server, cut to the step's budget.
        move: that the reply is.
        outcome: of the move.
        state, next_state: keys of the states before and after it.
        model_seconds, env_seconds: that it took.
        images: that its prompt shows, opened.
    """

    number: int
    prompt: Fitted
    message: str
    generated: TokenOutput
    move: Move
    outcome: Outcome
    state: str
    next_state: str
    model_seconds: float
    env_seconds: float
    images: tuple[Any, ...] = ()

    def traced(self) -> TraceStep:
        """For a trace."""
        return TraceStep(
            number=self.number,
            prompt=self.message,
            reply=self.move.reply,
            action=self.move.action,
            outcome=self.outcome.text,
            format_valid=self.move.format_valid,
            admissible=self.outcome.admissible,
            reward=self.outcome.reward,
            state=self.state,
            next_state=self.next_state,
            terminated=self.outcome.terminated,
            truncated=self.outcome.truncated,
            prompt_tokens=len(self.prompt.prompt_ids),
            cached_tokens=self.generated.extra_fields.get("num_cached_tokens"),
            response_tokens=len(self.generated.token_ids),
            observation_cut=self.prompt.cut,
            images=tuple(self.prompt.view.images),
        )


@dataclass(frozen=True)
class PlayedEpisode:
    """An episode's steps, the last one marked as the end it was.

    Args:
        steps: one or more.
        success: what the environment said of it; None if it said nothing.
    """

    steps: tuple[PlayedStep, ...]
    success: bool | None

    @property
    def truncated(self) -> bool:
        """Whether it was cut off."""
        return self.steps[-1].outcome.truncated

    def info(self, fields: list[StepFields]) -> dict[str, float]:
        """What is reported of it beside its scores, always under the same keys.

        Args:
            fields: of its rows.
        """
        return {
            "steps": len(self.steps),
            "step_rewards": sum(field["step_reward"] for field in fields),
            "invalid_share": sum(not field["valid"] for field in fields) / len(fields),
            "success": float(fields[-1]["success"]),
            "truncated": float(self.truncated),
        }

    def fields(self, reward: float, session: str, options: StepOptions) -> list[StepFields]:
        """Each row's fields.

        Args:
            reward: of the episode.
            session: a key for all of its rows.
        """
        silent = all(step.outcome.reward is None for step in self.steps)
        success = self.success if self.success is not None else reward >= 1.0 and not self.truncated
        return [self._fields(step, reward, session, silent, success, options) for step in self.steps]

    def _fields(
        self, step: PlayedStep, reward: float, session: str, silent: bool, success: bool, options: StepOptions
    ) -> StepFields:
        last = step is self.steps[-1]
        form, admissible = step.move.format_valid, step.outcome.admissible
        valid = {"format": form, "inadmissible": admissible, "either": form and admissible}[options.invalid]
        return StepFields(
            session=session,
            step=step.number - 1,
            last=last,
            step_reward=(reward if last else 0.0) if silent else step.outcome.reward or 0.0,
            episode_reward=reward,
            state=step.state,
            next_state=step.next_state,
            format_valid=form,
            admissible=admissible,
            valid=valid,
            penalty=0.0 if valid else options.invalid_penalty,
            terminated=last and not self.truncated,
            truncated=last and self.truncated,
            success=success,
            counts=not (self.truncated and options.truncated == "leave_out"),
            bootstrap=last and self.truncated and options.truncated == "bootstrap",
        )


def ended(steps: list[PlayedStep], success: bool | None, *, over: bool) -> PlayedEpisode:
    """The episode that `steps` are.

    Args:
        over: whether it came to an end; else it was cut off, unless its environment was at its end.
    """
    last = steps[-1]
    if not over:
        last = replace(last, outcome=replace(last.outcome, truncated=not last.outcome.terminated))
    return PlayedEpisode((*steps[:-1], last), success)


def outputs(
    played: Played[PlayedEpisode], session: str, options: StepOptions, info: dict[str, Any]
) -> list[AgentLoopOutput]:
    """An `AgentLoopOutput` a step, each ending on a token of the model's.

    verl gives every row of a session the last row's ``reward_score`` and ``reward_extra_info``; they are the same here.

    Args:
        info: ``reward_extra_info`` of the rollout.
    """
    episode = played.value
    fields = episode.fields(played.reward, session, options)
    reported = {**info, **episode.info(fields)}
    return [
        _output(step, field, played.reward, reported, len(episode.steps))
        for step, field in zip(episode.steps, fields, strict=True)
    ]


def _output(
    step: PlayedStep, fields: StepFields, reward: float, reported: dict[str, Any], steps: int
) -> AgentLoopOutput:
    generated, prompt_ids = step.generated, step.prompt.prompt_ids
    preempted = -1 if generated.num_preempted is None else generated.num_preempted
    experts = generated.routed_experts
    return AgentLoopOutput(
        prompt_ids=prompt_ids,
        response_ids=list(generated.token_ids),
        response_mask=[1] * len(generated.token_ids),
        response_logprobs=list(generated.log_probs) if generated.log_probs else None,
        routed_experts=None if experts is None else experts[: len(prompt_ids) + len(generated.token_ids)],
        multi_modal_data=data_of(step.images),
        reward_score=reward,
        num_turns=2 * steps,
        metrics=AgentLoopMetrics(
            generate_sequences=step.model_seconds, tool_calls=step.env_seconds, num_preempted=preempted
        ),
        extra_fields={**generated.extra_fields, **fields, "reward_extra_info": dict(reported)},
    )
