"""An environment that pays for vowels."""

from agent_env import Environment


class Babble(Environment):
    """No tools: what counts is what is said."""

    def reset(self, task, seed):
        pass

    def score(self, reply):
        letters = [letter for letter in reply.lower() if letter.isalpha()]
        return sum(letter in "aeiou" for letter in letters) / len(letters) if letters else 0.0
