"""System calls of the sandbox's own host that record, fail, are missing, or end the process."""

from __future__ import annotations

import errno
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from attrs import define, field

from agentforge_sessions.sandbox.host.files.system_calls import SystemCalls
from tests.support.filesystem import Call, Plan


class WithoutOpenat2(SystemCalls):
    """The real system calls, on an old kernel or behind a filter that refuses `openat2`."""

    def __init__(self, number: int = errno.ENOSYS) -> None:
        self.number = number

    def openat2(self, *_: Any) -> int:  # type: ignore[override]
        raise OSError(self.number, os.strerror(self.number))


class FullDisk(SystemCalls):
    """The real system calls, on a disk that takes nothing."""

    def pwritev(self, *_: Any) -> int:  # type: ignore[override]
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@define
class FaultyCalls:
    """The real system calls, recorded, some of them failing as a test asks.

    A call that fails changes nothing, except `close`, which always closes, as Linux does. A listing
    is one call to begin and one ("readdir") for its entries.
    """

    real: SystemCalls = field(factory=SystemCalls)
    plan: Plan | None = None
    trace: list[Call] = field(factory=list)
    failed: list[Call] = field(factory=list)

    def begin(self, plan: Plan | None = None) -> None:
        """Forget the trace and follow another plan from here on."""
        self.plan, self.trace, self.failed = plan, [], []

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        real = getattr(self.real, operation)

        def call(*args: Any, **kwargs: Any) -> Any:
            if operation == "close":
                real(*args)
                return self._step(operation, args)
            self._step(operation, args)
            return real(*args, **kwargs)

        return call

    @contextmanager
    def scandir(self, fd: int) -> Iterator[Iterator[os.DirEntry[str]]]:
        self._step("scandir", (fd,))
        with self.real.scandir(fd) as listing:
            yield self._entries(listing)

    def _entries(self, listing: Iterator[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        self._step("readdir", ())
        yield from listing

    def _step(self, operation: str, args: tuple[Any, ...]) -> None:
        call = Call(operation, " ".join(str(arg) for arg in args if isinstance(arg, (bytes, int))))
        index = len(self.trace)
        self.trace.append(call)
        number = None if self.plan is None else self.plan(index, call)
        if number is not None:
            self.failed.append(call)
            raise OSError(number, os.strerror(number))


class DyingCalls:
    """The real system calls, until the one that is the last: `SIGKILL` before, in or after it.

    "in" is for a write: half of the bytes are written. A process of its own makes these for itself.
    """

    def __init__(self, last: int | None = None, moment: str = "before") -> None:
        self._real = SystemCalls()
        self._last, self._moment = last, moment
        self._numbers = itertools.count(1)
        self.calls: list[str] = []

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        real = getattr(self._real, operation)

        def call(*args: Any, **kwargs: Any) -> Any:
            number = next(self._numbers)
            self.calls.append(operation)
            if number != self._last:
                return real(*args, **kwargs)
            try:
                if self._moment == "in":
                    fd, buffers, at = args
                    whole = b"".join(map(bytes, buffers))
                    os.pwrite(fd, whole[: len(whole) // 2], at)
                elif self._moment == "after":
                    real(*args, **kwargs)
            finally:
                os.kill(os.getpid(), signal.SIGKILL)

        return call
