"""The author's code in this process: what it may raise, and what becomes of it."""

import pytest

from agent_env import EpisodeError, Task, ToolResult, Turn, load_bundle
from agent_env.hosting.local import LocalHandle
from support.bundles import ENV, write_bundle


def handle(folder, env=ENV):
    return LocalHandle(load_bundle(write_bundle(folder, {"env.py": env})))


TURN = Turn("count", "?", {"type": "env"})
TASK = Task("t", (TURN,), env={"start": 4})


async def test_an_episode(tmp_path):
    host = handle(tmp_path)
    assert (await host.reset(TASK, 0)).text == "The counter shows 4."
    assert await host.call("add", {"amount": 1}) == ToolResult("The counter shows 5.")
    assert await host.call("add", {"amount": 0}) == ToolResult("amount: adding 0 does nothing", True, "tool_error")
    assert await host.score("", TURN) == 1.0
    await host.close()
    await host.close()


async def test_every_reset_makes_a_new_environment(tmp_path):
    host = handle(tmp_path)
    await host.reset(TASK, 0)
    await host.call("add", {"amount": 1})
    assert (await host.reset(TASK, 0)).text == "The counter shows 4."


async def test_nothing_runs_before_reset_or_after_close(tmp_path):
    host = handle(tmp_path)
    for _ in range(2):
        with pytest.raises(EpisodeError, match="the environment was not reset, or is closed"):
            await host.call("add", {"amount": 1})
        with pytest.raises(EpisodeError, match="was not reset, or is closed"):
            await host.score("", TURN)
        await host.reset(TASK, 0)
        await host.close()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("raise ToolError('no')", "reset raised ToolError: no"),
        ("raise SystemExit(2)", "reset raised SystemExit: 2"),
        ("return 'text'", "reset returned a str: return an Observation or None"),
        ("return Observation('x', reward=float('nan'))", "reset raised ValueError: Observation.reward: NaN"),
    ],
)
async def test_what_reset_may_not_do(tmp_path, line, message):
    with pytest.raises(EpisodeError, match=message):
        await handle(tmp_path, ENV.replace("self.value = task", f"{line}\n        self.value = task")).reset(TASK, 0)


async def test_a_verifier_that_fails_names_its_turn(tmp_path):
    host = handle(tmp_path, ENV.replace("return 1.0 if", "1 / 0\n        return 1.0 if"))
    await host.reset(TASK, 0)
    with pytest.raises(EpisodeError, match="the verifier of turn 'count' raised ZeroDivisionError"):
        await host.score("", TURN)
    with pytest.raises(EpisodeError, match="turn 'x' has no verifier"):
        await host.score("", Turn("x", "?"))
