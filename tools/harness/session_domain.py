"""The session entity: a long-running agent's work, independent of its storage.

Pure: no files, no YAML, no logging. Time is passed as an argument. Every value is checked when it
is built, and every fault is reported at once. The life cycle is in `session_states`, the record in
`session_entries`, the budget in `token_budget`, the checks in `session_checks`; their names are
re-exported here. The module is long because a session is one entity with one set of rules.
"""

# Annotations are evaluated here: as strings, each field's would be compiled at import.

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self, cast

from ..base.clock import as_utc, utc_now
from ..base.identifiers import next_session_id, session_id_at
from .domain.history_events import (
    BackAtCheckpoint,
    HistoryEvent,
    PhaseAdvanced,
    PhaseRetried,
    SessionCreated,
    SessionDescribed,
)
from .domain.session_checks import (
    MAX_COUNT,
    MAX_GOAL_CHARS,
    MAX_NAME_CHARS,
    MAX_PATH_CHARS,
    ImmutableSessionId,
    InvalidSession,
    InvalidSessionId,
    check,
    in_utc,
    item_faults,
    name_fault,
    require_count,
    validate_session_id,
)
from .domain.session_data import (
    NO_METADATA,
    NO_WORKFLOW_STATE,
    SETTLED,
    Metadata,
    data_fault,
)
from .domain.session_entries import ARTIFACT_TYPES, SessionArtifact, SessionHistory
from .domain.session_fields import SESSION, as_json, field_faults, field_values
from .domain.session_states import (
    HISTORY_ACTIONS,
    STATE_AFTER,
    STEPS,
    TRANSITIONS,
    InvalidStateForPhaseAdvance,
    InvalidStateTransition,
    SessionState,
)
from .domain.token_budget import DEFAULT_TOKEN_BUDGET, WARNING_PERCENT, BudgetState, TokenBudget
from .session_layout import OWN_DATA_MINOR, SCHEMA_VERSION

if TYPE_CHECKING:
    from .domain.session_description import DescriptionChange

__all__ = [
    "ARTIFACT_TYPES",
    "DEFAULT_TOKEN_BUDGET",
    "HISTORY_ACTIONS",
    "MAX_COUNT",
    "MAX_GOAL_CHARS",
    "MAX_NAME_CHARS",
    "MAX_PATH_CHARS",
    "TRANSITIONS",
    "WARNING_PERCENT",
    "BudgetState",
    "ImmutableSessionId",
    "InvalidSession",
    "InvalidSessionId",
    "InvalidStateForPhaseAdvance",
    "InvalidStateTransition",
    "SessionArtifact",
    "SessionContext",
    "SessionHistory",
    "SessionState",
    "TokenBudget",
    "validate_session_id",
]

