"""One run of a program with bounded time and output; all that it started is ended with it."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Final, NamedTuple, Protocol

from .cancellation import check_cancelled, current_token

KEPT_STDERR: Final = 16_384
"""How much of standard error is retained, in bytes: the end of it."""
_GRACE_S: Final = 2.0
_DRAIN_S: Final = 0.2
"""How long to keep reading pipes that a program left open after its end."""
_LOOK_S: Final = 0.01
"""How often to look whether a program has ended, on a system that reports no end."""
_PIECE: Final = 1 << 16


class ProgramRun(NamedTuple):
    """The parameters of a run.

    Attributes:
        words: The program and its arguments.
        environment: All of its environment.
        stdin: Its standard input.
        timeout_s: Its time limit, in seconds.
        max_output: The limit of its standard output, in bytes.
        output_fd: An open file that receives its standard output instead, unbounded.
        held: Descriptors that it inherits, so that a lock on one lasts until it has ended, even if
            this process dies first.
        umask: Its umask; this process's own if -1.
        directory: Its working directory; this process's own if None.
        until: Returns whether its standard output so far is sufficient; its standard input stays
            open until then. None: standard input is closed after its last byte.
        mixed: Whether `output_fd` receives its standard error, too.
    """

    words: Sequence[str | bytes]
    environment: Mapping[str, str]
    stdin: bytes = b""
    timeout_s: float = 120.0
    max_output: int = 64 << 20
    output_fd: int | None = None
    held: Sequence[int] = ()
    umask: int = -1
    directory: str | os.PathLike[str] | None = "/"
    until: Callable[[bytes], bool] | None = None
    mixed: bool = False


class Ended(NamedTuple):
    """How a run ended.

    Attributes:
        exit_code: Its exit code; negative for a signal.
        stdout: Its standard output.
        stderr: The end of its standard error.
        cut_short: The limit that ended it: "time" or "output"; None if none did.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    cut_short: str | None = None


class ProgramRunner(Protocol):
    """Runs programs."""

    def __call__(self, run: ProgramRun) -> Ended:
        """Run a program until it ends or a limit is reached.

        Raises:
            OSError: It can't be started.
        """
        ...


def run_program(run: ProgramRun, *, monotonic: Callable[[], float] = time.monotonic) -> Ended:
    """Run a program in a process group of its own; nothing of the group is left afterwards.

    Standard input is a pipe that is closed after its last byte and, if `until` is given, not before
    that holds. At a limit, or when the caller is interrupted or cancelled, the group gets SIGTERM,
    on which a program can clean up (git removes its lock files), after 2 seconds SIGKILL; after a
    normal end, remaining processes of the group are killed.

    Raises:
        OSError: It can't be started.
        ValueError: A word or a variable contains a NUL and can't be passed to a program.
        OperationCancelled: The thread's operation was cancelled; nothing of the program is left.
    """
    check_cancelled()
    process = subprocess.Popen(  # noqa: S603 (no shell; the caller names the program)
        run.words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if run.output_fd is None else run.output_fd,
        stderr=subprocess.STDOUT if run.mixed else subprocess.PIPE,
        env=run.environment,
        cwd=run.directory,
        pass_fds=tuple(run.held),
        start_new_session=True,
        umask=run.umask,
    )
    stdout, stderr = bytearray(), bytearray()
    ended = False
    try:
        cut_short = _talk(process, run, stdout, stderr, monotonic() + run.timeout_s, monotonic)
        ended = cut_short is None
    finally:
        _end(process, ended=ended)
    return Ended(process.returncode, bytes(stdout), bytes(stderr[-KEPT_STDERR:]), cut_short)


_listener: Final[ContextVar[Callable[[bytes], None] | None]] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Callable[[bytes], None]) -> Iterator[None]:
    """Call a function with each piece of standard output of the programs that the block runs."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def hear(piece: bytes) -> None:
    """Pass on a piece of a running program's standard output."""
    listener = _listener.get()
    if listener is not None:
        listener(piece)


