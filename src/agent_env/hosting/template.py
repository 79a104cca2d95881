"""The process that workers are forked off: ``python -m agent_env.hosting.template FD BUNDLE SERVER CAPS [--bare]``.

It loads the bundle once and then only forks, so that a worker costs milliseconds and shares what was loaded. It runs a
single thread, the one place from which forking is safe; with ``--bare`` it loads nothing, for a bundle whose modules
start threads, and each worker loads it anew. It dies with the server, whose process id is SERVER, and its workers die
with it. What each of them may take is CAPS, the JSON of `agent_env.hosting.watch.Caps`.

Over the socket FD it is told, in `ORDER`s, to fork a worker (with the worker's end of a socket pair attached) or to
kill one; it answers with JSON lines, `Notice`: first that it is ready or why it is not, then of each worker that ended.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import math
import os
import select
import signal
import socket
import struct
import sys
import threading

import msgspec

from agent_env.bundle import load_bundle
from agent_env.errors import AgentEnvError
from agent_env.hosting.parent_death import adopt_orphans, children, die_with_parent
from agent_env.hosting.watch import Caps, Requests, Watch
from agent_env.hosting.worker import work

ORDER = struct.Struct("!cI")
FORK, KILL = b"f", b"k"


class Notice(msgspec.Struct, omit_defaults=True):
    """To the server. `ready` once; `threads` names those that loading the bundle left running; `worker` ended so."""

    ready: bool = False
    failure: str = ""
    threads: list[str] = []
    worker: int = -1
    exit_status: int | None = None
    signal: int | None = None


class Template:
    """Forks workers as told, and says how each ended."""

    def __init__(self, control: socket.socket, bundle_path: str, caps: Caps) -> None:
        self._control = control
        self._watch = Watch(caps)
        self._over: dict[int, str] = {}  # workers that were killed for what they took, and why
        self._load = functools.cache(functools.partial(load_bundle, bundle_path))
        self._workers: dict[int, int] = {}  # process id to the server's number
        self._own: set[int] = set()  # what the bundle's modules started when they were loaded

    def preload(self) -> None:
        """Load the bundle, and say which threads that started."""
        try:
            self._load()
        except (Exception, SystemExit) as error:
            what = str(error) if isinstance(error, AgentEnvError) else f"{type(error).__name__}: {error}"
            self._tell(Notice(failure=what))
            os._exit(1)
        threads = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
        self._tell(Notice(ready=True, threads=threads))
        if threads:
            os._exit(0)
        self._own = set(children())
        # What is loaded now lives as long as this process: the collector need not touch, and so copy, its pages.
        gc.collect()
        gc.freeze()

    def ready(self) -> None:
        """Say that workers can be asked for, though nothing is loaded."""
        self._tell(Notice(ready=True))

    def run(self) -> None:
        """Follow orders until the server closes the socket; then kill every worker."""
        ended, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(ended, select.POLLIN)
        while True:
            wait = self._watch.wait
            ready = {fd for fd, _ in poll.poll(None if wait is None else math.ceil(1000 * wait))}
            for pid, why in self._watch.over().items():
                self._over[pid] = why
                _kill_group(pid)
            if ended in ready:
                os.read(ended, 4096)
                self._reap()
            if self._control.fileno() in ready and not self._follow(ended, wake):
                break
        for pid in self._workers:
            _kill_group(pid)
        self._own.clear()
        self._kill_orphans()

    def _follow(self, *own: int) -> bool:
        """Do what one order says; False if there will be no more."""
        order, descriptors, _, _ = socket.recv_fds(self._control, ORDER.size, 1)
        while order and len(order) < ORDER.size:
            more = self._control.recv(ORDER.size - len(order))
            if not more:
                return False
            order += more
        if not order:
            return False
        what, number = ORDER.unpack(order)
        if what == FORK:
            self._fork(number, descriptors[0], own)
        else:
            for pid, worker in self._workers.items():
                if worker == number:
                    _kill_group(pid)
        return True

    def _fork(self, number: int, descriptor: int, own: tuple[int, ...]) -> None:
        template, requests = os.getpid(), Requests()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(descriptor)
            requests.close()
            self._tell(Notice(worker=number, failure=f"could not be started: {error}"))
            return
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._control.close()
            for fd in own:
                os.close(fd)
            work(socket.socket(fileno=descriptor), self._load, template, requests)
        os.close(descriptor)
        with contextlib.suppress(OSError):
            # Also done by the worker itself; whichever comes first, the group exists before it can be killed.
            os.setpgid(pid, pid)
        self._workers[pid] = number
        self._watch.add(pid, requests)

    def _reap(self) -> None:
        while True:
            try:
                # Left as a zombie at first, so that its number cannot be another's when its group is killed.
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                self._kill_orphans()
                return
            _kill_group(ended.si_pid)
            os.waitpid(ended.si_pid, 0)
            self._watch.remove(ended.si_pid)
            number = self._workers.pop(ended.si_pid, None)
            why = self._over.pop(ended.si_pid, "")
            if number is not None:
                was_signal = ended.si_code != os.CLD_EXITED
                self._tell(
                    Notice(
                        worker=number,
                        failure=why,
                        exit_status=None if was_signal else ended.si_status,
                        signal=ended.si_status if was_signal else None,
                    )
                )

    def _kill_orphans(self) -> None:
        """End what workers that have ended left behind: it is this process's by now, in whatever group it hid."""
        for pid in children():
            if pid not in self._workers and pid not in self._own:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _tell(self, notice: Notice) -> None:
        self._control.sendall(msgspec.json.encode(notice) + b"\n")


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def main() -> None:
    """Run as the module's own process."""
    fd, bundle_path, server, caps, *flags = sys.argv[1:]
    die_with_parent(int(server))
    adopt_orphans()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    template = Template(socket.socket(fileno=int(fd)), bundle_path, msgspec.json.decode(caps, type=Caps))
    if "--bare" in flags:
        template.ready()
    else:
        template.preload()
    with contextlib.suppress(ConnectionError):
        template.run()


if __name__ == "__main__":
    main()