_AT_CREATION: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class SessionContext:
    """A session: everything about a long-running agent's work that must outlive its worker.

    Attributes:
        session_id: Its id, also the name of its directory; immutable.
        state: Its state in the life cycle.
        created_at: When it was created, in UTC.
        updated_at: When it last changed, in UTC; never before `created_at`, which is the default.
        token_budget: How many tokens the work may cost and has cost.
        workflow_type: "spec", "tdflow", …, or None.
        current_phase: The phase it is in, or None.
        attempt_number: The attempt at the current phase, from 1.
        completed_at: When it ended; set in the terminal states and only there.
        artifacts: Files made, oldest first.
        history: The audit trail, oldest first; never empty: by default it starts with the session's
            creation.
        goal: What the work is for, in its author's words, or None.
        revision: How often it was saved; the store counts it and refuses a save that would
            overwrite another worker's.
        schema_minor: The file's minor schema version, if a newer version wrote it.
        newer_fields: Fields that a newer version wrote, as YAML; saves write them back.
        title: A name for people, one line of at most 200 characters, or None.
        tags: Words to find it by, sorted and unique; any iterable of them may be set. At most 32,
            of at most 64 characters, without blanks and commas.
        metadata: The user's own data: a mapping of JSON values, at most 16 KiB as JSON. Setting it
            copies the value; it can't be changed in place.
        workflow_state: Data its workflow carries from step to step: the same, at most 256 KiB.
        parent_id: The session that it was made from, which may no longer exist, or None.
        unlike_its_digest: Whether the digest of the file that it was read from did not match, as
            after an edit by hand; reset by a save.
    """

    session_id: str
    state: SessionState = SessionState.ACTIVE
    created_at: datetime = field(default_factory=utc_now)
    updated_at: datetime = _AT_CREATION
    token_budget: TokenBudget = field(default_factory=TokenBudget)
    workflow_type: str | None = None
    current_phase: str | None = None
    attempt_number: int = 1
    completed_at: datetime | None = None
    artifacts: list[SessionArtifact] = field(default_factory=list)
    history: list[SessionHistory] = field(default_factory=list)
    goal: str | None = None
    revision: int = 0
    schema_minor: int = field(default=0, repr=False)
    newer_fields: str = field(default="", repr=False)
    title: str | None = field(default=None, kw_only=True)
    tags: tuple[str, ...] = field(default=(), kw_only=True)
    metadata: Mapping[str, Any] = field(default=NO_METADATA, kw_only=True)
    workflow_state: Mapping[str, Any] = field(default=NO_WORKFLOW_STATE, kw_only=True)
    parent_id: str | None = field(default=None, kw_only=True)
    unlike_its_digest: bool = field(default=False, kw_only=True, repr=False, compare=False)

    def __setattr__(self, name: str, value: object) -> None:
        if name == "session_id" and hasattr(self, name):
            raise ImmutableSessionId(self.session_id)
        if name in SETTLED:
            found, faults = SETTLED[name](value)
            value = value if faults else found  # an invalid value is stored as given, for `faults`
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if name == "session_id":
            raise ImmutableSessionId(self.session_id)
        object.__delattr__(self, name)

    def __post_init__(self) -> None:
        self.created_at = in_utc(self.created_at)
        at_creation = self.updated_at is _AT_CREATION
        self.updated_at = self.created_at if at_creation else in_utc(self.updated_at)
        if self.completed_at is not None:
            self.completed_at = in_utc(self.completed_at)
        for name in ("artifacts", "history"):
            items = getattr(self, name)
            if isinstance(items, tuple | list):
                setattr(self, name, list(items))
        faults = self.faults()
        faults += item_faults("artifacts", self.artifacts, SessionArtifact)
        faults += item_faults("history", self.history, SessionHistory)
        if self.history == []:
            faults.remove(_NO_HISTORY)
        check(faults)
        if not self.history:
            self.history.append(
                SessionHistory.of(
                    SessionCreated(
                        workflow_type=self.workflow_type,
                        token_budget=self.token_budget.total_budget,
                    ),
                    self.created_at,
                    self.current_phase,
                )
            )

    def faults(self, judged: Sequence[object] = ()) -> list[str]:
        """Return every fault of the session's own fields; empty if there is none.

        The entries of `artifacts` and `history` are immutable and were checked when they were made,
        so the cost does not depend on their number.

        Args:
            judged: Values already found valid, as `field_values` returns them; unchanged ones are
                not checked again.
        """
        faults = field_faults(field_values(self), judged)
        wrong = {fault.partition(":")[0] for fault in faults}
        if self.history == []:
            faults.append(_NO_HISTORY)
        if self.parent_id is not None and self.parent_id == self.session_id:
            faults.append("parent_id: is the session itself")
        in_order = not wrong & {"created_at", "updated_at"}
        if in_order and self.updated_at < self.created_at:
            faults.append("updated_at: is before created_at")
        if wrong & {"state", "completed_at"}:
            return faults
        ended, terminal = self.completed_at, self.state.is_terminal
        if terminal and ended is None:
            faults.append(f"completed_at: is missing, and the session is {self.state.value}")
        elif not terminal and ended is not None:
            faults.append(f"completed_at: is set, and the session is {self.state.value}")
        elif ended is not None and "created_at" not in wrong and ended < self.created_at:
            faults.append("completed_at: is before created_at")
        return faults

    @classmethod
    def create(
        cls,
        workflow_type: str | None = None,
        initial_phase: str | None = None,
        token_budget: int = DEFAULT_TOKEN_BUDGET,
        *,
        goal: str | None = None,
        title: str | None = None,
        tags: Iterable[str] = (),
        metadata: Mapping[str, Any] = NO_METADATA,
        workflow_state: Mapping[str, Any] = NO_WORKFLOW_STATE,
        parent_id: str | None = None,
        session_id: str | None = None,
        now: datetime | None = None,
    ) -> Self:
        """Return a new session: active, nothing spent, its creation in the history.

        Args:
            workflow_type: "spec", "tdflow", …, or None.
            initial_phase: The first phase, or None.
            token_budget: Tokens allotted, 1 or more.
            goal: What the work is for.
            title: A name for people.
            tags: Words to find it by.
            metadata: The user's own data.
            workflow_state: The initial workflow state.
            parent_id: The session that it was made from.
            session_id: Its id; derived from the time of creation by default.
            now: The current time; read from the clock by default.

        Raises:
            InvalidSession: A value is invalid; every fault is listed.
        """
        moment = as_utc(now) if now is not None else utc_now()
        if session_id is None:
            session_id = session_id_at(moment)
            if session_id == parent_id:  # both were created within a microsecond
                session_id = next_session_id(session_id)
        return cls(
            session_id=session_id,
            created_at=moment,
            token_budget=TokenBudget(total_budget=token_budget),
            workflow_type=workflow_type,
            current_phase=initial_phase,
            goal=goal,
            title=title,
            tags=tags,  # type: ignore[arg-type]  # any iterable becomes a sorted tuple on assignment
            metadata=metadata,
            workflow_state=workflow_state,
            parent_id=parent_id,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the session as a new dict of JSON values, with the field names of its file.

        It conforms to the published schema (`agentforge session schema`); `session_from_dict` reads
        it. Fields that a newer version wrote into the file are not included.
        """
        version = f"{SCHEMA_VERSION}.{max(self.schema_minor, OWN_DATA_MINOR)}"
        fields = {one.name: as_json(one, getattr(self, one.name)) for one in SESSION}
        return {"schema_version": version, **fields}

    def touch(self, now: datetime | None = None) -> datetime:
        """Move `updated_at` to now, never back, and return it."""
        self.updated_at = self._moment(now)
        return self.updated_at

    def spend(self, tokens: int, *, now: datetime | None = None) -> BudgetState:
        """Record tokens spent, and in the history the crossing of 80 % or 100 % of the budget.

        Args:
            tokens: How many, 1 or more.
            now: The current time; read from the clock by default.

        Returns:
            The budget's state afterwards.

        Raises:
            InvalidSession: `tokens` is not such a count; nothing was recorded.
        """
        before = self.token_budget.snapshot()
        self.token_budget.record_usage(tokens)
        after = self.token_budget.snapshot()
        self.touch(now)
        for event in after.crossed_since(before):
            self.add_event(event, now=now)
        return after

    def add_artifact(
        self,
        path: str,
        artifact_type: str,
        phase: str | None = None,
        *,
        now: datetime | None = None,
    ) -> SessionArtifact:
        """Record a file.

        Args:
            path: Relative to the workspace.
            artifact_type: "created" or "modified".
            phase: The phase that made it; the current phase by default.
            now: The current time; read from the clock by default.

        Raises:
            InvalidSession: A value is invalid (every fault is listed); nothing was recorded.
        """
        moment = self._moment(now)
        artifact = SessionArtifact(path, artifact_type, moment, phase or self.current_phase)
        self.artifacts.append(artifact)
        self.updated_at = moment
        return artifact

    def get_artifacts(self, phase: str | None = None) -> list[SessionArtifact]:
        """Return the artifacts, oldest first: all, or those of one phase."""
        return [a for a in self.artifacts if phase is None or a.phase == phase]

    def add_history(
        self,
        action: str,
        phase: str | None = None,
        details: str | None = None,
        *,
        tokens: int = 0,
        now: datetime | None = None,
    ) -> SessionHistory:
        """Add a note to the audit trail; it is never an event, whatever its action.

        Args:
            action: What happened.
            phase: The phase it happened in; the current one by default.
            details: More text for people, of any length.
            tokens: What it cost, for programs; `spend` charges it.
            now: The current time; read from the clock by default.

        Raises:
            InvalidSession: A value is invalid (every fault is listed); nothing was added.
        """
        moment = self._moment(now)
        where = phase or self.current_phase
        return self._append(SessionHistory.note(action, moment, where, details, tokens=tokens))

    def add_event(
        self,
        event: HistoryEvent,
        *,
        phase: str | None = None,
        details: str | None = None,
        now: datetime | None = None,
    ) -> SessionHistory:
        """Add an event to the audit trail.

        Args:
            event: What happened.
            phase: The phase it happened in; the current one by default.
            details: Text for people; by default the event's own sentence.
            now: The current time; read from the clock by default.

        Raises:
            InvalidSession: A value is invalid (every fault is listed); nothing was added.
        """
        moment = self._moment(now)
        return self._append(
            SessionHistory.of(event, moment, phase or self.current_phase, details=details)
        )

    def _append(self, entry: SessionHistory) -> SessionHistory:
        self.history.append(entry)
        self.updated_at = entry.timestamp
        return entry

    def describe(
        self, change: "DescriptionChange", *, now: datetime | None = None
    ) -> SessionHistory | None:
        """Change the title, the tags and the metadata, and record it.

        Args:
            change: The change.
            now: The current time; read from the clock by default.

        Returns:
            The entry, or None if nothing changed.

        Raises:
            InvalidSession: A value is invalid (every fault is listed); nothing was changed.
        """
        from .domain.session_description import Description, described_event  # few calls do it

        check(data_fault("metadata", self.metadata))
        before = Description(self.title, self.tags, cast(Metadata, self.metadata))
        after, faults = change.of(before)
        check(faults)
        event = described_event(before, after)
        if event is None:
            return None
        entry = self.add_event(event, now=now)
        self.title, self.tags, self.metadata = after.title, after.tags, after.metadata
        return entry

    def set_workflow_state(self, state: Mapping[str, Any], *, now: datetime | None = None) -> bool:
        """Replace the workflow state.

        This adds no history entry: a workflow does it at every step, and the history is for what
        people and programs look back on.

        Args:
            state: The complete new state.
            now: The current time; read from the clock by default.

        Returns:
            Whether the state changed.

        Raises:
            InvalidSession: A value is invalid (every fault is listed); nothing was changed.
        """
        found, faults = SETTLED["workflow_state"](state)
        check(faults)
        if repr(found) == repr(self.workflow_state):  # 1, 1.0 and true are equal
            return False
        self.workflow_state = found
        self.touch(now)
        return True

    def apply(
        self,
        operation: str,
        *,
        details: str | None = None,
        now: datetime | None = None,
        **fields: str | int | None,
    ) -> SessionHistory:
        """Make a life-cycle step and record it.

        Args:
            operation: "pause", "resume", "complete" or "abort".
            details: The reason.
            now: The current time; read from the clock by default.
            fields: The step event's fields other than the reason.

        Raises:
            InvalidStateTransition: The state does not allow it; nothing was changed.
        """
        target = TRANSITIONS.get((self.state, operation))
        if target is None:
            raise InvalidStateTransition(
                session_id=self.session_id, current_state=self.state, operation=operation
            )
        if operation in {"pause", "abort"}:
            fields["reason"] = details
        entry = self.add_event(STEPS[operation](**fields), details=details, now=now)
        self.state = target
        if target.is_terminal:
            self.completed_at = entry.timestamp
        return entry

    def enter_phase(
        self,
        new_phase: str,
        *,
        snapshot: str | None = None,
        unkept: str | None = None,
        now: datetime | None = None,
    ) -> SessionHistory:
        """Enter another phase, at its first attempt, and record it.

        Args:
            new_phase: The phase.
            snapshot: The snapshot of the workspace, or None.
            unkept: Why a snapshot that should exist is missing, or None.
            now: The current time; read from the clock by default.

        Raises:
            InvalidStateForPhaseAdvance: The session is not active; nothing was changed.
            InvalidSession: `new_phase` is not a valid name; nothing was changed.
        """
        if self.state is not SessionState.ACTIVE:
            raise InvalidStateForPhaseAdvance(
                session_id=self.session_id, current_state=self.state, operation="advance_phase"
            )
        check(name_fault("new_phase", new_phase, optional=False))
        came_from = self.current_phase
        event = PhaseAdvanced(
            from_phase=came_from, to_phase=new_phase, snapshot=snapshot, unkept=unkept
        )
        entry = self.add_event(event, phase=new_phase, now=now)
        self.current_phase = new_phase
        self.attempt_number = 1
        return entry

    def go_back(
        self, event: BackAtCheckpoint, *, phase: str | None, now: datetime | None = None
    ) -> SessionHistory:
        """Return to the session's position at a checkpoint; the record only grows.

        Raises:
            InvalidStateTransition: The session has ended; nothing was changed.
        """
        self.require(SessionState.ACTIVE, SessionState.PAUSED, operation="rewind")
        moment = self._moment(now)
        entry = self._append(SessionHistory.of(event, moment, phase))
        self.current_phase = phase
        self.attempt_number = event.attempt
        return entry

    def next_attempt(
        self, *, reason: str | None = None, now: datetime | None = None
    ) -> SessionHistory:
        """Start another attempt at the current phase and record it.

        Raises:
            InvalidStateTransition: The session is not active, or in no phase.
        """
        self.require(SessionState.ACTIVE, operation="retry_phase")
        require_count("attempt_number", self.attempt_number + 1, least=1)
        event = PhaseRetried(attempt=self.attempt_number + 1, reason=reason)
        entry = self.add_event(event, now=now)
        self.attempt_number += 1
        return entry

    def require(self, *states: SessionState, operation: str) -> None:
        """Refuse `operation` unless the session is in one of `states`.

        Raises:
            InvalidStateTransition: It is not.
        """
        if self.state not in states:
            raise InvalidStateTransition(
                session_id=self.session_id,
                current_state=self.state,
                operation=operation,
                target_state=states[0],
            )

    def only_describes(self, ended: Self) -> bool:
        """Return whether this is an ended session that has only been described since.

        Title, tags and metadata may still change then: people tag a run by how it ended. Nothing
        else may, and the history only grows by those events.

        Args:
            ended: The stored session.
        """
        known = len(ended.history)
        added = self.history[known:]
        if self.history[:known] != ended.history or not added:
            return False
        if any(entry.event_type is not SessionDescribed for entry in added):
            return False
        described = replace(
            ended,
            title=self.title,
            tags=self.tags,
            metadata=self.metadata,
            updated_at=self.updated_at,
            history=self.history,
        )
        return self.state.is_terminal and described == self

    def require_follows(self, stored: SessionState) -> None:
        """Refuse the session, changed in memory, unless it may follow the stored one.

        Args:
            stored: The stored session's state.

        Raises:
            InvalidStateTransition: The stored session has ended, or the state was set without a
                life-cycle step, which the history would name.
        """
        recorded = self.state is stored or self.is_state_recorded
        if stored.is_terminal or not recorded:
            raise InvalidStateTransition(
                session_id=self.session_id,
                current_state=stored,
                operation="save",
                target_state=self.state,
            )

    @property
    def is_state_recorded(self) -> bool:
        """Whether the history's last life-cycle step leads to the current state."""
        for entry in reversed(self.history):
            if entry.action in STATE_AFTER and entry.event_type is not None:
                return STATE_AFTER[entry.action] is self.state
        return False

    def _moment(self, now: datetime | None) -> datetime:
        moment = as_utc(now) if now is not None else utc_now()
        return max(moment, self.updated_at)


_NO_HISTORY: Final = "history: is empty, and begins with the entry of the session's creation"
