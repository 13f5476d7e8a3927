"""The port to where question sessions are kept: all that the service knows of a store.

A folder of files (`store.QuestionStore`) that other programs read and write, too, or a database for
all machines. The module is long because it says in words what every store is held to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from attrs import frozen

from ..base.question import QuestionError
from ..prune import Outside
from .domain import (
    CleanupResult,
    QuestionSession,
    SessionAnswers,
    SessionRequest,
    StatusRecord,
    ValidationReport,
)
from .rules import QuestionsConfig
from .session_status import SessionStatus

OnChange = Callable[[], None]
"""Called after a change, from any thread."""


@frozen(kw_only=True)
class Room:
    """How many sessions may wait at once.

    Attributes:
        max_sessions: How many.
        asked_after: Those that were asked then or before wait no more, whatever their status says;
            None where none has a time limit.
    """

    max_sessions: int
    asked_after: datetime | None = None

    def counts(self, record: StatusRecord) -> bool:
        """Return whether a session is one of those that wait."""
        return record.status is SessionStatus.PENDING and (
            self.asked_after is None or record.created_at > self.asked_after
        )


class LockedSession(Protocol):
    """A session whose lock is held: what can be read and written of it."""

    @property
    def session_id(self) -> str:
        """The session."""
        ...

    def read(self) -> QuestionSession:
        """Read it whole; raises as `QuestionRepository.read` does."""
        ...

    def read_record(self) -> StatusRecord:
        """Read its status alone.

        Raises:
            SessionCorrupted: It can't be read as a status.
        """
        ...

    def read_request(self) -> SessionRequest:
        """Read its request alone.

        Raises:
            SessionCorrupted: It can't be read as a request.
        """
        ...

    def write_answers(self, answers: SessionAnswers) -> None:
        """Write the answers; the session is completed from then on.

        Raises:
            QuestionStoreError: They were not written.
        """
        ...

    def write_read_at(self, answers: SessionAnswers) -> None:
        """Note when the answers were fetched; all else that is stored of them stays.

        Raises:
            QuestionStoreError: It was not noted.
        """
        ...

    def write_record(self, record: StatusRecord) -> None:
        """Replace the status; what other programs keep in it stays.

        Raises:
            QuestionStoreError: It is as it was.
        """
        ...


class Follower(Protocol):
    """Looks at all sessions and knows what was seen of them last. Not for several threads."""

    def look_at_all(self) -> frozenset[str]:
        """Return the sessions that are not as they were, and those reported as changed."""
        ...

    def look_again(self, *, reported: bool) -> frozenset[str]:
        """Return what changed: of all sessions, if it is time for that, or of those reported.

        Args:
            reported: Whether something was.
        """
        ...


@runtime_checkable
class QuestionRepository(Protocol):
    """Keeps question sessions.

    Guarantees asked of every implementation: what was written survives the death of the process
    when the call returns; when it raises, what is stored is as it was. A reader sees a whole
    session or none. Of several that change one session, each sees what those before it did. No id
    reaches anything but a session. Instances may be shared between threads. One suite,
    `tests/contract/questions/test_question_repository_contract.py`, holds all of them to this.
    """

    @property
    def where(self) -> str:
        """Where the sessions are kept, for messages and other programs."""
        ...

    @property
    def look_s(self) -> float:
        """How often a wait looks for itself, whatever is reported, in seconds."""
        ...

    @property
    def looks_block(self) -> bool:
        """Whether `signature` may take longer than an event loop can do without."""
        ...

    def prepare(self) -> None:
        """Make the place where sessions appear, if it is missing.

        Raises:
            QuestionStoreError: The store refused.
        """
        ...

    # -------------------------------------------------------------------------------- one session

    def publish(self, request: SessionRequest, record: StatusRecord, *, room: Room) -> None:
        """Make a session appear, whole.

        Args:
            request: What is asked.
            record: Its first status.
            room: How many may wait, with this one; two askers never take the same place.

        Raises:
            SessionExists: There is one of this id.
            TooManySessions: As many wait as may.
            QuestionStoreError: It could not be made; nothing is there.
        """
        ...

    def read(self, session_id: str) -> QuestionSession:
        """Read a session as it stands.

        Raises:
            InvalidSessionId: It is no id.
            SessionNotFound: There is none.
            SessionCorrupted: What is stored is not what it should be.
            QuestionStoreError: The store refused.
        """
        ...

    def read_record(self, session_id: str) -> StatusRecord:
        """Read the status of a session; answers that are stored count. Raises as `read` does."""
        ...

    def signature(self, session_id: str) -> Hashable | None:
        """Return by what a change of the session can be seen; None if there is no such session.

        It costs less than to read the session.
        """
        ...

    def read_changed(
        self, session_id: str, seen: Hashable | None
    ) -> tuple[Hashable | None, QuestionSession | None]:
        """Read a session, unless its signature is the one that was seen.

        Returns:
            Its signature, of before the reading, and the session; None for that where it did not
            change.

        Raises: as `read` does.
        """
        ...

    def is_settled(self, signature: Any, *, for_s: float = 0.1) -> bool:
        """Return whether a later change would give another signature.

        Args:
            signature: What was seen.
            for_s: How long ago the last change must be where times tell changes apart, in seconds.
        """
        ...

    def locked(
        self, session_id: str, *, answering: bool = False
    ) -> AbstractContextManager[LockedSession]:
        """Hold the right to change a session.

        What was written in the block is stored when it ends, and also when it ends by a
        `QuestionError`.

        Args:
            session_id: The session.
            answering: Whether answers will be written.

        Raises:
            InvalidSessionId: It is no id.
            SessionNotFound: There is none.
            SessionBusy: Others held it for too long.
            QuestionStoreError: It can't be locked, or what was written can't be stored.
        """
        ...

    def find_issues(self, session_id: str) -> ValidationReport:
        """Return everything that is wrong with a session; see `validation.find_issues`."""
        ...

    # ------------------------------------------------------------------------------- all sessions

    def names(self) -> list[str]:
        """Return the ids of the sessions that are there, readable or not, sorted.

        Raises:
            QuestionStoreError: The store refused.
        """
        ...

    def foreign(self) -> list[str]:
        """Return the ids of the sessions that came with a repository, and nobody adopted, sorted.

        They are left out of everything else, and refused by `QuestionNotAdopted`.

        Raises:
            QuestionStoreError: The store refused.
        """
        ...

    def read_foreign(self, session_id: str) -> QuestionSession:
        """Read such a session, for a person to look at. Raises as `read` does otherwise."""
        ...

    def make_own(self, shown: QuestionSession) -> None:
        """Make such a session this person's, because they said so.

        Args:
            shown: What they saw of it.

        Raises:
            QuestionNotAdopted: It is another one than they saw.
            QuestionStoreError: That can't be kept; it is as it was.
        """
        ...

    def signatures(
        self, statuses: Collection[SessionStatus] | None = None
    ) -> Mapping[str, Hashable]:
        """Return the signatures of all sessions, by their ids, sorted.

        Args:
            statuses: Those that stand otherwise may be left out; None leaves none out.

        Raises:
            QuestionStoreError: The store refused.
        """
        ...

    def read_many(
        self, session_ids: Iterable[str]
    ) -> Mapping[str, QuestionSession | QuestionError]:
        """Read sessions as they stand, at once; those that are not there are left out.

        One that can't be read comes as the error that says why.
        """
        ...

    def change_mark(self) -> Hashable | None:
        """Return what is another value once any session that waits has changed, or one appeared.

        None where it isn't known. It costs less than to read them.
        """
        ...

    def cleanup(self, config: QuestionsConfig, outside: Outside) -> CleanupResult:
        """Delete the sessions that changed longer ago than `config.retention_s`, waiting ones too.

        Args:
            config: Says how old is old; with `retention_s` 0 no session is deleted.
            outside: Time, chance and the file system.

        Raises:
            prune.PruneError: The place can't be used, or another prune works on it.
            QuestionStoreError: The store refused.
        """
        ...

    # -------------------------------------------------------------------------- what is reported

    def watching(self, session_id: str, on_change: OnChange) -> AbstractContextManager[None]:
        """Return a block; while it runs, `on_change` is called after each change of a session.

        It is called from another thread, perhaps for nothing. A change may be missed.
        """
        ...

    def following(self, on_change: OnChange, *, look_s: float) -> AbstractContextManager[Follower]:
        """Return a block with what sees the changes of all sessions.

        Args:
            on_change: Called when there may be something to see, as in `watching`.
            look_s: How often everything is looked at, reported or not, in seconds.
        """
        ...


__all__ = ["Follower", "LockedSession", "OnChange", "QuestionRepository", "Room"]
