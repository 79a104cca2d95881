"""The four games by hand: what each action shows and is worth, and how each game ends."""

import random

import pytest

from agent_env.bundles.gym_cards.blackjack import Blackjack, Total, total
from agent_env.bundles.gym_cards.formula import can_make
from agent_env.bundles.gym_cards.number_line import NumberLine
from agent_env.bundles.gym_cards.points import Points, ez_points, points24, worth


def outcome(game):
    return game.over, game.cut, game.won


# --- number line


def line(current, goal):
    game = NumberLine(random.Random(0))
    game.current, game.goal = current, goal
    return game


def test_straight_to_the_target():
    game = line(1, 4)
    assert game.draw() == "target: 4\ncurrent: 1"
    assert [game.play(action) for action in ("right", "right", "right")] == [0.0, 0.0, 1.0]
    assert outcome(game) == (True, False, True)
    assert (game.draw(), game.note) == ("target: 4\ncurrent: 4", "The target is reached.")


def test_steps_that_come_no_closer_cost_one():
    game = line(0, 2)
    assert game.play("left") == -1.0  # clamped at 0
    assert game.current == 0
    assert game.play("right") == 0.0
    assert game.play("left") == -1.0
    assert game.play("jump") == -1.0
    assert game.note == "There is no such action: use left, right."
    assert (game.current, *outcome(game)) == (0, False, False, False)


def test_the_number_line_ends_after_ten_steps():
    game = line(5, 0)
    assert [game.play("right") for _ in range(9)] == [-1.0] * 9
    assert outcome(game) == (False, False, False)
    assert (game.play("right"), outcome(game)) == (-1.0, (False, True, False))
    game = line(1, 0)
    assert [game.play(action) for action in ["right"] * 4 + ["left"] * 5] == [-1.0] * 4 + [0.0] * 4 + [1.0]


def test_start_and_target_are_two_numbers_of_0_to_5():
    pairs = {(game.current, game.goal) for game in (NumberLine(random.Random(seed)) for seed in range(1000))}
    assert pairs == {(a, b) for a in range(6) for b in range(6) if a != b}


# --- points


def ez(*cards):
    return Points([*cards], 12, "+*", most=5)


def test_ez_points_are_made_by_a_sum():
    game = ez(2, 12)
    assert game.draw() == "cards: 2 Q\nformula:"
    assert game.actions == ("2", "10", "+", "*", "=")
    assert [game.play(action) for action in ("10", "+")] == [0.0, 0.0]
    assert game.draw() == "cards: 2 Q\nformula: 10 +"
    assert game.actions == ("2", "+", "*", "=")
    assert [game.play(action) for action in ("2", "=")] == [0.0, 10.0]
    assert outcome(game) == (True, False, True)
    assert game.note == "It comes to 12."


@pytest.mark.parametrize(
    "actions",
    [
        ["="],
        ["6", "="],
        ["6", "*", "6", "="],  # 36
        ["6", "6", "="],  # no formula
        ["6", "+", "+", "6", "="],
    ],
)
def test_a_formula_that_does_not_come_to_12_ends_the_game_with_nothing(actions):
    game = ez(6, 6)
    assert sum(game.play(action) for action in actions) == 0.0
    assert outcome(game) == (True, False, False)
    assert game.note == "It does not come to 12."


def test_each_card_must_be_used():
    game = ez(2, 10)
    game.cards = [12, 2]  # as if a single card could make 12
    game.formula = ["10", "+"]
    assert game.play("=") == 0.0
    assert not game.won


def test_a_number_that_no_unused_card_has_is_a_blank():
    game = ez(4, 8)
    for action in ("4", "4", "+", "7", "8"):
        assert game.play(action) == 0.0
    assert game.draw() == "cards: 4 8\nformula: 4 _ + _ 8"
    assert game.actions == ("+", "*", "=")
    assert game.play("=") == 10.0  # the blanks mean nothing


def test_a_sixth_symbol_ends_the_game():
    game = ez(4, 8)
    assert [game.play(action) for action in ("dance", "4", "+", "8", "+")] == [0.0] * 5
    assert outcome(game) == (False, False, False)
    game.play("*")
    assert outcome(game) == (False, True, False)


