"""The variables that name the model which plays a customer."""

import pytest

from agent_env.bundles.tau2.customer import customer


@pytest.fixture(autouse=True)
def nobody(monkeypatch):
    """Whoever runs this may have a model for customers."""
    for name in ("URL", "MODEL", "KEY", "TIMEOUT"):
        monkeypatch.delenv(f"AGENT_ENV_TAU2_USER_{name}", raising=False)


def test_without_them_there_is_nobody():
    assert customer() is None


def test_a_model_behind_an_endpoint(monkeypatch):
    monkeypatch.setenv("AGENT_ENV_TAU2_USER_URL", "http://127.0.0.1:8001/v1")
    monkeypatch.setenv("AGENT_ENV_TAU2_USER_MODEL", "m")
    assert customer() == {"url": "http://127.0.0.1:8001/v1", "model": "m", "key": "none", "timeout": 60.0}
    monkeypatch.setenv("AGENT_ENV_TAU2_USER_KEY", "sk-1")
    monkeypatch.setenv("AGENT_ENV_TAU2_USER_TIMEOUT", "2.5")
    assert customer() == {"url": "http://127.0.0.1:8001/v1", "model": "m", "key": "sk-1", "timeout": 2.5}


@pytest.mark.parametrize(
    ("values", "problems"),
    [
        ({"URL": "http://h/v1"}, "AGENT_ENV_TAU2_USER_MODEL is not set: the one needs the other"),
        ({"MODEL": "m"}, "AGENT_ENV_TAU2_USER_URL is not set: the one needs the other"),
        (
            {"URL": "h:8000", "MODEL": "m", "TIMEOUT": "soon"},
            "AGENT_ENV_TAU2_USER_URL: expected a URL such as http://127.0.0.1:8000/v1, got 'h:8000'; "
            "AGENT_ENV_TAU2_USER_TIMEOUT: expected seconds above 0, got 'soon'",
        ),
    ],
)
def test_variables_that_cannot_be_used(monkeypatch, values, problems):
    for name, value in values.items():
        monkeypatch.setenv(f"AGENT_ENV_TAU2_USER_{name}", value)
    with pytest.raises(ValueError) as caught:
        customer()
    assert str(caught.value) == problems
