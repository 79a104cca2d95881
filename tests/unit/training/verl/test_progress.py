"""The lines a user sees of a run."""

import json

from agent_env.training.verl.progress import Progress, Tail, describe


def test_a_tail_gives_whole_lines_once(tmp_path):
    path = tmp_path / "file"
    tail = Tail(path)
    assert list(tail.lines()) == []
    path.write_text("one\ntw")
    assert list(tail.lines()) == ["one\n"]
    path.write_text("one\ntwo\n")
    assert list(tail.lines()) == ["two\n"]
    assert list(tail.lines()) == []


def test_a_step_is_a_line_and_an_evaluation_another():
    data = {"critic/score/mean": 0.5, "timing_s/step": 2.04, "val-core/agentenv/gridsim/reward/mean@1": 0.25}
    assert describe(7, 40, data) == [
        "step  7/40  reward 0.500  2.0 s",
        "eval after step 7: reward 0.250  (agentenv/gridsim)",
    ]
    lost = describe(7, 40, {"critic/score/mean": 0.5, "training/rollout_failure/lost_sessions": 3.0})
    assert lost == ["step  7/40  reward 0.500  3 rollouts lost: see the log"]
    assert describe(0, 40, {"other": 1}) == []
    missing = describe(20, 40, {"validation/missing": 1.0})
    assert missing == ["eval after step 20: missing, for every rollout of it failed: see the log"]
    assert describe(20, 40, {"validation/missing": 0.0}) == []


def test_what_a_later_start_writes_joins_the_runs_metrics(tmp_path):
    part, whole, said = tmp_path / "part", tmp_path / "whole", []
    whole.write_text(json.dumps({"step": 1, "data": {}}) + "\n")
    progress = Progress(part, whole, 3, said.append)
    progress.update()
    assert progress.step is None
    part.write_text(json.dumps({"step": 2, "data": {"critic/score/mean": 1}}) + '\nnot json\n{"step": 3, "da')
    progress.update()
    progress.update()
    assert progress.step == 2
    assert progress.missing == []
    assert said == ["step 2/3  reward 1.000"]
    assert whole.read_text().count('"step"') == 2


def test_an_evaluation_that_is_missing_is_remembered(tmp_path):
    path = tmp_path / "metrics.jsonl"
    lines = [{"step": 1, "data": {"validation/missing": 0.0}}, {"step": 2, "data": {"validation/missing": 1.0}}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    progress = Progress(path, path, 2, lambda line: None)
    progress.update()
    assert progress.missing == [2]


def test_the_first_starts_file_is_the_runs_own(tmp_path):
    path, said = tmp_path / "metrics.jsonl", []
    progress = Progress(path, path, 1, said.append)
    path.write_text(json.dumps({"step": 1, "data": {"critic/score/mean": 1}}) + "\n")
    progress.update()
    assert len(path.read_text().splitlines()) == len(said) == 1
