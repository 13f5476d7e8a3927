"""Python processes that begin where others have imported everything: quickly, and else as usual.

A process that has imported what the others need forks one of them for each command that is started
through it. `python -m tests.support.warm_python SOCKET MODULE...` is that process; `warm_launcher`
is what a test starts in the place of Python. What a process is started with (arguments, directory,
environment, standard descriptors, ignored signals) and how it ends are the same as without either.
Only its process id is another than the one that the test sees: to see a process of Python as others
do, or to see what it imports, start one without this.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from attrs import define, frozen

ROOT: Final = Path(__file__).parents[2]
_LAUNCHER: Final = Path(__file__).with_name("warm_launcher.py")
_PATIENCE_S: Final = 60.0


@contextmanager
def warm_python(*modules: str, env: dict[str, str]) -> Iterator[Sequence[str]]:
    """Import modules once, and yield the command that stands for Python in this block.

    It takes `-m MODULE ARGUMENT...` or `-c CODE ARGUMENT...`. What still runs at the end of the
    block is killed.

    Args:
        modules: What is imported.
        env: The environment in which it is.
    """
    with tempfile.TemporaryDirectory(prefix="warm-") as directory:
        path = os.path.join(directory, "socket")
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.warm_python", path, *modules],
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C at the tests is for the tests, which then end this
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            yield (sys.executable, "-I", "-S", str(_LAUNCHER), path)
        finally:
            process.stdin.close()
            process.stdout.close()
            assert process.wait(_PATIENCE_S) == 0


@frozen
class _Start:
    """What a launcher asks for."""

    arguments: list[str]
    directory: str
    environment: dict[str, str]
    ignored: list[int]
    descriptors: list[int]

    @classmethod
    def read(cls, wire: socket.socket) -> _Start | None:
        """What comes from a launcher; None if it died before it had said it."""
        size, descriptors, _, _ = socket.recv_fds(wire, 8, 3)
        with wire.makefile("rb") as rest:
            asked = rest.read(int.from_bytes(size, "big")) if len(size) == 8 else b""
        if not asked:
            for fd in descriptors:
                os.close(fd)
            return None
        return cls(*json.loads(asked), descriptors)

    def run(self) -> None:
        """Become what was asked for, as far as this process is not yet, and run it."""
        for number, fd in enumerate(self.descriptors):
            os.dup2(fd, number)
            os.close(fd)
        self._open_streams()
        os.chdir(self.directory)
        os.environ.clear()
        os.environ.update(self.environment)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for name in self.ignored:
            signal.signal(name, signal.SIG_IGN)
        how, what, *arguments = self.arguments
        sys.argv[:] = [how, *arguments]
        if how == "-m":
            sys.path[0] = self.directory
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = ""
            exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})

    @staticmethod
    def _open_streams() -> None:
        """Open the standard streams anew: those that there are know what they led to."""
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            before = getattr(sys, name)
            stream = open(  # noqa: SIM115 (it is open as long as the process is)
                number,
                "w" if number else "r",
                encoding=before.encoding,
                errors=before.errors,
                closefd=False,
            )
            stream.reconfigure(line_buffering=number == 2 or os.isatty(number))
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


@define(eq=False)
class _Child:
    """A process that was forked, its end, and the launcher that waits for that."""

    pid: int
    end: int
    wire: socket.socket


class _Forks:
    """Forks a process for each launcher, and tells the launcher of its end."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._children: set[_Child] = set()

    def serve(self) -> _Start | None:
        """Fork until standard input ends; in a child, return what it is to become."""
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(0, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                child: _Child | None = key.data
                if key.fileobj == 0:
                    self._end()
                    return None
                if child is None:
                    start = self._fork()
                    if start is not None:
                        return start
                elif child not in self._children:
                    continue  # its end was in the same look
                elif key.fd == child.end:
                    self._ended(child)
                else:  # the launcher was killed, and this is its process
                    os.kill(child.pid, signal.SIGKILL)
                    self._selector.unregister(child.wire)

    def _fork(self) -> _Start | None:
        wire, _ = self._listener.accept()
        start = _Start.read(wire)
        if start is None:
            wire.close()
            return None
        pid = os.fork()
        if pid == 0:
            wire.close()
            self._close()
            return start
        for fd in start.descriptors:
            os.close(fd)
        child = _Child(pid, os.pidfd_open(pid), wire)
        self._children.add(child)
        self._selector.register(child.end, selectors.EVENT_READ, child)
        self._selector.register(wire, selectors.EVENT_READ, child)
        with suppress(BrokenPipeError):
            wire.sendall(f"{pid}\n".encode())
        return None

    def _ended(self, child: _Child) -> None:
        code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        self._selector.unregister(child.end)
        with suppress(KeyError):
            self._selector.unregister(child.wire)
        with suppress(BrokenPipeError):
            child.wire.sendall(f"{code}\n".encode())
        self._children.remove(child)
        self._forget(child)

    def _end(self) -> None:
        for child in self._children:
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
        self._close()

    def _close(self) -> None:
        """Let go of everything that is not a child's own business."""
        self._selector.close()
        self._listener.close()
        for child in self._children:
            self._forget(child)

    @staticmethod
    def _forget(child: _Child) -> None:
        os.close(child.end)
        child.wire.close()


def main() -> None:
    """Import, fork on request, and be what was forked."""
    _, path, *modules = sys.argv
    for name in modules:
        importlib.import_module(name)
    assert os.listdir("/proc/self/task") == [str(os.getpid())], "a fork would lose threads"
    gc.collect()
    gc.freeze()  # else the children's collections would copy every page
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(128)
        print("ready", flush=True)
        start = _Forks(listener).serve()
    if start is not None:
        start.run()


if __name__ == "__main__":
    main()
