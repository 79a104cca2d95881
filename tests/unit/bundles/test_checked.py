"""Every built-in bundle whose packages are installed stands its own check; tests/environments is for the slow ones."""

import pytest

from agent_env.bundle import built_in_bundles
from agent_env.checking import check_bundle
from agent_env.install.installer import setup_of
from support.bundles import OF_THEIR_OWN_TIER

CHECKED = [name for name in built_in_bundles() if not setup_of(name).lacks and name not in OF_THEIR_OWN_TIER]


@pytest.mark.parametrize("name", CHECKED)
def test_nothing_is_found(name):
    report = check_bundle(name)
    assert report.findings == ()
    assert "100 of them at once" in report.summary
