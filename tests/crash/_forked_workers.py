"""Workers that are forked on request and killed at any instant, for the campaigns on runs.

A campaign's module is both sides: the test makes `Workers(__name__)`, which runs the module as the
process that forks; there the module calls `serve(work)`. Forking spares each worker the start of an
interpreter, so that a kill hits the run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

KILLED = -signal.SIGKILL
ROOT = Path(__file__).resolve().parents[2]


def serve(work: Callable[[Path, Path], object]) -> None:
    """Fork a worker for each line of input, `BASE<tab>LOG`, when it is wanted and no sooner."""
    import structlog

    structlog.configure(processors=[lambda *_: b""], logger_factory=structlog.ReturnLoggerFactory())
    for line in sys.stdin:
        base, log = map(Path, line.rstrip("\n").split("\t"))
        ready, begin = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.close(begin)
                os.read(ready, 1)
                work(base, log)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(ready)
        print(pid, flush=True)
        sys.stdin.readline()
        os.close(begin)
        sys.stdin.readline()  # until then its pid stays its own, dead or not
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


class Workers:
    """The test's hand on the process that forks workers."""

    def __init__(self, module: str) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.communicate()

    def _tell(self, line: str) -> None:
        assert self._server.stdin is not None
        print(line, file=self._server.stdin, flush=True)

    def _hear(self) -> int:
        assert self._server.stdout is not None
        return int(self._server.stdout.readline())

    def run(
        self,
        base: Path,
        log: Path,
        *,
        life_s: float | None = None,
        since: Callable[[], object] = lambda: True,
        with_children: bool = False,
    ) -> int:
        """Run a worker, killing it after `life_s` seconds; return how it ended.

        Args:
            base: What the worker is given.
            log: The same.
            life_s: When it is killed, in seconds; never if None.
            since: From when on that is counted: when this holds, or the worker has ended.
            with_children: Whether what it started dies in the same instant, as when a container or
                the machine ends; else a git of it may outlive it.
        """
        self._tell(f"{base}\t{log}")
        pid = self._hear()
        self._tell("go")
        if life_s is not None:
            while not since() and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.0005)
            time.sleep(life_s)
            _kill(pid, with_children=with_children)
        self._tell("collect")
        return self._hear()


def _kill(pid: int, *, with_children: bool) -> None:
    """Kill a worker that nobody has waited for yet: its pid is its own."""
    children: list[psutil.Process] = []
    if with_children:
        os.kill(pid, signal.SIGSTOP)  # from now on it starts nothing
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(pid).children(recursive=True)
    os.kill(pid, signal.SIGKILL)
    for child in children:
        with suppress(psutil.NoSuchProcess):
            child.kill()
