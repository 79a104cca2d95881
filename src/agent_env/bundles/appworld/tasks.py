"""The tasks of AppWorld's data, official or our own."""

from __future__ import annotations

from agent_env import Task, Turn

from .data import specs, task_names
from .env import STEPS, TURN

_SYSTEM_PROMPT = f"""\
You do tasks for your supervisor by writing Python code, a piece at a time. It runs in a session that keeps its
variables, and you read what it prints. `apis.APP.API(argument=value)` calls an API of an app:
- print(apis.api_docs.show_app_descriptions()) tells which apps there are;
- print(apis.api_docs.show_api_descriptions(app_name='spotify')) lists an app's APIs;
- print(apis.api_docs.show_api_doc(app_name='spotify', api_name='login')) says what one takes and returns: look first;
- apis.supervisor has your supervisor's profile, account passwords, addresses and payment cards.
Most APIs need an access token, which the app's `login` returns. Lists come in pages: look through all of them. The
phone knows the current date and time, and people by its contacts. Files of the system, processes and the network are
closed to your code. Do only what was asked for.
When the task is done, call apis.supervisor.complete_task(), or complete_task(answer=…) with a short answer, such as a
number or a name, if it was a question. Nothing can be done after that. You have {STEPS} pieces of code."""


def tasks(split: str) -> list[Task]:
    """The tasks of ``train``, ``eval`` (AppWorld's test_normal) or ``eval-unseen`` (its test_challenge)."""
    return [_task(name) for name in task_names(split)]


def _task(name: str) -> Task:
    about = specs(name)
    who = about.get("supervisor") or about["main_user"]
    prompt = (
        f"My name is {who['first_name']} {who['last_name']}, my email address is {who['email']} and my phone number is "
        f"{who['phone_number']}. My task for you: {about['instruction']}"
    )
    return Task(
        name, (Turn(TURN, prompt, {"type": "env"}),), _SYSTEM_PROMPT, {"task": name, "datetime": about["datetime"]}
    )
