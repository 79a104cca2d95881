"""How a loop shows pictures to a model of verl's: as Pillow images, which its processor makes tokens and features of.

A picture takes up a run of placeholder tokens in the prompt. Those must be as many as the features that the model makes
of the pictures, or a row cannot be trained on; and they are the processor's alone to write. So a placeholder that a
text spells is not read as one, and one that the model would draw is not drawn.
"""

from __future__ import annotations

import asyncio
import bisect
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from verl.utils.tokenizer import get_processor_token_id
from verl.workers.rollout.replica import TokenOutput

from agent_env.errors import EpisodeFailed, RolloutFailed
from agent_env.pictures import opened

Json = dict[str, Any]

NOT_DRAWN = -100.0
"""Added to the logit of a placeholder: the least that vLLM takes, and enough that no token is ever drawn by it."""
_MARKS = ("vision_start_token_id", "vision_end_token_id")
"""Names of the tokens around a picture, in the configuration of a model that has them."""


class Eyes:
    """What a model's processor makes of pictures; of no use, and harmless, for a model that has none.

    Args:
        processor: verl's, None for a model of text alone.
        tokenizer: of the model.
    """

    def __init__(self, processor: Any, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.open = getattr(processor, "image_processor", None) is not None
        self._image = get_processor_token_id(processor, "image") if self.open else None
        config = getattr(processor, "config", None)
        marks = [getattr(config, name, None) for name in _MARKS] if self.open else []
        drawn_by_none = [self._image, get_processor_token_id(processor, "video") if self.open else None, *marks]
        self.placeholders = frozenset(token for token in drawn_by_none if token is not None)
        spelled = [text for text in map(self._text, sorted(self.placeholders)) if text]
        self._spelled = {text: f"{text[0]} {text[1:]}" for text in spelled}
        self._seen: dict[str, Any] = {}

    async def look(self, url: str) -> Any:
        """The picture at a ``data:`` URL as a Pillow image, opened once.

        Raises:
            EpisodeFailed: it is none, or cannot be read: the environment has failed.
        """
        if url not in self._seen:
            try:
                self._seen[url] = await asyncio.to_thread(opened, url)
            except ValueError as error:
                raise EpisodeFailed(f"a picture that no model can be shown: {error}") from error
        return self._seen[url]

    async def shown(self, messages: Sequence[Json]) -> tuple[list[Json], list[Any]]:
        """Messages as the model is shown them, and their pictures in order, opened."""
        images: list[Any] = []
        made = []
        for message in messages:
            content = message["content"]
            if isinstance(content, list):
                content = [await self._block(block, images) for block in content]
            elif isinstance(content, str):
                content = self.plain(content)
            made.append({**message, "content": content})
        return made, images

    async def _block(self, block: Json, images: list[Any]) -> Json:
        if block["type"] != "image":
            return {**block, "text": self.plain(block["text"])}
        image = block["image"]
        image = await self.look(image) if isinstance(image, str) else image
        images.append(image)
        return {**block, "image": image}

    def plain(self, text: str) -> str:
        """A text in which no placeholder is spelled: ``< |image_pad|>`` for ``<|image_pad|>``."""
        for spelled, harmless in self._spelled.items():
            text = text.replace(spelled, harmless)
        return text

    def sampling(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Sampling parameters by which no placeholder is drawn."""
        if not self.placeholders:
            return dict(params)
        bias = {**(params.get("logit_bias") or {}), **dict.fromkeys(sorted(self.placeholders), NOT_DRAWN)}
        return {**params, "logit_bias": bias}

    def cut(self, output: TokenOutput) -> TokenOutput:
        """What was drawn, up to the first placeholder that a server drew nevertheless, or that is spelled in letters.

        verl makes features of a row's text, where one is as good as the other.

        Raises:
            RolloutFailed: that is the first token.
        """
        drawn = [n for n, token in enumerate(output.token_ids) if token in self.placeholders]
        kept = drawn[0] if drawn else self._spelled_at(output.token_ids)
        if kept is None:
            return output
        if kept == 0:
            raise RolloutFailed("the rollout server drew a picture's placeholder, though its logit_bias is -100")
        changed: Json = {"token_ids": output.token_ids[:kept]}
        if output.log_probs:
            changed["log_probs"] = output.log_probs[:kept]
        return output.model_copy(update=changed)

    def within(self, token_ids: Sequence[int], images: Sequence[Any]) -> list[Any]:
        """Those of `images`, the first ones, whose placeholders are in a row's tokens.

        Raises:
            RolloutFailed: there are more runs of placeholders than images.
        """
        runs = sum(1 for token, _ in itertools.groupby(token_ids) if token == self._image) if self.open else 0
        if runs > len(images):
            raise RolloutFailed(f"a row has placeholders of {runs} pictures, and shows {len(images)}")
        return list(images[:runs])

    def _spelled_at(self, token_ids: Sequence[int]) -> int | None:
        """How many tokens come before the one that completes a placeholder in letters; None if there is none."""

        def spells(count: int) -> bool:
            text = self._tokenizer.decode(token_ids[:count], skip_special_tokens=True)
            return any(spelled in text for spelled in self._spelled)

        if not self._spelled or not spells(len(token_ids)):
            return None
        return bisect.bisect_left(range(len(token_ids) + 1), True, key=spells) - 1

    def _text(self, token: int) -> str:
        return str(self._tokenizer.convert_ids_to_tokens(token) or "")


def data_of(images: Sequence[Any]) -> dict[str, Any] | None:
    """A row's ``multi_modal_data``; None if it shows no picture."""
    return {"images": list(images)} if images else None
