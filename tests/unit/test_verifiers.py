import pytest

from agent_env import Environment, EpisodeError, Task, Turn
from agent_env.verifiers import REGEX_SECONDS, compile_verifier


class Judge(Environment):
    def reset(self, task, seed): ...

    def score(self, reply):
        return {"length": len(reply) / 10}


def verify(reply, task, turn):
    return 1.0 if reply == f"{task.id}/{turn.id}" else 0.25


def one_argument(reply):
    return 1.0


def resolve(reference):
    if reference not in FUNCTIONS:
        raise ValueError(f"there is no {reference}")
    return FUNCTIONS[reference]


FUNCTIONS = {"checks:verify": verify, "checks:one": one_argument}


def score(spec, reply):
    turn = Turn("t", "?", spec)
    return compile_verifier(spec, "here", resolve)(reply, Task("task", (turn,)), turn, Judge())


@pytest.mark.parametrize(
    ("spec", "reply", "expected"),
    [
        ({"type": "regex", "pattern": r"\bB204\b"}, "It is B204.", 1),
        ({"type": "regex", "pattern": r"\bB204\b"}, "It is B2045.", 0),
        ({"type": "regex", "pattern": r"(?i)^yes$"}, "YES", 1),
        ({"type": "contains", "text": "paid"}, "it was paid", 1),
        ({"type": "contains", "text": ["paid", "May"]}, "paid in may", 0),
        ({"type": "contains", "text": ["paid", "May"], "ignore_case": True}, "Paid in may", 1),
        ({"type": "exact", "text": "42"}, " 42\n", 1),
        ({"type": "exact", "text": "42"}, "42.", 0),
        ({"type": "exact", "text": ["left", "right"]}, "right", 1),
        ({"type": "exact", "text": "Straße", "ignore_case": True}, "STRASSE", 1),
        ({"type": "number", "value": 42}, "From 10 to 42.", 1),
        ({"type": "number", "value": 42}, "42, or is it 43?", 0),
        ({"type": "number", "value": 1250}, "It costs 1,250 euros", 1),
        ({"type": "number", "value": -3.5, "tolerance": 0.25}, "−3.3", 1),
        ({"type": "number", "value": -3.5, "tolerance": 0.1}, "-3.3", 0),
        ({"type": "number", "value": 2e3}, "about 2.0e3", 1),
        ({"type": "number", "value": 204}, "room B204", 0),
        ({"type": "number", "value": 3}, "2026-05-03", 1),
        ({"type": "number", "value": 5}, "no number", 0),
        ({"type": "number", "value": 5}, "1e999", 0),
        ({"type": "json_path", "path": "$.plan[0].hour", "equals": 3}, '{"plan": [{"hour": 3.0}]}', 1),
        ({"type": "json_path", "path": "$.plan[*].hour", "equals": 4}, '{"plan": [{"hour": 3}, {"hour": 4}]}', 1),
        ({"type": "json_path", "path": "$.a", "equals": {"b": [1, None]}}, '{"a": {"b": [1, null]}}', 1),
        ({"type": "json_path", "path": "$.ok", "equals": True}, '{"ok": 1}', 0),
        ({"type": "json_path", "path": "$.ok", "equals": True}, 'Here:\n```json\n{"ok": true}\n```\nDone.', 1),
        ({"type": "json_path", "path": "$.ok", "equals": True}, "not JSON", 0),
        ({"type": "json_path", "path": "$.ok", "equals": True}, "[" * 100_000, 0),
        ({"type": "json_path", "path": "$", "equals": 3}, "3", 0),
        ({"type": "env"}, "12345", {"length": 0.5}),
        ({"type": "python", "function": "checks:verify"}, "task/t", 1),
        ({"type": "python", "function": "checks:verify"}, "else", 0.25),
    ],
)
def test_scores(spec, reply, expected):
    assert score(spec, reply) == expected


def test_a_pattern_that_backtracks_without_end_is_stopped():
    with pytest.raises(EpisodeError, match=f"turn 't'.*ran past {REGEX_SECONDS:g} s on a reply of 61 characters"):
        score({"type": "regex", "pattern": "^(a|aa)+$"}, "a" * 60 + "!")


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        ({"type": "regx"}, ["here: there is no verifier 'regx' (did you mean 'regex'?)"]),
        ({"pattern": "x"}, ["here: 'type' is missing (known: regex, contains, exact, number, json_path, env, python)"]),
        ({"type": ["regex"]}, ["here: there is no verifier ['regex']"]),
        ({"type": "regex", "pattern": "("}, ["here.pattern: not a regular expression: missing )"]),
        ({"type": "regex"}, ["here.pattern: 'pattern' is missing (add it)"]),
        ({"type": "regex", "pattern": ""}, ["here.pattern: the empty pattern is in every reply"]),
        ({"type": "contains", "text": ["a", ""]}, ["here.text: the empty text is in every reply"]),
        (
            {"type": "contains", "text": [], "ignorecase": True},
            [
                "here.text: List should have at least 1 item",
                "here.ignorecase: unknown key 'ignorecase' (did you mean 'ignore_case'?)",
            ],
        ),
        ({"type": "exact", "text": 42}, ["here.text: Input should be a valid list, got 42"]),
        (
            {"type": "number", "value": "42", "tolerance": -1},
            [
                "here.value: Input should be a valid number",
                "here.tolerance: Input should be greater than or equal to 0",
            ],
        ),
        ({"type": "number", "value": float("nan")}, ["here.value: Input should be a finite number"]),
        ({"type": "json_path", "path": "$.[", "equals": 1}, ["here.path: not a JSONPath"]),
        ({"type": "env", "score": "x"}, ["here.score: unknown key 'score' (known: type)"]),
        ({"type": "python", "function": "checks:none"}, ["here.function: there is no checks:none"]),
        (
            {"type": "python", "function": "checks:one"},
            ["here.function: checks:one is not a function of (reply, task, turn)"],
        ),
    ],
)
def test_all_problems_of_a_specification(spec, problems):
    found = [str(problem) for problem in compile_verifier(spec, "here", resolve)]
    assert len(found) == len(problems)
    for actual, expected in zip(found, problems, strict=True):
        assert actual.startswith(expected)
