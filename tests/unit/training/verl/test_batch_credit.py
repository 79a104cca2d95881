"""verl's rows as credit takes them: episodes by key, padding nowhere, every episode of one weight."""

import numpy as np
import pytest

from agent_env.errors import InputError
from agent_env.training.credit import advantages
from agent_env.training.verl.batch_credit import BatchRows, session_weights
from agent_env.training.verl.batch_metrics import batch_metrics


def step(place, of, reward, state, after, *, success=False, penalty=0.0, counts=True, bootstrap=False):
    return {
        "session": "s",
        "step": place,
        "last": place == of - 1,
        "step_reward": reward if place == of - 1 else 0.0,
        "episode_reward": reward,
        "state": state,
        "next_state": after,
        "format_valid": penalty == 0.0,
        "admissible": True,
        "valid": penalty == 0.0,
        "penalty": penalty,
        "terminated": place == of - 1 and not bootstrap,
        "truncated": bootstrap,
        "success": success,
        "counts": counts,
        "bootstrap": bootstrap,
        "reward_extra_info": {"score/answer": reward, "attempts": 1},
    }


# Two episodes of one prompt: three steps to the goal, and one that fails at once; then a padding row of verl's.
KEYS = ["u_0_1", "u_0_0", "u_1_0", "u_0_2", "padabc_0_0"]
EXTRA = [
    step(1, 3, 1.0, "b", "c", success=True),
    step(0, 3, 1.0, "a", "b", success=True),
    step(0, 1, 0.0, "a", "d"),
    step(2, 3, 1.0, "c", "end", success=True),
    step(1, 3, 1.0, "b", "c", success=True),
]
TAGS = [{}, {}, {}, {}, {"is_padding": True}]
SCORES = [1.0, 1.0, 0.0, 1.0, 0.0]


def rows():
    return BatchRows.read(KEYS, TAGS, EXTRA, SCORES)


def test_rows_are_found_by_their_keys():
    read = rows()
    assert read.session.tolist() == ["u_0", "u_0", "u_1", "u_0", "padabc_0"]
    assert read.group.tolist() == ["u", "u", "u", "u", "padabc"]
    assert read.last.tolist() == [False, False, True, True, True]
    assert read.counts.tolist() == [True, True, True, True, False]
    assert read.penalty == 0.0


def test_an_episode_votes_once_and_padding_never():
    got = advantages("grpo", rows().steps(), normalize="mean")
    # The mean over the two episodes is 0.5, however many rows each has.
    assert got.tolist() == [0.5, 0.5, -0.5, 0.5, 0.0]


def test_steps_from_one_state_are_compared():
    got = advantages("gigpo", rows().steps(), normalize="mean", gamma=0.5, episode_weight=0.0)
    # From "a" the first episode returns 0.5 ** 2 and the second 0; nothing else began in one state.
    assert got.tolist() == [0.0, 0.125, -0.125, 0.0, 0.0]


def test_the_conversation_layout_has_a_row_an_episode():
    info = {"reward_extra_info": {"attempts": 1}}
    read = BatchRows.read(["u_0_0", "u_1_0", "v_0_0"], [{}, {}, {}], [info] * 3, [1.0, 0.0, 5.0])
    assert read.fields is None
    assert advantages("grpo", read.steps(), normalize="mean").tolist() == [0.5, -0.5, 0.0]  # v stands alone
    with pytest.raises(InputError, match="gigpo compares by it"):
        advantages("gigpo", read.steps())


def test_turn_scores_are_those_of_the_episode_on_each_row():
    infos = [{"reward_extra_info": {"score/b": 1.0, "attempts": 1}}, {"reward_extra_info": {"score/a": None}}]
    read = BatchRows.read(["u_0_0", "u_1_0"], [{}, {}], infos, [1.0, 0.0])
    assert read.turn_scores() == {"a": [None, None], "b": [1.0, None]}


