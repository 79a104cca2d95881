"""A log whose reader stops."""

from __future__ import annotations

import logging
import os
import sys
import time

import pytest

from agent_env.cli import log as log_module
from agent_env.cli.log import BackgroundLog
from support.waiting import within


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("agent_env", logging.WARNING, __file__, 1, text, None, None)


def test_what_is_logged_is_written_in_order(capfd: pytest.CaptureFixture[str]) -> None:
    log = BackgroundLog()
    log.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    for number in range(100):
        log.handle(record(str(number)))
    log.finish()
    assert capfd.readouterr().err.splitlines() == [f"WARNING {number}" for number in range(100)]


def test_a_reader_that_stops_holds_up_nobody_and_learns_what_it_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "LINES", 50)
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as pipe, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", pipe)
        log = BackgroundLog()
        began = time.monotonic()
        for _ in range(1000):  # a pipe has room for 16 of these
            log.handle(record("x" * 4096))
        log.finish()
        assert time.monotonic() - began < within(log_module.LAST_WORDS + 5.0)
        text = ""
        while "lines left out here: nobody read the log)" not in text or text.count("x" * 4096) < 50:
            log.handle(record("again"))
            text += os.read(reading, 1 << 20).decode()
        log.finish()
    os.close(reading)
