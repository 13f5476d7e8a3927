"""The errors of the sandbox.

Every one is the caller's or the machine's doing. What guest code does is never an error here: it
is told in a `SandboxResult`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import AgentForgeError, ErrorKind


class SandboxError(AgentForgeError):
    """The base of every error the sandbox raises on purpose."""

    kind = ErrorKind.SANDBOX


class InvalidPolicy(SandboxError, ValueError):
    """An `ExecutionPolicy` has values that cannot be honoured; nothing was made.

    Attributes:
        faults: Every fault found, one sentence each, in the order of the policy's fields.
    """

    kind = ErrorKind.USAGE

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__(
            "the execution policy was refused: " + "; ".join(self.faults) + ". "
            "No sandbox was made; correct the values and build the policy again"
        )


class InvalidExecution(SandboxError, ValueError):
    """The arguments of one `Sandbox.execute` cannot be honoured; nothing ran.

    Attributes:
        faults: Every fault found, one sentence each, in the order of the arguments.
    """

    kind = ErrorKind.USAGE

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__(
            "the execution was refused: " + "; ".join(self.faults) + ". "
            "No code ran and the workspace is untouched; correct the arguments and call again"
        )


class WorkspaceError(SandboxError):
    """A workspace, or a file in it, cannot be used; no code ran and nothing in it was changed.

    Attributes:
        path: The host path that was refused.
        reason: What is wrong with it.
        remedy: What to do about it.
    """

    def __init__(self, path: Path, reason: str, remedy: str) -> None:
        self.path = path
        self.reason = reason
        self.remedy = remedy
        super().__init__(
            f"workspace {str(path)!r}: {reason}. No code ran and nothing was changed; {remedy}"
        )


class SandboxUnavailable(SandboxError, RuntimeError):
    """This process or machine cannot run guests now; no code ran.

    Attributes:
        reason: What stands in the way.
        remedy: What to do about it.
    """

    def __init__(self, reason: str, remedy: str) -> None:
        self.reason = reason
        self.remedy = remedy
        super().__init__(f"the sandbox cannot run code: {reason}. No code ran; {remedy}")


class WorkspaceBusy(SandboxError, TimeoutError):
    """Something else held the workspace for the whole wait; nothing was done.

    Attributes:
        path: The workspace both wanted.
        waited_s: Seconds waited.
        held_by: "this process" or "another process".
    """

    kind = ErrorKind.CONFLICT

    def __init__(self, path: Path, waited_s: float, held_by: str) -> None:
        self.path = path
        self.waited_s = waited_s
        self.held_by = held_by
        super().__init__(
            f"workspace {str(path)!r}: {held_by} still used it after {waited_s:.1f} s. No code "
            "ran and nothing was changed; wait for the execution or deletion there to end, raise "
            "busy_timeout_s, or give each its own workspace"
        )


class InputFileError(SandboxError):
    """One of the files an execution was to find in its workspace could not be put there.

    Attributes:
        path: Its workspace-relative path.
        reason: Why not.
        placed: The files put there before it; they stay.
    """

    def __init__(self, path: str, reason: str, placed: Sequence[str]) -> None:
        self.path = path
        self.reason = reason
        self.placed = tuple(placed)
        super().__init__(
            f"the input file {path!r} could not be put into the workspace: {reason}. No code ran; "
            f"{len(self.placed)} of the files are there; correct the cause and call again, which "
            "writes all of them anew"
        )


class SandboxClosed(SandboxError, RuntimeError):
    """A closed sandbox was asked to execute; no code ran.

    Attributes:
        path: Its workspace, which is as the last execution left it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(
            f"the sandbox over {str(path)!r} is closed. No code ran and its files are kept; create "
            "another sandbox over the same workspace"
        )
