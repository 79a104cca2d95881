"""The process of an engine: ``python -I engine_process.py FD SCRIPT [ARGUMENT]…``, by a bundle's own venv's Python.

Nothing of this package can be imported there, so this is the standard library alone. It imports SCRIPT once, with all
that is dear to load, and then only forks: a process an episode, which costs milliseconds and shares what was loaded.
SCRIPT finds its arguments in ``sys.argv``. Over the socket FD this process is told, in `ORDER`s, to fork one (with its
end of a socket pair attached) or to kill one. When the other side closes FD, and so when it ends in any way, this
process kills what it forked and ends.

In a process that was forked an instance of the script's class ``Episode`` answers requests: a message is four bytes of
length and JSON, ``{"do": name, "with": {…}}`` calls that method and is answered with ``{"answer": …}``, or with
``{"failure": …}`` if it raised; the traceback goes to stderr.
"""

import contextlib
import gc
import importlib.util
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
import traceback
from types import ModuleType
from typing import Any

ORDER = struct.Struct("!cI")
OPEN, KILL = b"o", b"k"
LENGTH = struct.Struct("!I")


class EngineProcess:
    """Forks and kills as it is told."""

    def __init__(self, control: socket.socket, script: ModuleType) -> None:
        self._control, self._script = control, script
        self._pids: dict[int, int] = {}  # the other side's number to process id

    def run(self) -> None:
        """Follow orders until the other side closes the socket; then kill what is left."""
        ended, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        told = True
        while told:
            ready = select.select([self._control.fileno(), ended], [], [])[0]
            if ended in ready:
                os.read(ended, 4096)
                self._reap()
            if self._control.fileno() in ready:
                told = self._follow((ended, wake))
        for pid in self._pids.values():
            _kill_group(pid)

    def _follow(self, own: tuple[int, ...]) -> bool:
        """Do what one order says; False if there will be no more."""
        order, descriptors, _, _ = socket.recv_fds(self._control, ORDER.size, 1)
        while order and len(order) < ORDER.size:
            order += self._control.recv(ORDER.size - len(order))
        if not order:
            return False
        what, number = ORDER.unpack(order)
        if what == OPEN:
            self._fork(number, descriptors[0], own)
        elif number in self._pids:
            _kill_group(self._pids[number])
        return True

    def _fork(self, number: int, descriptor: int, own: tuple[int, ...]) -> None:
        try:
            pid = os.fork()
        except OSError:
            traceback.print_exc()
            os.close(descriptor)  # which the other side sees
            return
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._control.close()
            for fd in own:
                os.close(fd)
            _serve(socket.socket(fileno=descriptor), self._script)
        os.close(descriptor)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # as it does itself: whichever comes first
        self._pids[number] = pid

    def _reap(self) -> None:
        while True:
            try:
                # Left as a zombie at first, so that its number cannot be another's when its group is killed.
                one = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if one is None:
                return
            _kill_group(one.si_pid)
            os.waitpid(one.si_pid, 0)
            self._pids = {number: pid for number, pid in self._pids.items() if pid != one.si_pid}


def _serve(connection: socket.socket, script: ModuleType) -> None:
    """Answer the requests of one episode; never returns."""
    status = 1
    try:
        os.setpgid(0, 0)
        threading.Thread(target=_end_when_closed, args=(connection.fileno(),), daemon=True).start()
        episode = script.Episode()
        with connection.makefile("rb") as requests:
            while head := requests.read(LENGTH.size):
                answer = _answer(episode, requests.read(*LENGTH.unpack(head)))
                connection.sendall(LENGTH.pack(len(answer)) + answer)
        status = 0
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    # Not sys.exit: what the engine registered or left running must not keep this process.
    os._exit(status)


def _answer(episode: Any, request: bytes) -> bytes:
    try:
        asked = json.loads(request)
        said = {"answer": getattr(episode, asked["do"])(**asked["with"])}
        return json.dumps(said, allow_nan=False).encode()
    except Exception as error:
        traceback.print_exc()
        return json.dumps({"failure": f"{type(error).__name__}: {error}"}).encode()


def _end_when_closed(fd: int) -> None:
    """End this process with its group when the other end of the socket closes, whatever is being done."""
    poll = select.poll()
    poll.register(fd, 0)  # no event but the hang-up, which is always reported
    poll.poll()
    _kill_group(os.getpid())


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def main(fd: int, file: str) -> None:
    """Run as the module's own process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    spec = importlib.util.spec_from_file_location("engine_script", file)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = script
    spec.loader.exec_module(script)
    # What is loaded now lives as long as this process: the collector need not touch, and so copy, its pages.
    gc.collect()
    gc.freeze()
    EngineProcess(socket.socket(fileno=fd), script).run()


if __name__ == "__main__":
    descriptor, *sys.argv = sys.argv[1:]
    main(int(descriptor), sys.argv[0])
