"""Where a model is looked for, by a process of its own each time, with a hub that is a real HTTP server here."""

from __future__ import annotations

import contextlib
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from agent_env.errors import InputError
from agent_env.training.verl.models import load_config, load_tokenizer
from support.peers import free_port
from support.tiny_folder import tiny_folder
from support.tokenizers import save_tokenizer


@contextlib.contextmanager
def hub(status: int, headers: dict[str, str], body: bytes = b"{}") -> Iterator[tuple[str, list[str]]]:
    """A hub that answers everything alike; yields its URL and the requests it was sent."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if "owner" in self.path or "models" in self.path:  # the hub's client asks for things of its own, too
                asked.append(f"{self.command} {self.path}")
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def said(name: str, endpoint: str, tmp_path, *, cwd=None) -> str:
    """What `load_tokenizer` says of a name, with that hub and an empty cache; its process imports transformers never.

    Raises:
        AssertionError: it found something, or printed anything.
    """
    code = (
        "import sys\nfrom agent_env.errors import InputError\n"
        "from agent_env.training.verl.models import load_tokenizer\n"
        f"try:\n    load_tokenizer({name!r}, '--tokenizer')\n"
        "except InputError as error:\n    print(error)\n"
        "assert 'transformers' not in sys.modules"
    )
    environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": ""}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.removesuffix("\n")


@pytest.mark.parametrize("name", ["/no/such/model", "./model", "../model", "model", "a/b/c", "~/model", "a model/b"])
def test_what_no_hub_could_have_is_a_folder_that_is_missing(name):
    with pytest.raises(InputError) as caught:
        load_tokenizer(name, "--tokenizer")
    assert str(caught.value) == f"--tokenizer {name!r}: is no folder (name a model's folder, or OWNER/NAME on the hub)"


def test_a_mistyped_folder_beside_others_is_not_looked_for_on_the_hub(tmp_path):
    (tmp_path / "models" / "game").mkdir(parents=True)
    with hub(404, {}) as (url, asked):
        found = said("models/gmae", url, tmp_path, cwd=tmp_path)
    assert found == "--tokenizer 'models/gmae': is no folder, though models is one (name a model's folder)"
    assert asked == []


def test_a_name_that_the_hub_does_not_have_is_asked_for_once(tmp_path):
    with hub(404, {"X-Error-Code": "RepoNotFound"}) as (url, asked):
        found = said("owner/wrong", url, tmp_path)
    assert found == (
        "--tokenizer 'owner/wrong': is no folder, and no model that the hub shows "
        "(correct the name; for a private one, set HF_TOKEN)"
    )
    assert asked == ["GET /api/models/owner/wrong"]


def test_a_hub_that_fails_is_asked_once(tmp_path):
    with hub(503, {}) as (url, asked):
        found = said("owner/model", url, tmp_path)
    assert "is no folder, is not in the hub's cache here, and the hub cannot be asked: " in found
    assert "503" in found
    assert len(found.splitlines()) == len(asked) == 1


def test_no_hub_at_all_is_one_message(tmp_path):
    found = said("owner/model", f"http://127.0.0.1:{free_port()}", tmp_path)
    assert found.startswith("--tokenizer 'owner/model': is no folder, is not in the hub's cache here, and the hub ")
    assert len(found.splitlines()) == 1


def test_what_a_folder_lacks_is_said_at_once(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError) as caught:
        load_config(str(empty), "--model")
    where = f"--model {str(empty)!r}: holds no"
    assert [str(problem).split(" (")[0] for problem in caught.value.problems] == [
        f"{where} tokenizer",
        f"{where} config",
        f"{where} weights",
    ]
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"^--tokenizer '.*file': is a file \(name a model's folder"):
        load_tokenizer(str(tmp_path / "file"), "--tokenizer")
    with pytest.raises(InputError, match=r"^--model: is missing \(`agent-env warm-start"):
        load_config("", "--model")


def test_a_message_of_several_lines_is_said_whole_in_one(tmp_path):
    folder = save_tokenizer(tmp_path / "model")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(InputError) as caught:
        load_tokenizer(str(folder), "--tokenizer")
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"--tokenizer {str(folder)!r}: its tokenizer cannot be loaded: ")
    # transformers lists three ways to make a tokenizer; a message that ends before them says nothing.
    assert "(1)" in line
    assert "(3)" in line


def test_a_broken_file_and_a_missing_template_are_named(tmp_path):
    broken = save_tokenizer(tmp_path / "broken")
    (broken / "tokenizer.json").write_text("{")
    with pytest.raises(InputError, match=r"its tokenizer cannot be loaded: .*line 1 column 2"):
        load_tokenizer(str(broken), "--tokenizer")
    with pytest.raises(InputError, match="has no chat template"):
        load_tokenizer(str(save_tokenizer(tmp_path / "plain", template=None)), "--tokenizer")


def test_a_folder_that_is_whole_is_loaded(tmp_path):
    folder = str(tiny_folder(tmp_path / "model"))
    assert load_config(folder, "--model").model_type == "qwen3"
    assert load_tokenizer(folder, "--model").chat_template
