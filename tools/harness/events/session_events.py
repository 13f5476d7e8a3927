"""Builds each event once it is on disk, logs it and passes it to the observers."""

# Annotations are evaluated here: as strings, each field's would be compiled at import.

from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from ...base.clock import Clock, utc_now
from ..domain.event_values import Occurrence
from ..domain.history_events import BudgetCrossed
from ..domain.session_entries import SessionHistory, logged
from ..domain.session_observer import Notice, SessionEvent, SessionObserver, occurrences
from ..domain.session_states import STATE_AFTER, STEPS
from ..session_domain import SessionContext, SessionState

_OPERATIONS: Final[dict[type[Occurrence], str]] = {kind: name for name, kind in STEPS.items()}


class SessionStep(NamedTuple):
    """A session's position after one of several changes that share a save.

    Attributes:
        entries: The length of its history after the change.
        phase: Its phase.
        attempt: Its attempt at that phase.
        tokens: The tokens spent, with the change.
    """

    entries: int
    phase: str | None
    attempt: int
    tokens: int


class _EventPlace(NamedTuple):
    """A session and its phase and attempt at an event; all None if it concerns no session."""

    session_id: str | None
    phase: str | None = None
    attempt: int | None = None


class SessionEvents:
    """Logs what happens to sessions and passes it to the observers.

    Events are derived from the session's history (`added`), so that history, log and observers
    can't differ. A life-cycle step is logged as `session.state_changed`; observers receive the step
    itself. They are called in order, even if one of them raises.

    Args:
        log: A structlog logger.
        observers: The observers, in this order.
        clock: The time of notices, which have no entry.
    """

    def __init__(
        self, log: Any, *, observers: Iterable[SessionObserver] = (), clock: Clock = utc_now
    ) -> None:
        self.log = log
        self._observers = tuple(observers)
        self._waiting: deque[SessionEvent] = deque()
        self._handing_over = False
        self._clock = clock

    # ----------------------------------------------------------------------------- the history

    def added(
        self,
        session: SessionContext,
        since: int,
        *,
        came_from: SessionState | None = None,
        steps: Sequence[SessionStep] = (),
    ) -> None:
        """Report entries of a session's history that are now on disk.

        Each is reported with the phase that the session was in then.

        Args:
            session: The session, with them.
            since: The first of them, from 0.
            came_from: The state that the session was in before; its current state if None.
            steps: The changes, in order, if several were saved together; entries after the last
                step belong to the session as it is now.
        """
        state = session.state if came_from is None else came_from
        budget: list[tuple[_EventPlace, BudgetCrossed, datetime]] = []
        now, taken = _place(session), 0
        for number, entry in enumerate(session.history[since:], since + 1):
            event = entry.event
            while taken < len(steps) and steps[taken].entries < number:
                taken += 1
            place = now
            if taken < len(steps):
                step = steps[taken]
                place = now._replace(phase=step.phase, attempt=step.attempt)
            if isinstance(event, BudgetCrossed):
                budget.append((place, event, entry.timestamp))
                continue
            for what in occurrences(entry, number):
                state = self._added(place, entry, what, state)
        for place, crossed, at in budget:
            self._tell(place, crossed, at)

    def _added(
        self, place: _EventPlace, entry: SessionHistory, what: Occurrence, state: SessionState
    ) -> SessionState:
        """Report an entry's event; return the session's state after it."""
        operation = _OPERATIONS.get(type(what))
        if operation is not None:
            after = STATE_AFTER[entry.action]
            self.log.info(
                "session.state_changed",
                session_id=place.session_id,
                operation=operation,
                from_state=state.value,
                to_state=after.value,
                reason=getattr(what, "reason", None),
            )
            self._observe(place, what, entry.timestamp)
            return after
        self._tell(place, what, entry.timestamp)
        return state

    # ------------------------------------------------------------------------- what is around it

    def announce(self, session: SessionContext | str | None, notice: Notice) -> None:
        """Report something that leaves no entry.

        Args:
            session: The session, or its id; None if it concerns no single session.
            notice: What happened.
        """
        self._tell(_place(session), notice)

    # ------------------------------------------------------------------------- log and observers

    def _tell(self, place: _EventPlace, what: Occurrence, at: datetime | None = None) -> None:
        where: dict[str, Any] = {}
        if place.session_id is not None:
            where["session_id"] = place.session_id
        if what.with_phase:
            where["phase"] = place.phase
        if what.with_attempt:
            where["attempt"] = place.attempt
        getattr(self.log, what.level)(what.log_name, **where, **logged(what))
        self._observe(place, what, at)

    def _observe(self, place: _EventPlace, what: Occurrence, at: datetime | None) -> None:
        if self._observers:  # only they need the time
            at = self._clock() if at is None else at
            self._notify(SessionEvent(**place._asdict(), at=at, what=what))

    def _notify(self, event: SessionEvent) -> None:
        """Pass an event to each observer; events that an observer causes come after it."""
        self._waiting.append(event)
        if self._handing_over:
            return
        self._handing_over = True
        try:
            while self._waiting:
                self._hand_over(self._waiting.popleft())
        finally:
            self._handing_over = False

    def _hand_over(self, event: SessionEvent) -> None:
        for one in self._observers:
            try:
                one.on_event(event)
            except Exception as error:  # noqa: BLE001 (an observer never stops the work)
                self.log.warning(
                    "observer.failed",
                    observer=type(one).__qualname__,
                    observed=event.name,
                    session_id=event.session_id,
                    error=f"{type(error).__name__}: {error}",
                )


def _place(session: SessionContext | str | None) -> _EventPlace:
    if isinstance(session, SessionContext):
        return _EventPlace(session.session_id, session.current_phase, session.attempt_number)
    return _EventPlace(session)
