"""Makes a step's prompt fit: memory gives way first, then the middle of what is observed in words.

Task, actions and pictures never give way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from agent_env.errors import PromptTooLong
from agent_env.step_prompt import View
from agent_env.training.memory import Memory, Size

Build = Callable[[View], Awaitable[list[int]]]
"""The token ids of the whole prompt that a view makes."""


TRIES = 6
"""Budgets that a memory is asked to keep to, each smaller, before the prompt goes without."""


@dataclass(frozen=True)
class Fitted:
    """A prompt that fits.

    Args:
        view: as it is shown.
        prompt_ids: its tokens.
        cut: characters of the observation that were left out.
    """

    view: View
    prompt_ids: list[int]
    cut: int = 0


async def fitted(view: View, memory: Memory, limit: int, build: Build, size: Size) -> Fitted:
    """The prompt of a step in at most `limit` tokens.

    Args:
        view: without a memory.
        memory: of the episode.
        limit: tokens that the whole prompt may have.
        build: makes the prompt.
        size: tokens of a text, for the memory.

    Raises:
        PromptTooLong: task, actions and template alone are too long.
    """
    remembering = replace(view, memory=memory.render(view.observation, limit, size))
    prompt_ids = await build(remembering)
    if len(prompt_ids) <= limit:
        return Fitted(remembering, prompt_ids)
    bare = await build(view) if remembering.memory else prompt_ids
    if len(bare) > limit:
        return await _cut(view, limit, build)
    # What the template writes around a memory takes room, too.
    around = len(prompt_ids) - len(bare) - size(remembering.memory)
    budget = limit - len(bare) - around
    for attempt in range(TRIES):
        remembering = replace(view, memory=memory.render(view.observation, max(0, budget), size))
        if not remembering.memory:
            break
        prompt_ids = await build(remembering)
        if len(prompt_ids) <= limit:
            return Fitted(remembering, prompt_ids)
        # Tokens are not sizes added up, and a user's own memory may not keep to its budget.
        budget -= (len(prompt_ids) - limit) * 2**attempt
    return Fitted(view, bare)


async def _cut(view: View, limit: int, build: Build) -> Fitted:
    """The prompt with as much of the observation's ends as fits."""
    whole = view.observation
    kept, most = -1, len(whole) - 1
    best: Fitted | None = None
    while kept < most:
        middle = (kept + most + 1) // 2
        shown = replace(view, observation=without_middle(whole, middle))
        prompt_ids = await build(shown)
        if len(prompt_ids) <= limit:
            kept, best = middle, Fitted(shown, prompt_ids, len(whole) - middle)
        else:
            most = middle - 1
    if best is None:
        tokens = len(await build(replace(view, observation=without_middle(whole, 0) if whole else "")))
        with_images = f", with its {len(view.images)} picture{'s' * (len(view.images) > 1)}" if view.images else ""
        raise PromptTooLong(
            f"step {view.step}: without memory and observation the prompt still has {tokens} tokens{with_images}, over "
            f"{limit}"
        )
    return best


def without_middle(text: str, kept: int) -> str:
    """`text` with `kept` characters of its two ends, and a mark that says how many are missing between them."""
    head = (kept + 1) // 2
    mark = f"[... {len(text) - kept} characters left out ...]"
    return "\n".join(part for part in (text[:head], mark, text[len(text) - (kept - head) :]) if part)
