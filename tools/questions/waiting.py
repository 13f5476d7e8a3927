"""Waiting for the end of one session: what a look at it means, apart from how one waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from attrs import define

from tools.questions.domain import QuestionSession, SessionAnswers, SessionStatus
from tools.questions.errors import (
    AnswersTimeout,
    CallIdMismatch,
    SessionEnded,
    SessionRejected,
)

POLL_S: Final = 0.2
"""How often a wait looks for itself, whatever the file system tells, in seconds."""

OnTimeout = Literal["leave", "end"]
"""What becomes of a session that nobody answered in the time that was waited."""


def outcome(session: QuestionSession, expected_call_id: str | None) -> SessionAnswers | None:
    """Return the answers if the session is completed, None if it still waits.

    Args:
        session: The session as it was read.
        expected_call_id: The call that its answers must belong to, or None for any.

    Raises:
        CallIdMismatch: It belongs to another call.
        SessionRejected: It was rejected.
        SessionEnded: It was abandoned or timed out.
    """
    session_id, status = session.session_id, session.status
    if expected_call_id is not None and session.call_id != expected_call_id:
        raise CallIdMismatch(session_id, expected=expected_call_id, actual=session.call_id)
    if status is SessionStatus.PENDING:
        return None
    if status is SessionStatus.REJECTED:
        raise SessionRejected(session_id, status=status, reason=session.rejection_reason)
    if session.answers is None:
        raise SessionEnded(session_id, status=status, operation="wait for")
    if expected_call_id is not None and session.answers.call_id != expected_call_id:
        raise CallIdMismatch(session_id, expected=expected_call_id, actual=session.answers.call_id)
    return session.answers


@define
class Deadline:
    """When a wait ends, on a clock that only goes forward.

    Attributes:
        timeout_s: How long the caller waits, in seconds, or None.
        own: When the caller's time is over, or None.
        session: When the session's time is over, or None.
    """

    timeout_s: float | None
    own: float | None
    session: float | None

    @classmethod
    def of(
        cls,
        timeout_s: float | None,
        *,
        session_left_s: float | None,
        now: float,
    ) -> Deadline:
        """Begin a wait at `now`."""
        return cls(
            timeout_s,
            None if timeout_s is None else now + timeout_s,
            None if session_left_s is None else now + session_left_s,
        )

    def pause(self, now: float) -> float:
        """Return how long to wait for the next look, in seconds; 0 if the time is over."""
        ends = [end for end in (self.own, self.session) if end is not None]
        return max(0.0, min([POLL_S, *(end - now for end in ends)]))

    def session_is_over(self, now: float) -> bool:
        """Whether the session can't be answered any more."""
        return self.session is not None and now >= self.session

    def is_over(self, now: float) -> bool:
        """Whether the wait ends."""
        return self.session_is_over(now) or (self.own is not None and now >= self.own)


def run_out(
    session_id: str,
    deadline: Deadline,
    now: float,
    *,
    on_timeout: OnTimeout,
    time_out: Callable[[], object],
    look: Callable[[], SessionAnswers | None],
) -> SessionAnswers:
    """End a wait whose time is over; an answer that came in the last moment still counts.

    Raises:
        AnswersTimeout: There is none.
        SessionEnded: The session ended otherwise meanwhile.
    """
    ended = on_timeout == "end" or deadline.session_is_over(now)
    if ended:
        try:
            time_out()
        except SessionEnded:
            ended = False  # somebody else was faster, perhaps with an answer
    if not ended:
        found = look()
        if found is not None:
            return found
    waited = deadline.timeout_s if deadline.timeout_s is not None else 0.0
    raise AnswersTimeout(session_id, timeout_s=waited, ended=ended)
