import pytest

from agent_env import BundleError
from agent_env.manifest import Hosting, Limits, read_manifest
from support.bundles import TOML


def read(tmp_path, text):
    file = tmp_path / "bundle.toml"
    file.write_text(text) if isinstance(text, str) else file.write_bytes(text)
    return read_manifest(file)


def problems(tmp_path, text):
    with pytest.raises(BundleError) as caught:
        read(tmp_path, text)
    return [str(problem) for problem in caught.value.problems]


def test_defaults(tmp_path):
    manifest = read(tmp_path, TOML).manifest
    assert (manifest.name, manifest.splits, manifest.reward) == ("counter", ["train"], None)
    assert (manifest.hosting, manifest.limits) == (Hosting(mode="threads"), Limits())


def test_every_key(tmp_path):
    manifest = read(
        tmp_path,
        """
        name = "full"
        env = "pkg.env:Class"
        splits = ["train", "eval"]
        description = "All of it."
        [reward]
        a = 1
        b = -0.5
        [hosting]
        mode = "processes"
        workers = 2
        [limits]
        reset_timeout = 1
        call_timeout = 2.5
        score_timeout = 3
        max_answer_bytes = 65536
        max_memory_mb = 512
        max_cpu_seconds = 30
        """,
    ).manifest
    assert manifest.reward == {"a": 1, "b": -0.5}
    assert manifest.hosting == Hosting(mode="processes", workers=2)
    assert manifest.limits == Limits(
        reset_timeout=1,
        call_timeout=2.5,
        score_timeout=3,
        max_answer_bytes=65536,
        max_memory_mb=512,
        max_cpu_seconds=30,
    )


@pytest.mark.parametrize("mode", ["threads", "async"])
def test_limits_that_nothing_would_hold_are_refused(tmp_path, mode):
    limits = f"[hosting]\nmode = '{mode}'\n[limits]\nmax_memory_mb = 512\nmax_cpu_seconds = 30\n"
    assert problems(tmp_path, f"{TOML}{limits}") == [
        f'bundle.toml:{line} limits.{key}: no such limit can be held in {mode!r} (set hosting.mode = "processes")'
        for line, key in ((10, "max_cpu_seconds"), (9, "max_memory_mb"))
    ]


def test_where_names_the_line(tmp_path):
    file = read(tmp_path, 'name = "x"\nenv = "e:E"\nsplits = ["a"]\n\n[limits]\ncall_timeout = 2\n')
    assert file.where("env") == "bundle.toml:2 env"
    assert file.where("limits", "call_timeout") == "bundle.toml:6 limits.call_timeout"
    assert file.where("limits", "reset_timeout") == "bundle.toml:5 limits.reset_timeout"
    assert file.where("reward") == "bundle.toml reward"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('name = "x"\nenv = \n', "bundle.toml:2: not TOML: Invalid value"),
        ('name = "x"\nname = "y"\n', "bundle.toml:2: not TOML: Cannot overwrite a value"),
        ('name = "x', "bundle.toml:1: not TOML: "),
        (b'\n\nname = "\xff"', "bundle.toml:3: not UTF-8 (save it as UTF-8)"),
    ],
)
def test_syntax_errors_have_their_line(tmp_path, text, expected):
    (found,) = problems(tmp_path, text)
    assert found.startswith(expected)


def test_all_problems_at_once(tmp_path):
    found = problems(
        tmp_path,
        'name = "no spaces"\nsplits = ["train", "all", "../x"]\nrewrad = "mean"\nreward = 3\n\n'
        '[hosting]\nmode = "thread"\nworkers = 0\n\n[limits]\ncall_timout = 5\nreset_timeout = -1\n',
    )
    expected = [
        "bundle.toml:1 name: String should match pattern",
        "bundle.toml env: 'env' is missing (add it)",
        "bundle.toml:2 splits[1]: 'all' is every split together: name this one otherwise, got 'all'",
        "bundle.toml:2 splits[2]: a split's name has letters, digits, - and _ only, so that tasks/NAME.jsonl is in the",
        "bundle.toml:4 reward: expected a step id, 'mean', 'sum', 'module:function' or a table of a weight per step id",
        "bundle.toml:7 hosting.mode: Input should be 'async', 'threads' or 'processes', got 'thread'",
        "bundle.toml:8 hosting.workers: Input should be greater than or equal to 1, got 0",
        "bundle.toml:12 limits.reset_timeout: Input should be greater than 0, got -1",
        "bundle.toml:11 limits.call_timout: unknown key 'call_timout' (did you mean 'call_timeout'?)",
        "bundle.toml:3 rewrad: unknown key 'rewrad' (did you mean 'reward'?)",
    ]
    assert len(found) == len(expected)
    for actual, start in zip(found, expected, strict=True):
        assert actual.startswith(start)


def test_a_split_named_twice(tmp_path):
    found = problems(tmp_path, 'name = "x"\nenv = "e:E"\nsplits = ["a", "b", "a"]\n')
    assert found == ["bundle.toml:3 splits: split 'a' is named twice (remove one)"]


def test_what_a_bundle_needs_and_official_data(tmp_path):
    (tmp_path / "pins.txt").write_text("engine==1.0\n")
    (tmp_path / "unpack.py").write_text("")
    manifest = read(
        tmp_path,
        TOML
        + """
        [install]
        packages = ["engine[fast]>=1.0,<2"]
        venv = true
        pins = "pins.txt"
        setup = "unpack.py"
        download_mb = 12
        licences = {engine = "MIT"}
        [data]
        what = "games"
        licence = "CC0"
        variable = "GAMES"
        holds = "train"
        """,
    ).manifest
    assert (manifest.install.packages, manifest.install.pins) == (["engine[fast]>=1.0,<2"], "pins.txt")
    assert manifest.install.setup == "unpack.py"
    assert (manifest.data.variable, manifest.data.folder, manifest.data.holds) == ("GAMES", "", "train")


@pytest.mark.parametrize("package", ["--index-url=x", "engine @ file.whl", "engine; os_name", "", "-r other.txt"])
def test_a_package_is_no_option_of_pip(tmp_path, package):
    text = f'{TOML}[install]\npackages = ["{package}"]\ndownload_mb = 1\nlicences = {{}}\n'
    (problem,) = problems(tmp_path, text)
    assert problem.startswith("bundle.toml:7 install.packages[0]: String should match pattern")


@pytest.mark.parametrize(
    ("key", "more", "said"),
    [
        ("pins", "", "pins would change packages that are installed (set install.venv = true)"),
        ("pins", "venv = true\n", "there is no file.txt beside bundle.toml (write it)"),
        ("setup", "", "setup is for a venv alone (set install.venv = true)"),
        ("setup", "venv = true\n", "there is no file.txt beside bundle.toml (write it)"),
    ],
)
def test_pins_and_setup_are_files_for_a_venv(tmp_path, key, more, said):
    install = f'[install]\npackages = ["engine"]\ndownload_mb = 1\nlicences = {{}}\n{more}{key} = "file.txt"\n'
    line = 11 if more else 10
    assert problems(tmp_path, TOML + install) == [f"bundle.toml:{line} install.{key}: {said}"]


@pytest.mark.parametrize("name", ["/etc/passwd", "../other.py", "a/../../b.py", ".hidden"])
def test_a_script_that_sets_up_is_in_the_bundles_folder(tmp_path, name):
    install = f'[install]\npackages = ["e"]\ndownload_mb = 1\nlicences = {{}}\nvenv = true\nsetup = "{name}"\n'
    (problem,) = problems(tmp_path, TOML + install)
    assert problem.startswith("bundle.toml:11 install.setup: String should match pattern")
