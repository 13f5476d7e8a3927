"""The port of session observers, the events that they receive, and notices; pure.

A notice is something that happens around a session and has no history entry.
"""

# Annotations are evaluated here: as strings, each field's would be compiled at import.

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Protocol, runtime_checkable

from .event_values import EventValue, Occurrence
from .history_events import EVENTS, CheckpointTaken, PhaseAdvanced, PhaseEnded
from .session_entries import SessionHistory, logged

_notices: Final[dict[str, type["Notice"]]] = {}


class Notice(Occurrence):
    """Something that happened and has no entry in the history."""

    with_phase = False

    def __init_subclass__(cls, *, name: str) -> None:
        """Register the class as the notice of this name."""
        super().__init_subclass__()
        cls.log_name = name
        _notices[name] = cls


# ------------------------------------------------------------------------------------- the session


class SessionLoaded(Notice, name="session.loaded"):
    """A session was made the current one of a manager."""

    with_phase = True
    state: str = ""
    revision: int = 0


class NoteRecorded(Notice, name="session.recorded"):
    """A caller's note was recorded with its tokens and files."""

    with_phase = True
    with_attempt = True
    action: str = ""
    tokens: int = 0


class CheckpointReached(Notice, name="session.checkpoint"):
    """A session was saved at a state worth returning to.

    Attributes:
        entry: The number of its history entry, from 1.
    """

    with_phase = True
    entry: int = 0


class SessionDeleted(Notice, name="session.deleted"):
    """A session was deleted with its workspace."""


class SessionsCleanedUp(Notice, name="sessions.cleaned_up"):
    """Old sessions were deleted, or would have been in a dry run.

    Attributes:
        days: The minimum time since they ended, in days.
        dry_run: Whether nothing was deleted.
        count: The number of sessions.
    """

    days: float = 0.0
    dry_run: bool = False
    count: int = 0


# ------------------------------------------------------------------------------------- what failed


class SessionPassedOver(Notice, name="session.unreadable"):
    """A listing skipped a session that can't be read."""

    level = "warning"
    error: str = ""


class ConflictMet(Notice, name="session.conflict"):
    """Another worker saved the session first."""

    level = "warning"
    expected_revision: int | None = None
    actual_revision: int | None = None


class SaveFailed(Notice, name="session.save_failed"):
    """A session could not be saved.

    Attributes:
        path: The file.
        operation: The step that failed.
        errno: The system's number of the error, or None.
    """

    level = "error"
    path: str = ""
    operation: str = ""
    errno: int | None = None


class QuestionNotWithdrawn(Notice, name="question.not_withdrawn"):
    """A question of an ended session could not be withdrawn."""

    level = "warning"
    question_id: str = ""
    error: str = ""


# -------------------------------------------------------------------------------- the steps of runs


class PhaseStarted(Notice, name="phase.started"):
    """The code of the phase is about to run."""

    with_phase = True
    with_attempt = True


class RunStarted(Notice, name="run.started"):
    """A run of a workflow begins.

    Attributes:
        workflow: The workflow's name.
        resumed: Whether the session existed before this run.
    """

    workflow: str = ""
    resumed: bool = False


class AttemptStarted(Notice, name="attempt.started"):
    """An attempt at a phase starts or continues.

    Attributes:
        round_number: How often the phase was entered, from 1.
        position: The phase's position in the workflow, from 1.
        total: The number of phases of the workflow.
    """

    with_phase = True
    with_attempt = True
    round_number: int = 1
    position: int = 1
    total: int = 1


class AgentCalled(Notice, name="agent.called"):
    """The agent is about to be asked.

    Attributes:
        call: The call's number in the attempt, from 1.
        prompt_tokens: The most tokens that the prompt can take.
    """

    with_phase = True
    with_attempt = True
    call: int = 1
    prompt_tokens: int = 0


class GateStarted(Notice, name="gate.started"):
    """The gate of an agent's phase is about to judge.

    Attributes:
        gate: The kind of gate.
    """

    with_phase = True
    with_attempt = True
    gate: str = ""


class QuestionWaiting(Notice, name="question.waiting"):
    """Questions of a run wait for a person's answers.

    Attributes:
        count: The number of questions.
    """

    with_phase = True
    question_id: str = ""
    count: int = 1


# ----------------------------------------------------------------------------------- what is sent


class WebhookTest(Notice, name="webhook.test"):
    """A test delivery to a webhook; nothing happened to a session."""


NOTICES: Final[Mapping[str, type[Notice]]] = MappingProxyType(_notices)
"""All notices by name."""
OBSERVED: Final[Mapping[str, type[Occurrence]]] = MappingProxyType(
    # A taken checkpoint is observed as the notice, as every other checkpoint is.
    {
        one.log_name: one
        for one in (*EVENTS.values(), *_notices.values())
        if one is not CheckpointTaken
    }
)
"""Everything that observers receive, by name."""


EVENT_VERSION: Final = 1
"""Version of `SessionEvent.to_dict`; it changes when a field is removed or changes its meaning."""


class SessionEvent(EventValue):
    """Something that happened, with its time and place.

    Attributes:
        session_id: The session; None if it concerns no single session.
        at: The time, aware, in UTC.
        phase: The session's phase then, or None.
        attempt: The attempt at that phase, from 1, or None.
        what: An event of `history_events` or a notice, with its fields.
    """

    session_id: str | None
    at: datetime
    phase: str | None = None
    attempt: int | None = None
    what: Occurrence

    @property
    def name(self) -> str:
        """The log name of what happened ("session.paused", "phase.failed", …)."""
        return self.what.log_name

    def to_dict(self) -> dict[str, Any]:
        """Return the event as a dict of JSON values.

        Fields that are too long or too private for a log are left out: prompts, answers, evidence.
        """
        return {
            "version": EVENT_VERSION,
            "type": self.name,
            "timestamp": self.at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "session_id": self.session_id,
            "phase": self.phase,
            "attempt": self.attempt,
            "data": _as_json(logged(self.what)),
        }


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_json(one) for name, one in value.items()}
    return [_as_json(one) for one in value] if isinstance(value, tuple) else value


def occurrences(entry: SessionHistory, number: int) -> tuple[Occurrence, ...]:
    """Return the events that an entry stands for, in order: one or two.

    Args:
        entry: The entry.
        number: Its number in the history, from 1.
    """
    event = entry.event
    if event is None:
        return (NoteRecorded(action=entry.action, tokens=entry.data.get("tokens", 0)),)
    if isinstance(event, CheckpointTaken):
        return (CheckpointReached(entry=number),)
    if isinstance(event, PhaseEnded | PhaseAdvanced):
        return (event, CheckpointReached(entry=number))
    return (event,)


class SessionObserver(Protocol):
    """Receives what happens to sessions, once it is on disk."""

    def on_event(self, event: SessionEvent) -> None:
        """Handle an event.

        Called in the thread that leads the session, after the change is on disk and before the call
        that made it returns, so it should be quick. A session's events come in order. An exception
        is logged (`observer.failed`) and fails nothing, except those that end a program, such as
        `KeyboardInterrupt`. An observer shared by several managers may be called by several threads
        at once.
        """
        ...


@runtime_checkable
class CatchesUp(Protocol):
    """An observer that can also report what other processes saved."""

    def look(self) -> None:
        """Note that sessions changed; what is due is reported in the background."""
        ...
