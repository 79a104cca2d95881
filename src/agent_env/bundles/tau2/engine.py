"""tau2-bench itself, in the venv of its own: its databases, tools, simulated customers and evaluation.

``python engine.py`` prints what tasks are made of, see `catalogue`. `agent_env.hosting.engine_process` imports it for
`Episode`. Nothing of AgentEnv can be imported here.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import sys
from collections.abc import Callable
from typing import Any

# Before litellm is imported, which fetches a table of prices otherwise.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

from loguru import logger

logger.remove()
logger.add(sys.stderr, level="ERROR")

from tau2.data_model.message import (  # noqa: E402
    AssistantMessage,
    Message,
    MultiToolMessage,
    ToolCall,
    ToolMessage,
)
from tau2.data_model.simulation import SimulationRun, TerminationReason  # noqa: E402
from tau2.data_model.tasks import Task  # noqa: E402
from tau2.domains.airline.tools import AirlineTools  # noqa: E402
from tau2.domains.retail.tools import RetailTools  # noqa: E402
from tau2.environment.environment import Environment  # noqa: E402
from tau2.environment.tool import Tool  # noqa: E402
from tau2.environment.toolkit import ToolType  # noqa: E402
from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation  # noqa: E402
from tau2.orchestrator.orchestrator import DEFAULT_FIRST_AGENT_MESSAGE  # noqa: E402
from tau2.registry import registry  # noqa: E402
from tau2.user.user_simulator import UserSimulator  # noqa: E402

SOLO = "telecom"
"""The domain that can be played without a customer."""
DOMAINS = ("airline", "retail", SOLO)
MOST_ERRORS = 10
"""Tool calls that may fail before an episode is given up, as tau2-bench has it by default."""
MOST_USER_CALLS = 30
"""Tool calls that a customer may make before they say something."""
MEMORY = 2 * 2**30
"""Bytes of data of an episode's process."""

TASKS: dict[str, dict[str, Task]] = {
    domain: {task.id: task for task in registry.get_tasks_loader(domain)("base")} for domain in DOMAINS
}


def _without_powers(calculate: Callable[[Any, str], str]) -> Callable[[Any, str], str]:
    """tau2-bench's calculator as it is described, for +, -, * and /: a power of powers would take minutes and GiBs."""

    @functools.wraps(calculate)
    def bounded(self: Any, expression: str) -> str:
        if "**" in expression:
            raise ValueError("Invalid operator in expression")
        return calculate(self, expression)

    return bounded


for kit in (AirlineTools, RetailTools):
    kit.calculate = _without_powers(kit.calculate)


def catalogue() -> dict[str, Any]:
    """By domain: the policy, the tools, and the tasks of tau2-bench's splits, each with its reference actions."""
    return {domain: _domain(domain) for domain in DOMAINS}


def _domain(domain: str) -> dict[str, Any]:
    splits = registry.get_task_splits_loader(domain)()
    split_of = {name: split for split, theirs in (("train", "train"), ("eval", "test")) for name in splits[theirs]}
    environment = _environment(domain, solo=False)
    said = {
        "policy": environment.policy,
        "tools": [_described(tool) for tool in environment.get_tools()],
        "tasks": [_task(task, split_of[task.id]) for task in TASKS[domain].values()],
    }
    if domain == SOLO:
        alone = _environment(domain, solo=True)
        said["solo_policy"] = alone.policy
        said["user_tools"] = [_described(tool) for tool in alone.get_user_tools()]
    return said


def _task(task: Task, split: str) -> dict[str, Any]:
    criteria = task.evaluation_criteria
    actions = [{"name": a.name, "arguments": a.arguments, "by": a.requestor} for a in criteria.actions or []]
    told = criteria.communicate_info or []
    return {"id": task.id, "split": split, "ticket": task.ticket, "actions": actions, "told": told}


def _described(tool: Tool) -> dict[str, Any]:
    function = tool.openai_schema["function"]
    return {**function, "parameters": _untitled(function["parameters"])}


