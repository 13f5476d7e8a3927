"""The session: what a long-running agent's work is, apart from where it is kept.

Pure: no files, no YAML, no logging. Time comes in as an argument. Every value is checked when it is
built, and all that is wrong with it is said at once.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from attrs import Factory, define, field, frozen

from tools.clock import as_utc, utc_now
from tools.harness.errors import HarnessError

DEFAULT_TOKEN_BUDGET: Final = 100_000
WARNING_PERCENT: Final = 80.0
ARTIFACT_TYPES: Final = ("created", "modified")

MAX_NAME_CHARS: Final = 200
"""Longest action, phase or workflow type."""
MAX_PATH_CHARS: Final = 4096
"""Longest artifact path (Linux's PATH_MAX)."""
MAX_GOAL_CHARS: Final = 4000
"""Longest goal."""
MAX_COUNT: Final = 2**63 - 1
"""Largest token count, attempt or revision."""

_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class InvalidSession(HarnessError, ValueError):
    """A session, or a part of one, breaks the rules of the domain.

    Attributes:
        faults: Everything that is wrong, each as "field: what is wrong".
    """

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults: tuple[str, ...] = tuple(faults)
        super().__init__("; ".join(self.faults))


class InvalidSessionId(InvalidSession):
    """A text that can't be a session's id, and so never becomes a path.

    Attributes:
        given: What was given.
    """

    def __init__(self, session_id: object) -> None:
        shown = repr(session_id)
        if len(shown) > 80:
            shown = f"{shown[:77]}..."
        super().__init__(
            [
                f"session_id: {shown} is not an id; an id has 1 to 128 of the characters "
                "A-Z a-z 0-9 _ - and begins with a letter or a digit"
            ]
        )
        self.given = session_id


class InvalidStateTransition(HarnessError):
    """The session's state does not allow what was asked.

    Attributes:
        session_id: The session.
        state: The state it is in, and stays in.
        operation: What was asked ("pause", "advance_phase", …).
    """

    def __init__(self, *, session_id: str, state: SessionState, operation: str) -> None:
        allowed = ", ".join(a for (s, a) in TRANSITIONS if s is state)
        hint = f"from here it can only: {allowed}" if allowed else "it has ended for good"
        super().__init__(
            f"cannot {operation.replace('_', ' ')} session {session_id}: it is {state.value}; "
            f"{hint}. Nothing was changed.",
            session_id=session_id,
        )
        self.state = state
        self.operation = operation


class SessionState(Enum):
    """Where a session is in its life."""

    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"
    ABORTED = "aborted"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing can happen to the session any more."""
        return self in _TERMINAL


_TERMINAL: Final = frozenset({SessionState.COMPLETED, SessionState.ABORTED})

TRANSITIONS: Final[Mapping[tuple[SessionState, str], SessionState]] = MappingProxyType(
    {
        (SessionState.ACTIVE, "pause"): SessionState.PAUSED,
        (SessionState.ACTIVE, "complete"): SessionState.COMPLETED,
        (SessionState.ACTIVE, "abort"): SessionState.ABORTED,
        (SessionState.PAUSED, "resume"): SessionState.ACTIVE,
        (SessionState.PAUSED, "abort"): SessionState.ABORTED,
    }
)
"""The life cycle, whole: what each state allows and where it leads. What is not here is refused."""

HISTORY_ACTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "pause": "session_paused",
        "resume": "session_resumed",
        "complete": "session_completed",
        "abort": "session_aborted",
    }
)
"""How each transition is named in the history."""


def validate_session_id(session_id: object) -> str:
    """Return `session_id` if it is one.

    Raises:
        InvalidSessionId: It is not; it was not used for anything.
    """
    if not isinstance(session_id, str) or not _SESSION_ID.fullmatch(session_id):
        raise InvalidSessionId(session_id)
    return session_id


def new_session_id(now: datetime, token: Callable[[], str] | None = None) -> str:
    """Make an id: "session_", the time to the second in UTC, and 8 random hexadecimal digits."""
    random = token() if token is not None else secrets.token_hex(4)
    return f"session_{as_utc(now):%Y%m%d_%H%M%S}_{random}"


def _convert_time(value: Any) -> Any:
    """Turn a time into UTC; leave what is no time, or has none in UTC, for the validation."""
    if isinstance(value, datetime):
        try:
            return as_utc(value)
        except (OverflowError, ValueError):
            return value
    return value


def _time_fault(name: str, value: object, *, optional: bool = False) -> list[str]:
    if value is None and optional:
        return []
    if not isinstance(value, datetime):
        return [f"{name}: expected a time, got {_shown(value)}"]
    if value.tzinfo is not UTC:
        return [f"{name}: {value!r} can't be told in UTC"]
    return []


def _shown(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def _text_fault(name: str, value: object, *, optional: bool, limit: int | None) -> list[str]:
    """Say what is wrong with free text."""
    if value is None and optional:
        return []
    if not isinstance(value, str):
        return [f"{name}: expected text, got {_shown(value)}"]
    faults = []
    if limit is not None and len(value) > limit:
        faults.append(f"{name}: has {len(value):,} characters, {limit:,} are allowed")
    if not value.isascii() and _SURROGATE.search(value):
        faults.append(f"{name}: holds a lone surrogate, which no file can hold as UTF-8")
    return faults


def _name_fault(name: str, value: object, *, optional: bool) -> list[str]:
    """Say what is wrong with a name: one line, not empty, shown in tables."""
    faults = _text_fault(name, value, optional=optional, limit=MAX_NAME_CHARS)
    if isinstance(value, str) and not faults:
        if not value.strip():
            faults.append(f"{name}: is empty")
        elif _CONTROL.search(value):
            faults.append(f"{name}: {value!r} holds a control character or a line break")
    return faults


def _path_fault(name: str, value: object) -> list[str]:
    faults = _text_fault(name, value, optional=False, limit=MAX_PATH_CHARS)
    if isinstance(value, str) and not faults:
        if not value:
            faults.append(f"{name}: is empty")
        elif "\x00" in value:
            faults.append(f"{name}: {_shown(value)} holds a NUL character")
        elif value[0] == "/" or ".." in value.split("/"):
            faults.append(
                f"{name}: {_shown(value)} is not inside the workspace; give it relative, without .."
            )
    return faults


def _count_fault(name: str, value: object, *, least: int) -> list[str]:
    if not isinstance(value, int) or isinstance(value, bool):
        return [f"{name}: expected a whole number, got {_shown(value)}"]
    if value < least:
        return [f"{name}: {value} is less than {least}"]
    if value > MAX_COUNT:
        return [f"{name}: is more than {MAX_COUNT}"]
    return []


def _id_fault(value: object) -> list[str]:
    if isinstance(value, str) and _SESSION_ID.fullmatch(value):
        return []
    return list(InvalidSessionId(value).faults)


def _state_fault(value: object) -> list[str]:
    if isinstance(value, SessionState):
        return []
    return [f"state: expected a SessionState, got {_shown(value)}"]


def _budget_fault(value: object) -> list[str]:
    if isinstance(value, TokenBudget):
        return value.faults()
    return [f"token_budget: expected a TokenBudget, got {_shown(value)}"]


def _list_fault(name: str, value: object) -> list[str]:
    return [] if isinstance(value, list) else [f"{name}: expected a list, got {_shown(value)}"]


def _check(faults: list[str]) -> None:
    if faults:
        raise InvalidSession(faults)


@define
class TokenBudget:
    """How many tokens the work may cost and how many it has cost.

    What was spent is recorded as it was, over the budget too: a record that refuses the truth
    helps nobody. It is `can_continue` that keeps a worker from overspending.

    Attributes:
        total_budget: Tokens allotted, 0 or more.
        tokens_used: Tokens spent, 0 or more.
    """

    total_budget: int = DEFAULT_TOKEN_BUDGET
    tokens_used: int = 0

    def __attrs_post_init__(self) -> None:
        _check(self.faults())

    def faults(self) -> list[str]:
        """Say everything that is wrong with it; empty when nothing is."""
        return _count_fault("token_budget.total_budget", self.total_budget, least=0) + _count_fault(
            "token_budget.tokens_used", self.tokens_used, least=0
        )

    @property
    def tokens_remaining(self) -> int:
        """Tokens left; negative when more was spent than allotted."""
        return self.total_budget - self.tokens_used

    @property
    def utilization_percent(self) -> float:
        """Tokens spent as a percentage of those allotted; of a budget of 0, 0 or (spent) 100."""
        if self.total_budget == 0:
            return 100.0 if self.tokens_used else 0.0
        return self.tokens_used / self.total_budget * 100

    @property
    def is_warning(self) -> bool:
        """Whether 80 % or more of the budget is spent (in whole numbers, so exactly at 80 %)."""
        if self.total_budget == 0:
            return self.tokens_used > 0
        return self.tokens_used * 100 >= self.total_budget * int(WARNING_PERCENT)

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing is left."""
        return self.tokens_remaining <= 0

    def can_continue(self, required_tokens: int = 1) -> bool:
        """Tell whether what is left covers `required_tokens` (0 or more).

        Raises:
            InvalidSession: `required_tokens` is no count.
        """
        _check(_count_fault("required_tokens", required_tokens, least=0))
        return self.tokens_remaining >= required_tokens

    def record_usage(self, tokens: int) -> None:
        """Add `tokens` (0 or more) to what was spent.

        Raises:
            InvalidSession: `tokens` is no count, or the sum is more than can be kept.
        """
        _check(_count_fault("tokens", tokens, least=0))
        _check(_count_fault("token_budget.tokens_used", self.tokens_used + tokens, least=0))
        self.tokens_used += tokens

    def extend(self, additional_tokens: int) -> None:
        """Add `additional_tokens` (1 or more) to what is allotted.

        Raises:
            InvalidSession: `additional_tokens` is no such count, or the sum is too large.
        """
        _check(_count_fault("additional_tokens", additional_tokens, least=1))
        total = self.total_budget + additional_tokens
        _check(_count_fault("token_budget.total_budget", total, least=0))
        self.total_budget = total


@frozen
class SessionArtifact:
    """A file that the work created or modified.

    Attributes:
        path: Relative to the workspace, with `/`, never leading out of it.
        artifact_type: "created" or "modified".
        timestamp: When it was recorded, in UTC.
        phase: The phase that made it, or None.
    """

    path: str
    artifact_type: str
    timestamp: datetime = field(converter=_convert_time)
    phase: str | None = None

    def __attrs_post_init__(self) -> None:
        faults = _path_fault("path", self.path)
        if self.artifact_type not in ARTIFACT_TYPES:
            faults.append(
                f"artifact_type: {_shown(self.artifact_type)} is neither "
                f"{' nor '.join(map(repr, ARTIFACT_TYPES))}"
            )
        faults += _time_fault("timestamp", self.timestamp)
        faults += _name_fault("phase", self.phase, optional=True)
        if faults:
            raise InvalidSession(faults)


@frozen
class SessionHistory:
    """One entry of the audit trail.

    Attributes:
        timestamp: When it happened, in UTC.
        action: What happened ("session_created", "phase_advanced", …).
        phase: The phase it happened in, or None.
        details: More to say, of any length, or None.
    """

    timestamp: datetime = field(converter=_convert_time)
    action: str
    phase: str | None = None
    details: str | None = None

    def __attrs_post_init__(self) -> None:
        faults = _time_fault("timestamp", self.timestamp)
        faults += _name_fault("action", self.action, optional=False)
        faults += _name_fault("phase", self.phase, optional=True)
        faults += _text_fault("details", self.details, optional=True, limit=None)
        if faults:
            raise InvalidSession(faults)


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple | list) else value


