import pytest
from pydantic import Field, ValidationError, field_validator

from agent_env.validation import Strict, path, problems_of, suggestion


class Inner(Strict):
    mode: str = "a"
    count: int = 1


class Outer(Strict):
    name: str
    inner: Inner = Inner()
    several: list[Inner] = Field(default_factory=list)

    @field_validator("name")
    @classmethod
    def _short(cls, name):
        if len(name) > 3:
            raise ValueError("too long")
        return name


def problems(data):
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate(data)
    return [str(problem) for problem in problems_of(caught.value, Outer, path)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({}, ["name: 'name' is missing (add it)"]),
        ({"name": "long"}, ["name: too long, got 'long'"]),
        ({"nam": "x", "name": "y"}, ["nam: unknown key 'nam' (did you mean 'name'?)"]),
        ({"name": "y", "inner": {"mod": 1}}, ["inner.mod: unknown key 'mod' (did you mean 'mode'?)"]),
        ({"name": "y", "inner": 3}, ["inner: expected a table with the keys mode, count, got 3"]),
        ({"name": "y", "several": [{}, {"zzz": 1}]}, ["several[1].zzz: unknown key 'zzz' (known: mode, count)"]),
        ({"name": "y", "inner": {"count": "1"}}, ["inner.count: Input should be a valid integer, got '1'"]),
    ],
)
def test_problems_say_where_what_and_what_to_write(data, expected):
    assert problems(data) == expected


def test_suggestions():
    assert suggestion("regx", ["regex", "exact"]) == "did you mean 'regex'?"
    assert suggestion("q", ["regex", "exact"]) == "known: regex, exact"
    assert suggestion("q", []) == "there are none"
