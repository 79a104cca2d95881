"""Each game on its own, and the four in turn, as text or as pictures; a task's seed draws what is played.

What is played in pictures is what is played in text.
"""

from __future__ import annotations

from typing import Any

from agent_env import Task, Turn

_PROMPTS = {
    "number_line": "You walk on the numbers 0 to 5, a step an action: left or right. Reach the target.",
    "ez_points": (
        "You write a formula, a symbol an action: a card's number, + or *; = ends it. It must use each card once and "
        "come to 12. J, Q and K count 10. It may have five symbols."
    ),
    "points24": (
        "You write a formula, a symbol an action: a card's number, +, -, *, /, ( or ); = ends it. It must use each "
        "card once and come to 24. J, Q and K count 10. It may have twenty symbols."
    ),
    "blackjack": (
        "You play blackjack: hit takes a card, stand ends your turn. Come closer to 21 than the dealer, and not over "
        "it. The dealer draws below 17. A is an ace, 1 or 11."
    ),
}
_SEEN = {
    "number_line": "The picture shows the target and the number where you are.",
    "ez_points": "The picture shows the two cards, and the formula under them.",
    "points24": "The picture shows the four cards, and the formula under them.",
    "blackjack": "The picture shows the dealer's cards, the second face down, and yours under them.",
}
_GAMES = (*_PROMPTS,)
_FIRST = {"train": 0, "eval": 10_000}


def tasks(split: str) -> list[Task]:
    """The tasks of ``train`` (400) or ``eval`` (200), and as many of one game in ``train-GAME`` or ``eval-GAME``.

    Those of each of these with ``-pictures`` behind it are the same, shown as pictures.
    """
    as_text = split.removesuffix("-pictures")
    part, _, game = as_text.partition("-")
    first = _FIRST[part] + (20_000 * (_GAMES.index(game) + 1) if game else 0)
    seeds = range(first, first + (400 if part == "train" else 200))
    return [_task(seed, game or _GAMES[seed % len(_GAMES)], part, pictures=as_text != split) for seed in seeds]


def _task(seed: int, game: str, part: str, *, pictures: bool) -> Task:
    turn = Turn("game", "Play.", {"type": "env"})
    env: dict[str, Any] = {"game": game, "held_out": part == "eval"}
    if pictures:
        prompt = f"{_PROMPTS[game]} {_SEEN[game]}"
        return Task(f"{game}-{seed}-pictures", (turn,), prompt, {**env, "pictures": True}, seed)
    return Task(f"{game}-{seed}", (turn,), _PROMPTS[game], env, seed)
