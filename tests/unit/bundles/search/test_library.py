"""What the variables of the environment may say."""

import pytest

from agent_env.bundles.search.library import Settings
from agent_env.errors import InputError

CORPUS, RETRIEVER, TIMEOUT = (f"AGENT_ENV_SEARCH_{name}" for name in ("CORPUS", "RETRIEVER", "TIMEOUT"))


def test_they_may_say_nothing(tmp_path):
    assert Settings.read({}) == Settings("bm25", None, 60.0)
    assert Settings.read({CORPUS: "", RETRIEVER: "", TIMEOUT: ""}) == Settings()
    file = tmp_path / "own.jsonl"
    file.touch()
    url = "http://127.0.0.1:8000/retrieve"
    assert Settings.read({CORPUS: str(file), RETRIEVER: url, TIMEOUT: "9.5"}) == Settings(url, file, 9.5)


@pytest.mark.parametrize("timeout", ["0", "-1", "111", "nan", "inf", "a minute"])
def test_all_that_cannot_be_used_is_said_at_once(timeout):
    with pytest.raises(InputError) as refused:
        Settings.read({CORPUS: "/no/such/file", RETRIEVER: "bm52", TIMEOUT: timeout})
    assert [str(problem) for problem in refused.value.problems] == [
        f"{RETRIEVER}: there is no retriever 'bm52' (bm25, dense, hybrid or a URL)",
        f"{CORPUS}: there is no file '/no/such/file'",
        f"{TIMEOUT}: expected seconds, more than 0 and at most 110, got {timeout!r}",
    ]
