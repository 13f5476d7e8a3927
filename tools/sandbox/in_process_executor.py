"""Executions in this process: serve a workspace to an interpreter, return the result.

The interpreter is a pooled one, a new one, or the stateful one.
"""

# No deferred annotations here: as strings, each field's would have to be compiled.

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from .errors import SandboxClosed
from .executor import Execution, SandboxSettings, execution_metadata
from .guest.guest_streams import GuestStreams
from .host.engine.held_signals import SIGNALS
from .installed.forbidden_workspaces import refuse_forbidden
from .interpreters.interpreter import open_interpreter
from .interpreters.interpreter_class import GuestServices, InterpreterClass
from .interpreters.process_pool import the_pool
from .policy import ExecutionPolicy
from .result import SandboxResult, Trap
from .workspaces.quota import Quota, usage_counter
from .workspaces.workspace import ServedDirectory, open_workspace

if TYPE_CHECKING:
    from .interpreters.guest_interpreter import GuestInterpreter
    from .live.durable_state import DurableState


_MEMORY_ERROR: Final = (
    rb"(?:MemoryError(?:: Unable to allocate .*)?"
    rb"|[\w.]+\._ArrayMemoryError: Unable to allocate .*)\Z"
)

_LIMITS: Final[Mapping[str, Trap]] = {
    "deadline": "deadline",
    "out of fuel": "fuel",
    "cancelled": "cancelled",
    "out of file calls": "files",
}


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
        durable: The program of a durable sandbox.
    """

    def __init__(
        self, workspace: Path, settings: SandboxSettings, durable: "DurableState | None" = None
    ) -> None:
        self._workspace = workspace
        self._settings = settings
        self._durable = durable
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
            durable=self._durable,
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


class InProcessExecutor:
    """Runs executions in interpreters of this process. Implements `executor.Executor`."""

    def __init__(
        self,
        workspace: Path,
        policy: ExecutionPolicy,
        settings: SandboxSettings,
        durable: "DurableState | None" = None,
    ) -> None:
        self._workspace = workspace
        self._policy = policy
        self._settings = settings
        self._quota = Quota(
            workspace_bytes=policy.workspace_bytes,
            workspace_files=policy.workspace_files,
            file_bytes=policy.file_bytes,
            temporary_bytes=min(policy.temporary_bytes, policy.memory_bytes),
            temporary_files=policy.workspace_files,
            host_bytes=policy.host_bytes,
        )
        self._interpreters = InterpreterLease(workspace, settings, durable)

    def close(self) -> None:
        """End the stateful interpreter, after an execution running in it."""
        self._interpreters.close()

    def execute(self, execution: Execution) -> SandboxResult:
        """Run one execution; see `Executor.execute`."""
        root, request, policy = execution.root, execution.request, self._policy
        seen = os.fstat(root)
        usage = usage_counter((seen.st_dev, seen.st_ino))
        usage.begin(root)
        with contextlib.ExitStack() as held:
            held.callback(usage.end, root)
            files = ServedDirectory(root, self._quota, usage)
            lent = held.enter_context(
                self._interpreters.lent(
                    InterpreterClass.of(policy, execution.cache),
                    request.script.source,
                    execution.afterwards,
                    for_itself=bool(policy.mounts),
                )
            )
            lent.interpreter.check(request)
            if request.files:
                from .interpreters.input_files import place_files  # few executions need it

                place_files(files, request.files, self._settings.system_calls)
            services = GuestServices(
                files=files,
                mounted=self._mount(held, execution.cache) if policy.mounts else {},
                streams=GuestStreams(request.callbacks, policy.output_bytes),
                output_bytes=policy.output_bytes,
                syncs=policy.sync_files,
                system_calls=self._settings.system_calls,
            )
            return self._run(execution, services, lent)

    def _mount(self, held: contextlib.ExitStack, cache: Path | None) -> dict[str, ServedDirectory]:
        """Return the directories of the policy's mounts by guest path; `held` closes them."""
        directories: dict[str, ServedDirectory] = {}
        for mount in self._policy.mounts:
            directory = open_workspace(mount.source)
            held.callback(os.close, directory)
            refuse_forbidden(mount.source, cache, writable=False)
            directories[mount.target] = ServedDirectory(directory, self._quota, hide=False)
        return directories

    def _run(self, execution: Execution, services: GuestServices, lent: Lent) -> SandboxResult:
        """Run in an interpreter, and return the result."""
        interpreter, files, streams = lent.interpreter, services.files, services.streams
        started = time.monotonic()
        done = interpreter.run(execution.request, services, execution.stop)
        duration_s = time.monotonic() - started
        SIGNALS.interruptible(streams.finish)
        created, modified, deleted = files.changes.lists()
        complete = files.changes.complete
        if not _is_at(self._workspace, execution.root):
            execution.events.warning("execution.workspace_lost", workspace=str(self._workspace))
            complete = False
        lost, suspended = interpreter.lost_writes, interpreter.suspended
        return SandboxResult(
            success=done.exit_code == 0 and not lost,
            stdout=done.stdout.decode("utf-8", "replace"),
            stderr=done.stderr.decode("utf-8", "replace"),
            exit_code=done.exit_code,
            trapped=normalise_trap(done.stopped, done.exit_code, done.stderr),
            fuel_consumed=done.fuel_used,
            duration_s=duration_s,
            files_created=created,
            files_modified=modified,
            files_deleted=deleted,
            truncated=bool(done.truncated),
            workspace_path=self._workspace,
            metadata=execution_metadata(
                trap_detail=done.stopped,
                interpreter=lent.origin,
                changes_complete=complete,
                truncated_streams=done.truncated,
                quota_exceeded=files.room.exceeded,
                file_calls=done.file_calls,
                refused_writes=interpreter.refused_writes,
                state_lost=lent.state_lost,
                turn_lost=interpreter.turn_lost,
                stream_errors=streams.errors,
            ),
            memory_peak=interpreter.memory_held,
            tool_calls=interpreter.tool_calls,
            lost_writes=lost,
            suspended=suspended,
        )


def _is_at(path: Path, directory: int) -> bool:
    """Return whether an open directory is still the one at a path."""
    try:
        now = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return os.path.samestat(now, os.fstat(directory))


def normalise_trap(stopped: str | None, exit_code: int | None, stderr: bytes) -> Trap | None:
    """Return which limit or fault ended a guest, as a `Trap`."""
    if stopped is not None:
        starved = stopped.startswith("memory minimum size")
        return _LIMITS.get(stopped, "memory" if starved else "crash")
    if exit_code == 1 and re.match(_MEMORY_ERROR, stderr.rstrip().rpartition(b"\n")[2]):
        return "memory"
    return None
