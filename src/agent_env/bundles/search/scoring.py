"""Exact match and F1 of an answer, normalised as SQuAD's evaluation does (Rajpurkar et al. 2016)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

from agent_env.training.actions import split_thought

_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def last_answer(reply: str) -> str:
    """The answer in a model's reply: what its last ``<answer>`` holds, or all of it; never what it thought."""
    said = split_thought(reply)[1]
    answers = _ANSWER.findall(said)
    return str(answers[-1] if answers else said).strip()


def normalised(text: str) -> str:
    """Lower case, without punctuation, articles and space beyond one."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, accepted: Sequence[str]) -> float:
    """1 if `answer` is one of those accepted, once all are normalised; else 0. One that is nothing never is."""
    given = normalised(answer)
    return float(bool(given) and given in map(normalised, accepted))


def f1(answer: str, accepted: Sequence[str]) -> float:
    """The harmonic mean of precision and recall of the answer's words, in 0..1; of the accepted answers, the best."""
    return max((_f1(normalised(answer).split(), normalised(text).split()) for text in accepted), default=0.0)


def _f1(given: list[str], wanted: list[str]) -> float:
    common = sum((Counter(given) & Counter(wanted)).values())
    return 2 * common / (len(given) + len(wanted)) if common else 0.0
