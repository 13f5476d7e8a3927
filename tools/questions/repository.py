"""The port to the question sessions' store: all that the service knows of it.

A store is a folder of files (`store.QuestionStore`), which other programs read and write too, or a
database for all machines. The module is long because it spells out what every store must do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from attrs import frozen

from ..base.question import QuestionError
from ..prune import PruneEnvironment
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
class WaitingLimit:
    """How many sessions may wait at once.

    Attributes:
        max_sessions: The maximum.
        asked_after: Sessions that were asked then or before no longer wait, whatever their status
            says; None if no session has a time limit.
    """

    max_sessions: int
    asked_after: datetime | None = None

    def counts(self, record: StatusRecord) -> bool:
        """Return whether a session counts as waiting."""
        return record.status is SessionStatus.PENDING and (
            self.asked_after is None or record.created_at > self.asked_after
        )


class LockedSession(Protocol):
    """A session whose lock is held, with the reads and writes it allows."""

    @property
    def session_id(self) -> str:
        """The session."""
        ...

    def read(self) -> QuestionSession:
        """Read the complete session; raises as `QuestionRepository.read` does."""
        ...

    def read_record(self) -> StatusRecord:
        """Read its status alone.

        Raises:
            SessionCorrupted: The status is invalid.
        """
        ...

    def read_request(self) -> SessionRequest:
        """Read its request alone.

        Raises:
            SessionCorrupted: The request is invalid.
        """
        ...

    def write_answers(self, answers: SessionAnswers) -> None:
        """Write the answers, which completes the session.

        Raises:
            QuestionStoreError: They were not written.
        """
        ...

    def write_read_at(self, answers: SessionAnswers) -> None:
        """Record when the answers were fetched; all else that is stored of them stays.

        Raises:
            QuestionStoreError: It was not recorded.
        """
        ...

    def write_record(self, record: StatusRecord) -> None:
        """Replace the status; other programs' keys in it stay.

        Raises:
            QuestionStoreError: The status is unchanged.
        """
        ...


class Follower(Protocol):
    """Looks at all sessions and remembers what it saw last. Not for several threads."""

    def look_at_all(self) -> frozenset[str]:
        """Return the sessions that differ from the last look, and those reported as changed."""
        ...

    def look_again(self, *, reported: bool) -> frozenset[str]:
        """Return what changed: of all sessions if a full look is due, else of the reported ones.

        Args:
            reported: Whether a change was reported.
        """
        ...


@runtime_checkable
class QuestionRepository(Protocol):
    """A store of question sessions.

    Guarantees required of every implementation: when a call returns, its writes survive the death
    of the process; when it raises, what is stored is unchanged. A reader sees a complete session or
    none. Of several that change one session, each sees the changes of those before it. No id
    reaches anything but a session. Instances may be shared between threads. One suite,
    `tests/contract/questions/test_question_repository_contract.py`, checks all of them.
    """

    @property
    def where(self) -> str:
        """The place of the sessions, for messages and other programs."""
        ...

    @property
    def look_s(self) -> float:
        """The interval of a wait's own looks, whatever is reported, in seconds."""
        ...

    @property
    def looks_block(self) -> bool:
        """Whether `signature` may take longer than an event loop can spare."""
        ...

    def prepare(self) -> None:
        """Create the place where sessions appear, if it is missing.

        Raises:
            QuestionStoreError: The store refused.
        """
        ...

    # -------------------------------------------------------------------------------- one session

    def publish(self, request: SessionRequest, record: StatusRecord, *, room: WaitingLimit) -> None:
        """Make a session appear, complete.

        Args:
            request: The request.
            record: Its first status.
            room: How many may wait, including this one; two askers never take the same place.

        Raises:
            SessionExists: A session of this id exists.
            TooManySessions: The maximum number waits already.
            QuestionStoreError: It could not be created; nothing is left of it.
        """
        ...

    def read(self, session_id: str) -> QuestionSession:
        """Read a session in its current state.

        Raises:
            InvalidSessionId: It is no id.
            SessionNotFound: There is no such session.
            SessionCorrupted: The stored content is invalid.
            QuestionStoreError: The store refused.
        """
        ...

    def read_record(self, session_id: str) -> StatusRecord:
        """Read the status of a session; stored answers count. Raises as `read` does."""
        ...

    def signature(self, session_id: str) -> Hashable | None:
        """Return what shows a change of the session; None if there is no such session.

        It costs less than reading the session.
        """
        ...

    def read_changed(
        self, session_id: str, seen: Hashable | None
    ) -> tuple[Hashable | None, QuestionSession | None]:
        """Read a session, unless its signature is the one that was seen.

        Returns:
            Its signature from before the read, and the session; None instead of the session if it
            did not change.

        Raises: as `read` does.
        """
        ...

    def is_settled(self, signature: Any, *, for_s: float = 0.1) -> bool:
        """Return whether a later change would give another signature.

        Args:
            signature: The signature that was seen.
            for_s: How long ago the last change must be where times tell changes apart, in seconds.
        """
        ...

    def locked(
        self, session_id: str, *, answering: bool = False
    ) -> AbstractContextManager[LockedSession]:
        """Hold the right to change a session.

        Writes in the block are stored when it ends, and also when it ends by a `QuestionError`.

        Args:
            session_id: The session.
            answering: Whether answers will be written.

        Raises:
            InvalidSessionId: It is no id.
            SessionNotFound: There is no such session.
            SessionBusy: Others held the lock for too long.
            QuestionStoreError: It can't be locked, or the writes can't be stored.
        """
        ...

    def find_issues(self, session_id: str) -> ValidationReport:
        """Return every fault of a session; see `validation.find_issues`."""
        ...

    # ------------------------------------------------------------------------------- all sessions

    def names(self) -> list[str]:
        """Return the ids of the existing sessions, readable or not, sorted.

        Raises:
            QuestionStoreError: The store refused.
        """
        ...

    def foreign(self) -> list[str]:
        """Return the ids of the sessions that came with a repository and were not adopted, sorted.

        They are left out of everything else, and refused by `QuestionNotAdopted`.

        Raises:
            QuestionStoreError: The store refused.
        """
        ...

    def read_foreign(self, session_id: str) -> QuestionSession:
        """Read such a session, for a person to look at. Raises as `read` does otherwise."""
        ...

    def make_own(self, shown: QuestionSession) -> None:
        """Adopt such a session for this person, at their request.

        Args:
            shown: The session as it was shown to them.

        Raises:
            QuestionNotAdopted: It differs from what was shown.
            QuestionStoreError: The adoption can't be stored; nothing changed.
        """
        ...

    def signatures(
        self, statuses: Collection[SessionStatus] | None = None
    ) -> Mapping[str, Hashable]:
        """Return the signatures of all sessions, by their ids, sorted.

        Args:
            statuses: Sessions of another status may be left out; None leaves none out.

        Raises:
            QuestionStoreError: The store refused.
        """
        ...

    def read_many(
        self, session_ids: Iterable[str]
    ) -> Mapping[str, QuestionSession | QuestionError]:
        """Read the current state of several sessions at once; missing ones are left out.

        For one that can't be read, the error is returned.
        """
        ...

    def change_mark(self) -> Hashable | None:
        """Return a value that differs once any waiting session has changed, or one appeared.

        None if unknown. It costs less than reading them.
        """
        ...

    def cleanup(self, config: QuestionsConfig, outside: PruneEnvironment) -> CleanupResult:
        """Delete the sessions that changed longer ago than `config.retention_s`, waiting ones too.

        Args:
            config: Sets the retention; with `retention_s` 0 no session is deleted.
            outside: Time, randomness and the file system.

        Raises:
            prune.PruneError: The place can't be used, or another prune works on it.
            QuestionStoreError: The store refused.
        """
        ...

    # ----------------------------------------------------------------------------------- reports

    def watching(self, session_id: str, on_change: OnChange) -> AbstractContextManager[None]:
        """Return a block; while it runs, `on_change` is called after each change of a session.

        Calls come from another thread, perhaps without a change. A change may be missed.
        """
        ...

    def following(self, on_change: OnChange, *, look_s: float) -> AbstractContextManager[Follower]:
        """Return a block with a follower of the changes of all sessions.

        Args:
            on_change: Called when there may be something to see, as in `watching`.
            look_s: The interval of full looks, whatever is reported, in seconds.
        """
        ...


__all__ = ["Follower", "LockedSession", "OnChange", "QuestionRepository", "WaitingLimit"]