def test_an_episode_to_be_left_out_is_in_no_mean():
    extra = [*EXTRA[:2], step(0, 1, 0.0, "a", "d", counts=False), *EXTRA[3:]]
    read = BatchRows.read(KEYS, TAGS, extra, SCORES)
    assert read.counts.tolist() == [True, True, False, True, False]
    assert advantages("grpo", read.steps(), normalize="mean").tolist() == [0.0] * 5


def test_kl_in_reward_is_a_cost_of_its_step_and_its_episode():
    costs = [0.1, 0.0, 0.2, 0.3, 9.0]
    read = rows().steps(costs)
    assert read.step_reward == pytest.approx([-0.1, 0.0, -0.2, 0.7, -9.0])
    assert read.episode_reward == pytest.approx([0.6, 0.6, -0.2, 0.6, -8.0])


def test_invalid_steps_pay_what_the_loop_says():
    extra = [*EXTRA[:3], step(2, 3, 1.0, "c", "end", success=True, penalty=0.1), EXTRA[4]]
    read = BatchRows.read(KEYS, TAGS, extra, SCORES)
    assert read.penalty == 0.1
    assert np.asarray(read.steps().valid).tolist() == [True, True, True, False, True]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        # 12 tokens in two episodes: 6 each is the mean. The first has 10 of them, the second 2.
        ("token-mean", [0.6, 0.6, 3.0, 0.6, 0.0]),
        # 5 rows, padding among them, in two episodes of 3 and 1.
        ("seq-mean-token-mean", [5 / 6, 5 / 6, 5 / 2, 5 / 6, 0.0]),
        ("seq-mean-token-sum", [5 / 2, 5 / 2, 5 / 2, 5 / 2, 0.0]),
    ],
)
def test_every_episode_weighs_the_same(mode, expected):
    assert session_weights(rows(), [4, 3, 2, 3, 1], mode) == pytest.approx(expected)


def test_the_weights_make_verls_loss_a_mean_over_episodes():
    tokens = np.array([4, 3, 2, 3, 0])
    weights = session_weights(rows(), tokens, "token-mean")
    loss = np.array([1.0, 2.0, 5.0, 3.0, 7.0])  # of each token of a row
    mean = (weights * loss * tokens).sum() / tokens.sum()
    assert mean == pytest.approx(((4 * 1 + 3 * 2 + 3 * 3) / 10 + 5) / 2)


def test_an_unknown_loss_has_no_weights():
    with pytest.raises(InputError, match="unknown 'token-max'"):
        session_weights(rows(), [1] * 5, "token-max")


def test_nothing_that_counts_has_no_weights():
    read = BatchRows.read(["padx_0_0"], [{"is_padding": True}], [{}], [0.0])
    assert session_weights(read, [1], "token-mean").tolist() == [0.0]
    assert batch_metrics(read) == {"episode/count": 0.0}


def test_metrics_are_of_episodes_and_leave_padding_out():
    metrics = batch_metrics(rows())
    assert metrics["episode/count"] == 2
    assert (metrics["episode/reward/mean"], metrics["episode/reward/max"], metrics["episode/reward/min"]) == (0.5, 1, 0)
    assert (metrics["episode/length/mean"], metrics["episode/length/max"]) == (2.0, 3.0)
    assert metrics["episode/score/answer/mean"] == 0.5
    assert (metrics["episode/success"], metrics["episode/truncated"], metrics["episode/terminated"]) == (0.5, 0.0, 1.0)
    assert metrics["step/invalid_share"] == 0.0
    # Three states, "a" twice: two of the groups stand alone, and two of the four steps.
    assert metrics["step_group/singleton_share"] == pytest.approx(2 / 3)
    assert metrics["step_group/alone_share"] == 0.5
    assert (metrics["step_group/size/mean"], metrics["step_group/size/max"]) == (pytest.approx(4 / 3), 2.0)