@define
class SessionContext:
    """A session: everything about a long-running agent's work that must outlive its worker.

    Attributes:
        session_id: Its name, and its directory's.
        state: Where it is in its life.
        created_at: When it began, in UTC.
        updated_at: When it last changed, in UTC; never before `created_at`.
        token_budget: What the work may cost and has cost.
        workflow_type: "spec", "tdflow", …, or None.
        current_phase: The phase it is in, or None.
        attempt_number: Which attempt at the current phase this is, from 1.
        completed_at: When it ended; set in the terminal states and only there.
        artifacts: Files made, oldest first.
        history: The audit trail, oldest first.
        goal: What the work is for, in the words of whoever began it, or None.
        revision: How often it was saved; the store counts it and refuses a save that would
            overwrite somebody else's.
    """

    session_id: str
    state: SessionState
    created_at: datetime = field(converter=_convert_time)
    updated_at: datetime = field(converter=_convert_time)
    token_budget: TokenBudget = Factory(TokenBudget)
    workflow_type: str | None = None
    current_phase: str | None = None
    attempt_number: int = 1
    completed_at: datetime | None = field(default=None, converter=_convert_time)
    artifacts: list[SessionArtifact] = field(factory=list, converter=_as_list)
    history: list[SessionHistory] = field(factory=list, converter=_as_list)
    goal: str | None = None
    revision: int = 0

    def __attrs_post_init__(self) -> None:
        faults = self.faults()
        faults += _item_faults("artifacts", self.artifacts, SessionArtifact)
        faults += _item_faults("history", self.history, SessionHistory)
        _check(faults)

    def faults(self) -> list[str]:
        """Say everything that is wrong with the session's own fields; empty when nothing is.

        The entries of `artifacts` and `history` can't be changed and were checked when they were
        made, so this costs the same however many there are.
        """
        faults = _id_fault(self.session_id)
        state_faults = _state_fault(self.state)
        faults += state_faults
        created = _time_fault("created_at", self.created_at)
        updated = _time_fault("updated_at", self.updated_at)
        completed = _time_fault("completed_at", self.completed_at, optional=True)
        faults += created + updated + completed
        if not created and not updated and self.updated_at < self.created_at:
            faults.append("updated_at: is before created_at")
        if not state_faults and not completed:
            if self.state.is_terminal and self.completed_at is None:
                faults.append(f"completed_at: is missing, and the session is {self.state.value}")
            elif not self.state.is_terminal and self.completed_at is not None:
                faults.append(f"completed_at: is set, and the session is {self.state.value}")
            elif (
                self.completed_at is not None
                and not created
                and self.completed_at < self.created_at
            ):
                faults.append("completed_at: is before created_at")
        faults += _budget_fault(self.token_budget)
        faults += _name_fault("workflow_type", self.workflow_type, optional=True)
        faults += _name_fault("current_phase", self.current_phase, optional=True)
        faults += _count_fault("attempt_number", self.attempt_number, least=1)
        faults += _text_fault("goal", self.goal, optional=True, limit=MAX_GOAL_CHARS)
        faults += _count_fault("revision", self.revision, least=0)
        faults += _list_fault("artifacts", self.artifacts) + _list_fault("history", self.history)
        return faults

    @classmethod
    def create(
        cls,
        workflow_type: str | None = None,
        initial_phase: str | None = None,
        token_budget: int = DEFAULT_TOKEN_BUDGET,
        *,
        goal: str | None = None,
        session_id: str | None = None,
        now: datetime | None = None,
    ) -> SessionContext:
        """Begin a session: active, nothing spent, its creation in the history.

        Args:
            workflow_type: "spec", "tdflow", …, or None.
            initial_phase: The phase to begin in, or None.
            token_budget: Tokens allotted.
            goal: What the work is for.
            session_id: Its id; a new one by default.
            now: The time; the clock's by default.

        Raises:
            InvalidSession: With everything that is wrong.
        """
        moment = as_utc(now) if now is not None else utc_now()
        session = cls(
            session_id=new_session_id(moment) if session_id is None else session_id,
            state=SessionState.ACTIVE,
            created_at=moment,
            updated_at=moment,
            token_budget=TokenBudget(total_budget=token_budget),
            workflow_type=workflow_type,
            current_phase=initial_phase,
            goal=goal,
        )
        session.add_history("session_created", now=moment)
        return session

    def touch(self, now: datetime | None = None) -> datetime:
        """Move `updated_at` to now, never back, and return it."""
        moment = as_utc(now) if now is not None else utc_now()
        self.updated_at = max(moment, self.updated_at)
        return self.updated_at

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
            phase: The phase that made it; the current one by default.
            now: The time; the clock's by default.

        Raises:
            InvalidSession: With everything that is wrong; nothing was recorded.
        """
        moment = self._moment(now)
        artifact = SessionArtifact(path, artifact_type, moment, phase or self.current_phase)
        self.artifacts.append(artifact)
        self.updated_at = moment
        return artifact

    def get_artifacts(self, phase: str | None = None) -> list[SessionArtifact]:
        """Return the files made, oldest first: all, or those of one phase."""
        return [a for a in self.artifacts if phase is None or a.phase == phase]

    def add_history(
        self,
        action: str,
        phase: str | None = None,
        details: str | None = None,
        *,
        now: datetime | None = None,
    ) -> SessionHistory:
        """Add an entry to the audit trail.

        Args:
            action: What happened.
            phase: The phase it happened in; the current one by default.
            details: More to say, of any length.
            now: The time; the clock's by default.

        Raises:
            InvalidSession: With everything that is wrong; nothing was added.
        """
        moment = self._moment(now)
        entry = SessionHistory(moment, action, phase or self.current_phase, details)
        self.history.append(entry)
        self.updated_at = moment
        return entry

    def apply(
        self, operation: str, *, details: str | None = None, now: datetime | None = None
    ) -> SessionHistory:
        """Take a step of the life cycle and record it.

        Args:
            operation: "pause", "resume", "complete" or "abort".
            details: Why.
            now: The time; the clock's by default.

        Raises:
            InvalidStateTransition: The state does not allow it; nothing was changed.
        """
        target = TRANSITIONS.get((self.state, operation))
        if target is None:
            raise InvalidStateTransition(
                session_id=self.session_id, state=self.state, operation=operation
            )
        entry = self.add_history(HISTORY_ACTIONS[operation], details=details, now=now)
        self.state = target
        if target.is_terminal:
            self.completed_at = entry.timestamp
        return entry

    def enter_phase(self, new_phase: str, *, now: datetime | None = None) -> SessionHistory:
        """Go on to another phase, at its first attempt, and record it.

        Raises:
            InvalidStateTransition: The session is not active; nothing was changed.
            InvalidSession: `new_phase` is no name; nothing was changed.
        """
        self.require(SessionState.ACTIVE, operation="advance_phase")
        _check(_name_fault("new_phase", new_phase, optional=False))
        came_from = self.current_phase
        entry = self.add_history(
            "phase_advanced",
            phase=new_phase,
            details=f"from {came_from} to {new_phase}" if came_from else f"to {new_phase}",
            now=now,
        )
        self.current_phase = new_phase
        self.attempt_number = 1
        return entry

    def next_attempt(
        self, *, reason: str | None = None, now: datetime | None = None
    ) -> SessionHistory:
        """Begin another attempt at the current phase and record it.

        Raises:
            InvalidStateTransition: The session is not active, or in no phase.
        """
        self.require(SessionState.ACTIVE, operation="retry_phase")
        _check(_count_fault("attempt_number", self.attempt_number + 1, least=1))
        begun = f"attempt {self.attempt_number + 1}"
        entry = self.add_history(
            "phase_retried", details=f"{begun}: {reason}" if reason else begun, now=now
        )
        self.attempt_number += 1
        return entry

    def require(self, *states: SessionState, operation: str) -> None:
        """Refuse `operation` unless the session is in one of `states`.

        Raises:
            InvalidStateTransition: It is not.
        """
        if self.state not in states:
            raise InvalidStateTransition(
                session_id=self.session_id, state=self.state, operation=operation
            )

    def _moment(self, now: datetime | None) -> datetime:
        moment = as_utc(now) if now is not None else utc_now()
        return max(moment, self.updated_at)


def _item_faults(name: str, items: object, kind: type) -> list[str]:
    if not isinstance(items, list):
        return []
    return [
        f"{name}[{index}]: expected a {kind.__name__}, got {_shown(item)}"
        for index, item in enumerate(items)
        if not isinstance(item, kind)
    ]
