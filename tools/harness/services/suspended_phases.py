"""Phases whose code waits: its program is stored first, then the save that refers to it.

A kill in between leaves a step that nothing refers to, which is harmless. A program is resumed from
what its last suspension stored, so a worker that dies while it goes on changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from attrs import define, evolve, field

from ...base.cancellation import cancellable_sleep
from ...base.clock import Clock
from ...base.question import InvalidQuestions, Question
from ..domain.history_events import (
    PhaseRequest,
    PhaseResumed,
    PhaseSuspended,
    ProgramDropped,
    QuestionEnded,
)
from ..domain.session_entries import spelled
from ..domain.session_observer import QuestionWaiting
from ..errors import NoQuestionChannel, PhaseWaits, QuestionWaits, SessionConflict
from ..events.session_events import SessionEvents
from ..ports import PhaseResult, SuspendedProgram, Unanswered
from ..session_domain import SessionContext
from ..session_layout import MAX_STEP_BYTES
from ..session_ports import SessionRepository
from ..snapshot_port import SnapshotTaken
from ..views.question_entries import answers_in_words, find_asked
from ..views.suspended_phases import SuspendedPhase, suspended_phase
from .person_questions import PersonQuestions
from .session_recording import SessionChanges, record_suspension

Calls = Callable[[Sequence[PhaseRequest]], Mapping[int, object]]
"""Carries out calls of a program; returns the answers by the requests' ids."""

Patience = Callable[[Mapping[str, PhaseRequest]], float]
"""Returns how long to wait for the answer to one of these open questions, by their ids, or for the
moment that a program sleeps until, in seconds."""

_MOST_SUSPENSIONS: Final = 1000
_MOST_REQUESTS: Final = 32
_MOST_TEXT: Final = 100_000
"""The most characters of the requests of one suspension."""


