"""The test's side of `_workers`: starts tasks in processes of their own, kills them, hears them."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
_PIPE_BYTES = 1 << 20


class Nursery:
    """Starts tasks of `_workers.TASKS`; whatever still runs at the end is killed."""

    def __enter__(self) -> Self:
        self._told = b""
        self._reader, writer = os.pipe()
        os.set_blocking(self._reader, False)
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "tests.crash._workers", str(writer)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                pass_fds=[writer],
                start_new_session=True,
            )
        finally:
            os.close(writer)
        self._alive: set[int] = set()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pid in self._alive:
            self.kill(pid)  # still ours: nobody has waited for it
        self._process.communicate()
        os.close(self._reader)

    def clear(self) -> None:
        """Kill what still runs, and forget what was told."""
        for pid in list(self._alive):
            self.kill(pid)
            self.wait(pid)
        self.heard()
        self._told = b""

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, "the process that starts the others has ended"
        answered: dict[str, Any] = json.loads(answer)
        return answered

    def start(self, task: str, **args: Any) -> int:
        """Start a task; return its process id."""
        pid: int = self._ask(do="fork", task=task, args=args)["pid"]
        self._alive.add(pid)
        return pid

    def kill(self, pid: int) -> None:
        """Send `SIGKILL` to a task that nobody has waited for."""
        assert pid in self._alive
        os.kill(pid, signal.SIGKILL)

    def wait(self, pid: int) -> int:
        """Wait for a task; return its exit code, or less than 0: the signal that ended it."""
        code: int = self._ask(do="wait", pid=pid)["exit"]
        self._alive.remove(pid)
        return code

    def heard(self) -> list[dict[str, Any]]:
        """Return what was told since the last time, in whole lines."""
        while True:
            try:
                piece = os.read(self._reader, _PIPE_BYTES)
            except BlockingIOError:
                break
            if not piece:
                break
            self._told += piece
        *lines, self._told = self._told.split(b"\n")
        return [json.loads(line) for line in lines]

    def finish(self, *pids: int, heard: Sequence[dict[str, Any]] = ()) -> list[dict[str, Any]]:
        """Wait for tasks that must end well; return what they told.

        Args:
            pids: The tasks.
            heard: What was heard of them before: a failure may be among it.
        """
        told: list[dict[str, Any]] = []
        for pid in pids:
            code = self.wait(pid)
            told += self.heard()
            failed = [one["failed"] for one in (*heard, *told) if "failed" in one]
            assert not failed, failed[0]
            assert code == 0
        return told
