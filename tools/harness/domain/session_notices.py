"""What happens around a session and is no event of its history, for log and observers; pure.

`NoteRecorded` and `CheckpointReached` are read off entries all the same (`entry_events`); the
others leave nothing in the history, and are told once.

With the events of `history_events` it is the closed set of what a `SessionObserver` is given. To
add a field, give it a default, and name it on the page of events.
"""

# Annotations are evaluated here: each field's would be compiled if it were a text.

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import ClassVar, Final, TypeVar, dataclass_transform

from .event_values import Occurrence, event_fields
from .history_events import EVENTS, CheckpointTaken

_Kind = TypeVar("_Kind")
_notices: Final[dict[str, type["Notice"]]] = {}


@dataclass_transform(kw_only_default=True, frozen_default=True)
def _notice(name: str) -> Callable[[type[_Kind]], type[_Kind]]:
    """Make a class a notice of this name."""

    def make(kind: type[_Kind]) -> type[_Kind]:
        made = event_fields(kind)
        assert issubclass(made, Notice)  # noqa: S101 # for the type checker
        made.log_name = name
        _notices[name] = made
        return made

    return make


@event_fields
class Notice(Occurrence):
    """Something that happened and has no entry in the history."""

    with_phase: ClassVar[bool] = False


# ------------------------------------------------------------------------------------- the session


@_notice("session.loaded")
class SessionLoaded(Notice):
    """A session was made the current one of a manager."""

    with_phase: ClassVar[bool] = True
    state: str = ""
    revision: int = 0


@_notice("session.recorded")
class NoteRecorded(Notice):
    """A caller's note was recorded with its tokens and files."""

    with_phase: ClassVar[bool] = True
    with_attempt: ClassVar[bool] = True
    action: str = ""
    tokens: int = 0


@_notice("session.checkpoint")
class CheckpointReached(Notice):
    """A session is saved at a place that is worth going back to.

    Attributes:
        entry: Which entry of the history says so, from 1.
    """

    with_phase: ClassVar[bool] = True
    entry: int = 0


@_notice("session.deleted")
class SessionDeleted(Notice):
    """A session was deleted with its workspace."""


@_notice("sessions.cleaned_up")
class SessionsCleanedUp(Notice):
    """Old sessions were deleted, or would have been.

    Attributes:
        days: How long ago they had ended, in days.
        dry_run: Whether nothing was deleted.
        count: How many they are.
    """

    days: float = 0.0
    dry_run: bool = False
    count: int = 0


# ------------------------------------------------------------------------------------- what failed


@_notice("session.unreadable")
class SessionPassedOver(Notice):
    """A listing passed over a session that can't be read."""

    level: ClassVar[str] = "warning"
    error: str = ""


@_notice("session.conflict")
class ConflictMet(Notice):
    """Another worker saved the session first."""

    level: ClassVar[str] = "warning"
    expected_revision: int | None = None
    actual_revision: int | None = None


@_notice("session.save_failed")
class SaveFailed(Notice):
    """A session could not be saved.

    Attributes:
        path: The file.
        operation: The step that the system refused.
        errno: The system's number of the error, or None.
    """

    level: ClassVar[str] = "error"
    path: str = ""
    operation: str = ""
    errno: int | None = None


@_notice("question.not_withdrawn")
class QuestionNotWithdrawn(Notice):
    """A question of a session that has ended could not be ended with it."""

    level: ClassVar[str] = "warning"
    question_id: str = ""
    error: str = ""


# -------------------------------------------------------------------------------- the steps of runs


@_notice("phase.started")
class PhaseStarted(Notice):
    """The code of the phase is about to run."""

    with_phase: ClassVar[bool] = True
    with_attempt: ClassVar[bool] = True


@_notice("run.started")
class RunStarted(Notice):
    """A run of a workflow begins.

    Attributes:
        workflow: The workflow's name.
        resumed: Whether the session was begun before this run.
    """

    workflow: str = ""
    resumed: bool = False


@_notice("attempt.started")
class AttemptStarted(Notice):
    """An attempt at a phase begins, or is continued.

    Attributes:
        round_number: How often the phase was entered, from 1.
        position: Where the phase stands in the workflow, from 1.
        total: How many phases the workflow has.
    """

    with_phase: ClassVar[bool] = True
    with_attempt: ClassVar[bool] = True
    round_number: int = 1
    position: int = 1
    total: int = 1


@_notice("agent.called")
class AgentCalled(Notice):
    """The agent is about to be asked.

    Attributes:
        call: Which call of the attempt, from 1.
        prompt_tokens: What the prompt takes at the most, in tokens.
    """

    with_phase: ClassVar[bool] = True
    with_attempt: ClassVar[bool] = True
    call: int = 1
    prompt_tokens: int = 0


@_notice("gate.started")
class GateStarted(Notice):
    """The gate of an agent's phase is about to judge.

    Attributes:
        gate: The kind of gate.
    """

    with_phase: ClassVar[bool] = True
    with_attempt: ClassVar[bool] = True
    gate: str = ""


@_notice("question.waiting")
class QuestionWaiting(Notice):
    """Questions of a run wait for a person's answers.

    Attributes:
        count: How many questions they are.
    """

    with_phase: ClassVar[bool] = True
    question_id: str = ""
    count: int = 1


# ----------------------------------------------------------------------------------- what is sent


@_notice("webhook.test")
class WebhookTest(Notice):
    """Somebody tries whether a webhook is reached; nothing happened to a session."""


NOTICES: Final[Mapping[str, type[Notice]]] = MappingProxyType(_notices)
"""Every notice by its name."""
OBSERVED: Final[Mapping[str, type[Occurrence]]] = MappingProxyType(
    # A checkpoint that was taken is observed as the notice, as every other checkpoint is.
    {
        one.log_name: one
        for one in (*EVENTS.values(), *_notices.values())
        if one is not CheckpointTaken
    }
)
"""Everything that observers are given, by its name."""