def _untitled(schema: Any, named: bool = False) -> Any:
    """A schema without the titles that repeat each name: they cost a model tokens and tell it nothing.

    Args:
        named: whether its keys are names of arguments or types, which may be called ``title``.
    """
    if isinstance(schema, list):
        return [_untitled(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _untitled(value, not named and key in ("properties", "$defs"))
        for key, value in schema.items()
        if named or key != "title"
    }


def _environment(domain: str, *, solo: bool) -> Environment:
    return registry.get_env_constructor(domain)(solo_mode=solo)


class Episode:
    """One task being played. Everything that an agent does is kept, and evaluated by tau2-bench at the end."""

    def __init__(self) -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))

    def start(self, domain: str, task: str, seed: int, customer: dict[str, Any] | None) -> dict[str, Any]:
        """Set the scene; the customer, if there is one, says what they want.

        Args:
            customer: the model that plays them: ``url``, ``model``, ``key``, and ``timeout`` in seconds for one answer
                of it; None to play a ticket without one.
        """
        self.domain, self.task = domain, TASKS[domain][task]
        self.environment = _environment(domain, solo=customer is None)
        begun = self.task.initial_state
        self.environment.set_state(
            begun.initialization_data if begun else None, begun.initialization_actions if begun else None, []
        )
        self.messages: list[Message] = []
        self.errors = 0
        self.ended: TerminationReason | None = None
        self.customer, self.user = customer, None
        self._look()
        if customer is None:
            return self._seen(self.task.ticket)
        self.user = UserSimulator(
            tools=self.environment.get_user_tools() if self.environment.user_tools is not None else None,
            instructions=str(self.task.user_scenario),
            llm=f"openai/{customer['model']}",
            llm_args={
                "api_base": customer["url"],
                "api_key": customer["key"],
                "timeout": customer["timeout"],
                "num_retries": 2,
                "temperature": 0.0,
            },
        )
        self.user.set_seed(seed)
        self.state = self.user.get_init_state()
        return self._say(DEFAULT_FIRST_AGENT_MESSAGE.model_copy())

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool; too many that fail are the end."""
        call = ToolCall(id=f"call-{len(self.messages)}", name=name, arguments=arguments)
        answer = self._answer(call)
        self.messages += [AssistantMessage(role="assistant", tool_calls=[call]), answer]
        if self.errors >= MOST_ERRORS:
            self.ended = TerminationReason.TOO_MANY_ERRORS
        return self._seen(answer.content or "")

    def say(self, text: str) -> dict[str, Any]:
        """Say something to the customer, who answers."""
        return self._say(AssistantMessage(role="assistant", content=text))

    def score(self, reply: str, given_up: bool) -> float:
        """tau2-bench's reward.

        Args:
            reply: the agent's last words.
            given_up: whether the episode was cut short, which scores nothing.
        """
        if self.ended is None:
            if self.user is not None and reply.strip():
                self.messages.append(AssistantMessage(role="assistant", content=reply))
            self.ended = TerminationReason.MAX_STEPS if given_up else TerminationReason.AGENT_STOP
        run = SimulationRun(
            id=self.task.id,
            task_id=self.task.id,
            start_time="",
            end_time="",
            duration=0.0,
            termination_reason=self.ended,
            messages=self.messages,
        )
        return float(evaluate_simulation(run, self.task, EvaluationType.ALL, self.customer is None, self.domain).reward)

    def _say(self, message: Message) -> dict[str, Any]:
        self.messages.append(message)
        for _ in range(MOST_USER_CALLS):
            said = self._simulated(message)
            self.messages.append(said)
            if not said.is_tool_call():
                break
            answers = [self._answer(call) for call in said.tool_calls]
            self.messages += answers
            message = answers[0] if len(answers) == 1 else MultiToolMessage(role="tool", tool_messages=answers)
        else:
            raise RuntimeError(f"the simulated customer called tools {MOST_USER_CALLS} times and said nothing")
        if UserSimulator.is_stop(said):
            self.ended = TerminationReason.USER_STOP
        return self._seen(said.content)

    def _simulated(self, message: Message) -> Any:
        """What the customer does next. Raises RuntimeError if the model that plays them fails."""
        assert self.customer is not None
        assert self.user is not None
        try:
            said, self.state = self.user.generate_next_message(message, self.state)
            said.validate()
        except Exception as error:
            what = f"{type(error).__name__}: {error}".replace(self.customer["key"], "***")
            # Not chained: the key may be in it.
            raise RuntimeError(f"the simulated customer at {self.customer['url']} failed: {what}") from None
        return said

    def _answer(self, call: ToolCall) -> ToolMessage:
        answer = self.environment.get_response(call)
        self.errors += answer.error
        kit = self.environment.user_tools if call.requestor == "user" else self.environment.tools
        if not (kit is not None and kit.has_tool(call.name) and kit.tool_type(call.name) == ToolType.READ):
            self._look()
        return answer

    def _look(self) -> None:
        """See what the databases hold now; they are large, so not after tools that only read."""
        self.held = f"{self.environment.get_db_hash()} {self.environment.get_user_db_hash()}"

    def _seen(self, text: str | None) -> dict[str, Any]:
        ended = "" if self.ended is None else self.ended.value
        return {"text": text or "", "held": self.held, "ended": ended}


if __name__ == "__main__":
    json.dump(catalogue(), sys.stdout)
