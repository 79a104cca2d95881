"""Reasoning Gym: which generators there are, that their answers score 1, what replies hold, and the splits."""

import hashlib

import pytest
from reasoning_gym.factory import DATASETS

from agent_env import Ended, Episode, load_bundle
from agent_env.bundles.reasoning_gym.generators import GENERATORS, Question, __doc__, make_question, names
from agent_env.checking import check_bundle
from agent_env.hosting.local import LocalHandle
from support.text_games import demonstrated, first, success_rate

BUNDLE = load_bundle("reasoning_gym")


def test_every_generator_is_in_or_left_out_for_a_reason():
    assert len(names()) == len({*names()}) == 79
    for category, generators in GENERATORS.items():
        assert {DATASETS[name][0].__module__.split(".")[1] for name in generators} == {category}
    missing = DATASETS.keys() - {*names()}
    assert len(missing) == 27
    assert all(name in __doc__ for name in missing)


@pytest.mark.parametrize("name", names())
def test_its_own_answer_scores_1_nothing_else_does_and_one_seed_makes_one_question(name):
    for seed in range(2):
        question = make_question(name, seed, held_out=False)
        assert question.score(question.answer) == 1.0
        assert question.score("a walrus") < 1.0
        assert question.score("") < 1.0
        assert question.score("(" * 50) < 1.0
        assert len(question.text) <= 4_000
    again = make_question.__wrapped__(name, 1, held_out=False)
    assert (again.text, again.answer) == (question.text, question.answer)


@pytest.mark.parametrize("name", names())
def test_held_out_questions_are_asked_nowhere_else(name):
    asked = {make_question(name, seed, held_out=False).text for seed in range(2)}
    assert make_question(name, 0, held_out=True).text not in asked


def test_a_generator_that_there_is_not():
    with pytest.raises(ValueError, match=r"generator: expected one of complex_arithmetic, .*, got 'boxnet'"):
        make_question("boxnet", 0, held_out=False)


class Picky:
    """A scorer that cannot read every answer."""

    def score_answer(self, answer, entry):
        return float(int(answer) == entry["answer"])


@pytest.mark.parametrize(("answer", "score"), [("7", 1.0), ("8", 0.0), ("seven", 0.0)])
def test_an_answer_that_the_scorer_cannot_read_scores_0(answer, score):
    assert Question("", "7", {"answer": 7}, Picky()).score(answer) == score


async def ended(reply):
    task = next(task for task in BUNDLE.tasks("train") if task.env["generator"] == "chain_sum")
    episode = Episode(BUNDLE, task, LocalHandle(BUNDLE))
    await episode.start()
    answer = make_question("chain_sum", task.seed, held_out=False).answer
    result = await episode.end_turn(reply.replace("RIGHT", answer))
    await episode.close()
    return result


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("<answer>RIGHT</answer>", 1.0),
        ("It is\n<ANSWER>\n RIGHT \n</ANSWER>.", 1.0),
        ("<think><answer>1</answer></think><answer>2</answer> no: <answer>RIGHT</answer>", 1.0),
        ("<think><answer>RIGHT</answer></think>", 0.0),
        ("<answer>RIGHT</answer><answer>no</answer>", 0.0),
        ("RIGHT", 0.0),
        ("", 0.0),
    ],
)
async def test_what_counts_is_the_last_answer_that_was_not_a_thought(reply, score):
    assert await ended(reply) == Ended(score, {"answer": score})


def test_the_splits():
    assert {split: len(tasks) for split, tasks in BUNDLE.splits.items()} == {"train": 20 * 79, "eval": 5 * 79}
    tasks = BUNDLE.tasks("all")
    assert len({task.seed for task in tasks}) == len(tasks)
    assert {task.env["generator"] for task in BUNDLE.tasks("eval")} == {*names()}


def test_questions_stay_what_they_are():
    digest = hashlib.sha256()
    for task in BUNDLE.tasks("eval")[:79]:
        digest.update(first(BUNDLE, task).text.encode())
    assert digest.hexdigest()[:16] == "fa6d31399a56a0d6"


async def test_the_demonstrator_knows_the_answers_and_errs_when_asked_to():
    assert await success_rate(BUNDLE, "eval", 0.0, most=79) == 1.0
    assert await success_rate(BUNDLE, "train", 1.0, most=79) < 0.5
    assert not (await demonstrated(BUNDLE, BUNDLE.tasks("eval")[0], 0.0)).turns[0].moves


def test_it_stands_its_check():
    assert check_bundle("reasoning_gym").findings == ()
