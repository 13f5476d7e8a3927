"""The errors of the sandbox.

Each is caused by the caller or the machine. What guest code does is never an error here; a
`SandboxResult` reports it.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

from ..base.errors import (
    WORKS_ELSEWHERE,
    AgentForgeError,
    ErrorKind,
    reason_of,
    why_not_linux,
)
from ..base.identifiers import InvalidIdentifier


class SandboxError(AgentForgeError, kind=ErrorKind.SANDBOX):
    """Base of the sandbox's errors."""


class InvalidPolicy(SandboxError, ValueError, kind=ErrorKind.USAGE):
    """An `ExecutionPolicy` has values that cannot be honoured; nothing was created."""

    message = """the execution policy was refused: {faults:;}. No sandbox was made; correct the
    values and build the policy again"""
    faults: Sequence[str]


class InvalidExecution(SandboxError, ValueError, kind=ErrorKind.USAGE):
    """The arguments of one `Sandbox.execute` cannot be honoured; nothing ran."""

    message = """the execution was refused: {faults:;}. No code ran and the workspace is untouched;
    correct the arguments and call again"""
    faults: Sequence[str]


class WorkspaceError(SandboxError):
    """A workspace, or a file in it, cannot be used; no code ran and nothing in it was changed."""

    message = "workspace {path!r}: {reason}. No code ran and nothing was changed; {remedy}"
    path: Path
    reason: str
    remedy: str


class SandboxUnavailable(SandboxError, RuntimeError):
    """This process or machine cannot run guests now; no code ran."""

    message = "the sandbox cannot run code: {reason}. No code ran; {remedy}"
    reason: str
    remedy: str


def require_linux() -> None:
    """Raise if this is not Linux.

    Raises:
        SandboxUnavailable: It is not.
    """
    reason = why_not_linux()
    if reason is not None:
        raise SandboxUnavailable(reason, WORKS_ELSEWHERE)


class WorkspaceBusy(SandboxError, TimeoutError, kind=ErrorKind.CONFLICT):
    """Others held the workspace for the full wait; nothing was done."""

    message = """workspace {path!r}: {held_by} still used it after {waited_s:.1f} s. No code ran and
    nothing was changed; wait for the execution or deletion there to end, raise busy_timeout_s, or
    give each its own workspace"""
    path: Path
    waited_s: float
    held_by: str
    """The holder: "this process" or "another process"."""


class InputFileError(SandboxError):
    """One of an execution's input files could not be put into the workspace."""

    message = """the input file {path!r} could not be put into the workspace: {reason}. No code ran;
    {count} of the files are there; correct the cause and call again, which writes all of them
    again"""
    path: str
    reason: str
    placed: Sequence[str]
    """The files written before it; they remain."""

    @property
    def count(self) -> int:
        """How many files were written."""
        return len(self.placed)


class SandboxClosed(SandboxError, RuntimeError):
    """`execute` was called on a closed sandbox; no code ran."""

    message = """the sandbox over {path!r} is closed. No code ran and its files are kept; create
    another sandbox over the same workspace"""
    path: Path


class UnknownRequest(SandboxError, ValueError, kind=ErrorKind.USAGE):
    """`resume` was called with answers the program does not wait for; no answer was used."""

    message = """the program waits for {waiting_for}, not for the answers {answered:,}. Nothing ran
    and no answer was used; answer what is in Sandbox.suspended"""
    answered: Sequence[int]
    waiting: Sequence[int]
    """The ids of the open requests; without any, and if nothing is suspended, empty."""

    @property
    def waiting_for(self) -> str:
        """The open requests."""
        return f"the requests {list(self.waiting)}" if self.waiting else "no answer"


class ProgramSuspended(SandboxError, RuntimeError, kind=ErrorKind.REFUSED):
    """`execute` was called while a program is suspended in the sandbox; no code ran."""

    message = """a suspended program waits in this sandbox for the answers {waiting:,}. No code ran
    and the program is unchanged; end it with resume(), or use another sandbox"""
    waiting: Sequence[int]


class ProgramElsewhere(SandboxError, RuntimeError, kind=ErrorKind.CONFLICT):
    """Another sandbox uses a durable directory, or has continued its program; no code ran."""

    message = """the program in {path!r} {state}. No code ran here and no answer was used; create
    the sandbox again once the other has ended, which goes on from there"""
    path: Path
    state: str


class InvalidSessionId(SandboxError, InvalidIdentifier, kind=ErrorKind.USAGE):
    """A sandbox session's id cannot name a workspace; the file system was not accessed."""

    message = """the session id {given!r} was refused: it must have 1 to 128 letters, digits, '-'
    and '_', the first of them a letter or digit. Nothing was touched; use an id that
    create_session_sandbox returned"""


class PathEscapesWorkspace(SandboxError, ValueError, kind=ErrorKind.USAGE):
    """A path leads, or may lead, out of the workspace; nothing was read or changed."""

    message = """the path {relative_path!r} escapes the session's workspace: {reason}. Nothing was
    read or changed; name a path below the workspace that leads over no link"""
    relative_path: object
    reason: str


class ReservedSessionPath(SandboxError, ValueError, kind=ErrorKind.USAGE):
    """A path names a sandbox session's metadata; nothing was read or changed."""

    message = """the path {relative_path!r} is reserved: it names the session's metadata. Nothing
    was read or changed; use read_session_metadata or repair_session_metadata"""
    relative_path: object


class SessionWorkspaceMissing(SandboxError, FileNotFoundError):
    """A sandbox session has no workspace under the workspace root."""

    message = "no session has a workspace by the id {session_id!r}"
    session_id: str

    def __post_init__(self) -> None:
        super().__post_init__()
        self.errno, self.filename = errno.ENOENT, self.session_id
        self.strerror = "no session has a workspace by this id"


class CorruptedMetadata(SandboxError, ValueError):
    """A sandbox session's metadata exists but is invalid; it was left unchanged."""

    message = """the metadata of session {session_id} cannot be used: {reason}. It was left as it
    is; {remedy}"""
    session_id: str
    reason: str
    newer: bool = False
    """Whether the only fault seems to be that a later version wrote the file."""

    @property
    def remedy(self) -> str:
        """What to do about it."""
        if self.newer:
            return "use the release that wrote it"
        return "repair_session_metadata writes it again"


class UnreadableMetadata(CorruptedMetadata, retryable=True):
    """The system refused to read a sandbox session's metadata; its content is unknown."""

    def __init__(self, session_id: str, cause: OSError) -> None:
        self.errno = cause.errno
        super().__init__(session_id, f"its file cannot be read ({reason_of(cause)})")

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return "let this user read it, or look after the disk"
