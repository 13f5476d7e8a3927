"""Notices: what happens around a session and has no history entry, for log and observers; pure.

`NoteRecorded` and `CheckpointReached` are still derived from entries (`entry_events`); the others
leave no trace in the history and are delivered once.

Together with `history_events` this is the closed set of what a `SessionObserver` receives. To add a
field, give it a default, and document it on the events page.
"""

# Annotations are evaluated here: as strings, each field's would be compiled at import.

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from .event_values import Occurrence
from .history_events import EVENTS, CheckpointTaken

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