@define(eq=False)
class SuspendedPhases:
    """The suspended programs of one store's sessions.

    Args:
        sessions: Where the sessions and their programs are stored.
        changes: Saves the sessions.
        questions: Asks what programs ask; None: there is nobody to ask.
        events: The log.
        clock: The time.
    """

    _sessions: SessionRepository
    _changes: SessionChanges = field(kw_only=True)
    _questions: PersonQuestions | None = field(kw_only=True)
    _events: SessionEvents = field(kw_only=True)
    _clock: Clock = field(kw_only=True)

    def under_way(
        self, session: SessionContext, code: str, *, may_resume: bool
    ) -> SuspendedPhase | None:
        """Return the program that the code of the current attempt goes on with.

        A program that can't go on is dropped, with the reason in the history.

        Args:
            session: The session.
            code: The code to run.
            may_resume: Whether the executor resumes programs.

        Raises:
            WriteError: It could not be saved.
        """
        found = suspended_phase(session)
        if found is None:
            return None
        reason = None
        if found.event.code_sha256 != _digest(code):
            reason = "the phase runs other code"
        elif not may_resume:
            reason = "the executor of the phase resumes no programs"
        elif self._sessions.read_step(session.session_id, found.event.program) is None:
            reason = "its stored state is missing"
        if reason is None:
            return found
        with self._changes.changing(session):
            self.drop(session, reason)
        return None

    def drop(self, session: SessionContext, reason: str) -> None:
        """Record, in memory, that the suspended program will not go on; end its questions."""
        found = suspended_phase(session)
        if found is None:
            return
        event = ProgramDropped(program=found.event.program, reason=reason)
        session.add_event(event, now=self._clock())
        if self._questions is not None:
            keys = {found.key(one) for one in found.event.requests}
            self._questions.abandon(session, keys, f"its program was dropped: {reason}")

    def answers(
        self,
        session: SessionContext,
        found: SuspendedPhase,
        *,
        calls: Calls | None = None,
        patience: Patience | None = None,
    ) -> dict[int, object]:
        """Return the answers that a suspended program can go on with; ask what was not asked.

        Args:
            session: The session.
            found: The program.
            calls: Carries out what it calls; None: a person is asked for the results.
            patience: Says how long to wait if there is nothing yet that it could go on with.

        Raises:
            PhaseWaits: There is nothing yet that it could go on with.
            NoQuestionChannel: It asks, and there is nobody to ask.
            QuestionError: A question could not be put; the same call puts it.
        """
        given: dict[int, object] = {}
        waiting: dict[str, PhaseRequest] = {}
        requests = found.event.requests
        called = [] if calls is None else [one for one in requests if one.kind == "call"]
        for request in requests:
            if request.kind == "sleep" or request in called:
                continue
            try:
                reply = self._reply(session, request, found.key(request))
            except QuestionWaits as waits:
                waiting[waits.question_id] = request
            except InvalidQuestions as error:
                given[request.id] = Unanswered(str(error))
            else:
                given[request.id] = _answer(request, reply)
        if calls is not None and called:
            given |= calls(called)
        wake_at = None if not found.event.wake_at else datetime.fromisoformat(found.event.wake_at)
        if not given and patience is not None and (wake_at is None or wake_at > self._clock()):
            timeout_s = patience(waiting)
            if wake_at is not None:
                timeout_s = min(timeout_s, (wake_at - self._clock()).total_seconds())
            if timeout_s > 0:
                given |= self._waited(session, found, waiting.values(), timeout_s)
        if given or (wake_at is not None and wake_at <= self._clock()):
            return given
        raise PhaseWaits(
            session.session_id,
            phase=session.current_phase,
            question_ids=tuple(waiting),
            wake_at=wake_at,
            where=found.event.where,
        )

    def _waited(
        self,
        session: SessionContext,
        found: SuspendedPhase,
        requests: Iterable[PhaseRequest],
        timeout_s: float,
    ) -> dict[int, object]:
        """Wait for the reply to the first request; for nothing but the time if there is none."""
        for request in requests:
            try:
                reply = self._reply(session, request, found.key(request), timeout_s)
            except QuestionWaits:
                return {}
            return {request.id: _answer(request, reply)}
        cancellable_sleep(timeout_s)
        return {}

    def _reply(
        self, session: SessionContext, request: PhaseRequest, key: str, timeout_s: float = 0.0
    ) -> QuestionEnded:
        """Ask what a program asks, once; return the reply, or raise `QuestionWaits`."""
        if self._questions is None:
            raise NoQuestionChannel
        is_new = find_asked(session, key) is None

        def waits(question_id: str) -> None:
            if is_new:
                self._events.announce(session, QuestionWaiting(question_id=question_id, count=1))

        return self._questions.ask(
            session,
            [question_of(request)],
            key=key,
            pause=False,
            timeout_s=timeout_s,
            on_waiting=waits,
        )

    def take_up(
        self, session: SessionContext, found: SuspendedPhase, answers: Mapping[int, object]
    ) -> bytes:
        """Record that a program goes on, and return its state.

        Raises:
            SessionConflict: Another worker went on with it first.
        """
        event = PhaseResumed(program=found.event.program, answered=tuple(answers))

        def change() -> None:
            now = suspended_phase(session)
            if now is None or now.resumed != found.resumed:
                raise SessionConflict(
                    session.session_id,
                    path=self._sessions.where_is(session.session_id),
                    expected_revision=found.revision,
                    actual_revision=session.revision,
                )
            session.add_event(event, now=self._clock())

        self._changes.record(session, change)
        return self._sessions.read_step(session.session_id, found.event.program) or b""

    def refused(self, session: SessionContext, result: PhaseResult) -> PhaseResult | None:
        """Return the failure that a suspension beyond the limits counts as; None within them."""
        suspended = result.suspended
        assert suspended is not None  # noqa: S101 (the caller's condition)
        found = suspended_phase(session)
        problem = None
        if not suspended.requests and suspended.wake_at is None:
            problem = "the code waits for nothing"
        elif found is not None and found.suspensions >= _MOST_SUSPENSIONS:
            problem = f"the code waited {_MOST_SUSPENSIONS:,} times, the limit of one attempt"
        elif len(suspended.requests) > _MOST_REQUESTS:
            problem = f"the code waits for more than {_MOST_REQUESTS} things at once"
        elif sum(map(_text_length, suspended.requests)) > _MOST_TEXT:
            problem = f"the code asks with more than {_MOST_TEXT:,} characters at once"
        elif len(suspended.program) > MAX_STEP_BYTES:
            problem = f"the program's state has more than {MAX_STEP_BYTES:,} bytes"
        if problem is None:
            return None
        stderr = f"{result.stderr}agentforge: {problem}\n"
        return evolve(result, suspended=None, trapped="suspensions", stderr=stderr)

    def record(
        self, session: SessionContext, code: str, result: PhaseResult, taken: SnapshotTaken
    ) -> None:
        """Store a suspended program, then record it in its session.

        Raises:
            SessionConflict: Another worker ended the session, moved it, or recorded a result.
            WriteError: It could not be saved; the session is unchanged.
        """
        suspended = result.suspended
        assert suspended is not None  # noqa: S101 (the caller's condition)
        name = f"program-{_digest(suspended.program)[:32]}.aflive"
        self._sessions.keep_step(session.session_id, name, suspended.program)
        event = spelled(
            PhaseSuspended(
                snapshot=taken.snapshot,
                unkept=taken.unkept,
                attempt=session.attempt_number,
                seconds=round(result.duration_s, 3),
                program=name,
                code_sha256=_digest(code),
                requests=suspended.requests,
                wake_at=None if suspended.wake_at is None else suspended.wake_at.isoformat(),
                where=suspended.where,
            )
        )
        words = _in_words(suspended)
        self._changes.record(
            session, lambda: record_suspension(session, result, event, words, now=self._clock())
        )


def _digest(content: bytes | str) -> str:
    import hashlib  # slow to load

    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()


def _text_length(request: PhaseRequest) -> int:
    texts = (request.prompt, request.title, *request.options, request.tool, request.arguments)
    return sum(len(text or "") for text in texts)


def _in_words(suspended: SuspendedProgram) -> str:
    place = f"suspended at {suspended.where[-1]}" if suspended.where else "suspended"
    asked = ", ".join(one.prompt or one.tool or one.kind for one in suspended.requests)
    return f"{place}, waits for: {asked or suspended.wake_at}"


def question_of(request: PhaseRequest) -> Question:
    """Return the question by which a request is put.

    Raises:
        InvalidQuestions: A text of it is invalid.
    """
    if request.kind == "call":
        prompt = f"The program calls {request.tool}({request.arguments or ''}). What is its result?"
    else:
        prompt = request.prompt or "The program reads a line of its input."
    return Question(
        prompt=prompt,
        title=request.title or {"call": "Call", "input": "Input"}.get(request.kind, "Question"),
        options=request.options,
        multi_select=request.multi_select,
    )


def _answer(request: PhaseRequest, reply: QuestionEnded) -> object:
    """Return what the code gets for a reply: words, a list of them, or the result of a call."""
    words = answers_in_words(reply, 1)[0]
    if reply.outcome != "answered":
        return Unanswered(words)
    if request.kind == "call":
        return _value(words)
    if request.multi_select and reply.answers:
        [answer] = reply.answers[:1]
        return [*answer.selected, *([answer.text] if answer.text else [])]
    return words


def _value(words: str) -> Any:
    try:
        return json.loads(words)
    except (ValueError, RecursionError):
        return words
