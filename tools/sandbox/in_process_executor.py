"""Executions in this process: a workspace served to an interpreter, and the result of that."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .executor import Execution, ExecutorSettings, execution_metadata
from .guest.completed_turn import Completed
from .guest.guest_streams import GuestStreams
from .installed.forbidden_workspaces import refuse_forbidden
from .interpreters.interpreter import GuestServices, Interpreter, class_of
from .interpreters.interpreter_lease import InterpreterLease
from .result import SandboxResult, Trap
from .workspaces.quota import Quota
from .workspaces.served_directory import ServedDirectory
from .workspaces.workspace import open_workspace
from .workspaces.workspace_usage import usage_counter

if TYPE_CHECKING:
    from .guest.host_functions import CallRecorder

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


class InProcessExecutor:
    """Runs executions in interpreters of this process. Implements `executor.Executor`.

    Args:
        settings: What it is made for.
        recorder: The functions of the host that code may call, or None.
    """

    def __init__(self, settings: ExecutorSettings, recorder: CallRecorder | None = None) -> None:
        policy = settings.policy
        self._settings = settings
        self._recorder = recorder
        self._quota = Quota(
            workspace_bytes=policy.workspace_bytes,
            workspace_files=policy.workspace_files,
            file_bytes=policy.file_bytes,
            temporary_bytes=min(policy.temporary_bytes, policy.memory_bytes),
            temporary_files=policy.workspace_files,
            host_bytes=policy.host_bytes,
        )
        self._interpreters = InterpreterLease(settings, recorder)

    def close(self) -> None:
        """End the interpreter that is kept, once an execution that runs in it is over."""
        self._interpreters.close()

    def execute(self, execution: Execution) -> SandboxResult:
        """Run one execution; see `Executor.execute`."""
        root, request, policy = execution.root, execution.request, self._settings.policy
        seen = os.fstat(root)
        usage = usage_counter((seen.st_dev, seen.st_ino))
        usage.begin(root)
        with contextlib.ExitStack() as held:
            held.callback(usage.end, root)
            files = ServedDirectory(root, self._quota, usage)
            if request.files:
                from .interpreters.input_files import place_files  # few executions have any

                place_files(files, request.files, self._settings.system_calls)
            streams = GuestStreams(request.callbacks, policy.output_bytes)
            mounted = self._mount(held, execution.cache) if policy.mounts else {}
            return self._interpreters.run(
                class_of(policy, execution.cache),
                GuestServices(
                    files,
                    streams,
                    mounted,
                    self._settings.system_calls,
                    policy.sync_files,
                ),
                execution.afterwards,
                functools.partial(self._run, execution, files, streams),
                request.script.source,
            )

    def _mount(self, held: contextlib.ExitStack, cache: Path | None) -> dict[str, ServedDirectory]:
        """Return the directories of the policy's mounts by guest path; `held` closes them."""
        directories: dict[str, ServedDirectory] = {}
        for mount in self._settings.policy.mounts:
            directory = open_workspace(mount.source)
            held.callback(os.close, directory)
            refuse_forbidden(mount.source, cache, writable=False)
            directories[mount.target] = ServedDirectory(directory, self._quota, hide=False)
        return directories

    def _run(
        self,
        execution: Execution,
        files: ServedDirectory,
        streams: GuestStreams,
        interpreter: Interpreter,
        source: str,
        state_lost: str | None,
    ) -> SandboxResult:
        """Run in an interpreter that has what the guest may use."""
        request, workspace = execution.request, self._settings.workspace
        started = time.monotonic()
        done = interpreter.run(
            request.script,
            keep=self._settings.stateful,
            stdin=request.stdin,
            fuel=request.fuel,
            deadline_s=request.deadline_s,
            output_bytes=self._settings.policy.output_bytes,
            cancel=execution.stop,
        )
        duration_s = time.monotonic() - started
        streams.finish()
        created, modified, deleted = files.changes.lists()
        complete = files.changes.complete
        if not _is_at(workspace, execution.root):
            execution.events.warning("execution.workspace_lost", workspace=str(workspace))
            complete = False
        lost = interpreter.lost_writes
        return SandboxResult(
            success=done.exit_code == 0 and not lost,
            stdout=done.stdout.decode("utf-8", "replace"),
            stderr=done.stderr.decode("utf-8", "replace"),
            exit_code=done.exit_code,
            trapped=normalise_trap(done),
            fuel_consumed=done.fuel_used,
            duration_s=duration_s,
            files_created=created,
            files_modified=modified,
            files_deleted=deleted,
            truncated=bool(done.truncated),
            workspace_path=workspace,
            metadata=execution_metadata(
                trap_detail=done.trapped,
                interpreter=source,
                changes_complete=complete,
                truncated_streams=done.truncated,
                quota_exceeded=files.room.exceeded,
                file_calls=done.file_calls,
                refused_writes=done.refused_writes,
                state_lost=state_lost,
                stream_errors=streams.errors,
            ),
            memory_peak=interpreter.memory_held,
            tool_calls=() if self._recorder is None else self._recorder.records(done),
            lost_writes=lost,
        )


def _is_at(path: Path, directory: int) -> bool:
    """Return whether an open directory is still the one at a path."""
    try:
        now = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return os.path.samestat(now, os.fstat(directory))


def normalise_trap(done: Completed) -> Trap | None:
    """Which limit or fault ended a guest, in the sandbox's own words."""
    if done.trapped is not None:
        starved = done.trapped.startswith("memory minimum size")
        return _LIMITS.get(done.trapped, "memory" if starved else "crash")
    if done.exit_code == 1 and re.match(_MEMORY_ERROR, done.stderr.rstrip().rpartition(b"\n")[2]):
        return "memory"
    return None
