"""The result of one execution."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from attrs import field, frozen

if TYPE_CHECKING:
    from .result_parts import LostWrite, Suspension, ToolCallRecord

Trap = Literal["deadline", "fuel", "memory", "crash", "cancelled", "files"]
"""Which limit, or which fault of the interpreter, ended a guest."""

TRAPS: Final[tuple[Trap, ...]] = ("deadline", "fuel", "memory", "crash", "cancelled", "files")


@frozen(kw_only=True)
class SandboxResult:
    """Everything one execution did; nothing a guest does is raised instead.

    `stdout`, `stderr`, `exit_code` and the names in the file lists are chosen by the guest.
    `trapped` (except "memory"), `duration_s`, `fuel_consumed` and the workspace comparison are the
    host's own observations.

    Attributes:
        success: True if the code ran to its end with exit code 0 and none of its writes were lost.
        stdout: What the guest wrote to standard output, UTF-8 with bad bytes replaced.
        stderr: What the guest wrote to standard error, UTF-8 with bad bytes replaced.
        exit_code: The exit status; 1 after an uncaught exception; None when a limit or a fault of
            the interpreter ended the guest, or it is suspended.
        trapped: "deadline" or "fuel" when that limit ended the guest; "memory" when it died of an
            uncaught MemoryError (the exit code is then 1, since a full memory is reported to the
            guest first); "cancelled" when the caller stopped it; "files" when it made more file
            calls than the policy's `file_calls`; "crash" when the interpreter itself failed (stack
            overflow, abort); else None.
        fuel_consumed: WebAssembly instructions executed; None when a deadline ended the guest,
            since the counter is stale then.
        duration_s: Wall-clock seconds of the guest's run, without the comparison of the workspace.
        files_created: Workspace-relative posix paths of files the guest created and left, sorted.
        files_modified: Paths whose file was written to or replaced, even by the same bytes.
        files_deleted: Paths that no longer exist; a rename is a deletion and a creation.
        truncated: True if the guest wrote more than the policy's `output_bytes` to a stream.
        workspace_path: The host directory the guest saw as `/app`.
        metadata: Facts for records: the versions of the runtime, the engine's message for a trap
            (`trap_detail`), the cut streams (`truncated_streams`), whether the file lists are
            complete (`changes_complete`), the quotas that refused the guest something
            (`quota_exceeded`), the calls on files (`file_calls`), the number of writes that were
            refused or lost (`refused_writes`), where the interpreter came from (`interpreter`:
            "pool", "opened" or "kept"), why a stateful one was replaced (`state_lost`, or None),
            why a durable one was put back to before the execution (`turn_lost`, or None) and the
            streams whose callback failed (`stream_errors`).
        memory_peak: The most linear memory the guest's interpreter has held since it was opened, in
            bytes (at least 40 MiB), or None if unknown: after a trap, or an exit that ended the
            interpreter.
        tool_calls: The guest's calls of host functions, in order, the first 1,000.
        lost_writes: The files that differ from what the code wrote, because a write was refused and
            not made good by a later write, or by removing or replacing the file. The first 1,000,
            sorted.
        suspended: What a program in a durable sandbox waits for; `Sandbox.resume` goes on. It then
            has no exit code, and `success` is false.
    """

    success: bool
    stdout: str
    stderr: str
    exit_code: int | None
    trapped: Trap | None
    fuel_consumed: int | None
    duration_s: float
    files_created: tuple[str, ...]
    files_modified: tuple[str, ...]
    files_deleted: tuple[str, ...]
    truncated: bool
    workspace_path: Path
    metadata: Mapping[str, object] = field(factory=dict, hash=False)
    memory_peak: int | None = None
    tool_calls: tuple[ToolCallRecord, ...] = ()
    lost_writes: tuple[LostWrite, ...] = ()
    suspended: Suspension | None = None
