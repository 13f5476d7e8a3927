"""Waiting for the end of one session, in a thread or in a task of an event loop."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from typing import Any, Final, Literal, Protocol

from ...base.cancellation import check_cancelled, on_cancel
from ...base.event_log import get_logger
from ...base.question import QuestionError
from ..disk_errors import SessionCorrupted
from ..domain import QuestionSession
from ..errors import (
    AnswersTimeout,
    CallIdMismatch,
    QuestionsUnavailable,
    SessionEnded,
    SessionRejected,
)
from ..repository import QuestionRepository
from ..session_status import SessionStatus

POLL_S: Final = 0.2
"""The interval of a wait's own looks at files, whatever the system reports, in seconds."""

AWAY_S: Final = 1.0
"""The interval of retries of a store that did not answer, in seconds."""
_REASON_CHARS: Final = 2_000

_log = get_logger("agentforge.questions")

InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a call in a thread of its own."""

OnTimeout = Literal["leave", "end"]
"""What happens to a session that was not answered within the wait."""


def outcome(session: QuestionSession, expected_call_id: str | None) -> QuestionSession | None:
    """Return the session if it is completed, None if it still waits.

    Answers without a call id are accepted, those of another call are not: the wait continues.

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
        raise SessionEnded(
            session_id, status=status, operation="wait for", reason=session.record.end_reason
        )
    if ours is not None and session.answers.call_id not in ours:
        return None  # another call's answers: this one has none yet
    return session


class Bell(Protocol):
    """What wakes a wait between two looks."""

    def ring(self) -> None:
        """Wake it; from any thread."""
        ...

    def clear(self) -> None:
        """Clear earlier rings."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Wait until it rings, or for `timeout_s` seconds; return whether it rang."""
        ...


class ThreadBell:
    """A bell that wakes a thread."""

    def __init__(self) -> None:
        """Bind it to the thread that will wait."""
        self._event = threading.Event()
        self.ring = self._event.set
        self.clear = self._event.clear

    def wait(self, timeout_s: float) -> bool:
        """See `Bell`."""
        return self._event.wait(timeout_s)


class LoopBell:
    """A bell that wakes a task of an asyncio event loop from another thread.

    It does not wake other event loops, whose tasks look at their own interval.
    """

    def __init__(self) -> None:
        """Bind it to the running event loop."""
        import asyncio

        import anyio

        self._event = anyio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        with suppress(RuntimeError):
            self._loop = asyncio.get_running_loop()

    def ring(self) -> None:
        """Wake the task; from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed, and its task has ended
                self._loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        """Clear earlier rings."""
        import anyio

        self._event = anyio.Event()

    async def wait(self, timeout_s: float) -> bool:
        """Wait until it rings, or for `timeout_s` seconds; return whether it rang."""
        import anyio

        with anyio.move_on_after(timeout_s):
            await self._event.wait()
        return self._event.is_set()


class Deadline:
    """When a wait ends, on a clock that only moves forward."""

    def __init__(
        self,
        timeout_s: float | None,
        *,
        session_left_s: float | None,
        now: float,
        look_s: float = POLL_S,
    ) -> None:
        """Start a wait at `now`.

        Args:
            timeout_s: The caller's time limit, in seconds, or None.
            session_left_s: The session's remaining time, in seconds, or None.
            now: When it starts.
            look_s: The interval of the wait's own looks, in seconds.
        """
        self._began = now
        self._own = None if timeout_s is None else now + timeout_s
        self._session = None if session_left_s is None else now + session_left_s
        self._look_s = look_s

    def pause(self, now: float) -> float:
        """Return the longest next pause, in seconds; 0 if the time is over."""
        ends = [end for end in (self._own, self._session) if end is not None]
        return max(0.0, min([self._look_s, *(end - now for end in ends)]))

    def waited(self, now: float) -> float:
        """Return the duration of this wait so far, in seconds."""
        return max(now - self._began, 0.0)

    def session_is_over(self, now: float) -> bool:
        """Return whether the session's own time is over, so that it can't be answered."""
        return self._session is not None and now >= self._session

    def is_over(self, now: float) -> bool:
        """Return whether the wait's time is over."""
        return self.session_is_over(now) or (self._own is not None and now >= self._own)


