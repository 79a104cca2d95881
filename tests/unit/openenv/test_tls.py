"""https: a real server with a certificate made for the test, and our client, which verifies it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_env.errors import InputError, NotATaskServer
from agent_env.openenv.server import check_certificate
from agent_env.training import tls
from agent_env.training.sessions import Shared, opened, read_tasks
from support.certificates import self_signed
from support.servers import Server, serving
from support.trials import write_trials


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return self_signed(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, certificate: tuple[Path, Path]) -> Iterator[Server]:
    options = ["--ssl-certfile", str(certificate[0]), "--ssl-keyfile", str(certificate[1])]
    options += ["--token-var", "TOKEN_OF_TEST"]
    with serving(write_trials(tmp_path_factory.mktemp("trials")), *options, env={"TOKEN_OF_TEST": "s3cret"}) as server:
        yield server


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A client that has not yet read what it trusts."""
    monkeypatch.setenv("TOKEN_OF_TEST", "s3cret")
    tls.context.cache_clear()
    yield
    tls.context.cache_clear()


async def test_a_client_that_trusts_the_certificate_reads_and_plays(
    server: Server, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert server.url.startswith("https://127.0.0.1:")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    shared = Shared(server.url, "TOKEN_OF_TEST")
    assert [row.id for row in (await read_tasks(shared)).splits["eval"]] == ["held-out"]
    async with opened(shared, "train", 0) as session:
        assert (await session.call("echo", {"text": "x" * 60000})).text == "x" * 60000
        ended = await session.end_turn("0.5")
    assert ended.reward == 0.5  # type: ignore[union-attr]


async def test_a_client_that_does_not_refuses_at_once(server: Server) -> None:
    shared = Shared(server.url, "TOKEN_OF_TEST")
    with pytest.raises(NotATaskServer, match=r"TLS failed \(self.signed certificate\).*SSL_CERT_FILE"):
        await read_tasks(shared)
    with pytest.raises(NotATaskServer, match=r"TLS failed \(self.signed certificate\).*SSL_CERT_FILE"):
        async with opened(shared, "train", 0, waits_for_server=True):
            pass


async def test_a_certificate_of_another_host_is_refused(
    certificate: tuple[Path, Path], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    shared = Shared(server.url.replace("127.0.0.1", "localhost"), "TOKEN_OF_TEST")
    with pytest.raises(NotATaskServer, match=r"Hostname mismatch.*localhost"):
        await read_tasks(shared)
    with pytest.raises(NotATaskServer, match=r"Hostname mismatch.*localhost"):
        async with opened(shared, "train", 0):
            pass


def test_files_that_tls_cannot_be_served_with(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    cert, key = map(str, certificate)
    check_certificate(None, None)
    check_certificate(cert, key)
    both = tmp_path / "both.pem"
    both.write_text(certificate[0].read_text() + certificate[1].read_text())
    check_certificate(str(both), None)
    (tmp_path / "locked").mkdir()
    locked = self_signed(tmp_path / "locked", password="word")
    (tmp_path / "other").mkdir()
    other = self_signed(tmp_path / "other")
    for files, words in [
        ((None, key), "--ssl-keyfile: is a key without a certificate"),
        ((cert, str(tmp_path / "none")), "--ssl-certfile: .*No such file"),
        ((cert, None), "--ssl-certfile: .*cannot be used"),
        ((cert, str(other[1])), "--ssl-certfile: .*(?i:mismatch)"),
        ((str(locked[0]), str(locked[1])), "--ssl-certfile: .*without a password"),
    ]:
        with pytest.raises(InputError, match=words):
            check_certificate(*files)