def test_hands_of_ez_points_make_12():
    for seed in range(300):
        game = ez_points(random.Random(seed))
        one, other = map(worth, game.cards)
        assert one + other == 12 or one * other == 12
        assert all(2 <= card <= 13 for card in game.cards)
    assert {tuple(sorted(ez_points(random.Random(seed)).cards)) for seed in range(1000)} == {
        *((2, card) for card in (6, 10, 11, 12, 13)),
        *((3, card) for card in (4, 9)),
        *((4, card) for card in (8,)),
        *((5, 7), (6, 6)),
    }


def test_points24_by_hand():
    game = Points([13, 8, 3, 1], 24, "+-*/()", most=20)
    assert game.draw() == "cards: K 8 3 1\nformula:"
    assert game.actions == ("1", "3", "8", "10", "+", "-", "*", "/", "(", ")", "=")
    # 24, but without the king.
    for symbol in ("8", "*", "3", "*", "1", "="):
        assert game.play(symbol) == 0.0
    assert outcome(game) == (True, False, False)
    game = Points([3, 3, 8, 8], 24, "+-*/()", most=20)
    assert [game.play(symbol) for symbol in "8/(3-8/3)="] == [0.0] * 9 + [10.0]
    assert outcome(game) == (True, False, True)


def test_points24_ends_with_the_21st_symbol():
    game = Points([3, 3, 8, 8], 24, "+-*/()", most=20)
    for _ in range(20):
        game.play("(")
    assert outcome(game) == (False, False, False)
    game.play("(")
    assert outcome(game) == (False, True, False)


def test_hands_of_points24_can_make_24_and_held_out_ones_are_others():
    hands = {}
    for held_out in (False, True):
        games = [points24(random.Random(seed), held_out=held_out) for seed in range(200)]
        hands[held_out] = {tuple(sorted(map(worth, game.cards))) for game in games}
        assert all(can_make(hand, 24) for hand in hands[held_out])
    assert not hands[False] & hands[True]


# --- blackjack


def table(hand, dealer, *deck):
    game = Blackjack(random.Random(0))
    game.hand, game.dealer = [*hand], [*dealer]
    cards = iter(deck)
    game._card = lambda: next(cards)
    return game


@pytest.mark.parametrize(
    ("hand", "counts"),
    [
        ([10, 9], Total(19, False)),
        ([1, 10], Total(21, True)),
        ([1, 1], Total(12, True)),
        ([1, 10, 5], Total(16, False)),
    ],
)
def test_totals(hand, counts):
    assert total(hand) == counts


def test_a_hit_and_a_win():
    game = table([5, 6], [10, 7], 8)
    assert game.draw() == "dealer: 10\nyou: 5 6\ntotal: 11"
    assert game.play("hit") == 0.0
    assert game.draw() == "dealer: 10\nyou: 5 6 8\ntotal: 19"
    assert game.play("stand") == 1.0  # the dealer stands on 17
    assert outcome(game) == (True, False, True)
    assert (game.draw(), game.note) == ("dealer: 10 7\nyou: 5 6 8\ntotal: 19", "You win.")


@pytest.mark.parametrize(
    ("dealer", "deck", "reward", "note"),
    [
        ([10, 6], [10], 1.0, "You win."),  # 26: the dealer draws below 17
        ([10, 6], [5], 0.0, "The dealer wins."),  # 21
        ([10, 8], [], 0.0, "It is a draw."),
        ([1, 6], [], 1.0, "You win."),  # a soft 17 stands
        ([10, 2], [4, 3], 0.0, "The dealer wins."),  # 16, then 19
    ],
)
def test_the_dealer_plays(dealer, deck, reward, note):
    game = table([10, 8], dealer, *deck)
    assert (game.play("stand"), game.note) == (reward, note)
    assert outcome(game) == (True, False, reward == 1.0)


def test_over_21_is_lost():
    game = table([10, 6], [2, 2], 10)
    assert (game.play("hit"), *outcome(game)) == (0.0, True, False, False)
    assert game.note == "You are over 21."


def test_blackjack_ends_after_fifteen_steps():
    game = table([2, 3], [10, 7])
    for _ in range(14):
        game.play("wait")
    assert (game.note, *outcome(game)) == ("There is no such action: use hit, stand.", False, False, False)
    game.play("wait")
    assert outcome(game) == (False, True, False)


def test_hands_of_one_total_are_one_state():
    assert table([5, 6], [9, 2]).state == table([2, 9], [9, 10]).state == "9 / 11"
    assert table([1, 6], [9, 2]).state == "9 / 17 soft"
    assert table([10, 7], [9, 2]).state == "9 / 17"