class Wait:
    """One wait for one session, in a thread or in a task."""

    def __init__(
        self,
        session_id: str,
        expected_call_id: str | None,
        deadline: Deadline,
        *,
        on_timeout: OnTimeout,
        store: QuestionRepository,
        monotonic: Callable[[], float],
        end: Callable[[str, str, str | None], object],
    ) -> None:
        """Store what the wait needs.

        Args:
            session_id: The session.
            expected_call_id: The call that its answers must belong to, or None for any.
            deadline: When the wait ends.
            on_timeout: What happens to a session that was not answered.
            store: Reads the session.
            monotonic: The clock of the deadline.
            end: Ends the session; see `SessionEndings.end`.
        """
        self._session_id = session_id
        self._expected = expected_call_id
        self._deadline = deadline
        self._on_timeout = on_timeout
        self._store = store
        self._monotonic = monotonic
        self._end_session = end
        self._seen: Hashable | None = None
        self._is_away: bool | None = None

    def run(self, bell: Bell) -> QuestionSession:
        """Block until the session is completed; return it with its answers."""
        with self._store.watching(self._session_id, bell.ring), on_cancel(bell.ring):
            while True:
                bell.clear()
                check_cancelled()
                found = self._look_patiently()
                if found is not None:
                    return found
                pause = self._pause()
                if self._deadline.is_over(self._monotonic()):
                    return self.end()
                bell.wait(pause)

    async def run_async(self, in_thread: InThread) -> QuestionSession:
        """Wait as `run` does, without blocking the event loop."""
        bell = LoopBell()
        with self._store.watching(self._session_id, bell.ring):
            while True:
                bell.clear()
                if self._store.looks_block or self.has_changed():
                    found: QuestionSession | None = await in_thread(self._look_patiently)
                    if found is not None:
                        return found
                pause = self._pause()
                if self._deadline.is_over(self._monotonic()):
                    ended: QuestionSession = await in_thread(self.end)
                    return ended
                await bell.wait(pause)

    def _pause(self) -> float:
        pause = self._deadline.pause(self._monotonic())
        return min(pause, AWAY_S) if self._is_away else pause

    def _look_patiently(self) -> QuestionSession | None:
        """Look as `look()` does; tolerate that a store that answered once is away for a while."""
        try:
            found = self.look()
        except QuestionsUnavailable as error:
            if self._is_away is None:
                raise  # it never answered
            if not self._is_away:
                _log.warning("question.store_away", session_id=self._session_id, error=str(error))
            self._is_away = True
            return None
        self._is_away = False
        return found

    def has_changed(self) -> bool:
        """Return whether the session may have changed since the last look."""
        signature = self._store.signature(self._session_id)
        return signature is None or signature != self._seen

    def look(self) -> QuestionSession | None:
        """Return the session with its answers, None while it waits; raise if it ended otherwise."""
        signature = None
        try:
            signature, read = self._store.read_changed(self._session_id, self._seen)
            if read is None:
                return None
            found = outcome(read, self._expected)
        except SessionCorrupted as error:
            if (given_up := self._give_up(error)) is not None:
                raise given_up from error
            found = outcome(self._store.read(self._session_id), self._expected)
        if signature is not None and self._store.is_settled(signature):
            self._seen = signature
        return found

    def _give_up(self, error: SessionCorrupted) -> SessionCorrupted | None:
        """End a session whose files can't be used; return the error that says so.

        None means that it has ended otherwise, perhaps with answers, and can be read now.
        """
        try:
            reason = "; ".join(error.faults)[:_REASON_CHARS]
            self._end_session(self._session_id, "abandon", reason)
        except SessionEnded:
            return None
        except QuestionError:
            return error  # its status can't be written either; the faults matter more
        return SessionCorrupted(
            self._session_id, path=error.path, faults=error.faults, abandoned=True
        )

    def end(self) -> QuestionSession:
        """End the wait whose time is over; an answer that came in the last moment still counts.

        Raises:
            AnswersTimeout: There is no answer.
            QuestionError: As `look()` does.
        """
        found = self._look_anew()
        if found is not None:
            return found
        ended = self._on_timeout == "end" or self._deadline.session_is_over(self._monotonic())
        if ended:
            try:
                self._end_session(self._session_id, "time out", None)
            except SessionEnded:  # somebody was faster, perhaps with an answer
                found = self._look_anew()
                if found is not None:
                    return found
        raise AnswersTimeout(
            self._session_id, timeout_s=self._deadline.waited(self._monotonic()), ended=ended
        )

    def _look_anew(self) -> QuestionSession | None:
        self._seen = None
        return self.look()
