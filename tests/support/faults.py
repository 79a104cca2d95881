"""What the tests of faults tell: each fault, what was injected, what was seen, what was lost.

A test takes the fixture `fault` and sets its four texts; one that passes must have set them all. At the end there is a
line a fault, and the same in a file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

REPORT = Path(__file__).resolve().parents[2] / ".cache" / "faults.json"

_PROPERTY = "fault"


@dataclass
class Fault:
    """One fault, in words.

    Args:
        fault: what goes wrong, as docs/reliability.md calls it.
        injected: what the test did to make it happen, with numbers.
        seen: what came of it, with numbers.
        lost: what it cost; ``nothing`` if nothing.
    """

    fault: str = ""
    injected: str = ""
    seen: str = ""
    lost: str = ""


@pytest.fixture
def fault(request: pytest.FixtureRequest) -> Iterator[Fault]:
    """What this test tells of its fault."""
    told = Fault()
    yield told
    request.node.user_properties.append((_PROPERTY, asdict(told)))


def check_told(function: pytest.Function) -> None:
    """Fail for a test that came to its end without having told everything."""
    told = function.funcargs.get("fault")
    assert told is not None, "a test of this tier tells of its fault: take the fixture `fault`"
    untold = [name for name, text in asdict(told).items() if not text]
    assert not untold, f"the test did not tell of its fault: {', '.join(untold)}"


class Recorder:
    """Gathers, where the run is controlled, what the tests of every worker told."""

    def __init__(self) -> None:
        self.failed: set[str] = set()
        self.told: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)
        if report.when == "teardown":
            for name, told in report.user_properties:
                if name == _PROPERTY:
                    self.told.append({**told, "test": report.nodeid})  # type: ignore[dict-item]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        told = [{**one, "passed": one["test"] not in self.failed} for one in self.told]
        if not told:
            return
        REPORT.parent.mkdir(exist_ok=True)
        fresh = REPORT.with_suffix(".writing")
        fresh.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(fresh, REPORT)
        terminalreporter.section(f"faults ({REPORT.relative_to(REPORT.parents[1])})")
        for one in told:
            mark = "survived" if one["passed"] else "FAILED"
            said = f"injected: {one['injected']} | seen: {one['seen']} | lost: {one['lost']}"
            terminalreporter.line(f"{mark} {one['fault']} | {said}")
