"""Asks a person within a session; each question is recorded first, and so asked only once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from attrs import define, field

from ...base.clock import Clock
from ...base.errors import AgentForgeError
from ...base.question import Question
from ...base.tracing import Attribute, Traced, traced
from ..domain.history_events import (
    QuestionAbandoned,
    QuestionAsked,
    QuestionEnded,
    QuestionNotAsked,
)
from ..domain.session_entries import spelled
from ..domain.session_observer import QuestionNotWithdrawn
from ..errors import QuestionWaits, SessionConflict
from ..events.session_events import SessionEvents
from ..lazy import Lazy
from ..ports import QuestionChannel
from ..session_domain import SessionContext, SessionState
from ..session_ports import SessionRepository
from ..views.question_entries import (
    check_key,
    find_asked,
    find_reply,
    is_paused_for,
    open_questions,
    pause_reason,
    question_key,
    questions_asked,
)
from .session_recording import SessionChanges


@define(eq=False)
class PersonQuestions:
    """Asks a person the questions of sessions, and records in the session how they ended.

    Args:
        channel: Takes the questions; opened for the first one.
        sessions: Where the sessions are stored.
        changes: Saves the sessions.
        events: The log.
        clock: The time.
    """

    _opened: Lazy[QuestionChannel] = field(alias="channel")
    _sessions: SessionRepository = field(kw_only=True)
    _changes: SessionChanges = field(kw_only=True)
    _events: SessionEvents = field(kw_only=True)
    _clock: Clock = field(kw_only=True)

    @property
    def _channel(self) -> QuestionChannel:
        return self._opened()

    def ask(
        self,
        session: SessionContext,
        questions: Sequence[Question],
        *,
        key: str | None,
        pause: bool,
        timeout_s: float | None,
        on_waiting: Callable[[str], object],
    ) -> QuestionEnded:
        """Ask, and wait for the reply; see `SessionManager.ask`."""
        asked = tuple(questions)
        about: dict[str, str | int | float | bool | None] = {
            Attribute.SESSION_ID: session.session_id,
            Attribute.QUESTION_COUNT: len(asked),
        }
        with traced(Traced.QUESTION, about) as span:
            chosen = question_key(session, asked) if key is None else check_key(key)
            before = find_asked(session, chosen)
            question_id = self._asked(session, chosen, asked, pause=pause)
            span.set(Attribute.QUESTION_ID, question_id)
            reply = find_reply(session, question_id)
            if reply is not None:
                reply = self._found_again(reply)
            else:
                if not is_paused_for(session, question_id):
                    session.require(SessionState.ACTIVE, operation="ask")
                self._put(session, question_id, chosen, asked)
                reply = self._waited(
                    question_id, timeout_s, on_waiting, asked_before=before is not None
                )
                if reply is not None:
                    self._record_reply(session, reply)
            span.set(Attribute.OUTCOME, "waiting" if reply is None else reply.outcome)
        if reply is None:
            raise QuestionWaits(
                session.session_id, question_id=question_id, timeout_s=timeout_s or 0.0
            )
        return reply

    def _waited(
        self,
        question_id: str,
        timeout_s: float | None,
        on_waiting: Callable[[str], object],
        *,
        asked_before: bool,
    ) -> QuestionEnded | None:
        """Wait for the reply to a submitted question; None if there is none in time.

        A question from an earlier worker may already be answered; then there is no wait.
        """
        try:
            reply = self._channel.wait(question_id, 0.0) if asked_before else None
            if reply is None:
                on_waiting(question_id)
            if reply is None and (not asked_before or timeout_s != 0):
                reply = self._channel.wait(question_id, timeout_s)
        except LookupError as error:  # it was submitted, so it was removed since
            return QuestionAbandoned(question_id=question_id, reason=f"it is gone ({error})")
        return reply

    def withdraw_all(self, session: SessionContext) -> None:
        """End every question of an ended session, since no worker can use the answers.

        What can't be ended now is logged; the next look at the questions ends it.
        """
        reason = f"session {session.session_id} was {session.state.value}"
        for question_id in sorted(questions_asked(session)):
            if find_reply(session, question_id) is None:
                self._withdraw(session, question_id, reason)

    def abandon(self, session: SessionContext, keys: Collection[str], reason: str) -> None:
        """Record, in memory, that open questions under some keys are of no use; then end them."""
        for asked in open_questions(session):
            if asked.key in keys:
                ended = QuestionAbandoned(question_id=asked.question_id, reason=reason)
                session.add_event(ended, now=self._clock())
                self._changes.after_save(
                    partial(self._withdraw, session, asked.question_id, reason)
                )

    def _withdraw(self, session: SessionContext, question_id: str, reason: str) -> None:
        try:
            self._channel.withdraw(question_id, reason)
        except (AgentForgeError, OSError) as error:
            notice = QuestionNotWithdrawn(question_id=question_id, error=str(error))
            self._events.announce(session, notice)

    def _asked(
        self,
        session: SessionContext,
        key: str,
        questions: Sequence[Question],
        *,
        pause: bool,
    ) -> str:
        """Return the id of the question under a key, recording it first if it is new."""
        own_id = self._channel.id_for(f"{session.session_id}/{key}")

        def change() -> None:
            session.require(SessionState.ACTIVE, operation="ask")
            self._channel.check(questions)
            prompts = tuple(one.prompt for one in questions)
            event = spelled(QuestionAsked(question_id=own_id, key=key, prompts=prompts))
            session.add_event(event, now=self._clock())
            if pause:
                session.apply(
                    "pause",
                    details=pause_reason(own_id),
                    cause="person",
                    question_id=own_id,
                    now=self._clock(),
                )

        def catch_up(session: SessionContext) -> bool:
            return self._changes.catch_up(session) and find_asked(session, key) is None

        found = find_asked(session, key)
        if found is not None:
            return found
        try:
            self._changes.record(session, change, catch_up=catch_up)
        except SessionConflict:
            found = find_asked(session, key)  # another worker recorded it
            if found is None:
                raise
            return found
        return own_id

    def _found_again(self, known: QuestionEnded) -> QuestionEnded:
        """Return a recorded reply with its answers, if the channel still has them."""
        try:
            return self._channel.wait(known.question_id, 0.0) or known
        except LookupError:
            return known

    def _put(
        self,
        session: SessionContext,
        question_id: str,
        key: str,
        questions: Sequence[Question],
    ) -> None:
        try:
            asking = self._sessions.reference(session.session_id)
            self._channel.put(question_id, questions, call_id=session.session_id, session=asking)
        except Exception as error:
            event = QuestionNotAsked(question_id=question_id, key=key, problem=str(error))
            with self._changes.changing(session):
                session.add_event(spelled(event), now=self._clock())
                self._resume(session, question_id)
            raise

    def _record_reply(self, session: SessionContext, reply: QuestionEnded) -> None:
        def is_recorded(session: SessionContext) -> bool:
            return find_reply(session, reply.question_id) is not None

        def catch_up(session: SessionContext) -> bool:
            if not self._changes.catch_up(session):
                self._keep_reply(session.session_id, reply)
                return False
            return not is_recorded(session)

        if is_recorded(session):
            return
        try:
            self._changes.record(
                session, lambda: self._add_reply(session, reply), catch_up=catch_up
            )
        except SessionConflict:
            if is_recorded(session):  # another worker recorded it
                return
            raise

    def _keep_reply(self, session_id: str, reply: QuestionEnded) -> None:
        """Record a reply in the history of a session that another worker leads by now."""

        def change(found: SessionContext) -> bool:
            if found.state.is_terminal or find_reply(found, reply.question_id) is not None:
                return False  # nothing to resume, or another worker recorded it
            self._add_reply(found, reply)
            return True

        self._changes.change_elsewhere(session_id, change)

    def _add_reply(self, session: SessionContext, reply: QuestionEnded) -> None:
        session.add_event(spelled(reply), now=self._clock())
        self._resume(session, reply.question_id)

    def _resume(self, session: SessionContext, question_id: str) -> None:
        """Resume a session that is paused for this question."""
        if is_paused_for(session, question_id):
            session.apply("resume", now=self._clock())
