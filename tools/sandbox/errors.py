"""The errors of the sandbox.

Every one is the caller's or the machine's doing. What guest code does is never an error here: it
is in a `SandboxResult`.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

from ..base.errors import AgentForgeError, ErrorKind, shown
from ..base.identifiers import InvalidIdentifier


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


class InvalidSessionId(SandboxError, InvalidIdentifier):
    """A session id cannot name a workspace; the file system was not touched.

    Attributes:
        given: What was given.
    """

    kind = ErrorKind.USAGE

    def __init__(self, session_id: object) -> None:
        self.given = session_id
        super().__init__(
            f"the session id {shown(session_id)} was refused: it must have 1 to 128 letters, "
            "digits, '-' and '_', the first of them a letter or digit. Nothing was touched; "
            "use an id that create_session_sandbox returned"
        )


class PathEscapesWorkspace(SandboxError, ValueError):
    """A path names something outside a session's workspace, or might; nothing was done.

    Attributes:
        relative_path: The path as it was given.
        reason: What is wrong with it.
    """

    kind = ErrorKind.USAGE

    def __init__(self, relative_path: object, reason: str) -> None:
        self.relative_path = relative_path
        self.reason = reason
        super().__init__(
            f"the path {shown(relative_path)} escapes the session's workspace: {reason}. "
            "Nothing was read or changed; name a path below the workspace that leads over no link"
        )


class ReservedSessionPath(SandboxError, ValueError):
    """A path names the session's metadata, which is not one of its files; nothing was done.

    Attributes:
        relative_path: The path as it was given.
    """

    kind = ErrorKind.USAGE

    def __init__(self, relative_path: object) -> None:
        self.relative_path = relative_path
        super().__init__(
            f"the path {shown(relative_path)} is reserved: it names the session's metadata. "
            "Nothing was read or changed; use read_session_metadata or repair_session_metadata"
        )


class SessionWorkspaceMissing(SandboxError, FileNotFoundError):
    """A session has no workspace under the workspace root.

    Attributes:
        session_id: The session.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        FileNotFoundError.__init__(
            self, errno.ENOENT, "no session has a workspace by this id", session_id
        )


class CorruptedMetadata(SandboxError, ValueError):
    """A session's metadata is there and makes no sense; it was left as it is.

    Attributes:
        session_id: The session.
        reason: What is wrong with it.
        newer: Whether a later version of the file seems to be all that is wrong.
    """

    def __init__(self, session_id: str, reason: str, *, newer: bool = False) -> None:
        self.session_id = session_id
        self.reason = reason
        self.newer = newer
        remedy = (
            "use the release that wrote it" if newer else "repair_session_metadata makes it anew"
        )
        super().__init__(
            f"the metadata of session {session_id} cannot be used: {reason}. "
            f"It was left as it is; {remedy}"
        )


class UnreadableMetadata(CorruptedMetadata):
    """The system would not read a session's metadata; what is in it is unknown.

    Attributes:
        errno: What the system answered.
    """

    retryable = True

    def __init__(self, session_id: str, cause: OSError) -> None:
        super().__init__(session_id, f"its file cannot be read ({cause.strerror or cause})")
        self.errno = cause.errno

    def __str__(self) -> str:
        return (
            f"the metadata of session {self.session_id} cannot be used: {self.reason}. "
            "It was left as it is; let this user read it, or look after the disk"
        )
