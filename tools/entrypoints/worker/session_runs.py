"""A look at one session: run it as far as possible, and report how that ended."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Final

from attrs import evolve

from ...base.clock import Clock, utc_now
from ...base.errors import AgentForgeError, ErrorKind
from ...base.event_log import get_logger
from ...base.files import DurableError
from ...fleet.workers.messages import Ending, Look
from ...harness import (
    SessionConflict,
    SessionContext,
    SessionManager,
    SessionNotFound,
    SessionState,
)
from ...harness.domain.history_events import PhaseEnded, SessionPaused
from ...harness.services.session_recording import despite_conflicts
from ...workflows import AlreadyRunning, RunOutcome, StopCause
from ...workflows.ports import RunObserver
from ...workflows.submitted_work import NotAllowedHere

if TYPE_CHECKING:
    from ...harness import PhaseResult, TokenBudget
    from ...workflows import Job, Phase, WorkflowRunner
    from ...workflows.gates.verdict import Verdict

_log = get_logger("agentforge.fleet")
_WOKEN_FROM: Final = frozenset(
    one.value for one in (StopCause.PERSON, StopCause.AGENT, StopCause.BUDGET, StopCause.TIME)
)
"""The causes of a pause that a look may end; after any other cause a person must resume it."""
_STAYS_PAUSED: Final = frozenset({ErrorKind.BUDGET, ErrorKind.PERSON_NEEDED, ErrorKind.REFUSED})
_CAUSES: Final = {ErrorKind.BUDGET: StopCause.BUDGET.value}
_ENDINGS: Final[tuple[tuple[type[AgentForgeError], Ending], ...]] = (
    (SessionConflict, Ending.FENCED),
    (SessionNotFound, Ending.ABSENT),
    (NotAllowedHere, Ending.NOT_ALLOWED),
    (AlreadyRunning, Ending.BUSY),
    (DurableError, Ending.UNAVAILABLE),  # of this machine's disk; another machine may have space
)
_PAUSES: Final = 5
_TIME_LIMIT: Final = "deadline"


class Measures(RunObserver):
    """Observer that measures the tokens of a run and the durations of its phases."""

    def __init__(self) -> None:
        self.job: Job | None = None
        self.phases: list[tuple[str, float]] = []
        self._first: int | None = None
        self._last = 0

    @property
    def tokens(self) -> int:
        """The number of tokens spent."""
        return 0 if self._first is None else max(0, self._last - self._first)

    def run_started(self, session_id: str, job: Job, *, resumed: bool) -> None:
        """See `RunObserver`."""
        del session_id, resumed
        self.job = job

    def phase_finished(self, phase: Phase, verdict: Verdict, result: PhaseResult | None) -> None:
        """See `RunObserver`."""
        seconds = verdict.duration_s if result is None else result.duration_s
        self.phases.append((phase.name, round(seconds, 3)))

    def budget(self, budget: TokenBudget) -> None:
        """See `RunObserver`."""
        if self._first is None:
            self._first = budget.tokens_used
        self._last = budget.tokens_used


def look_at(
    session_id: str,
    manager_of: Callable[[], SessionManager],
    runner_of: Callable[[SessionManager, Measures], WorkflowRunner],
    *,
    clock: Clock = utc_now,
) -> Look:
    """Run a session as far as possible, and return how that ended.

    Raises only exceptions that end the process: every other error is part of the result. A session
    is paused for an error that will not pass by itself.

    Args:
        session_id: The session.
        manager_of: Returns the session's manager.
        runner_of: Returns a runner for that manager, with the given observer.
        clock: The time.
    """
    measures = Measures()
    look = _look_at(session_id, manager_of, lambda manager: runner_of(manager, measures), clock)
    return evolve(
        look,
        tokens=measures.tokens,
        phases=tuple(measures.phases),
        retry=None if measures.job is None else measures.job.workflow.retry,
    )


def _look_at(
    session_id: str,
    manager_of: Callable[[], SessionManager],
    runner_of: Callable[[SessionManager], WorkflowRunner],
    clock: Clock,
) -> Look:
    manager: SessionManager | None = None
    try:
        manager = manager_of()
        stopped = _left_alone(manager.store.load(session_id))
        if stopped is not None:
            return Look(ending=Ending.PAUSED, reason=stopped)
        outcome = runner_of(manager).resume(session_id)
        return _of_outcome(outcome, manager.current_session, clock())
    except KeyboardInterrupt:
        return Look(ending=Ending.STOPPED)
    except AgentForgeError as error:
        return _of_error(manager, session_id, error)
    except OSError as error:
        return Look(ending=Ending.UNAVAILABLE, reason=str(error))
    except Exception as error:  # noqa: BLE001 (the boundary: a session's error ends no worker)
        _log.error("fleet.session.unexpected", session_id=session_id, exc_info=True)
        return _failed(manager, session_id, f"unexpected {type(error).__name__}: {error}")
    finally:
        if manager is not None:
            manager.release()


def _of_outcome(outcome: RunOutcome, session: SessionContext | None, now: datetime) -> Look:
    if outcome.state is SessionState.COMPLETED:
        return Look(ending=Ending.COMPLETED)
    cause = None if outcome.cause is None else outcome.cause.value
    may_pass = outcome.cause is StopCause.AGENT or (session is not None and _timed_out(session))
    ending = Ending.MAY_PASS if may_pass else Ending.PAUSED
    wake_at = None if outcome.stop is None else outcome.stop.wake_at
    after_s = None if wake_at is None else max(0.0, (wake_at - now).total_seconds())
    return Look(ending=ending, reason=outcome.reason, cause=cause, after_s=after_s)


def _left_alone(session: SessionContext | None) -> str | None:
    """Return why a worker must leave a paused session alone, or None if it may run it."""
    if session is None or session.state is not SessionState.PAUSED:
        return None
    for entry in reversed(session.history):
        event = entry.event
        if isinstance(event, SessionPaused):
            woken = event.cause in _WOKEN_FROM or event.question_id or _timed_out(session)
            return None if woken else event.reason or "it is paused"
    return None


def _timed_out(session: SessionContext) -> bool:
    """Return whether a script's time limit paused a session that `resume` may continue."""
    may_go_on = False
    for entry in reversed(session.history):
        event = entry.event
        if isinstance(event, SessionPaused):
            may_go_on = event.cause == StopCause.FAILED.value and not event.needs_retry
        elif isinstance(event, PhaseEnded):
            return may_go_on and event.trapped == _TIME_LIMIT
    return False


