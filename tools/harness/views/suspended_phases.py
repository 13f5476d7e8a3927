"""The suspended program of a session's phase, in its history; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import frozen

from ..domain.history_events import (
    HistoryEvent,
    PhaseAdvanced,
    PhaseFailed,
    PhaseRequest,
    PhaseResumed,
    PhaseRetried,
    PhaseSucceeded,
    PhaseSuspended,
    ProgramDropped,
    SessionCreated,
    SessionForked,
    SessionRewound,
)
from ..domain.session_entries import SessionHistory
from ..session_domain import SessionContext
from .checkpoints import in_force

_ENDS: Final[tuple[type[HistoryEvent], ...]] = (
    *(SessionCreated, PhaseAdvanced, PhaseRetried),
    *(PhaseSucceeded, PhaseFailed, ProgramDropped),
)
"""The events after which no program is suspended."""
_BACK: Final[tuple[type[HistoryEvent], ...]] = (SessionRewound, SessionForked)
_BEGINNINGS: Final[tuple[type[HistoryEvent], ...]] = (*_ENDS, *_BACK)
_ACTIONS: Final = frozenset({one.action for one in _BEGINNINGS} | {PhaseSuspended.action})


@frozen
class SuspendedPhase:
    """The suspended program of the current attempt at a phase.

    Attributes:
        event: Its last suspension.
        beginning: The position in the history after which the program's questions are asked.
        suspensions: How often it was suspended since.
        resumed: How often it was resumed since.
        revision: The revision of the session that was looked at.
    """

    event: PhaseSuspended
    beginning: int
    suspensions: int
    resumed: int
    revision: int

    def key(self, request: PhaseRequest) -> str:
        """Return the key of a request's question, unique in the session.

        After a return to the suspension, the same request is asked again.
        """
        return f"program {self.beginning}.{request.id}"


def suspended_phase(session: SessionContext) -> SuspendedPhase | None:
    """Return the suspended program that the current attempt continues; None if it has none.

    A return to the checkpoint of a suspension, or a fork from it, brings the program back.
    """
    history = session.history
    last = _last(history)
    if last is not None and last.event_type in _BACK:
        last = _last([one for one in in_force(history) if one.event_type not in _BACK])
    is_suspended = last is not None and last.event_type is PhaseSuspended
    event = last.event if last is not None and is_suspended else None
    if not isinstance(event, PhaseSuspended):
        return None
    begins = (at for at in reversed(range(len(history))) if history[at].event_type in _BEGINNINGS)
    beginning = next(begins, 0)
    since = [one.event_type for one in history[beginning:]]
    return SuspendedPhase(
        event,
        beginning,
        suspensions=since.count(PhaseSuspended),
        resumed=since.count(PhaseResumed),
        revision=session.revision,
    )


def _last(history: Sequence[SessionHistory]) -> SessionHistory | None:
    for entry in reversed(history):
        if entry.action in _ACTIONS and entry.event_type is not None:
            return entry
    return None
