"""Modules that an extra installs."""

import json

import pytest

from agent_env.errors import MissingExtra
from agent_env.extras import imported


def test_a_module_that_is_installed():
    assert imported("json", "verl") is json


def test_one_that_is_not_names_its_extra():
    with pytest.raises(MissingExtra, match=r"'no_such_module' is not installed: pip install 'agentenv-rl\[search\]'"):
        imported("no_such_module", "search")
