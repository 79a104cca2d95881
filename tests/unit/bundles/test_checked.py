"""Every built-in bundle stands its own check."""

import pytest

from agent_env.bundle import built_in_bundles
from agent_env.checking import check_bundle


@pytest.mark.parametrize("name", built_in_bundles())
def test_nothing_is_found(name):
    report = check_bundle(name)
    assert report.findings == ()
    assert "100 of them at once" in report.summary
