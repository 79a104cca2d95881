"""Something to do once a module was imported."""

import importlib
import sys
import textwrap

import pytest

from agent_env.training.verl.hooks import after_import


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Two modules to import, of which `outer` imports `inner`; and what happens, in order."""
    happened = []
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.hooks_happened", happened, raising=False)
    package = tmp_path / "hooked"
    package.mkdir()
    run = "import sys; sys.hooks_happened.append(__name__)"
    (package / "__init__.py").write_text(run)
    (package / "inner.py").write_text(f"{run}\nvalue = 7")
    (package / "outer.py").write_text(f"import hooked.inner\n{run}")
    (package / "broken.py").write_text(textwrap.dedent("raise OSError('broken')"))
    yield happened
    for name in [name for name in sys.modules if name.split(".")[0] == "hooked"]:
        del sys.modules[name]


def test_it_happens_right_after_the_module_and_once(modules):
    after_import("hooked.inner", lambda: modules.append(f"hook: {sys.modules['hooked.inner'].value}"))
    assert modules == []
    outer = importlib.import_module("hooked.outer")
    assert modules == ["hooked", "hooked.inner", "hook: 7", "hooked.outer"]
    importlib.reload(sys.modules["hooked.inner"])
    assert modules[-1] == "hooked.inner"
    assert type(outer.hooked.inner.__spec__.loader).__name__ == "SourceFileLoader"  # no trace is left in the module


def test_it_happens_now_for_a_module_that_is_there(modules):
    importlib.import_module("hooked.inner")
    after_import("hooked.inner", lambda: modules.append("hook"))
    assert modules[-1] == "hook"


def test_its_error_comes_out_of_the_import(modules):
    def fail():
        raise LookupError("the hook's")

    after_import("hooked.inner", fail)
    with pytest.raises(LookupError, match="the hook's"):
        importlib.import_module("hooked.outer")


def test_a_module_that_fails_or_is_missing_says_so_itself(modules):
    for name in ("hooked.broken", "hooked.missing"):
        after_import(name, lambda: modules.append("hook"))
    with pytest.raises(OSError, match="broken"):
        importlib.import_module("hooked.broken")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("hooked.missing")
    assert "hook" not in modules
