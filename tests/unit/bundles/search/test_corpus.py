"""A corpus of a user's own."""

import pytest

from agent_env.bundles.search.corpus import passage_of, passages_of_file
from agent_env.bundles.search.passages import Passage
from agent_env.errors import InputError


def test_lines_as_search_r1_writes_them(tmp_path):
    file = tmp_path / "wiki.jsonl"
    file.write_text('{"id": "0", "contents": "\\"Paris\\"\\nA city.\\nIn France."}\n{"contents": "Seine\\n"}\n')
    assert passages_of_file(file) == [Passage("Paris", "A city.\nIn France."), Passage("Seine", "")]
    assert passage_of('"Only a title"') == Passage("Only a title", "")


def test_all_that_is_wrong_with_a_file(tmp_path):
    file = tmp_path / "own.jsonl"
    file.write_text('{"contents": "a\\nb"}\nnot JSON\n{"text": "a"}\n[]\n{"contents": 7}\n' + "{}\n" * 20)
    with pytest.raises(InputError) as refused:
        passages_of_file(file)
    assert [problem.where for problem in refused.value.problems] == [f"own.jsonl:{n}" for n in range(2, 12)]
    file.write_text("")
    with pytest.raises(InputError, match="holds no passage"):
        passages_of_file(file)
    with pytest.raises(InputError, match=r"cannot be read: .*No such file"):
        passages_of_file(tmp_path / "none.jsonl")
