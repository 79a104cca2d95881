import pytest

from agent_env.loading import BundleModules, LoadError
from support.bundles import write_bundle


def write(folder, **files):
    return write_bundle(folder, {f"{name}.py": text for name, text in files.items()})


def test_two_folders_may_have_modules_of_one_name(tmp_path):
    one = BundleModules(write(tmp_path / "one", env="from .other import NAME", other="NAME = 'one'"))
    two = BundleModules(write(tmp_path / "two", env="from .other import NAME", other="NAME = 'two'"))
    assert (one.resolve("env:NAME"), two.resolve("env:NAME")) == ("one", "two")
    assert (one.resolve("other:NAME"), two.resolve("other:NAME")) == ("one", "two")


def test_a_folder_is_executed_anew_for_each_load(tmp_path):
    folder = write(tmp_path, env="seen = []")
    first, second = BundleModules(folder).resolve("env:seen"), BundleModules(folder).resolve("env:seen")
    first.append(1)
    assert second == []


def test_an_installed_module_is_found_when_the_folder_has_none(tmp_path):
    import fractions

    assert BundleModules(write(tmp_path)).resolve("fractions:Fraction") is fractions.Fraction


def test_submodules(tmp_path):
    folder = write_bundle(tmp_path, {"sub/__init__.py": "", "sub/deep.py": "from ..env import Counter as Found"})
    assert BundleModules(folder).resolve("sub.deep:Found").__name__ == "Counter"


@pytest.mark.parametrize(
    ("reference", "files", "problem"),
    [
        ("env", {}, "expected module:name, got 'env'"),
        ("../env:X", {}, "expected module:name, got '../env:X'"),
        ("nowhere:X", {}, "there is no nowhere.py in the bundle, nor a module 'nowhere' installed"),
        ("env:Count", {}, "module 'env' has no 'Count' (it has: Environment, Observation, ToolError, tool, Counter)"),
        (
            "bad:X",
            {"bad": "x = 1\nimport mail"},
            "bad.py:2: ModuleNotFoundError: No module named 'mail' "
            "(inside a bundle, import relatively: from . import mail)",
        ),
        ("bad:X", {"bad": "def f(:\n  pass"}, "bad.py:1: SyntaxError: "),
        ("bad:X", {"bad": "x = 1\n\nraise SystemExit('no')"}, "bad.py:3: SystemExit: no"),
        ("bad:X", {"bad": "from .mail import x", "mail": "1 / 0"}, "mail.py:1: ZeroDivisionError: division by zero"),
    ],
)
def test_what_cannot_be_had_is_explained(tmp_path, reference, files, problem):
    with pytest.raises(LoadError) as caught:
        BundleModules(write(tmp_path, **{"mail": "x = 1", **files})).resolve(reference)
    found = caught.value.problem
    assert (str(found) if found.where else str(found).removeprefix(": ")).startswith(problem)


def test_a_module_outside_the_folder_is_refused(tmp_path):
    outside = tmp_path / "outside.py"
    outside.write_text("X = 1")
    folder = write(tmp_path / "bundle")
    (folder / "linked.py").symlink_to(outside)
    with pytest.raises(LoadError, match=r"leads outside the bundle's folder, to .*outside.py"):
        BundleModules(folder).resolve("linked:X")


def test_a_package_outside_the_folder_is_refused(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "__init__.py").write_text("X = 1")
    folder = write(tmp_path / "bundle")
    (folder / "linked").symlink_to(outside)
    with pytest.raises(LoadError, match=r"leads outside the bundle's folder, to .*outside/__init__.py"):
        BundleModules(folder).resolve("linked:X")
    (folder / "inside").mkdir()
    (folder / "inside" / "__init__.py").write_text("X = 2")
    assert BundleModules(folder).resolve("inside:X") == 2


@pytest.mark.parametrize(
    "reference", ["../outside:X", "..outside:X", "/outside:X", "a..outside:X", ".outside:X", "o/x:X"]
)
def test_a_reference_names_modules_and_no_paths(tmp_path, reference):
    (tmp_path / "outside.py").write_text("X = 1")
    with pytest.raises(LoadError, match="expected module:name"):
        BundleModules(write(tmp_path / "bundle")).resolve(reference)


def test_a_bundle_may_load_another_while_it_is_imported(tmp_path):
    inner = write(tmp_path / "inner")
    outer = write(tmp_path / "outer", env=f"from agent_env import load_bundle\nNAME = load_bundle({str(inner)!r}).name")
    assert BundleModules(outer).resolve("env:NAME") == "counter"
