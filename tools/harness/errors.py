"""Errors about sessions, typed and with fields.

Errors of single values are in `session_checks` and `session_states`, those of files and disks in
`disk_errors`. `except HarnessError` catches all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from ..base.errors import AgentForgeError, ErrorKind


class HarnessError(AgentForgeError, kind=ErrorKind.REFUSED, kw_only=True):
    """Base of the harness's errors."""

    session_id: str | None = None
    """The session concerned."""


class _Located(HarnessError):
    path: Path | str
    """The session's file, or its address if it is not a file."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.where = str(self.path)
        self.path = Path(self.path)


class NoActiveSession(HarnessError, kind=ErrorKind.NOT_FOUND):
    """An operation needs a current session, but the manager has none."""

    message = "{operation}() needs a current session, and there is none. Create or open one first."
    brief = "No active session. Create or load a session first."
    operation: str


class SessionAlreadyActive(HarnessError, kind=ErrorKind.CONFLICT):
    """`create()` was called while the current session has not ended."""

    message = """session {session_id} is current and has not ended. Complete it, abort it, or let go
    of it with release() first; nothing was changed."""
    brief = "A session is already active. Complete or abort it first."
    session_id: str


class NoPhaseExecutor(HarnessError):
    """`run_phase()` was called on a manager without an executor for phase work."""

    message = """this manager has no phase executor: give it one (SessionManager(executor=...)) or
    build it with agentforge_sessions.wiring.bootstrap.build_manager()"""


class NoQuestionChannel(HarnessError):
    """`ask()` was called on a manager without a question channel."""

    message = """this manager has no question channel: give it one (SessionManager(channel=...)) or
    build it with agentforge_sessions.wiring.bootstrap.build_manager()"""


class ChangesUnsaved(HarnessError):
    """Within `changes()`, an operation was called that can't be part of its single save."""

    message = """{operation}() can't be called within changes(): what the block changed of session
    {session_id} is not saved yet. Nothing was done; end the block first."""
    operation: str


class SessionNotFound(_Located, kind=ErrorKind.NOT_FOUND):
    """There is no such session."""

    message = "there is no session {session_id} in {where}. `agentforge list` shows those that are."
    brief = "Session {session_id} not found."
    session_id: str


class SessionConflict(_Located, kind=ErrorKind.CONFLICT, retryable=True):
    """Another worker saved, deleted or replaced the session since it was loaded."""

    message = """session {session_id} was loaded at revision {expected_revision}, and {found}.
    Nothing was written; load it again and repeat the change."""
    session_id: str
    expected_revision: int
    """The revision that was loaded."""
    actual_revision: int | None
    """The revision on disk, or None if the session was deleted."""
    replaced: bool = False

    @property
    def found(self) -> str:
        """What the store holds now."""
        if self.replaced:
            return "another session was created under its id since"
        if self.actual_revision is not None:
            return f"revision {self.actual_revision} is on disk"
        return "it was deleted meanwhile"


class SessionFenced(SessionConflict, retryable=False):
    """Another worker has taken over the session; saves from this worker are refused."""

    message = """session {session_id} was taken over by another worker, which goes on with it.
    Nothing was written; what was not saved before is thrown away."""
    actual_revision: int | None = None


class SessionIdTaken(SessionConflict, retryable=False):
    """A session can't be created under an id because something already uses it."""

    message = """the id {session_id} is taken: {taken} is there already. Nothing was written; create
    the session under another id."""
    expected_revision: int = 0
    actual_revision: int | None = None

    def __post_init__(self) -> None:
        self._taken = self.path.parent if isinstance(self.path, Path) else self.path
        super().__post_init__()

    @property
    def taken(self) -> Path | str:
        """What occupies the id."""
        return self._taken


class StreamMoved(HarnessError, kind=ErrorKind.CONFLICT, retryable=True):
    """Another worker wrote, replaced or removed a stream since it was read; nothing was changed."""

    message = """the stream {stream} of session {session_id} is not as it was read: another worker
    wrote it. Nothing was changed; read it again, then repeat the change."""
    session_id: str
    stream: str


