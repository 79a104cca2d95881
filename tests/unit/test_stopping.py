"""A request to end is an exception, and only within."""

import asyncio
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


def test_it_comes_out_of_code_that_makes_another_exception_of_it():
    with pytest.raises(Stopped) as stopped, stopping():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except BaseException:
            raise ImportError("initialization of a compiled module failed") from None
    assert stopped.value.number == signal.SIGTERM
    assert isinstance(stopped.value.__cause__, ImportError)


def test_an_event_loop_lets_it_through():
    went_on = []

    async def work():
        loop = asyncio.get_running_loop()
        loop.call_soon(os.kill, os.getpid(), signal.SIGTERM)  # arrives within a callback of the loop's
        await asyncio.sleep(5)
        went_on.append(True)

    with pytest.raises(Stopped), stopping():
        asyncio.run(work())
    assert went_on == []


def test_a_failure_that_nobody_asked_for_comes_out_as_it_is():
    with pytest.raises(ImportError), stopping():
        raise ImportError("no such module")
