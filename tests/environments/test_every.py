"""What every bundle on an engine of others must stand. A process or thread that is left fails the run."""

import pytest

from agent_env import load_bundle
from agent_env.checking import check_bundle
from agent_env.checking.draw import CALLS_PER_TOOL
from support.bundles import OF_THEIR_OWN_TIER
from support.environment_plays import many_plays, spread

MOST_STEPS = {
    "alfworld": 50,
    "appworld": CALLS_PER_TOOL,
    "tau2": CALLS_PER_TOOL * (13 + 30),
    "textworld": 50,
}
"""Of a player at random: as many as there may be or, of tools, a few calls of each."""

pytestmark = pytest.mark.filterwarnings("ignore::jericho.UnsupportedGameWarning")


@pytest.mark.timeout(6000)
@pytest.mark.parametrize("name", OF_THEIR_OWN_TIER)
def test_its_check_finds_nothing(name):
    report = check_bundle(name)
    assert report.findings == ()
    assert "100 of them at once" in report.summary


@pytest.mark.timeout(6000)
@pytest.mark.parametrize("name", OF_THEIR_OWN_TIER)
async def test_the_demonstrator_solves_100_episodes(name):
    bundle = load_bundle(name)
    plays = await many_plays(bundle, spread(bundle.tasks("all"), 100), bundle.demonstrator)
    assert [play for play in plays if play.reward < 1.0] == []


@pytest.mark.timeout(6000)
@pytest.mark.parametrize("name", OF_THEIR_OWN_TIER)
async def test_100_episodes_at_random_come_to_their_ends(name):
    bundle = load_bundle(name)
    plays = await many_plays(bundle, spread(bundle.tasks("all"), 100), None)
    assert len(plays) == 100
    # None reaches what the demonstrator does: it is no game that plays itself.
    assert sum(play.reward for play in plays) < 50
    assert max(play.steps for play in plays) == MOST_STEPS[name]
