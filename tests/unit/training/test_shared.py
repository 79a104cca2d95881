"""What all sessions share: the address, the token's variable, the limits."""

from __future__ import annotations

import contextlib
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_env.errors import InputError
from agent_env.training.shared import Shared


def test_it_is_hashable_and_survives_pickling():
    shared = Shared("http://env:8000", "TOKEN")
    assert {shared: 1}[pickle.loads(pickle.dumps(shared))] == 1


@pytest.mark.parametrize(
    ("url", "socket_url"),
    [
        ("http://env:8000", "ws://env:8000/ws"),
        ("http://env:8000/", "ws://env:8000/ws"),
        ("https://env", "wss://env/ws"),
        ("http://env/arena/", "ws://env/arena/ws"),
        ("http://[::1]:8000", "ws://[::1]:8000/ws"),
    ],
)
def test_sessions_are_opened_below_the_url(url, socket_url):
    assert Shared(url).socket_url == socket_url


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://localhost:1", True),
        ("http://a.localhost:1", True),
        ("http://127.9.9.9:1", True),
        ("http://[::1]:1", True),
        ("http://env:1", False),
        ("http://10.0.0.1:1", False),
        ("http://localhost.example", False),
    ],
)
def test_what_is_loopback_and_never_proxied(url, loopback):
    assert Shared(url).loopback is loopback


@pytest.mark.parametrize(
    "url",
    [
        "",
        "env:8000",
        "ws://env",
        "ftp://env",
        "http://",
        "http://env:99999",
        "http://env:0",
        "http://env?x=1",
        "http://e v",
    ],
)
def test_what_is_no_url_is_refused(url):
    with pytest.raises(InputError, match="HOST:PORT"):
        Shared(url)


def test_a_password_in_the_url_is_refused_and_not_repeated():
    with pytest.raises(InputError) as caught:
        Shared("http://me:hunter2@env:8000")
    assert "put a token into a variable" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_every_problem_is_said_at_once():
    with pytest.raises(InputError) as caught:
        Shared("env", "", connect_timeout=0, call_timeout=float("nan"), reset_timeout=True, max_message_bytes=1.5)
    assert len(caught.value.problems) == 6


@pytest.mark.parametrize("value", ["", "new\nline", "snow☃", "\x00", " padded "])
def test_a_token_that_no_header_carries_is_refused_and_not_repeated(monkeypatch, value):
    shared = Shared("http://env", "TOKEN_OF_TEST")
    if "\0" not in value:
        monkeypatch.setenv("TOKEN_OF_TEST", value)
    else:
        monkeypatch.delenv("TOKEN_OF_TEST", raising=False)
    with pytest.raises(InputError, match="environment variable TOKEN_OF_TEST") as caught:
        _ = shared.token
    assert not value or value not in str(caught.value)


def test_without_a_variable_there_is_no_token():
    assert Shared("http://env").token is None
    assert Shared("http://env").headers == {}


@given(st.text("htps:/[].@?#%0 é\\\n"))
@settings(deadline=None)
def test_any_text_is_a_url_or_an_input_error(text):
    for url in (text, f"http://{text}", f"http://env{text}"):
        with contextlib.suppress(InputError):
            assert Shared(url).socket_url.startswith("ws")
