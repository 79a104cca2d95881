import dataclasses
import enum
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from agent_env.jsonable import nonfinite, plain, surrogate

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (1.5, None),
        ({"a": [1.0, None]}, None),
        (math.nan, ""),
        ({"cost": math.inf}, ".cost"),
        ([0, {"x": (1, -math.inf)}], "[1].x[1]"),
        (np.float64("nan"), ""),
    ],
)
def test_nonfinite_names_the_place(value, path):
    assert nonfinite(value) == path


@pytest.mark.parametrize(
    ("value", "path"),
    [("ß ☃ 😀", None), ("\ud83d", ""), ({"a": ["b", "x\ud83dy"]}, ".a[1]"), ({"\udc00": 1}, ".\udc00")],
)
def test_surrogate_names_the_place(value, path):
    assert surrogate(value) == path


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    colour: Colour


class Model(BaseModel):
    points: list[Point]


def test_plain_takes_what_an_author_has():
    assert plain(Model(points=[Point(1, Colour.RED)])) == {"points": [{"x": 1, "colour": "red"}]}
    assert plain({"n": np.int64(3), "a": np.arange(2), "t": (1, 2)}) == {"n": 3, "a": [0, 1], "t": [1, 2]}


@given(JSON)
def test_plain_leaves_json_as_it_is(value):
    assert plain(value) == value


def test_plain_refuses_what_has_no_json_form():
    with pytest.raises(ValueError, match=r"a dict that is not JSON-able.*object"):
        plain({"a": object()})
    with pytest.raises(ValueError, match=r"NaN or an infinity at \.a\[0\]"):
        plain({"a": [math.nan]})
    with pytest.raises(ValueError, match="NaN or an infinity"):
        plain(np.array([1.0, math.inf]))
