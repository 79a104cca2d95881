"""Labels, of groups, trajectories and states, as whole numbers: equal labels, equal numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Sequence
from itertools import count, repeat
from operator import is_
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def listed(labels: Any) -> Sequence[Any]:
    """Labels as an array of integers if they are one, as a list of Python objects otherwise."""
    if hasattr(labels, "__array__"):  # a tensor's elements would be compared by identity
        labels = np.asarray(labels)
    if isinstance(labels, np.ndarray) and labels.ndim == 1:
        kept: Sequence[Any] = labels if labels.dtype.kind in "iu" else labels.tolist()  # type: ignore[assignment]
        return kept
    return list(labels)


def missing(labels: Sequence[Any]) -> BoolArray:
    """Where a label is None."""
    if isinstance(labels, np.ndarray):
        return np.zeros(len(labels), bool)
    return np.fromiter(map(is_, labels, repeat(None)), bool, len(labels))


def ranks(labels: Sequence[Any]) -> IntArray:
    """Each label's place among the distinct ones in sorted order, whatever the order of the rows.

    Raises:
        TypeError: a label is not hashable.
    """
    if isinstance(labels, np.ndarray):
        return np.unique(labels, return_inverse=True)[1].astype(np.int64)
    distinct = dict.fromkeys(labels)
    try:
        ordered = sorted(distinct)
    except TypeError:  # labels of several types have no order of their own
        ordered = sorted(distinct, key=repr)
    return _numbered(labels, ordered)


def codes(labels: Sequence[Any]) -> IntArray:
    """A number for each label, in order of first appearance.

    Raises:
        TypeError: a label is not hashable.
    """
    if isinstance(labels, np.ndarray):
        return np.unique(labels, return_inverse=True)[1].astype(np.int64)
    return _numbered(labels, dict.fromkeys(labels))


def pairs(first: IntArray, second: IntArray) -> IntArray:
    """One number for each distinct pair, in sorted order of the pairs. Both hold numbers of 0 and more."""
    width = int(second.max(initial=0)) + 1
    number: IntArray = np.unique(first * width + second, return_inverse=True)[1]
    return number


def hashable(state: Any) -> Hashable:
    """An image (an array, or anything with ``tobytes``) as the hash of its bytes and its form; else what it is.

    Raises:
        TypeError: it is neither an image nor hashable.
    """
    if hasattr(state, "__array__") and not isinstance(state, np.generic):
        state = np.asarray(state)
    if hasattr(state, "tobytes") and not isinstance(state, (memoryview, np.generic)):
        form = tuple(str(getattr(state, name, "")) for name in ("shape", "size", "dtype", "mode"))
        return (*form, hashlib.blake2b(state.tobytes(), digest_size=16).digest())
    hash(state)
    return state  # type: ignore[no-any-return]


def _numbered(labels: Sequence[Any], distinct: Iterable[Any]) -> IntArray:
    number = dict(zip(distinct, count(), strict=False))
    return np.fromiter(map(number.__getitem__, labels), np.int64, len(labels))
