"""How a session ends: answered, rejected, abandoned or timed out, each of them once and for good.

Each change is made under the session's lock, based on a read under that lock. What a killed writer
left half done is finished first: answers on disk complete a session, whatever its status says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from attrs import evolve

from ..base.clock import Clock
from ..base.event_log import get_logger
from ..base.question import QuestionError, text_faults
from .disk_errors import SessionCorrupted
from .domain import QuestionSession, SessionAnswers, StatusRecord, UserAnswer, next_status
from .errors import CallIdMismatch, InvalidAnswers, NoAnswers
from .files.wire import to_millis
from .repository import LockedSession, QuestionRepository
from .rules import QuestionsConfig, answers_of, submission_faults
from .session_status import SessionStatus

MAX_REASON_CHARS: Final = 20_000

MakeAnswers = Callable[[QuestionSession], Iterable[UserAnswer]]
"""Returns the answers to a waiting session, or raises `InvalidAnswers`."""

_log = get_logger("agentforge.questions")


class SessionEndings:
    """Ends sessions; of several callers, one wins and the others get `SessionEnded`."""

    def __init__(self, store: QuestionRepository, config: QuestionsConfig, clock: Clock) -> None:
        """Store the repository, the limits and the clock."""
        self._store = store
        self._config = config
        self._clock = clock

    def is_overdue(self, record: StatusRecord) -> bool:
        """Return whether a session's time limit has passed, whatever its status says."""
        limit = self._config.session_timeout_s
        return limit > 0 and self._clock() - record.created_at >= timedelta(seconds=limit)

    def answer(
        self, session_id: str, answers: SessionAnswers | Iterable[UserAnswer] | MakeAnswers
    ) -> SessionAnswers:
        """See `QuestionSessions.save_session_answers`."""
        with self._store.locked(session_id, answering=True) as locked:
            session = self._settled(locked, "answer")
            _check_call(answers, session)
            given = answers_of(answers(session) if callable(answers) else answers)
            faults = submission_faults(given, session.questions, self._config)
            if faults:
                raise InvalidAnswers(faults, session_id=session_id)
            now = self._after(session.record)
            saved = SessionAnswers(
                session_id=session_id,
                answers=[evolve(one, timestamp=one.timestamp or now) for one in given],
                timestamp=now,
                call_id=session.call_id,
            )
            locked.write_answers(saved)
            self._finish(locked, session.record, now)
        _log.info("question.answered", session_id=session_id, answers=len(given))
        return saved

    def mark_read(self, session_id: str) -> SessionAnswers:
        """See `QuestionSessions.mark_answers_read`."""
        with self._store.locked(session_id, answering=True) as locked:
            session = locked.read()
            if session.answers is None:
                raise NoAnswers(session_id)
            read_at = max(to_millis(self._clock()), session.answers.timestamp)
            marked = evolve(session.answers, last_read_at=read_at)
            locked.write_read_at(marked)
        return marked

    def end(self, session_id: str, operation: str, reason: str | None) -> StatusRecord:
        """End a session without answers.

        Args:
            session_id: The session.
            operation: "reject", "abandon" or "time out".
            reason: Why, or None.

        Raises:
            SessionEnded: It has ended already.
        """
        why = _checked_reason(reason)
        with self._store.locked(session_id) as locked:
            try:
                record = self._settled(locked, operation).record
                status = next_status(session_id, record.status, operation)
            except SessionCorrupted:
                if operation != "abandon":
                    raise
                record, status = self._what_is_left(locked), SessionStatus.ABANDONED
            rejected = status is SessionStatus.REJECTED
            ended = evolve(
                record,
                status=status,
                last_modified=self._after(record),
                rejection_reason=(why if rejected else None) or record.rejection_reason,
                end_reason=(None if rejected else why) or record.end_reason,
            )
            locked.write_record(ended)
        _log.info(f"question.{ended.status.value}", session_id=session_id, reason=why)
        return ended

    def _what_is_left(self, locked: LockedSession) -> StatusRecord:
        """Return the status of a session whose files can't be used, to end it as abandoned.

        A session that was completed by answers that don't fit its questions is abandoned too: its
        asker can't have them. If status.json itself can't be read, it is rebuilt from the request.

        Raises:
            SessionEnded: It has ended in another way, which holds; or its answers are complete.
            SessionCorrupted: Neither file can be read; both are unchanged.
        """
        try:
            record = locked.read_record()
        except SessionCorrupted:
            record = StatusRecord.of_new(locked.read_request())
            locked.write_record(record)
            with suppress(SessionCorrupted):
                self._settled(locked, "abandon")  # complete answers complete it, whatever was torn
            return record
        if record.status is not SessionStatus.COMPLETED:
            next_status(locked.session_id, record.status, "abandon")
        return record

    def _settled(self, locked: LockedSession, operation: str) -> QuestionSession:
        """Read a session that is about to be changed, and finish what was left half done.

        Raises:
            SessionEnded: It has ended, so `operation` can't be done.
        """
        session = locked.read()
        record = session.record
        if session.answers is not None and record.status is SessionStatus.PENDING:
            self._finish(locked, record, session.answers.timestamp)
        elif not record.status.is_terminal and operation == "answer" and self.is_overdue(record):
            ended = evolve(
                record, status=SessionStatus.TIMED_OUT, last_modified=self._after(record)
            )
            locked.write_record(ended)
            session = evolve(session, record=ended)
        next_status(locked.session_id, session.status, operation)
        return session

    def _finish(self, locked: LockedSession, record: StatusRecord, now: datetime) -> None:
        """Update the status to match the answers on disk.

        If that fails, the session is completed all the same; the next change tries again.
        """
        modified = max(now, record.last_modified)
        try:
            locked.write_record(
                evolve(record, status=SessionStatus.COMPLETED, last_modified=modified)
            )
        except QuestionError as error:
            _log.warning("question.status_behind", session_id=locked.session_id, error=str(error))

    def _after(self, record: StatusRecord) -> datetime:
        """Return the time now, or the record's own if the clock was set back since."""
        return max(to_millis(self._clock()), record.last_modified, record.created_at)


def _check_call(answers: object, session: QuestionSession) -> None:
    """Raise `CallIdMismatch` if answers name another call."""
    given = answers.call_id if isinstance(answers, SessionAnswers) else None
    if None not in {given, session.call_id} and given != session.call_id:
        raise CallIdMismatch(session.session_id, expected=str(session.call_id), actual=given)


def _checked_reason(reason: str | None) -> str | None:
    if reason is None or not reason.strip():
        return None
    faults = text_faults("reason", reason)
    if not faults and len(reason) > MAX_REASON_CHARS:
        faults = [f"reason: it has more than {MAX_REASON_CHARS:,} characters"]
    if faults:
        raise InvalidAnswers(faults)
    return reason
