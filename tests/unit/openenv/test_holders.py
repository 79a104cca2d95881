"""The pace of a token's requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_env.openenv.holders import Pace, TooManyRequests


def test_a_seconds_worth_comes_at_once_and_the_rest_in_turn() -> None:
    pace = Pace(4)
    waits = [pace.take(100.0, 10) for _ in range(7)]
    assert waits == pytest.approx([0, 0, 0, 0, 0.25, 0.5, 0.75])
    # Half a second later the next one is due in half a second; after a pause a whole second's worth is there again.
    assert pace.take(100.5, 10) == pytest.approx(0.5)
    assert [pace.take(200.0, 10) for _ in range(5)] == pytest.approx([0, 0, 0, 0, 0.25])


def test_a_turn_that_is_too_far_is_not_taken() -> None:
    pace = Pace(2)
    assert [pace.take(0.0, 0) for _ in range(2)] == [0, 0]
    for _ in range(5):
        with pytest.raises(TooManyRequests, match=r"over 2 requests a second with this token, by 0\.5 s"):
            pace.take(0.0, 0.4)
    assert pace.take(0.0, 0.5) == pytest.approx(0.5)


@pytest.mark.parametrize("rate", [0, 0.5, -1, float("nan"), float("inf")])
def test_a_rate_under_one_a_second_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="expected 1 request a second or more"):
        Pace(rate)


@given(st.floats(1, 1e6), st.lists(st.floats(0, 3), max_size=50))
def test_no_second_has_more_than_twice_the_rate(rate: float, pauses: list[float]) -> None:
    pace, now, times = Pace(rate), 0.0, []
    for pause in pauses:
        now += pause
        times.append(now + pace.take(now, 1e9))
    for time in times:
        assert sum(time <= other < time + 1 for other in times) <= 2 * rate + 1e-6
