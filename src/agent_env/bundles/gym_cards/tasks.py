"""Each game on its own, and the four in turn; a task's seed draws what is played."""

from __future__ import annotations

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
_GAMES = (*_PROMPTS,)
_FIRST = {"train": 0, "eval": 10_000}


def tasks(split: str) -> list[Task]:
    """The tasks of ``train`` (400) or ``eval`` (200), and as many of one game in ``train-GAME`` or ``eval-GAME``."""
    part, _, game = split.partition("-")
    first = _FIRST[part] + (20_000 * (_GAMES.index(game) + 1) if game else 0)
    seeds = range(first, first + (400 if part == "train" else 200))
    return [_task(seed, game or _GAMES[seed % len(_GAMES)], part) for seed in seeds]


def _task(seed: int, game: str, part: str) -> Task:
    turn = Turn("game", "Play.", {"type": "env"})
    env = {"game": game, "held_out": part == "eval"}
    return Task(f"{game}-{seed}", (turn,), _PROMPTS[game], env, seed)
