"""The service: create, answer, reject, wait for, list and clean up question sessions.

The module is long because it is the package's only entry point and documents what each method
guarantees; the work is in `endings`, `waiting`, `listing`, `change_feed` and `store`.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final, cast

from ..base.clock import Clock, utc_now
from ..base.errors import AmbiguousId, counted
from ..base.event_log import get_logger
from ..base.files import FileSystem, OsFileSystem
from ..base.files.atomic_file import random_token
from ..base.files.process_owner import OsProcesses, Processes
from ..base.identifiers import completions, new_uuid4
from ..base.question import InvalidQuestions, Question, QuestionError, text_faults
from ..prune import PruneEnvironment
from .askers import Asker, SessionEnd, end_of
from .disk_errors import SessionCorrupted
from .domain import (
    CleanupResult,
    QuestionSession,
    SessionAnswers,
    SessionRequest,
    StatusRecord,
    UserAnswer,
    ValidationReport,
    check_session_id,
    is_session_id,
)
from .endings import MakeAnswers, SessionEndings
from .errors import (
    InvalidSessionId,
    QuestionStoreError,
    SessionEnded,
    SessionNotFound,
    TooManySessions,
)
from .files.session_files import DEFAULT_BASE_DIR
from .files.store import QuestionStore
from .files.wire import to_millis
from .formatting import SHORT_ID_CHARS
from .listing import SessionListing, UnreadableQuestion
from .repository import QuestionRepository, WaitingLimit
from .rules import QuestionsConfig, question_faults
from .session_status import SessionStatus
from .waiting.change_feed import follow_changes, follow_changes_async
from .waiting.directory_watcher import Watcher
from .waiting.waiting import Bell, Deadline, OnTimeout, ThreadBell, Wait

_CALL_ID_CHARS: Final = 1_000

_log = get_logger("agentforge.questions")


class QuestionSessions:
    """The question sessions of a directory or another store: the whole of this package's service.

    Guarantees: when a method returns, its effect is stored and survives a power failure; when it
    raises, the session is unchanged (except for an `AtomicWriteError` that is `visible`). A session
    ends once: of several that answer, reject, abandon or time out, one wins and the others get
    `SessionEnded`. Stored answers are never lost. If sessions are not stored in files, a refusal of
    the store is a `QuestionStoreError` instead of an `AtomicReadError` or an `AtomicWriteError`,
    which are of that kind.

    Instances may be shared between threads and processes; nothing is held between two calls.

    Attributes:
        base_dir: The directory of the sessions; with another store, the directory of this machine's
            additions to them, such as drafts.
        config: Limits and times.
        store: The store of the sessions.
    """

    def __init__(
        self,
        base_dir: Path | str | None = None,
        *,
        store: QuestionRepository | None = None,
        config: QuestionsConfig | None = None,
        fs: FileSystem | None = None,
        clock: Clock = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        wall: Callable[[], float] = time.time,
        new_id: Callable[[], str] = new_uuid4,
        token: Callable[[], str] | None = None,
        watcher: Watcher | None = None,
        bell: Callable[[], Bell] = ThreadBell,
        processes: Processes | None = None,
        session_end: SessionEnd | None = None,
        lock_timeout_s: float = 10.0,
        lock_grace_s: float = 2.0,
    ) -> None:
        """Remember the place; no I/O yet.

        Args:
            base_dir: The directory of the sessions; `.agentforge/questions` in the working
                directory by default.
            store: The store of the sessions; files in `base_dir` if None. The arguments about files
                are those of that directory.
            config: Limits and times; the defaults if None.
            fs: The file system.
            clock: Returns the time, aware.
            monotonic: The clock for waits, in seconds.
            sleep: Pauses between two looks at a lock or a torn file.
            wall: The file system's clock, in seconds since the epoch.
            new_id: Returns version 4 UUIDs.
            token: Returns random texts for hidden names.
            watcher: Reports changes to waits; one for the whole process by default.
            bell: Makes the bell of one wait that blocks its thread.
            processes: The machine's processes, for lock files and askers.
            session_end: Judges whether the agent session that asked can continue; without it,
                questions of agent sessions wait without end.
            lock_timeout_s: How long a change waits for another one of the same session, in seconds.
            lock_grace_s: How long a lock file whose owner can't be judged is respected, in seconds.
        """
        self.config = config if config is not None else QuestionsConfig()
        self.base_dir = Path(base_dir) if base_dir is not None else DEFAULT_BASE_DIR
        self._outside = PruneEnvironment(
            fs=fs if fs is not None else OsFileSystem(),
            clock=clock,
            token=token if token is not None else random_token,
            monotonic=monotonic,
            sleep=sleep,
        )
        self.store: QuestionRepository = (
            store
            if store is not None
            else QuestionStore(
                self.base_dir,
                fs=fs,
                token=token,
                lock_timeout_s=lock_timeout_s,
                lock_grace_s=lock_grace_s,
                processes=processes,
                monotonic=monotonic,
                sleep=sleep,
                wall=wall,
                watcher=watcher,
            )
        )
        self._processes = processes if processes is not None else OsProcesses()
        self._session_end = session_end
        self._bell = bell
        self._clock = clock
        self._monotonic = monotonic
        self._sleep = sleep
        self._new_id = new_id
        self._endings = SessionEndings(self.store, self.config, clock)
        self._listing = SessionListing(self.store, sleep=sleep)
        self._folder = self.base_dir if store is None else None

    @property
    def where(self) -> str:
        """The place of the sessions, for messages and other programs."""
        return self.store.where

    def prepare(self) -> None:
        """Create the place where sessions appear, so that it can be watched before anybody asks.

        Raises:
            QuestionStoreError: The store refused.
        """
        self.store.prepare()

    # --------------------------------------------------------------------------------- asking

    def new_session_id(self) -> str:
        """Return a fresh id, for a caller that must know it before the session exists."""
        return check_session_id(self._new_id())

    def ask(
        self,
        questions: Iterable[Question],
        *,
        call_id: str | None = None,
        session_id: str | None = None,
        working_directory: Path | str | None = None,
        asker: Asker | None = None,
    ) -> QuestionSession:
        """Create a session that waits for a person.

        Args:
            questions: The questions, in their order.
            call_id: The call of an AI client that asks, or None.
            session_id: An id from `new_session_id()`, or None for a fresh one.
            working_directory: The folder that the asker works in, for the person to see.
            asker: Who waits for the answer. Once that has ended, the next process that looks ends
                the session as abandoned. Without it, the session waits without end.

        Raises:
            InvalidQuestions: It names every fault ("At least one question is required to create a
                session" if there are none).
            InvalidSessionId: `session_id` is no id.
            SessionExists: A session of this id exists.
            TooManySessions: `max_sessions` wait already.
            AtomicWriteError: It could not be created; nothing is left of it.
        """
        asked = tuple(questions)
        faults = question_faults(asked, self.config)
        if call_id is not None and not _is_call_id(call_id):
            faults.append(f"callId: expected 1 to {_CALL_ID_CHARS} characters that UTF-8 can hold")
        if faults:
            raise InvalidQuestions(faults)
        chosen = check_session_id(session_id) if session_id is not None else self.new_session_id()
        request = SessionRequest(
            session_id=chosen,
            questions=asked,
            status=SessionStatus.PENDING,
            timestamp=to_millis(self._clock()),
            call_id=call_id,
            working_directory=None if working_directory is None else str(working_directory),
            asker=asker,
        )
        record = StatusRecord.of_new(request)
        try:
            self.store.publish(request, record, room=self._room())
        except TooManySessions:
            self.pending()  # ends those whose asker has ended
            self.store.publish(request, record, room=self._room())
        _log.info("question.asked", session_id=chosen, questions=len(asked), call_id=call_id)
        return QuestionSession(request=request, record=record)

    def create_session(
        self,
        questions: Iterable[Question],
        *,
        call_id: str | None = None,
        session_id: str | None = None,
        working_directory: Path | str | None = None,
        asker: Asker | None = None,
    ) -> str:
        """Ask as `ask()` does; return the session's id."""
        return self.ask(
            questions,
            call_id=call_id,
            session_id=session_id,
            working_directory=working_directory,
            asker=asker,
        ).session_id

    def _room(self) -> WaitingLimit:
        limit = self.config.session_timeout_s
        return WaitingLimit(
            max_sessions=self.config.max_sessions,
            asked_after=self._clock() - timedelta(seconds=limit) if limit > 0 else None,
        )

    # ------------------------------------------------------------------------------ answering

    def save_session_answers(
        self, session_id: str, answers: SessionAnswers | Iterable[UserAnswer] | MakeAnswers
    ) -> SessionAnswers:
        """Answer a session, which completes it.

        Args:
            session_id: The session.
            answers: The answers, or a function that makes them from the session as it is under its
                lock; those without a time get the time of this call.

        Returns:
            The answers that are on disk now.

        Raises:
            InvalidSessionId: It is no id.
            SessionNotFound: "Session not found: {session_id}".
            SessionEnded: It has ended already.
            InvalidAnswers: It names every fault; the session still waits.
            CallIdMismatch: They answer another call; the session still waits.
            SessionCorrupted: Its files are invalid.
            SessionBusy: Others held its lock for too long.
            AtomicWriteError: They could not be written; the session still waits.
        """
        return self._endings.answer(session_id, answers)

    def mark_answers_read(self, session_id: str) -> SessionAnswers:
        """Record on disk that the answers were fetched now.

        Returns:
            The answers that are on disk now.

        Raises:
            NoAnswers: "Session {session_id} has no answers to mark as read".
            InvalidSessionId, SessionNotFound, SessionCorrupted, SessionBusy, AtomicWriteError: As
                `save_session_answers()` does; the answers are unchanged.
        """
        return self._endings.mark_read(session_id)

    def reject_session(self, session_id: str, reason: str | None = None) -> StatusRecord:
        """Reject a session: the person will not answer.

        Args:
            session_id: The session.
            reason: The person's reason, or None.

        Raises:
            SessionEnded: It has ended already.
            InvalidSessionId, SessionNotFound, SessionCorrupted, SessionBusy, AtomicWriteError: As
                `save_session_answers()` does.
        """
        return self._endings.end(session_id, "reject", reason)

    def abandon_session(self, session_id: str, reason: str | None = None) -> StatusRecord:
        """End a session whose asker has ended, or whose files can't be used.

        Args:
            session_id: The session.
            reason: Why; stored in status.json as `endReason`.

        Raises:
            SessionEnded: It has ended already.
            InvalidSessionId, SessionNotFound, SessionCorrupted, SessionBusy, AtomicWriteError: As
                `save_session_answers()` does; `SessionCorrupted` concerns status.json here.
        """
        return self._endings.end(session_id, "abandon", reason)

    def time_out_session(self, session_id: str, reason: str | None = None) -> StatusRecord:
        """End a session whose time is over.

        Raises:
            SessionEnded: It has ended already, perhaps with an answer in the last moment.
            InvalidSessionId, SessionNotFound, SessionCorrupted, SessionBusy, AtomicWriteError: As
                `save_session_answers()` does.
        """
        return self._endings.end(session_id, "time out", reason)

    # -------------------------------------------------------------------------------- waiting

    def wait_for(
        self,
        session_id: str,
        timeout_s: float | None = None,
        expected_call_id: str | None = None,
        *,
        on_timeout: OnTimeout = "leave",
    ) -> QuestionSession:
        """Wait until a person answers; blocks the thread, and Ctrl-C ends it.

        The file system reports the answer at once; where it does not, the wait looks for itself
        every 200 ms, which is all that it does while nothing happens. Any number of processes may
        wait for the same session.

        Args:
            session_id: The session.
            timeout_s: The longest wait in seconds, 0 for one look; None waits without end, or as
                long as `config.session_timeout_s` lets the session live.
            expected_call_id: The call that the answers must belong to, or None for any.
            on_timeout: What happens to the session without an answer in `timeout_s`: "leave" leaves
                it waiting, "end" times it out.

        Returns:
            The session with its answers; they fit their questions.

        Raises:
            SessionRejected: "SESSION_REJECTED"; the person's words are its `reason`.
            SessionEnded: It was abandoned or timed out.
            AnswersTimeout: There was no answer in time.
            CallIdMismatch: The session belongs to another call; it is unchanged. Answers in it of
                another call are ignored, those without a call id are accepted.
            SessionNotFound: There is no such session (any more).
            SessionCorrupted: Its files can't be used; the session is ended as abandoned.
            ValueError: `timeout_s` is negative or no number.
        """
        wait = self._begin_wait(session_id, timeout_s, expected_call_id, on_timeout)
        return wait.run(self._bell())

    def wait_for_answers(
        self,
        session_id: str,
        timeout_s: float | None = None,
        expected_call_id: str | None = None,
        *,
        on_timeout: OnTimeout = "leave",
    ) -> SessionAnswers:
        """Wait as `wait_for()` does; return the answers."""
        done = self.wait_for(session_id, timeout_s, expected_call_id, on_timeout=on_timeout)
        return cast(SessionAnswers, done.answers)  # present, else the wait had raised

    async def wait_for_answers_async(
        self,
        session_id: str,
        timeout_s: float | None = None,
        expected_call_id: str | None = None,
        *,
        on_timeout: OnTimeout = "leave",
    ) -> SessionAnswers:
        """Wait until a person answers, without blocking the event loop.

        Like `wait_for_answers()`, in asyncio or any event loop that anyio runs on. Cancelling it
        leaves the session unchanged: abandoning it is the caller's decision.
        """
        import anyio
        import anyio.to_thread

        limiter = anyio.CapacityLimiter(1)  # a thread of its own: never behind other work
        in_thread = partial(anyio.to_thread.run_sync, limiter=limiter)
        wait = await in_thread(
            self._begin_wait, session_id, timeout_s, expected_call_id, on_timeout
        )
        done = await wait.run_async(in_thread)
        return cast(SessionAnswers, done.answers)

    def _begin_wait(
        self,
        session_id: str,
        timeout_s: float | None,
        expected_call_id: str | None,
        on_timeout: OnTimeout,
    ) -> Wait:
        if timeout_s is not None and not (math.isfinite(timeout_s) and timeout_s >= 0):
            raise ValueError(f"timeout_s: expected 0 or more seconds, or None, got {timeout_s!r}")
        if on_timeout not in {"leave", "end"}:
            raise ValueError(f"on_timeout: expected 'leave' or 'end', got {on_timeout!r}")
        check_session_id(session_id)
        left = None
        if self.config.session_timeout_s > 0:
            with suppress(SessionCorrupted):
                age = self._clock() - self.store.read_record(session_id).created_at
                left = max(self.config.session_timeout_s - age.total_seconds(), 0.0)
        return Wait(
            session_id,
            expected_call_id,
            Deadline(
                timeout_s,
                session_left_s=left,
                now=self._monotonic(),
                look_s=self.store.look_s,
            ),
            on_timeout=on_timeout,
            store=self.store,
            monotonic=self._monotonic,
            end=self._endings.end,
        )

    # -------------------------------------------------------------------------------- looking

    def get(self, session_id: str) -> QuestionSession:
        """Read a session in its current state.

        Raises:
            InvalidSessionId, SessionNotFound, SessionCorrupted, AtomicReadError: As they say.
        """
        return self.store.read(session_id)

    def came_with_repository(self) -> str | None:
        """Return a notice about the sessions that came with a repository, or None.

        Those are in no list, wait for nobody, and can't be answered (`QuestionNotAdopted`).
        """
        count = 0
        with suppress(QuestionStoreError):  # listing them reports it
            count = len(self.store.foreign())
        if not count:
            return None
        return (
            f"{counted(count, 'question session')} came with this repository, in {self.where}, and "
            "can't be answered: `agentforge session adopt --all` shows them, and makes them yours"
        )

    def status_of(self, session: QuestionSession) -> SessionStatus:
        """Return the status that a session has for a person who would answer it now.

        It is timed out once `session_timeout_s` is over, even before status.json says so.
        """
        if session.status is SessionStatus.PENDING and self._endings.is_overdue(session.record):
            return SessionStatus.TIMED_OUT
        return session.status

    def change_mark(self) -> Hashable | None:
        """Return a value that differs once any waiting session has changed; None if unknown.

        It costs less than listing them.
        """
        return self.store.change_mark()

    def exists(self, session_id: str) -> bool:
        """Return whether there is a session of this id, readable or not."""
        return is_session_id(session_id) and self.store.signature(session_id) is not None

    def list_sessions(
        self,
        status: SessionStatus | None = None,
        *,
        on_unreadable: Callable[[UnreadableQuestion], None] | None = None,
    ) -> list[QuestionSession]:
        """Return the sessions, oldest first; one that can't be read hides none of the others.

        Sessions that did not change since the last call are not read again. A session whose answer
        no one can receive any more (its asker was killed, or the agent session that it was asked
        for has ended or was deleted) is ended as abandoned first.

        Args:
            status: Only sessions with this status.
            on_unreadable: Called with each session that can't be read; these are logged anyway,
                once.

        Raises:
            AtomicReadError: The base exists and can't be read.
        """
        found = []
        # Waiting sessions are read in any case, since some of them may end here.
        wanted = None if status is None else {status, SessionStatus.PENDING}
        for name, read in self._listing.read_all(self.store.signatures(wanted)).items():
            if isinstance(read, QuestionSession):
                attended = self._attended(read)
                if status is None or attended.status is status:
                    found.append(attended)
            elif on_unreadable is not None:
                on_unreadable(UnreadableQuestion(name, read))
        found.sort(key=lambda one: (one.created_at, one.session_id))
        return found

    def _attended(self, session: QuestionSession) -> QuestionSession:
        """Return a session's current state; end it first if no one can receive its answer."""
        if session.status is not SessionStatus.PENDING:
            return session
        reason = end_of(session.asker, processes=self._processes, session_end=self._session_end)
        if reason is None:
            return session
        try:
            with suppress(SessionEnded):  # somebody was faster
                self.abandon_session(session.session_id, reason)
            return self.store.read(session.session_id)
        except QuestionError as error:
            _log.warning("question.not_withdrawn", session_id=session.session_id, error=str(error))
            return session

    def pending(
        self, *, on_unreadable: Callable[[UnreadableQuestion], None] | None = None
    ) -> list[QuestionSession]:
        """Return the sessions that wait for an answer, oldest first; see `list_sessions()`.

        Those whose `session_timeout_s` is over are left out, also before status.json says so.
        """
        waiting = self.list_sessions(SessionStatus.PENDING, on_unreadable=on_unreadable)
        return [one for one in waiting if not self._endings.is_overdue(one.record)]

    def changes(self, *, stop: threading.Event | None = None) -> Iterator[frozenset[str]]:
        """Yield the ids of the sessions that appeared, changed or disappeared, whenever some did.

        The first set comes at once, with all existing sessions. Changes that come together are
        yielded together. The file system reports them, as it does to a wait; where it does not, a
        look every 200 ms finds them (with very many sessions a little less often, so that it never
        costs more than 1 % of a core).

        Args:
            stop: Ends it when set, within 50 ms.
        """
        return follow_changes(self.store, stop=stop)

    def changes_async(
        self, *, at_least_every_s: float | None = None, look_s: float | None = None
    ) -> AsyncGenerator[frozenset[str], None]:
        """Yield changes as `changes()` does, without blocking the event loop; may be cancelled.

        Args:
            at_least_every_s: After how long without a change it yields an empty set, for a caller
                with something else to check; None for never.
            look_s: The interval of full looks without reports, in seconds, which is the delay of a
                change that is not reported; the store's own interval if None.
        """
        return follow_changes_async(self.store, at_least_every_s=at_least_every_s, look_s=look_s)

    def resolve_id(self, shortened: str) -> str:
        """Return the id that a shortened one means: equal to it, or its beginning, end or part.

        Case does not matter.

        Raises:
            InvalidSessionId: It can't be a part of an id.
            SessionNotFound: It matches no session's id.
            AmbiguousId: It matches several.
        """
        text = shortened.strip().lower()
        if not text or len(text) > 36 or set(text) - set("0123456789abcdef-"):
            raise InvalidSessionId(shortened)
        known = {name.lower(): name for name in self.store.names()}
        found = [known[one] for one in completions(text, known)]
        if not found:
            raise SessionNotFound(text, path=self._folder)
        if len(found) > 1:
            raise AmbiguousId(text, found, "question sessions")
        return found[0]

    def short_ids(self) -> dict[str, str]:
        """Return each session's shortest unambiguous beginning, of 8 characters or more."""
        names = self.store.names()
        short = {}
        for i, name in enumerate(names):  # sorted: only neighbours share a beginning
            near = [names[j] for j in (i - 1, i + 1) if 0 <= j < len(names)]
            shared = max((_shared_chars(name, one) for one in near), default=0)
            short[name] = name[: max(SHORT_ID_CHARS, shared + 1)]
        return short

    # ------------------------------------------------------------------------------ upkeep

    def validate_session(self, session_id: str) -> ValidationReport:
        """Check a session's files against each other; nothing is changed.

        Raises:
            InvalidSessionId: It is no id.
        """
        return self.store.find_issues(check_session_id(session_id))

    def cleanup_expired_sessions(self) -> CleanupResult:
        """Delete the sessions that changed longer ago than `config.retention_s`.

        Their status does not matter; with `retention_s` 0 none is deleted. First, sessions whose
        answer no one can receive any more are ended as abandoned, as `list_sessions()` does; their
        retention counts from that change. The prune engine does the rest: each removal is in the
        audit log, pinned sessions and those that are being changed stay, and one that can't be read
        is left alone, and named in the result and in the log.

        Raises:
            prune.PruneError: The base can't be used, or another prune works on it.
        """
        with suppress(QuestionStoreError):  # the clean-up reports it
            self.list_sessions(SessionStatus.PENDING)
        return self.store.cleanup(self.config, self._outside)


def _is_call_id(text: str) -> bool:
    return 0 < len(text) <= _CALL_ID_CHARS and not text_faults("callId", text)


def _shared_chars(one: str, other: str) -> int:
    pairs = zip(one, other, strict=True)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), len(one))


__all__ = ["QuestionSessions"]
