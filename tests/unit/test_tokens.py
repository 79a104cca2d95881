"""Where a token is: a variable, or a file with a token a line."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from agent_env.errors import InputError
from agent_env.tokens import MAX_FILE, TokenSource


def written(tmp_path: Path, content: bytes) -> TokenSource:
    file = tmp_path / "tokens"
    file.write_bytes(content)
    return TokenSource(file=str(file))


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        (b"one", ("one",)),
        (b"one\n", ("one",)),
        (b"new\nold\n", ("new", "old")),
        (b"\r\n  new\t\r\n\r\n old \r\n", ("new", "old")),
        (b"one\ntwo\none\n", ("one", "two")),
        (b"#is+a/token=\n", ("#is+a/token=",)),
    ],
)
def test_a_file_has_a_token_a_line(tmp_path: Path, content: bytes, tokens: tuple[str, ...]) -> None:
    assert written(tmp_path, content).read() == tokens


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "holds no token"),
        (b" \n\r\n", "holds no token"),
        (b"fine\nsecret word\n", "line 2: holds a character other than visible ASCII"),
        (b"\xef\xbb\xbfsecret\n", "line 1: holds a character other than visible ASCII"),
        (b"secret\x85x\n", "line 1: holds a character other than visible ASCII"),
        (b"secret\0\n", "line 1: holds a character other than visible ASCII"),
        (b"x" * (MAX_FILE + 1), "has more than 65536 bytes"),
    ],
)
def test_a_file_that_holds_no_tokens_is_refused_and_not_repeated(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(InputError) as caught:
        written(tmp_path, content).read()
    assert words in str(caught.value)
    assert str(tmp_path / "tokens") in str(caught.value)
    assert "secret" not in str(caught.value)


def test_what_is_no_file_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        TokenSource(file=str(tmp_path / "none")).read()
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        TokenSource(file=str(tmp_path)).read()
    with pytest.raises(InputError, match="is no regular file"):
        TokenSource(file="/dev/null").read()


def test_a_pipe_is_refused_although_nobody_writes_to_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is no regular file"):
        TokenSource(file=str(tmp_path / "pipe")).read()


def test_a_variable_has_one_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_OF_TEST", "one")
    assert TokenSource("TOKEN_OF_TEST").read() == ("one",)
    monkeypatch.delenv("TOKEN_OF_TEST")
    with pytest.raises(InputError, match="environment variable TOKEN_OF_TEST: is not set"):
        TokenSource("TOKEN_OF_TEST").read()


def test_no_place_has_no_token() -> None:
    assert not TokenSource()
    assert (TokenSource().read(), TokenSource().options) == ((), [])


def test_a_place_is_absolute_hashable_and_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = TokenSource(file="tokens")
    assert source.options == ["--token-file", str(tmp_path / "tokens")]
    assert {source: 1}[pickle.loads(pickle.dumps(source))] == 1
    assert TokenSource("NAME").options == ["--token-var", "NAME"]


@pytest.mark.parametrize(
    "place", [{"var": ""}, {"var": "a=b"}, {"file": ""}, {"file": "a\0b"}, {"var": "A", "file": "b"}]
)
def test_what_is_no_place_is_refused(place: dict[str, str]) -> None:
    with pytest.raises(InputError):
        TokenSource(**place)
