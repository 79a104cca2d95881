"""Each generation of a run has a seed of its own, the same in every run."""

from agent_env.training.verl.row import Row
from agent_env.training.verl.seeds import DRAWN, generation_seed, group_seed

ROW = Row("train", 3, "three", ())
FIELDS = {"global_steps": 2, "session_id": 1, "uid": "made at random"}


def seed(run=1, row=ROW, fields=FIELDS, attempt=1, generation=0):
    return generation_seed(run, row, fields, attempt=attempt, generation=generation)


def test_it_is_made_of_the_generations_place_in_the_run_and_of_nothing_else():
    assert seed() == seed(fields=FIELDS | {"uid": "made at random again"})
    places = [
        seed(),
        seed(run=2),
        seed(row=Row("eval", 3, "three", ())),
        seed(row=Row("train", 4, "four", ())),
        seed(fields=FIELDS | {"global_steps": 3}),
        seed(fields=FIELDS | {"session_id": 0}),
        seed(fields={}),
        seed(attempt=2),
        seed(generation=1),
        seed(attempt=2, generation=1),
    ]
    assert len(set(places)) == len(places)
    assert all(0 <= place < 2**63 for place in places)


def test_it_is_the_same_in_another_process():
    # blake2b of "(1, 2, 'train', 3, 1, 1, 0)" with 8 bytes of digest, little-endian, halved
    assert seed() == 6741915996617669416


def test_a_group_shares_a_seed_and_no_other_has_it():
    ours = group_seed(1, ROW, FIELDS)
    # The rollouts of a group differ in session and attempt, and verl's uid is made at random.
    assert group_seed(1, ROW, {"global_steps": 2, "session_id": 5}) == ours
    others = [
        group_seed(2, ROW, FIELDS),
        group_seed(1, ROW, FIELDS | {"global_steps": 3}),
        group_seed(1, Row("train", 4, "four", ()), FIELDS),
        group_seed(1, Row("more", 3, "three", ()), FIELDS),
    ]
    assert len({ours, *others}) == 5
    # Above every seed that tasks have of their own, and exact in JSON everywhere.
    assert all(DRAWN <= seed < 2 * DRAWN < 2**53 for seed in (ours, *others))


def test_a_groups_seed_is_the_same_in_another_process():
    # 2 ** 40 plus the upper 40 of the 64 bits that blake2b makes of "(1, 2, 'train', 3)", little-endian
    assert group_seed(1, ROW, FIELDS) == 2039624573299