def _talk(
    process: subprocess.Popen[bytes],
    run: ProgramRun,
    stdout: bytearray,
    stderr: bytearray,
    deadline: float,
    monotonic: Callable[[], float],
) -> str | None:
    """Feed and read the program until it has ended; return the limit that it reached, or None."""
    rest = memoryview(run.stdin)
    ended = fed = False
    with (
        selectors.DefaultSelector() as selector,
        _reporting_end(process.pid, selector) as exited,
        _waking_on_cancel(selector) as others,
    ):
        for stream, kept in ((process.stdout, stdout), (process.stderr, stderr)):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, selectors.EVENT_READ, kept)
        assert process.stdin is not None  # noqa: S101 (it is a pipe)
        os.set_blocking(process.stdin.fileno(), False)
        selector.register(process.stdin, selectors.EVENT_WRITE)
        while len(selector.get_map()) > others or (exited is None and not ended):
            left = deadline - monotonic()
            if left <= 0:
                return "time"
            longest = _DRAIN_S if ended else _LOOK_S if exited is None else left
            events = selector.select(min(left, longest))
            check_cancelled()
            if ended and not events:
                break  # remaining processes may hold the pipes open for ever
            ended = ended or (exited is None and process.poll() is not None)
            for key, _ in events:
                if key.fd == exited:
                    selector.unregister(exited)
                    ended = True
                elif key.data is None:
                    rest = _feed(process, selector, rest)
                    fed = not rest
                else:
                    _drain(key, selector, heard=key.data is stdout)
            if fed and not process.stdin.closed and _has_all(run, stdout):
                process.stdin.close()
            if len(stdout) > run.max_output:
                return "output"
            if len(stderr) > 2 * KEPT_STDERR:
                del stderr[:-KEPT_STDERR]
    return None


@contextmanager
def _waking_on_cancel(selector: selectors.BaseSelector) -> Iterator[int]:
    """Make a selector wake when the thread's operation is cancelled.

    Yields:
        How many descriptors it has for that.
    """
    token = current_token()
    if token is None:
        yield 0
        return
    reading, writing = os.pipe()
    try:
        selector.register(reading, selectors.EVENT_READ)
        with token.calling(lambda: os.write(writing, b"x")):
            yield 1
    finally:
        os.close(reading)
        os.close(writing)


def _feed(
    process: subprocess.Popen[bytes], selector: selectors.BaseSelector, rest: memoryview
) -> memoryview:
    """Write a piece of the input; a program may stop reading without harm."""
    stream = process.stdin
    assert stream is not None  # noqa: S101 (it is a pipe)
    try:
        rest = rest[os.write(stream.fileno(), rest[:_PIECE]) :] if rest else rest
    except BlockingIOError:
        return rest
    except BrokenPipeError:
        rest = rest[:0]
    if not rest:
        selector.unregister(stream)
    return rest


def _has_all(run: ProgramRun, stdout: bytearray) -> bool:
    return run.until is None or run.until(bytes(stdout))


def _drain(key: selectors.SelectorKey, selector: selectors.BaseSelector, *, heard: bool) -> None:
    try:
        piece = os.read(key.fd, _PIECE)
    except BlockingIOError:
        return
    if not piece:
        selector.unregister(key.fileobj)
    key.data.extend(piece)
    if heard:
        hear(piece)


def _end(process: subprocess.Popen[bytes], *, ended: bool) -> None:
    """End what is left of the group, then collect the exit code.

    The group is killed before its leader is waited for: until then its id can mean no other group.
    Where no end is reported, the leader was waited for just before.
    """
    with suppress(ProcessLookupError, PermissionError):
        if not ended:
            os.killpg(process.pid, signal.SIGTERM)
            with suppress(OSError):  # no descriptor left to wait by: it is killed at once
                _wait_for_end(process)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _wait_for_end(process: subprocess.Popen[bytes]) -> None:
    """Wait until a process has ended, or its grace period has."""
    with (
        selectors.DefaultSelector() as selector,
        _reporting_end(process.pid, selector) as exited,
        suppress(subprocess.TimeoutExpired),
    ):
        if exited is None:
            process.wait(_GRACE_S)
        else:
            selector.select(_GRACE_S)


@contextmanager
def _reporting_end(pid: int, selector: selectors.BaseSelector) -> Iterator[int | None]:
    """Make a selector wake when a child has ended.

    Yields:
        The descriptor for that; None on a system that has none.
    """
    if not hasattr(os, "pidfd_open"):
        yield None
        return
    with os.fdopen(os.pidfd_open(pid), "rb", buffering=0) as file:
        selector.register(file.fileno(), selectors.EVENT_READ)
        yield file.fileno()
