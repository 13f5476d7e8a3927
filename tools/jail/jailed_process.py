"""One run of bubblewrap: start it, enforce its limits, read its output, and see it end."""

from __future__ import annotations

import os
import resource
import select
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Self

from ..base.files.linux_calls import process_descriptor
from ..base.program_run import hear
from .bubblewrap import StatusReport, refusal_of
from .command_programs import NOT_EXECUTABLE, NOT_FOUND
from .errors import JailNotEnded, JailUnavailable, Refusal
from .policy import JailLimits, JailResult, StopReason
from .walls.control_group import ControlGroup
from .watch import Watch

_START_S: Final = 60.0
_END_S: Final = 30.0
_DRAIN_S: Final = 5.0
_PIECE: Final = 1 << 16
_CANCEL_S: Final = 0.05
_NOT_STARTED: Final = "bwrap: execvp "


class Channels:
    """The two pipes between bubblewrap and its maker, as the descriptors of their ends.

    Each end is closed once: its number may be another file's right after.
    """

    def __init__(self) -> None:
        """Open both pipes."""
        self.status = os.pipe()
        self._open = {*self.status}
        try:
            self.block = os.pipe()
        except BaseException:
            self.close()
            raise
        self._open.update(self.block)

    def hand_over(self) -> None:
        """Close bubblewrap's ends in this process."""
        for fd in (self.status[1], self.block[0]):
            self._open.remove(fd)
            os.close(fd)

    def close(self) -> None:
        """Close the remaining ends."""
        while self._open:
            os.close(self._open.pop())


