"""AppWorld in its own venv: what `agent_env.hosting.engine_process` loads there, and forks worlds off.

``sys.argv[1]`` is AppWorld's data. A world is played once when this is loaded, so that nothing is loaded for the first
time in a fork. A fork then serves one world, by AppWorld's own HTTP application on a Unix socket, and ends with its
episode: what grew in it, and what code changed in it, reaches no other. Another fork, in which no agent's code ever
ran, evaluates it, and only that one sees the truth. Nothing of AgentEnv can be imported here.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import gc
import os
import resource
import shutil
import signal
import socket
import struct
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXPERIMENT = "agent-env"
CODE_SECONDS = 75.0
"""Processor time of one piece of code, beyond the 60 s after which AppWorld interrupts it: then the world is killed."""
MORE_MEMORY = 2**30
"""Bytes of address space that a world may take beyond what is loaded; code that wants more gets a MemoryError."""
SPARE_MEMORY = 2**28
"""What AppWorld itself may take beside, so that code that keeps all it can get breaks nothing."""
LARGEST_FILE = 2**28
LONGEST_PATH = 103
"""Bytes of a socket's path that every system takes (unix(7))."""


class Episode:
    """A world or an evaluation of one."""

    def listen(self, task: str) -> str:
        """Make a folder for a world of `task`, and a socket ``http`` in it; returns its path."""
        self.task = task
        self.folder = SCRATCH / str(os.getpid())
        here = self.folder / "data" / "tasks" / task
        here.mkdir(parents=True)
        # What a world needs of AppWorld's data, and not the truth of its task.
        for name in ("api_docs", "base_dbs"):
            (self.folder / "data" / name).symlink_to(DATA / name)
        for name in ("specs.json", "dbs"):
            (here / name).symlink_to(DATA / "tasks" / task / name)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        place = self.folder / "http"
        if len(os.fsencode(place)) > LONGEST_PATH:
            raise OSError(f"{place} is too long for a socket: name a shorter folder in TMPDIR")
        self.socket.bind(str(place))
        self.socket.listen(8)
        return str(self.folder)

    def serve(self) -> None:
        """Serve the world until this process is killed."""
        import uvicorn
        from appworld import AppWorld
        from appworld.serve.environment import app

        os.chdir(self.folder)
        os.environ["IPYTHONDIR"] = os.environ["TMPDIR"] = os.environ["HOME"] = str(self.folder)
        # A kernel that runs out of memory ends this process rather than the server.
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("300", encoding="ascii")
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        stopped = (self.folder / "stopped").open("w")
        confine(self.folder, DATA, self.task)
        # Also code that holds the interpreter's lock: the handler, which writes that it was called, and what it chains
        # to, which ends the process, are not Python.
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        faulthandler.register(signal.SIGPROF, stopped, all_threads=False, chain=True)
        AppWorld._shell_run_cell = bounded(AppWorld._shell_run_cell)
        config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_keep_alive=3600)
        uvicorn.Server(config).run(sockets=[self.socket])

    def evaluate(self, folder: str, task: str) -> dict[str, Any]:
        """What AppWorld's evaluation says of the state that the world in `folder` has saved."""
        from appworld.evaluator import evaluate_task

        judge = Path(folder) / "judge"
        judge.mkdir()
        (judge / "data").symlink_to(DATA)
        (judge / "experiments").symlink_to(Path(folder) / "experiments")
        os.chdir(judge)
        verdict = evaluate_task(task, EXPERIMENT, save_report=False).to_dict()
        return {"success": bool(verdict["success"]), "tests": verdict["num_tests"], "passed": len(verdict["passes"])}


def bounded(run: Callable[..., Any]) -> Callable[..., Any]:
    """AppWorld's method that runs code, within bounds of memory and, by SIGPROF from the kernel, of processor time."""
    held = 0

    def within(self: Any, code: str) -> Any:
        nonlocal held
        # Once the world is loaded, whose data may be large.
        held = held or int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        most = held + MORE_MEMORY + SPARE_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (held + MORE_MEMORY, most))
        signal.setitimer(signal.ITIMER_PROF, CODE_SECONDS)
        try:
            return run(self, code)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            resource.setrlimit(resource.RLIMIT_AS, (most, most))

    return within


