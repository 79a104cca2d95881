"""The key-value cache of the CPU rollout: one row of preallocated memory for each sequence, left-aligned.

A sequence's keys and values lie at ``[slot, head, 0:length]``, so rows of different lengths sit side by side without
padding, a decoding step writes one position in each row in place, and attention reads a *view* of the rows that run.
Nothing is copied from step to step, unlike with a cache that is concatenated.

`SlotCache` is a transformers `Cache`: any decoder-only model with full attention in all its layers runs on it through
its own ``forward``. `register_attention` adds an attention function to transformers under the name `ATTENTION`; a model
loaded with ``attn_implementation=ATTENTION`` doesn't copy each key-value head once for every query head that shares it.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface
from transformers.cache_utils import Cache, CacheLayerMixin

ATTENTION = "agent_env_grouped"


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """torch's attention with grouped queries, in transformers' calling convention.

    Args:
        query: ``(rows, heads, queries, head_dim)``; `key` and `value`: ``(rows, key_value_heads, width, head_dim)``.
        attention_mask: ``(rows, 1, queries, width)``, added to the scores; None for causal attention over the queries.
        is_causal: whether attention without a mask is; what looks at pictures says that it is not.
    """
    out = torch.nn.functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=attention_mask,
        dropout_p=dropout,
        scale=scaling,
        is_causal=is_causal is not False and attention_mask is None and query.shape[2] > 1,
        enable_gqa=True,
    )
    return out.transpose(1, 2).contiguous(), None


def register_attention() -> str:
    """Make `grouped_attention` known to transformers; returns the name to load a model with."""
    AttentionInterface.register(ATTENTION, grouped_attention)
    return ATTENTION


class _Layer(CacheLayerMixin):
    """One layer's keys and values, ``(slots, key_value_heads, capacity, head_dim)``, allocated when first written."""

    is_sliding = False

    def __init__(self, cache: SlotCache) -> None:
        super().__init__()
        self._cache = cache

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        slots, capacity = self._cache.slots, self._cache.capacity

        def like(states: torch.Tensor) -> torch.Tensor:
            return states.new_zeros(slots, states.shape[1], capacity, states.shape[3])

        self.keys, self.values = like(key_states), like(value_states)
        self.is_initialized = True

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any) -> Any:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        cache = self._cache
        self.keys[cache.index, :, cache.positions] = key_states.transpose(1, 2)
        self.values[cache.index, :, cache.positions] = value_states.transpose(1, 2)
        rows = slice(cache.first, cache.last)
        return self.keys[rows, :, : cache.width], self.values[rows, :, : cache.width]

    def resize(self, slots: int, capacity: int) -> None:
        """Keep what is there in memory for `slots` rows of `capacity` tokens."""
        for name in ("keys", "values"):
            old = getattr(self, name)
            new = old.new_zeros(slots, old.shape[1], capacity, old.shape[3])
            new[: old.shape[0], :, : old.shape[2]] = old
            setattr(self, name, new)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._cache.width, 0

    def get_seq_length(self) -> int:
        return self._cache.width

    def get_max_cache_shape(self) -> int:
        return self._cache.capacity


class SlotCache(Cache):
    """Memory for `slots` sequences of up to `capacity` tokens, and where the coming forward writes and reads.

    Before a forward over the rows ``first:last``, `aim` says at which positions its tokens belong; it returns the
    attention mask to pass to the model. Both sizes grow by `reserve` and never shrink; `release` gives all memory back.
    """

    def __init__(self, layers: int) -> None:
        self.slots = self.capacity = 0
        self.first = self.last = self.width = 0
        self.index: torch.Tensor = torch.empty(0, dtype=torch.long)
        self.positions: torch.Tensor = self.index
        super().__init__(layers=[_Layer(self) for _ in range(layers)])

    def reserve(self, slots: int, capacity: int) -> None:
        """Have at least `slots` rows of at least `capacity` tokens."""
        slots, capacity = max(slots, self.slots), max(capacity, self.capacity)
        if (slots, capacity) != (self.slots, self.capacity):
            self.slots, self.capacity = slots, capacity
            for layer in self.layers:
                if layer.is_initialized:
                    layer.resize(slots, capacity)

    def release(self) -> None:
        """Give the memory back; the next forward allocates what it needs."""
        self.slots = self.capacity = 0
        for layer in self.layers:
            layer.keys = layer.values = None
            layer.is_initialized = False

    def aim(self, first: int, positions: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Point the coming forward at rows ``first : first + len(positions)``.

        Args:
            positions: ``(rows, queries)``, where in its sequence each token stands. Each row's are consecutive.
            dtype: of the mask, the model's.

        Returns:
            The mask ``(rows, 1, queries, width)``: 0 up to each token's own position, -inf behind it.
        """
        self.first, self.last = first, first + positions.shape[0]
        self.positions = positions
        self.width = int(positions.max()) + 1
        self.index = torch.arange(self.first, self.last)[:, None]
        seen = torch.arange(self.width) <= positions[:, :, None]
        mask = torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, -torch.inf)
        return mask[:, None]

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` tokens of one row over another's."""
        for tensor in self._tensors():
            tensor[target, :, :length] = tensor[source, :, :length]

    def swap(self, one: int, other: int, length: int) -> None:
        """Exchange two rows, of which neither holds more than `length` tokens."""
        for tensor in self._tensors():
            kept = tensor[one, :, :length].clone()
            tensor[one, :, :length] = tensor[other, :, :length]
            tensor[other, :, :length] = kept

    def bytes_per_token(self) -> int:
        """Memory of one token in one row over all layers; 0 before the first forward."""
        return sum(tensor.shape[1] * tensor.shape[3] * tensor.element_size() for tensor in self._tensors())

    def _tensors(self) -> list[torch.Tensor]:
        return [tensor for layer in self.layers if layer.is_initialized for tensor in (layer.keys, layer.values)]
