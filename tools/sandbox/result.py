"""What one execution did."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from attrs import field, frozen

Trap = Literal["deadline", "fuel", "memory", "crash"]
"""Which limit, or which fault of the interpreter, ended a guest."""

TRAPS: Final[tuple[Trap, ...]] = ("deadline", "fuel", "memory", "crash")


@frozen(kw_only=True)
class SandboxResult:
    """What one execution did, told entirely: nothing a guest does is raised instead.

    Everything in `stdout`, `stderr`, `exit_code` and the file lists is the guest's word and may be
    chosen by it; `trapped`, except "memory", `duration_s`, `fuel_consumed` and the workspace
    comparison are the host's own observation.

    Attributes:
        success: True when the code ran to its end with exit code 0.
        stdout: What the guest wrote to standard output, UTF-8 with bad bytes replaced.
        stderr: What the guest wrote to standard error, UTF-8 with bad bytes replaced.
        exit_code: The exit status; 1 after an uncaught exception; None when a limit or a fault of
            the interpreter ended the guest.
        trapped: "deadline" or "fuel" when that limit ended the guest; "memory" when it died of an
            uncaught MemoryError (the exit code is then 1, since a full memory is reported to the
            guest first); "crash" when the interpreter itself failed (stack overflow, abort); else
            None.
        fuel_consumed: WebAssembly instructions executed; None when a deadline ended the guest,
            since the counter is then not up to date.
        duration_s: Wall-clock seconds of the guest's run, without the comparison of the workspace.
        files_created: Workspace-relative posix paths that exist now and did not before, sorted.
        files_modified: Paths whose file was written to or replaced, the same bytes included.
        files_deleted: Paths that are gone; a rename is a deletion and a creation.
        truncated: True when the guest wrote more than the policy's `output_bytes` to a stream.
        workspace_path: The host directory the guest saw as `/app`.
        metadata: Facts for records: the versions of the runtime, the engine's own words for a trap
            (`trap_detail`), the cut streams (`truncated_streams`), and whether the file lists are
            complete (`changes_complete`).
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