def confine(folder: Path, data: Path, task: str) -> None:
    """Have the kernel refuse other files than a world needs, and TCP: Landlock, where it has it (landlock(7)).

    AppWorld's guard is a list of names that code may not call. This keeps the truth of the task, which lies beside what
    the world is made of, and the user's files from code that finds a way round. Raises OSError if it fails.
    """
    long, call = ctypes.c_long, ctypes.CDLL(None, use_errno=True)
    create, add, restrict = 444, 445, 446
    version = call.syscall(long(create), None, long(0), long(1)) if sys.platform == "linux" else -1
    if version < 1:
        return
    # All that there is to allow of files: 13 rights in the first version, renaming into other folders, truncating.
    every = (1 << 13 + (version >= 2) + (version >= 3)) - 1
    read = 1 << 0 | 1 << 2 | 1 << 3  # execute, read a file, list a folder
    of_a_file = 1 << 0 | 1 << 1 | 1 << 2
    tcp = 3  # bind, connect
    attributes = struct.pack("=QQ", every, tcp) if version >= 4 else struct.pack("=Q", every)
    rules = call.syscall(long(create), attributes, long(len(attributes)), long(0))
    here = data / "tasks" / task
    system = (sys.prefix, sys.base_prefix, "/usr", "/lib", "/lib64", "/etc", "/dev", f"/proc/{os.getpid()}")
    own = (data / "api_docs", data / "base_dbs", here / "dbs", here / "specs.json")
    for path in (folder, *map(Path, system), *own):
        if path.exists():
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rights = (every if path == folder else read) & (every if path.is_dir() else of_a_file)
            rule = struct.pack("=Qi", rights, opened)
            if call.syscall(long(add), long(rules), long(1), rule, long(0)):
                raise OSError(ctypes.get_errno(), f"Landlock has no rule for {path}")
            os.close(opened)
    no_new_privileges = 38
    call.prctl(no_new_privileges, 1, 0, 0, 0)
    if call.syscall(long(restrict), long(rules), long(0)):
        raise OSError(ctypes.get_errno(), "Landlock refuses")
    os.close(rules)


def warm_up() -> None:
    """Play and evaluate a world."""
    # Relative to the folder of each world, so that the paths that AppWorld remembers hold in every fork.
    os.environ["APPWORLD_ROOT"] = "."
    os.environ["IPYTHONDIR"] = str(SCRATCH)
    os.chdir(SCRATCH)
    Path("data").symlink_to(DATA)
    from appworld import AppWorld
    from appworld.apps import model_lib
    from appworld.evaluator import evaluate_task
    from appworld.serve import environment  # noqa: F401

    task = min(path.name for path in (DATA / "tasks").iterdir())
    world = AppWorld(task_id=task, experiment_name="warm", load_ground_truth=False)
    for code in ("print(apis.api_docs.show_app_descriptions())", "1 / 0", "apis.supervisor.complete_task(answer=1)"):
        world.execute(code)
    world.task_completed()
    world.close()
    AppWorld.close_all()
    evaluate_task(task, "warm", save_report=False)
    AppWorld.close_all()
    # Connections do not outlive a fork.
    for remembered in (model_lib.get_cached_db_engine, model_lib.get_direct_cached_sqlite3_connection):
        remembered.cache_clear()
    gc.collect()


def tidy_up() -> None:
    """Remove the folders of such processes as were killed."""
    for left in Path(tempfile.gettempdir()).glob("appworld-*-*"):
        with contextlib.suppress(OSError, ValueError):
            if left.stat().st_uid == os.getuid():
                try:
                    os.kill(int(left.name.split("-")[1]), 0)
                except ProcessLookupError:
                    shutil.rmtree(left, ignore_errors=True)


warnings.simplefilter("ignore")
DATA = Path(sys.argv[1]).resolve()
tidy_up()
SCRATCH = Path(tempfile.mkdtemp(prefix=f"appworld-{os.getpid()}-")).resolve()
atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)
warm_up()
