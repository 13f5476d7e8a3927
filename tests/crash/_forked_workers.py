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
from pathlib import Path
from types import TracebackType
from typing import Self

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

    def run(self, base: Path, log: Path, *, life_s: float | None = None) -> int:
        """Run a worker, killing it after `life_s` seconds; return how it ended."""
        self._tell(f"{base}\t{log}")
        pid = self._hear()
        self._tell("go")
        if life_s is not None:
            time.sleep(life_s)
            os.kill(pid, signal.SIGKILL)
        self._tell("collect")
        return self._hear()