def _of_error(manager: SessionManager | None, session_id: str, error: AgentForgeError) -> Look:
    """Return how an error ended a run; pause the session if the error won't pass by itself."""
    reason = str(error)
    for kind, ending in _ENDINGS:
        if isinstance(error, kind):
            needs = error.needs if isinstance(error, NotAllowedHere) else None
            return Look(ending=ending, reason=reason, needs=needs)
    if error.retryable or manager is None:
        return Look(ending=Ending.UNAVAILABLE, reason=reason)
    try:
        session = manager.store.load(session_id)
    except AgentForgeError as unreadable:
        return Look(ending=Ending.FAILED, reason=str(unreadable))
    if session is None or session.state.is_terminal:
        return Look(ending=Ending.ABSENT, reason=reason)
    if session.state is SessionState.PAUSED and error.kind in _STAYS_PAUSED:
        return Look(ending=Ending.PAUSED, reason=reason, cause=_CAUSES.get(error.kind))
    return _failed(manager, session_id, reason)


def _failed(manager: SessionManager | None, session_id: str, reason: str) -> Look:
    try:
        is_paused = manager is not None and pause(manager, session_id, reason)
    except AgentForgeError as error:
        why = f"{reason}; it could not be paused for it: {error}"
        return Look(ending=Ending.UNAVAILABLE, reason=why)
    return Look(ending=Ending.FAILED if is_paused else Ending.ABSENT, reason=reason)


def pause(manager: SessionManager, session_id: str, reason: str) -> bool:
    """Pause a session for an error; return False if it does not exist or has ended."""

    def act() -> bool:
        session = manager.load(session_id)
        if session is None or session.state.is_terminal:
            return False
        if session.state is SessionState.ACTIVE:
            manager.pause(reason, cause=StopCause.FAILED.value)
        return True

    return despite_conflicts(act, again=lambda: True, attempts=_PAUSES)
