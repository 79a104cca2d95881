"""Questions from parquet, in the columns that Search-R1, verl and verl-agent write."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agent_env.bundles.search.official import read_questions
from agent_env.errors import InputError


def written(folder, name, rows):
    pq.write_table(pa.Table.from_pylist(rows), folder / name)


def target(*answers):
    return {"style": "rule", "ground_truth": {"target": list(answers)}}


@pytest.mark.parametrize(
    ("row", "read"),
    [
        (
            {"id": "t0", "question": "who wrote it", "golden_answers": ["A", "B"], "data_source": "nq", "prompt": []},
            ("who wrote it?", ["A", "B"], "nq"),
        ),
        (
            {"question": "Who?", "data_source": "hotpotqa", "reward_model": target("A", "B")},
            ("Who?", ["A", "B"], "hotpotqa"),
        ),
        ({"extra_info": {"question": "Who", "index": 3}, "reward_model": target("A")}, ("Who?", ["A"], "")),
        ({"env_kwargs": {"question": "Who?", "data_source": "nq"}, "golden_answers": ["A"]}, ("Who?", ["A"], "")),
        ({"question": "Who?", "reward_model": {"ground_truth": {"target": "A"}}}, ("Who?", ["A"], "")),
    ],
)
def test_a_row(tmp_path, row, read):
    written(tmp_path, "test.parquet", [row])
    assert read_questions(tmp_path, "eval") == [read]


def test_rows_that_ask_or_accept_nothing_are_named(tmp_path):
    rows = [{"question": "Who?", "golden_answers": ["A"]}, {"question": " ", "golden_answers": ["A"]}]
    written(tmp_path, "train.parquet", rows + [{"question": "Who?", "golden_answers": []}] * 12)
    with pytest.raises(InputError) as refused:
        read_questions(tmp_path, "train")
    problems = [str(problem) for problem in refused.value.problems]
    assert problems[0].startswith("train.parquet row 1: has no question (columns: question, golden_answers,")
    assert problems[1].startswith("train.parquet row 2: has no answer")
    assert problems[-1] == "train.parquet: and 3 more such rows"
    assert len(problems) == 11


def test_a_file_that_cannot_be_read(tmp_path):
    (tmp_path / "train.parquet").write_text("no parquet")
    for split in ("train", "eval"):
        with pytest.raises(InputError, match="cannot be read"):
            read_questions(tmp_path, split)
