"""The interpreter of an execution: a pooled one, a new one, or the stateful one."""

# No deferred annotations here: as strings, each field's would have to be compiled.

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..errors import SandboxClosed
from ..executor import SandboxSettings
from .interpreter import open_interpreter
from .interpreter_class import InterpreterClass
from .process_pool import the_pool

if TYPE_CHECKING:
    from .guest_interpreter import GuestInterpreter


class Lent(NamedTuple):
    """An interpreter lent to one execution.

    Attributes:
        interpreter: The interpreter.
        origin: "pool", "opened", or "kept" for the stateful one.
        state_lost: Why the stateful interpreter of earlier executions was lost, or None.
    """

    interpreter: "GuestInterpreter"
    origin: str
    state_lost: str | None = None


class InterpreterLease:
    """Lends an interpreter to every execution of one sandbox.

    Args:
        workspace: The sandbox's workspace.
        settings: The sandbox's settings: whether it is stateful, and its host functions.
    """

    def __init__(self, workspace: Path, settings: SandboxSettings) -> None:
        self._workspace = workspace
        self._settings = settings
        self._lock = threading.Lock()
        self._kept: GuestInterpreter | None = None
        self._closed = False

    def close(self) -> None:
        """End the stateful interpreter, after an execution running in it."""
        self._closed = True
        with self._lock:
            self._drop_kept()

    def lent(
        self,
        kind: InterpreterClass,
        source: str,
        afterwards: contextlib.ExitStack,
        *,
        for_itself: bool,
    ) -> contextlib.AbstractContextManager[Lent]:
        """Lend an interpreter for the block.

        Args:
            kind: Its class.
            source: The script to run.
            afterwards: Takes work to do after the result was handed over.
            for_itself: Open one that no other execution gets.

        Raises:
            SandboxClosed: The sandbox was closed while this waited for the previous turn.
            SandboxUnavailable: No interpreter can be opened now.
        """
        if self._settings.stateful:
            return self._kept_one(kind)
        if for_itself or self._settings.tools:
            own = self._open(kind)
            afterwards.callback(own.close)
            return contextlib.nullcontext(Lent(own, "opened"))
        return contextlib.nullcontext(_pooled(kind, source, afterwards))

    @contextlib.contextmanager
    def _kept_one(self, kind: InterpreterClass) -> Iterator[Lent]:
        """Lend the stateful interpreter; open a new one if there is none."""
        with self._lock, contextlib.ExitStack() as using:
            if self._closed:
                raise SandboxClosed(self._workspace)
            kept, lost = self._kept, None
            if kept is not None:
                using.enter_context(kept.in_use)
                lost = kept.ended
            if kept is not None and lost is None:
                yield Lent(kept, "kept")
                return
            self._drop_kept()
            kept = self._kept = self._open(kind)
            yield Lent(kept, "opened", lost)

    def _drop_kept(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    def _open(self, kind: InterpreterClass) -> "GuestInterpreter":
        settings = self._settings
        return open_interpreter(
            kind,
            tools=settings.tools,
            gate=settings.gate,
            idle_s=settings.idle_s if settings.stateful else None,
        )


def _pooled(kind: InterpreterClass, source: str, afterwards: contextlib.ExitStack) -> Lent:
    """Lend a ready interpreter, or open one that may then join the pool."""
    pool = the_pool()
    afterwards.enter_context(pool.admission.admitted())
    pooled = pool.take(kind, source)
    origin = "opened" if pooled is None else "pool"
    try:
        if pooled is None:
            pooled = open_interpreter(kind)
    finally:
        afterwards.callback(pool.done, pooled)
    return Lent(pooled, origin)
