"""A request to end is an exception, and only within."""

import os
import signal

import pytest

from agent_env.stopping import Stopped, signals_wait, stopping


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_an_exception_and_signals_are_as_before_afterwards(number):
    before = signal.getsignal(number)
    with pytest.raises(Stopped) as stopped, stopping():
        os.kill(os.getpid(), number)
    assert stopped.value.number == number
    assert signal.getsignal(number) is before


def test_a_second_one_waits_for_the_end():
    done = []
    with stopping():
        with signals_wait():
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("tidied")
        with pytest.raises(Stopped):
            os.kill(os.getpid(), signal.SIGTERM)
    assert done == ["tidied"]
