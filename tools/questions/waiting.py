"""Waiting for the end of one session: what a look at it means, apart from how one waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal, Protocol

from attrs import define

from .domain import QuestionSession, SessionAnswers
from .errors import (
    AnswersTimeout,
    CallIdMismatch,
    QuestionError,
    SessionCorrupted,
    SessionEnded,
    SessionRejected,
)
from .session_status import SessionStatus
from .store import QuestionStore, Signature

POLL_S: Final = 0.2
"""How often a wait looks for itself, whatever the file system tells, in seconds."""

_REASON_CHARS: Final = 2_000

OnTimeout = Literal["leave", "end"]
"""What becomes of a session that nobody answered in the time that was waited."""


def outcome(session: QuestionSession, expected_call_id: str | None) -> SessionAnswers | None:
    """Return the answers if the session is completed, None if it still waits.

    Answers without a call id are taken, those of another call are not: the wait goes on.

    Args:
        session: The session as it was read.
        expected_call_id: The call that its answers must belong to, or None for any.

    Raises:
        CallIdMismatch: The session belongs to another call, so that no answer to it can be meant.
        SessionRejected: It was rejected.
        SessionEnded: It was abandoned or timed out.
    """
    session_id, status = session.session_id, session.status
    ours = None if expected_call_id is None else {None, expected_call_id}
    if ours is not None and session.call_id not in ours:
        raise CallIdMismatch(session_id, expected=str(expected_call_id), actual=session.call_id)
    if status is SessionStatus.PENDING:
        return None
    if status is SessionStatus.REJECTED:
        raise SessionRejected(session_id, status=status, reason=session.rejection_reason)
    if session.answers is None:
        raise SessionEnded(session_id, status=status, operation="wait for")
    if ours is not None and session.answers.call_id not in ours:
        return None  # another call's answers: nobody has answered this one
    return session.answers


class Bell(Protocol):
    """What wakes a wait between two looks."""

    def ring(self) -> None:
        """Wake it; from any thread."""
        ...

    def clear(self) -> None:
        """Forget what was rung."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Wait until it rings, or for `timeout_s` seconds; return whether it rang."""
        ...


class ThreadBell:
    """Wakes a thread."""

    def __init__(self) -> None:
        """Belong to the thread that will wait."""
        self._event = threading.Event()
        self.ring = self._event.set
        self.clear = self._event.clear

    def wait(self, timeout_s: float) -> bool:
        """See `Bell`."""
        return self._event.wait(timeout_s)


@define
class Deadline:
    """When a wait ends, on a clock that only goes forward.

    Attributes:
        began: When it began.
        own: When the caller's time is over, or None.
        session: When the session's time is over, or None.
    """

    began: float
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
            now,
            None if timeout_s is None else now + timeout_s,
            None if session_left_s is None else now + session_left_s,
        )

    def pause(self, now: float) -> float:
        """Return how long to wait at the most, in seconds; 0 if the time is over."""
        ends = [end for end in (self.own, self.session) if end is not None]
        return max(0.0, min([POLL_S, *(end - now for end in ends)]))

    def waited(self, now: float) -> float:
        """Return how long this wait took, in seconds."""
        return max(now - self.began, 0.0)

    def session_is_over(self, now: float) -> bool:
        """Whether the session can't be answered any more."""
        return self.session is not None and now >= self.session

    def is_over(self, now: float) -> bool:
        """Whether the wait ends."""
        return self.session_is_over(now) or (self.own is not None and now >= self.own)


class Wait:
    """One wait for one session: looks, and ends. How one waits between two looks is the caller's.

    Attributes:
        deadline: When it ends.
    """

    def __init__(
        self,
        session_id: str,
        expected_call_id: str | None,
        deadline: Deadline,
        *,
        on_timeout: OnTimeout,
        store: QuestionStore,
        monotonic: Callable[[], float],
        time_out: Callable[[str], object],
        abandon: Callable[[str, str], object],
    ) -> None:
        """Begin a wait.

        Args:
            session_id: The session.
            expected_call_id: The call that its answers must belong to, or None for any.
            deadline: When it ends.
            on_timeout: What becomes of a session that nobody answered.
            store: Reads it.
            monotonic: The clock that the deadline is read from.
            time_out: Ends the session as timed out.
            abandon: Ends the session as abandoned, with the reason.
        """
        self._session_id = session_id
        self._expected = expected_call_id
        self._on_timeout = on_timeout
        self._store = store
        self._monotonic = monotonic
        self._time_out = time_out
        self._abandon = abandon
        self._seen: Signature | None = None
        self.deadline = deadline

    def has_changed(self) -> bool:
        """Whether a look could tell something new."""
        signature = self._store.signature(self._session_id)
        return signature is None or signature != self._seen

    def look(self) -> SessionAnswers | None:
        """Return the answers, None while the session waits, or raise how it ended."""
        signature = self._store.signature(self._session_id)
        if signature is not None and signature == self._seen:
            return None
        try:
            found = outcome(self._store.read(self._session_id), self._expected)
        except SessionCorrupted as error:
            if (given_up := self._give_up(error)) is not None:
                raise given_up from error
            found = outcome(self._store.read(self._session_id), self._expected)
        if signature is not None and self._store.is_settled(signature):
            self._seen = signature
        return found

    def _give_up(self, error: SessionCorrupted) -> SessionCorrupted | None:
        """End a session whose files can't be used; return the error that tells so.

        None means that it has ended otherwise, perhaps with answers, and can be read now.
        """
        try:
            self._abandon(self._session_id, "; ".join(error.faults)[:_REASON_CHARS])
        except SessionEnded:
            return None
        except QuestionError:
            return error  # not even its status can be written; the faults are what matters
        return SessionCorrupted(
            self._session_id, path=error.path, faults=error.faults, abandoned=True
        )

    def end(self) -> SessionAnswers:
        """End the wait whose time is over; an answer that came in the last moment still counts.

        Raises:
            AnswersTimeout: There is none.
            QuestionError: As `look()` does.
        """
        found = self._look_anew()
        if found is not None:
            return found
        ended = self._on_timeout == "end" or self.deadline.session_is_over(self._monotonic())
        if ended:
            try:
                self._time_out(self._session_id)
            except SessionEnded:  # somebody was faster, perhaps with an answer
                found = self._look_anew()
                if found is not None:
                    return found
        raise AnswersTimeout(
            self._session_id, timeout_s=self.deadline.waited(self._monotonic()), ended=ended
        )

    def _look_anew(self) -> SessionAnswers | None:
        self._seen = None
        return self.look()


class LoopBell:
    """Wakes a task of an asyncio event loop from another thread.

    On other event loops nobody is woken; the task looks at its own interval.
    """

    def __init__(self) -> None:
        """Belong to the event loop that runs."""
        import asyncio

        import anyio

        self._event = anyio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        with suppress(RuntimeError):
            self._loop = asyncio.get_running_loop()

    def ring(self) -> None:
        """Wake the task; from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed, and its task gone
                self._loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        """Forget what was rung."""
        import anyio

        self._event = anyio.Event()

    async def wait(self, timeout_s: float) -> bool:
        """Wait until it rings, or for `timeout_s` seconds; tell whether it rang."""
        import anyio

        with anyio.move_on_after(timeout_s):
            await self._event.wait()
        return self._event.is_set()