class JailedProcess:
    """Bubblewrap and its processes, all of which have ended when the block is left.

    Used by one thread from its start to its end: the kernel ends a jail with the thread that
    started it.
    """

    def __init__(
        self,
        argv: Sequence[str],
        channels: Channels,
        fds: Sequence[int],
        *,
        limits: JailLimits,
        stdin: bytes,
        cancelled: Callable[[], bool] | None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start bubblewrap, which waits before it starts the command.

        Args:
            argv: Its command line.
            channels: The pipes that the command line names.
            fds: The other descriptors that it names.
            limits: The limits of the command.
            stdin: The command's input.
            cancelled: Returns whether to end it; called twenty times a second.
            monotonic: The clock of the deadline.

        Raises:
            JailUnavailable: Bubblewrap can't be started.
        """
        self._limits = limits
        self._stdin = memoryview(stdin)
        self._cancelled = cancelled
        self._monotonic = monotonic
        self._report = StatusReport()
        self._channels = channels
        self._child_fd: int | None = None
        self._out: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        try:
            self._process = subprocess.Popen(  # noqa: S603 (bubblewrap)
                argv,
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(channels.status[1], channels.block[0], *fds),
                env={"LC_ALL": "C"},
                cwd="/",
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise JailUnavailable(
                Refusal.OTHER, f"bubblewrap can't be started ({error.strerror})", "see that it can"
            ) from error
        channels.hand_over()
        self._process_fd = process_descriptor(self._process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._end()
        finally:
            for fd in (self._process_fd, self._child_fd):
                if fd is not None:
                    os.close(fd)
            for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
                if stream is not None:
                    stream.close()

    # ------------------------------------------------------------------------------------ the start

    def make_ready(self, group: ControlGroup | None) -> bool:
        """Wait until the jail is made, and set its limits; return whether the group accepted it.

        Raises:
            JailUnavailable: It could not be made.
        """
        until = self._monotonic() + _START_S
        while self._report.child is None:
            left = until - self._monotonic()
            piece = b""
            if left > 0 and _readable(self._channels.status[0], left):
                piece = os.read(self._channels.status[0], _PIECE)
            if not piece:
                raise self._refused()
            self._report.feed(piece)
        child = self._report.child
        with suppress(ProcessLookupError):
            self._child_fd = process_descriptor(child)
            for kind, value in _process_limits(self._limits):
                if sys.platform == "linux":  # as every jail's
                    resource.prlimit(child, kind, (value, value))
        return group is not None and group.add(child)

    def _refused(self) -> JailUnavailable:
        """Return the error for a jail that could not be made."""
        self._end()
        assert self._process.stderr is not None  # noqa: S101 (it is a pipe)
        os.set_blocking(self._process.stderr.fileno(), False)
        said = self._out["stderr"]
        with suppress(BlockingIOError):
            said += os.read(self._process.stderr.fileno(), _PIECE)
        return refusal_of(said.decode("utf-8", "replace"))

    # ------------------------------------------------------------------------------------- the run

    def run(self, watch: Watch) -> JailResult:
        """Start the command, and wait until no process of it is left.

        Args:
            watch: Checks the limits meanwhile.

        Raises:
            JailUnavailable: The jail could not be made after all.
            JailNotEnded: The killed processes do not end.
        """
        with suppress(BrokenPipeError):  # it failed meanwhile; its end has the cause
            os.write(self._channels.block[1], b"x")
        stop = self._attend(watch)
        self._end()
        stop = stop or watch.end()
        usage = watch.usage()
        stdout, stderr = (bytes(self._out[name][: self._limits.output_bytes]) for name in self._out)
        code = self._report.exit_code
        if stop is None and code is None:
            last = stderr.decode("utf-8", "replace").rstrip().rpartition("\n")[2]
            if not last.startswith(_NOT_STARTED):
                raise refusal_of(stderr.decode("utf-8", "replace"))
            denied = "Permission denied" in last
            return JailResult(
                exit_code=NOT_EXECUTABLE if denied else NOT_FOUND,
                started=False,
                stderr=f"{last.removeprefix(_NOT_STARTED)}\n".encode(),
                usage=usage,
            )
        return JailResult(
            exit_code=None if stop is not None else code,
            stopped=stop,
            stdout=stdout,
            stderr=stderr,
            usage=usage,
        )

    def _attend(self, watch: Watch) -> StopReason | None:
        """Read output and check limits until the command has ended or has to be ended."""
        process, child = self._process, self._report.child
        assert child is not None  # noqa: S101 (it was made ready)
        assert process.stdout is not None and process.stderr is not None  # noqa: S101, PT018
        deadline = self._monotonic() + self._limits.deadline_s
        ended: float | None = None
        with selectors.PollSelector() as selector:  # few descriptors, and no call for each
            selector.register(self._process_fd, selectors.EVENT_READ, "ended")
            selector.register(self._channels.status[0], selectors.EVENT_READ, "status")
            for name, stream in (("stdout", process.stdout), ("stderr", process.stderr)):
                os.set_blocking(stream.fileno(), False)
                selector.register(stream.fileno(), selectors.EVENT_READ, name)
            if process.stdin is not None:
                os.set_blocking(process.stdin.fileno(), False)
                selector.register(process.stdin.fileno(), selectors.EVENT_WRITE, "stdin")
            while selector.get_map():
                now = self._monotonic()
                if ended is None and now >= deadline:
                    return StopReason.DEADLINE
                if ended is not None and now >= ended + _DRAIN_S:
                    return None
                if self._cancelled is not None and self._cancelled():
                    return StopReason.CANCELLED
                wait = (deadline if ended is None else ended + _DRAIN_S) - now
                if ended is None:
                    wait = min(wait, watch.next_look_s())
                if self._cancelled is not None:
                    wait = min(wait, _CANCEL_S)
                for key, _ in selector.select(max(0.0, wait)):
                    if not self._serve(key, selector):
                        return StopReason.OUTPUT
                    if key.data == "ended":
                        ended = self._monotonic()
                stop = watch.look(child) if ended is None else None
                if stop is not None:
                    return stop
        return None

    def _serve(self, key: selectors.SelectorKey, selector: selectors.BaseSelector) -> bool:
        """Serve one descriptor; return False once there is too much output."""
        if key.data == "ended":
            selector.unregister(key.fileobj)
            stdin = self._process.stdin
            if stdin is not None and not stdin.closed:
                with suppress(KeyError):
                    selector.unregister(stdin.fileno())
            return True
        if key.data == "stdin":
            self._feed(selector)
            return True
        try:
            piece = os.read(key.fd, _PIECE)
        except BlockingIOError:
            return True
        if not piece:
            selector.unregister(key.fileobj)
        elif key.data == "status":
            self._report.feed(piece)
        else:
            if key.data == "stdout":
                hear(piece)
            self._out[key.data] += piece
            return len(self._out[key.data]) <= self._limits.output_bytes
        return True

    def _feed(self, selector: selectors.BaseSelector) -> None:
        stream = self._process.stdin
        assert stream is not None  # noqa: S101 (it is a pipe)
        try:
            self._stdin = self._stdin[os.write(stream.fileno(), self._stdin[:_PIECE]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._stdin = self._stdin[:0]
        if not self._stdin:
            selector.unregister(stream.fileno())
            stream.close()

    # ------------------------------------------------------------------------------------- the end

    def _end(self) -> None:
        """Kill what is left, and wait until it has ended.

        With the first process of its pid namespace everything in it ends, and that process ends
        last: the kernel waits for the others.

        Raises:
            JailNotEnded: It has not ended after half a minute.
        """
        if self._process.poll() is None:
            self._process.kill()
        if self._child_fd is not None:
            with suppress(ProcessLookupError):
                if sys.platform == "linux":
                    signal.pidfd_send_signal(self._child_fd, signal.SIGKILL)
            if not _readable(self._child_fd, _END_S):
                raise JailNotEnded(self._report.child or 0, _END_S)
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            raise JailNotEnded(self._process.pid, _END_S) from None


def _readable(fd: int, timeout_s: float) -> bool:
    """Return whether a descriptor becomes readable in time; a process's does when it ends."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


def _process_limits(limits: JailLimits) -> tuple[tuple[int, int], ...]:
    found = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
    ]
    if processes_are_counted_by_namespace():
        found.append((resource.RLIMIT_NPROC, limits.processes + 1))
    return tuple((kind, _at_most(kind, value)) for kind, value in found)


def _at_most(kind: int, value: int) -> int:
    """Return a limit that needs no privilege: at most this process's own."""
    _, hard = resource.getrlimit(kind)
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def processes_are_counted_by_namespace(release: str | None = None) -> bool:
    """Return whether `RLIMIT_NPROC` counts a jail's own processes, as kernels from 5.14 on do.

    Older kernels count all processes of the user, and would stop a jail because of the others.

    Args:
        release: The kernel's release; this one's if None.
    """
    found = (release if release is not None else os.uname().release).split(".")
    try:
        return (int(found[0]), int(found[1])) >= (5, 14)
    except (IndexError, ValueError):
        return False
