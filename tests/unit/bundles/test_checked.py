"""Every built-in bundle whose packages are installed stands its own check."""

import pytest

from agent_env.bundle import built_in_bundles
from agent_env.checking import check_bundle
from agent_env.install.installer import setup_of


@pytest.mark.parametrize("name", [name for name in built_in_bundles() if not setup_of(name).lacks])
def test_nothing_is_found(name):
    report = check_bundle(name)
    assert report.findings == ()
    assert "100 of them at once" in report.summary