class BudgetExceeded(HarnessError):
    """The next step needs more tokens than the session's budget has left.

    Raised only where a caller asks for it (`SessionManager.require_budget`): spending is recorded
    over the budget too.
    """

    message = """the next step of session {session_id} needs {required:,} tokens, and {remaining:,}
    are left of its budget. Nothing was changed; extend the budget, or complete the session."""
    brief = "Token budget exceeded. Consider extending budget or completing session."
    session_id: str
    required: int
    remaining: int
    """Tokens left; negative when more was spent than allotted."""


class SessionCorrupted(_Located, kind=ErrorKind.INVALID_FILE):
    """A session's file can't be parsed as a session; it was not changed."""

    message = """{where} is not a readable session: {faults:;}. The file was left as it is: mend it
    by hand, bring back a copy, or delete the session."""
    brief = "Session {session_id} state file is corrupted: {details}"
    faults: Sequence[str]
    """Every fault, in file order; `details` is the same as text."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.details = "; ".join(self.faults)
        if self.session_id is None:
            self.session_id = Path(self.path).parent.name


class UnsupportedSchema(SessionCorrupted, kw_only=True):
    """A session's file was written by a newer version."""

    faults: Sequence[str] = ()
    schema_version: int
    """The version that the file has."""
    newest: int
    """The newest version that this program can read."""

    def __post_init__(self) -> None:
        self.faults = (
            f"schema_version: {self.schema_version} is newer than {self.newest}, the newest that "
            "this version of AgentForge Harness reads; upgrade it",
        )
        super().__post_init__()


class QuestionWaits(HarnessError, retryable=True):
    """A question was not answered within the timeout; it is still open."""

    message = """nobody answered question {question_id} of session {session_id} within {timeout_s:g}
    s. It still waits; ask the same again, from any worker, to find the answer."""
    session_id: str
    question_id: str
    timeout_s: float


class PhaseWaits(HarnessError, retryable=True):
    """The code of a phase waits; its program is stored, and nothing of it runs."""

    message = """phase {phase!r} of session {session_id} waits {awaited}. Its program is stored; run
    the same code again, from any worker, and it goes on at that line once it can."""
    session_id: str
    phase: str | None
    question_ids: Sequence[str]
    """The questions to a person, or to another program, that are open."""
    wake_at: datetime | None
    """When it goes on without an answer, or None."""
    where: Sequence[str]
    """The lines that wait, the innermost last."""

    @property
    def awaited(self) -> str:
        """Where it waits, and what for."""
        until = [] if self.wake_at is None else [f"until {self.wake_at:%Y-%m-%d %H:%M:%S} UTC"]
        asked = [f"for the answer to question {one}" for one in self.question_ids]
        place = f"at {self.where[-1]} " if self.where else ""
        return place + ", ".join(asked + until)


class SessionTooLarge(_Located):
    """A session's file would exceed the size that can be read back; it was not changed."""

    message = """session {session_id} would take {size_bytes:,} bytes, more than the limit of
    {max_bytes:,}. Nothing was written; keep long output in the workspace and name the file in the
    details."""
    session_id: str
    size_bytes: int
    max_bytes: int


class SessionNotAdopted(HarnessError, kind=ErrorKind.PERSON_NEEDED):
    """A session is not this person's own: it came with a clone, a copy or an archive."""

    message = """session {session_id} in {where} was not made by you on this machine, or its folder
    was moved. Nothing of it was run or shown to an agent, and nothing was changed. Look at it with
    `agentforge show {session_id}`; a person makes it theirs with `agentforge session adopt
    {session_id}`."""
    session_id: str
    where: str


class ChangedSinceShown(HarnessError, kind=ErrorKind.CONFLICT, retryable=True):
    """A session to adopt differs from what the person was shown; it was not marked."""

    message = """session {session_id} in {where} has changed since it was shown, so it was not made
    yours, and nothing was changed. Look at it again: `agentforge session adopt {session_id}`."""
    session_id: str
    where: str


class SessionInUse(_Located, kind=ErrorKind.CONFLICT, retryable=True):
    """A session to delete is in use; nothing was changed."""

    message = """session {session_id} is in use: a run, an execution or a save holds a lock in
    {where}. Nothing was deleted; stop the run or let it end, then delete the session."""
    session_id: str
