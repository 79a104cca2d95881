"""Formulas: what one comes to, in exact fractions, and which formulas of some numbers come to a target.

::

    sum     = product {("+" | "-") product}
    product = factor {("*" | "/") factor}
    factor  = number | "(" sum ")"
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

Formula = tuple[str, ...]
"""Symbols: numbers as digits, ``+ - * / ( )``."""


def value(symbols: Sequence[str]) -> Fraction | None:
    """What a formula comes to; None if it is none, or divides by zero."""
    try:
        return _Parser(symbols).whole()
    except (_NoFormula, ZeroDivisionError):
        return None


class _NoFormula(Exception):
    """The symbols are no formula."""


class _Parser:
    """Reads a formula from left to right, a method a rule of the grammar."""

    def __init__(self, symbols: Sequence[str]) -> None:
        self._rest = [*reversed(symbols)]

    def whole(self) -> Fraction:
        result = self._sum()
        if self._rest:
            raise _NoFormula
        return result

    def _sum(self) -> Fraction:
        result = self._product()
        while sign := self._next("+-"):
            result = result + self._product() if sign == "+" else result - self._product()
        return result

    def _product(self) -> Fraction:
        result = self._factor()
        while sign := self._next("*/"):
            result = result * self._factor() if sign == "*" else result / self._factor()
        return result

    def _factor(self) -> Fraction:
        if self._next("("):
            result = self._sum()
            if not self._next(")"):
                raise _NoFormula
            return result
        if not (self._rest and self._rest[-1].isdecimal()):
            raise _NoFormula
        return Fraction(self._rest.pop())

    def _next(self, accepted: str) -> str:
        """Take the next symbol if it is one of `accepted`; "" if it is not."""
        return self._rest.pop() if self._rest and self._rest[-1] in tuple(accepted) else ""


class _Part(NamedTuple):
    """A formula, what it comes to, and how loosely it binds: 0 a number, 1 a product, 2 a sum."""

    value: Fraction
    symbols: Formula
    loose: int


@lru_cache(maxsize=2048)
def can_make(numbers: tuple[int, ...], target: int) -> bool:
    """Whether some formula with each of `numbers` once comes to `target`."""

    def joined(values: list[Fraction]) -> bool:
        if len(values) == 1:
            return values[0] == target
        for (i, one), (j, other) in combinations(enumerate(values), 2):
            rest = [value for place, value in enumerate(values) if place not in (i, j)]
            results = {one + other, one - other, other - one, one * other}
            results |= {one / other} if other else set()
            results |= {other / one} if one else set()
            if any(joined([*rest, result]) for result in results):
                return True
        return False

    return joined([Fraction(number) for number in numbers])


@lru_cache(maxsize=2048)
def solutions(numbers: tuple[int, ...], target: int, signs: str = "+-*/") -> tuple[Formula, ...]:
    """Formulas with each of `numbers` once that come to `target`, the shortest first; none twice.

    Two parts are joined to one as long as there are two, in every way: what no such play reaches, no formula does.
    """
    found: dict[Formula, None] = {}

    def join(parts: list[_Part]) -> None:
        if len(parts) == 1:
            if parts[0].value == target:
                found[parts[0].symbols] = None
            return
        for one in range(len(parts)):
            for other in range(len(parts)):
                if one != other:
                    rest = [part for place, part in enumerate(parts) if place not in (one, other)]
                    for sign in signs:
                        if sign != "/" or parts[other].value:
                            join([*rest, _joined(parts[one], sign, parts[other])])

    join([_Part(Fraction(number), (str(number),), 0) for number in numbers])
    return tuple(sorted(found, key=lambda symbols: (len(symbols), symbols)))


def _joined(left: _Part, sign: str, right: _Part) -> _Part:
    loose = 2 if sign in "+-" else 1
    symbols = (
        *_bracketed(left, left.loose > loose),
        sign,
        *_bracketed(right, right.loose > loose or (right.loose == loose and sign in "-/")),
    )
    match sign:
        case "+":
            result = left.value + right.value
        case "-":
            result = left.value - right.value
        case "*":
            result = left.value * right.value
        case _:
            result = left.value / right.value
    return _Part(result, symbols, loose)


def _bracketed(part: _Part, needed: bool) -> Formula:
    return ("(", *part.symbols, ")") if needed else part.symbols
