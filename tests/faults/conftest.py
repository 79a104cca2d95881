"""The tier of faults (`make faults-test`): every test makes one happen, and tells of it (`support.faults`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.faults import Recorder, check_told, fault

__all__ = ["fault"]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Recorder(), "faults")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    result = yield
    check_told(pyfuncitem)
    return result
