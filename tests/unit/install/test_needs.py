import pytest

from agent_env import BundleError, load_bundle
from agent_env.install.installer import setup_of
from agent_env.install.needs import name_of, official_data, venv_python
from support.bundles import TOML, write_bundle

INSTALL = """
[install]
packages = ["numpy", "no-such-engine[fast]>=1.0,<2", "no_such_other==3"]
download_mb = 5
licences = {no-such-engine = "MIT"}
"""
DATA = """
[data]
what = "all the games"
licence = "MIT"
variable = "COUNTER_DATA"
folder = "~/counter"
holds = "games/train"
"""


@pytest.mark.parametrize(
    ("requirement", "name"),
    [("textworld[pddl]>=1.7,<1.8", "textworld"), ("numpy", "numpy"), ("a.b_c-d==1", "a.b_c-d"), ("x >= 2", "x")],
)
def test_the_name_of_a_requirement(requirement, name):
    assert name_of(requirement) == name


def test_a_bundle_without_its_packages_says_what_to_do(tmp_path):
    folder = write_bundle(tmp_path, {"bundle.toml": TOML + INSTALL, "env.py": "import no_such_engine"})
    with pytest.raises(BundleError) as caught:
        load_bundle(folder)
    assert [str(problem) for problem in caught.value.problems] == [
        "bundle.toml:6 install: counter needs packages that are not installed: no-such-engine, no_such_other "
        f"(agent-env env install {folder})"
    ]


def test_a_bundle_with_its_packages_loads(tmp_path):
    needs = INSTALL.replace(', "no-such-engine[fast]>=1.0,<2", "no_such_other==3"', "")
    assert load_bundle(write_bundle(tmp_path, {"bundle.toml": TOML + needs})).name == "counter"


def test_a_venv_that_is_not_there_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENT_ENV_HOME", str(tmp_path / "cache"))
    folder = write_bundle(tmp_path / "counter", {"bundle.toml": f"{TOML}{INSTALL}venv = true\n"})
    what = "counter needs packages of a venv of its own that are not installed: numpy, no-such-engine, no_such_other"
    with pytest.raises(BundleError, match=what):
        venv_python(folder)


def test_official_data_is_where_the_variable_says_or_in_its_usual_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("COUNTER_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = write_bundle(tmp_path / "counter", {"bundle.toml": TOML + DATA})
    assert official_data(folder) is None
    (tmp_path / "home/counter/games/train").mkdir(parents=True)
    assert official_data(folder) == tmp_path / "home" / "counter"
    monkeypatch.setenv("COUNTER_DATA", "")
    assert official_data(folder) is None
    monkeypatch.setenv("COUNTER_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(BundleError, match=r"COUNTER_DATA: .*elsewhere has no games/train \(name the folder"):
        load_bundle(folder)
    assert setup_of(folder).data == f"no data (COUNTER_DATA: {tmp_path / 'elsewhere'} has no games/train)"
    (tmp_path / "elsewhere/games/train").mkdir(parents=True)
    assert official_data(folder) == tmp_path / "elsewhere"


def test_a_bundle_without_official_data(tmp_path):
    assert official_data(write_bundle(tmp_path)) is None
