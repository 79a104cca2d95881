"""The generators that questions come from: 79 of the 106 that Reasoning Gym 0.1.25 registers.

Left out are those
* that do not score their own answer with 1: boxnet, graph_color, propositional_logic, rubiks_cube, rush_hour;
* whose scorer takes any answer for right: game_of_life_halting, where all that is not "True" counts as "False";
* whose scorer runs the answer as Python (``eval`` or sympy's ``parse_expr``): binary_matrix, countdown,
  intermediate_integration, n_queens, polynomial_multiplication, puzzle24, simple_integration, spiral_matrix,
  string_insertion;
* that make different questions of one seed: isomorphic_strings, ransom_note, word_ladder;
* that make questions over 4,000 characters (arc_agi, codeio, rectangle_count), or take over a quarter of a second of
  processor time for one on average (figlet_font, group_anagrams, knight_swap, sokoban);
* that print (bf), or need others to be chosen (composite).
"""

from __future__ import annotations

import random
import zlib
from functools import cache, lru_cache
from typing import Any, NamedTuple

import reasoning_gym

GENERATORS = {
    "algebra": ("complex_arithmetic", "polynomial_equations", "simple_equations"),
    "algorithmic": (
        *(
            "ab",
            "base_conversion",
            "binary_alternation",
            "caesar_cipher",
            "count_primes",
            "cryptarithm",
            "game_of_life",
        ),
        *("jugs", "letter_counting", "letter_jumble", "manipulate_matrix", "number_filtering"),
        *("number_sorting", "palindrome_generation", "palindrome_partitioning", "pool_matrix", "rotate_matrix"),
        *("rotten_oranges", "sentence_reordering", "spell_backward", "string_manipulation", "string_splitting"),
        *("string_synthesis", "word_sequence_reversal", "word_sorting"),
    ),
    "arc": ("arc_1d", "rearc"),
    "arithmetic": (
        *("basic_arithmetic", "bitwise_arithmetic", "calendar_arithmetic", "chain_sum", "count_bits"),
        *("decimal_arithmetic", "decimal_chain_sum", "dice", "fraction_simplification", "gcd", "gsm_symbolic", "lcm"),
        *("leg_counting", "number_format", "power_function", "prime_factorization", "products", "time_intervals"),
    ),
    "cognition": ("color_cube_rotation", "modulo_grid", "needle_haystack", "number_sequence"),
    "games": (
        *("emoji_mystery", "futoshiki", "kakurasu", "mahjong_puzzle", "maze", "mini_sudoku", "sudoku", "survo"),
        *("tower_of_hanoi", "tsumego"),
    ),
    "geometry": ("advanced_geometry", "simple_geometry"),
    "graphs": (
        *("course_schedule", "family_relationships", "largest_island", "path_star", "quantum_lock", "shortest_path"),
    ),
    "induction": ("acre", "list_functions"),
    "logic": ("aiw", "circuit_logic", "knights_knaves", "self_reference", "syllogism", "zebra_puzzles"),
    "probability": ("coin_flip",),
}
"""Names by Reasoning Gym's categories."""


@cache
def names() -> tuple[str, ...]:
    """All generators, in order."""
    return tuple(name for generators in GENERATORS.values() for name in generators)


class Question(NamedTuple):
    """A question, an answer that is right, and all that the scorer needs."""

    text: str
    answer: str
    entry: dict[str, Any]
    dataset: Any

    def score(self, answer: str) -> float:
        """What Reasoning Gym's scorer gives an answer, in 0..1; 0 for one that it cannot read."""
        try:
            return float(self.dataset.score_answer(answer, self.entry))
        except Exception:  # the scorers parse the answer as it should be written, and mostly raise if it is not
            return 0.0


@lru_cache(maxsize=256)  # the episodes of a group ask one question
def make_question(name: str, seed: int, *, held_out: bool) -> Question:
    """The question of a seed, at the generator's own default difficulty.

    One question in five, chosen by a checksum of its text, is held out: it is asked for ``held_out=True`` alone.

    Raises:
        ValueError: the generator is none of `names`.
    """
    if name not in names():
        raise ValueError(f"generator: expected one of {', '.join(names())}, got {name!r}")
    rng = random.Random(seed)
    while True:
        dataset = reasoning_gym.create_dataset(name, seed=rng.getrandbits(31), size=1)
        entry = dataset[0]
        text = str(entry["question"])
        if (zlib.crc32(text.encode()) % 5 == 0) == held_out:
            return Question(text, str(entry["answer"]), entry, dataset)
