"""The interpreter of an execution: a pooled one, one opened for it, or the one that is kept."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ..errors import SandboxClosed
from ..executor import ExecutorSettings
from .interpreter import (
    GuestServices,
    Interpreter,
    InterpreterClass,
    InterpreterEnded,
    open_interpreter,
)
from .process_pool import the_pool

if TYPE_CHECKING:
    from ..guest.host_functions import CallRecorder

_T = TypeVar("_T")

Turn = Callable[[Interpreter, str, str | None], _T]
"""Runs in an interpreter; is also given where that came from ("pool", "opened", "kept"), and why
the interpreter of the executions before was lost, or None."""


class InterpreterLease:
    """Lends every execution of one sandbox an interpreter.

    Args:
        settings: Of the sandbox.
        recorder: The functions of the host that code may call, or None.
    """

    def __init__(self, settings: ExecutorSettings, recorder: CallRecorder | None) -> None:
        self._settings = settings
        self._recorder = recorder
        self._lock = threading.Lock()
        self._kept: Interpreter | None = None
        self._closed = False

    def close(self) -> None:
        """End the interpreter that is kept, once an execution that runs in it is over."""
        self._closed = True
        with self._lock:
            self._drop_kept()

    def run(
        self,
        kind: InterpreterClass,
        services: GuestServices,
        afterwards: contextlib.ExitStack,
        turn: Turn[_T],
        source: str = "",
    ) -> _T:
        """Run a turn in an interpreter that is served what the guest may use.

        Args:
            kind: The class of interpreter that it needs.
            services: What it is served, for this turn alone.
            afterwards: Takes what can wait until the result is on its way.
            turn: Called once, or again if the interpreter ended before it ran.
            source: The script that it runs.

        Raises:
            SandboxClosed: The sandbox was closed while this waited for the turn before.
            SandboxUnavailable: No interpreter can be opened now.
        """
        if self._recorder is not None:
            self._recorder.begin()
        if self._settings.stateful:
            with self._lock:
                return self._run_in_kept(kind, services, turn)
        if services.mounted or self._recorder is not None:
            own = self._open(kind)
            afterwards.callback(own.close)
            with own.serving(services):
                return turn(own, "opened", None)
        ahead = the_pool()
        afterwards.enter_context(ahead.admitted())
        pooled = ahead.take(kind, source)
        origin = "opened" if pooled is None else "pool"
        try:
            if pooled is None:
                pooled = open_interpreter(kind, restorable=ahead.restores)
        finally:
            afterwards.callback(ahead.done, pooled)
        with pooled.serving(services):
            return turn(pooled, origin, None)

    def _run_in_kept(self, kind: InterpreterClass, services: GuestServices, turn: Turn[_T]) -> _T:
        """Run in the interpreter of the executions before, or in a new one that is then kept."""
        if self._closed:
            raise SandboxClosed(self._settings.workspace)
        lost: str | None = None
        while True:
            kept = self._kept
            if kept is not None and kept.ended is not None:
                lost = kept.ended
                self._drop_kept()
                kept = None
            source = "kept"
            if kept is None:
                source = "opened"
                kept = self._kept = self._open(kind, idle_s=self._settings.idle_s)
            try:
                with kept.serving(services):
                    return turn(kept, source, lost)
            except InterpreterEnded as ended:
                lost = ended.reason  # it ended between the look and the turn
                self._drop_kept()

    def _drop_kept(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    def _open(self, kind: InterpreterClass, *, idle_s: float | None = None) -> Interpreter:
        recorder = self._recorder
        return open_interpreter(
            kind,
            tools=() if recorder is None else recorder.tools,
            gate=None if recorder is None else recorder.gate,
            idle_s=idle_s,
        )
