"""What needs no AppWorld: how code is taken, and what is shown of what it printed."""

import pytest

from agent_env.bundles.appworld.env import MOST_SHOWN, _bare, _cut


@pytest.mark.parametrize(
    ("code", "bare"),
    [
        ("print(1)", "print(1)"),
        ("```python\nprint(1)\n```", "print(1)"),
        ("\n```\nfor a in b:\n    print(a)\n```\n", "for a in b:\n    print(a)"),
        ("```py\n```", ""),
        ("text = '''\n```\n'''", "text = '''\n```\n'''"),
        ("```python\nprint(1)\n```\nand then", "```python\nprint(1)\n```\nand then"),
    ],
)
def test_a_fence_around_code_is_none_of_it(code, bare):
    assert _bare(code) == bare


def test_what_is_long_is_cut_and_says_so():
    assert _cut("short\n") == "short"
    assert _cut("a" * MOST_SHOWN) == "a" * MOST_SHOWN
    shown = _cut("a" * (MOST_SHOWN + 1234))
    assert shown == "a" * MOST_SHOWN + "\n… (1,234 characters more are not shown: print less at a time)"
