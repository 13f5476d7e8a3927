"""What can go wrong with a session, as typed errors with fields.

The errors of single values stand in `session_checks` and `session_domain`, those of files and disks
in `disk_errors`. `except HarnessError` catches all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from ..base.errors import AgentForgeError, ErrorKind, listed

_SHOWN_IDS = 8


class HarnessError(AgentForgeError):
    """Base of the harness's errors.

    Attributes:
        session_id: The session it is about, or None.
    """

    kind = ErrorKind.REFUSED

    def __init__(self, message: str, *, session_id: str | None = None) -> None:
        super().__init__(message)
        self.session_id = session_id


class NoActiveSession(HarnessError):
    """An operation needs a current session and the manager has none.

    Attributes:
        operation: What was asked.
    """

    kind = ErrorKind.NOT_FOUND

    def __init__(self, operation: str) -> None:
        super().__init__(
            f"{operation}() needs a current session, and there is none. Create or open one first."
        )
        self.operation = operation

    @property
    def user_message(self) -> str:
        """What to do, for the person who uses the program."""
        return "No active session. Create or load a session first."


class SessionAlreadyActive(HarnessError):
    """`create()` while the current session has not ended."""

    kind = ErrorKind.CONFLICT

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session {session_id} is current and has not ended. Complete it, abort it, or let go "
            "of it with release() first; nothing was changed.",
            session_id=session_id,
        )

    @property
    def user_message(self) -> str:
        """What to do, for the person who uses the program."""
        return "A session is already active. Complete or abort it first."


class NoPhaseExecutor(HarnessError):
    """`run_phase()` of a manager that was given nothing to run phase work with."""

    def __init__(self) -> None:
        super().__init__(
            "this manager has no phase executor: give it one (SessionManager(executor=...)) or "
            "build it with agentforge_sessions.wiring.bootstrap.build_manager()"
        )


class NoQuestionChannel(HarnessError):
    """`ask()` of a manager that was given nowhere to put questions."""

    def __init__(self) -> None:
        super().__init__(
            "this manager has no question channel: give it one (SessionManager(channel=...)) or "
            "build it with agentforge_sessions.wiring.bootstrap.build_manager()"
        )


class ChangesUnsaved(HarnessError):
    """A manager was asked, within `changes()`, for what can't be a part of its one save.

    Attributes:
        operation: What was asked.
    """

    def __init__(self, operation: str, *, session_id: str) -> None:
        super().__init__(
            f"{operation}() can't be called within changes(): what the block changed of session "
            f"{session_id} is not saved yet. Nothing was done; end the block first.",
            session_id=session_id,
        )
        self.operation = operation


class SessionNotFound(HarnessError):
    """There is no such session.

    Attributes:
        path: Where it was looked for.
        where: The same in words, which a store that is no directory has, too.
    """

    kind = ErrorKind.NOT_FOUND

    def __init__(self, session_id: str, *, path: Path | str) -> None:
        super().__init__(
            f"there is no session {session_id} in {path}. `agentforge list` shows those that are.",
            session_id=session_id,
        )
        self.path = Path(path)
        self.where = str(path)

    @property
    def user_message(self) -> str:
        """What was not found, for the person who uses the program."""
        return f"Session {self.session_id} not found."


class AmbiguousSessionId(HarnessError):
    """A shortened id fits several sessions.

    Attributes:
        candidates: The ids it fits.
    """

    kind = ErrorKind.AMBIGUOUS

    def __init__(self, shortened: str, candidates: Iterable[str]) -> None:
        self.candidates = tuple(sorted(candidates))
        shown = ", ".join(self.candidates[:_SHOWN_IDS])
        more = len(self.candidates) - _SHOWN_IDS
        super().__init__(
            f"{shortened} fits {len(self.candidates)} sessions: {shown}"
            f"{f' and {more} more' if more > 0 else ''}. Give more of the id.",
            session_id=shortened,
        )


class SessionConflict(HarnessError):
    """Another worker saved, deleted or replaced the session since it was loaded.

    Attributes:
        path: Its file.
        where: The same in words, which a session that is no file has, too.
        expected_revision: The revision that was loaded.
        actual_revision: The revision on disk, or None if the session was deleted.
    """

    kind = ErrorKind.CONFLICT
    retryable: ClassVar[bool] = True

    def __init__(
        self,
        session_id: str,
        *,
        path: Path | str,
        expected: int,
        actual: int | None,
        made_anew: bool = False,
    ) -> None:
        if made_anew:
            found = "another session was created under its id since"
        elif actual is not None:
            found = f"revision {actual} is on disk"
        else:
            found = "it was deleted meanwhile"
        super().__init__(
            f"session {session_id} was loaded at revision {expected}, and {found}. "
            "Nothing was written; load it again and repeat the change.",
            session_id=session_id,
        )
        self.path = Path(path)
        self.where = str(path)
        self.expected_revision = expected
        self.actual_revision = actual


class SessionFenced(SessionConflict):
    """Another worker has taken the session over; what this one still saves is refused.

    Attributes:
        path: Its file.
    """

    retryable: ClassVar[bool] = False

    def __init__(self, session_id: str, *, path: Path | str, expected: int) -> None:
        super().__init__(session_id, path=path, expected=expected, actual=None)
        self.args = (
            f"session {session_id} was taken over by another worker, which goes on with it. "
            "Nothing was written; what was not saved before is thrown away.",
        )


class SessionIdTaken(SessionConflict):
    """A session can't be created under an id: its directory, or something else, is there already.

    Attributes:
        path: The file that was not written.
    """

    retryable: ClassVar[bool] = False

    def __init__(self, session_id: str, *, path: Path | str) -> None:
        super().__init__(session_id, path=path, expected=0, actual=None)
        taken = path.parent if isinstance(path, Path) else path
        self.args = (
            f"the id {session_id} is taken: {taken} is there already. Nothing was written; "
            "create the session under another id.",
        )


class StreamMoved(HarnessError):
    """Another worker wrote, replaced or removed a stream since it was read; nothing was done.

    Attributes:
        stream: Its name.
    """

    kind = ErrorKind.CONFLICT
    retryable: ClassVar[bool] = True

    def __init__(self, session_id: str, *, stream: str) -> None:
        super().__init__(
            f"the stream {stream} of session {session_id} is not as it was read: another worker "
            "wrote it. Nothing was changed; read it anew, then try again.",
            session_id=session_id,
        )
        self.stream = stream


class BudgetExceeded(HarnessError):
    """The next step needs more tokens than are left of the session's budget.

    Raised only where a caller asks for the refusal (`SessionManager.require_budget`): what was
    spent is recorded over the budget too.

    Attributes:
        required: What the step needs, in tokens.
        remaining: What is left; negative when more was spent than allotted.
    """

    def __init__(self, session_id: str, *, required: int, remaining: int) -> None:
        super().__init__(
            f"the next step of session {session_id} needs {required:,} tokens, and {remaining:,} "
            "are left of its budget. Nothing was changed; extend the budget, or complete the "
            "session.",
            session_id=session_id,
        )
        self.required = required
        self.remaining = remaining

    @property
    def user_message(self) -> str:
        """What to do, for the person who uses the program."""
        return "Token budget exceeded. Consider extending budget or completing session."


class SessionCorrupted(HarnessError):
    """A session's file can't be read as a session.

    Attributes:
        path: The file; it was not touched.
        where: The same in words, which a session that is no file has, too.
        faults: Everything that is wrong with it, in the order of the file.
        details: The same as one text.
    """

    kind = ErrorKind.INVALID_FILE

    def __init__(
        self, *, path: Path | str, faults: Iterable[str], session_id: str | None = None
    ) -> None:
        self.path = Path(path)
        self.where = str(path)
        self.faults: tuple[str, ...] = tuple(faults)
        self.details = "; ".join(self.faults)
        super().__init__(
            f"{path} is not a readable session: {listed(self.faults)}. The file was left as it is: "
            "mend it by hand, bring back a copy, or delete the session.",
            session_id=self.path.parent.name if session_id is None else session_id,
        )

    @property
    def user_message(self) -> str:
        """Which session, and what is wrong, for the person who uses the program."""
        return f"Session {self.session_id} state file is corrupted: {self.details}"


class UnsupportedSchema(SessionCorrupted):
    """A session's file was written by a newer version.

    Attributes:
        schema_version: The version that the file says.
    """

    def __init__(
        self, *, path: Path | str, schema_version: int, newest: int, session_id: str | None = None
    ) -> None:
        super().__init__(
            path=path,
            faults=[
                f"schema_version: {schema_version} is newer than {newest}, the newest that this "
                "version of AgentForge Harness reads; upgrade it"
            ],
            session_id=session_id,
        )
        self.schema_version = schema_version


class QuestionWaits(HarnessError):
    """A question was not answered in the time that was waited; it still waits.

    Attributes:
        question_id: The question.
        timeout_s: How long was waited, in seconds.
    """

    retryable: ClassVar[bool] = True

    def __init__(self, session_id: str, *, question_id: str, timeout_s: float) -> None:
        super().__init__(
            f"nobody answered question {question_id} of session {session_id} within "
            f"{timeout_s:g} s. It still waits; ask the same again, from any worker, to find the "
            "answer.",
            session_id=session_id,
        )
        self.question_id = question_id
        self.timeout_s = timeout_s


class SessionTooLarge(HarnessError):
    """A session's file would grow over what is read back.

    Attributes:
        path: The file; it was not touched.
        where: The same in words, which a session that is no file has, too.
        size_bytes: How large it would have become.
        max_bytes: The limit.
    """

    def __init__(
        self, session_id: str, *, path: Path | str, size_bytes: int, max_bytes: int
    ) -> None:
        super().__init__(
            f"session {session_id} would take {size_bytes:,} bytes, more than the limit of "
            f"{max_bytes:,}. Nothing was written; keep long output in the workspace and name the "
            "file in the details.",
            session_id=session_id,
        )
        self.path = Path(path)
        self.where = str(path)
        self.size_bytes = size_bytes
        self.max_bytes = max_bytes


class SessionNotAdopted(HarnessError):
    """A session is not this person's: it came with a clone, a copy or an archive. It was not used.

    Attributes:
        where: Where it is.
    """

    kind = ErrorKind.PERSON_NEEDED

    def __init__(self, session_id: str, *, where: str) -> None:
        super().__init__(
            f"session {session_id} in {where} was not made by you on this machine, or its folder "
            "was moved. Nothing of it was run or shown to an agent, and nothing was changed. Look "
            f"at it with `agentforge show {session_id}`; a person makes it theirs with `agentforge "
            f"adopt {session_id}`.",
            session_id=session_id,
        )
        self.where = where


class ChangedSinceShown(HarnessError):
    """A session was to be adopted, and is not as the person saw it. It was not marked.

    Attributes:
        where: Where it is.
    """

    kind = ErrorKind.CONFLICT
    retryable: ClassVar[bool] = True

    def __init__(self, session_id: str, *, where: str) -> None:
        super().__init__(
            f"session {session_id} in {where} has changed since it was shown, so it was not made "
            f"yours, and nothing was changed. Look at it again: `agentforge adopt {session_id}`.",
            session_id=session_id,
        )
        self.where = where


class SessionInUse(HarnessError):
    """A session was to be deleted while it is in use; nothing was touched.

    Attributes:
        path: Its directory.
        where: The same in words, which a session that is no directory has, too.
    """

    kind = ErrorKind.CONFLICT
    retryable: ClassVar[bool] = True

    def __init__(self, session_id: str, *, path: Path | str) -> None:
        super().__init__(
            f"session {session_id} is in use: a run, an execution or a save holds a lock in "
            f"{path}. Nothing was deleted; stop the run or let it end, then delete the session.",
            session_id=session_id,
        )
        self.path = Path(path)
        self.where = str(path)
