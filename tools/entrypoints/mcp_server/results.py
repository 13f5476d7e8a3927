"""Results of the tools on sessions: values for programs, and the same in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    field_validator,
)

from ...harness import SessionContext, SessionPage
from ...harness.domain.session_data import thawed

if TYPE_CHECKING:
    from ...harness.steps.step_views import ProgramView

DETAILS_CHARS = 1_000
"""The most returned characters of an entry's details, and of each text in its data."""

GOAL_CHARS = 300
"""The most characters of a goal in a listing."""
_LINE_CHARS = 300
_PROBLEM_CHARS = 500

State = Literal["active", "paused", "completed", "aborted"]
"""State of a session."""


class Values(BaseModel):
    """Values that `model_validate` also reads from an object's attributes of the same names."""

    model_config = ConfigDict(from_attributes=True)

    @field_validator("*", mode="before")
    @classmethod
    def _as_json_has_it(cls, value: object) -> object:
        if isinstance(value, datetime):
            return value.isoformat()
        return value.value if isinstance(value, Enum) else value


class ToolResult(Values):
    """Result of a tool: values for programs, and the same in words for the model."""

    def in_words(self) -> str:
        """Describe the result."""
        raise NotImplementedError


class TokensLeft(Values):
    """A token budget.

    Attributes:
        tokens_remaining: Negative when overspent.
        is_warning: Whether 80 % or more is spent.
        is_exhausted: Whether nothing is left.
        is_over_budget: Whether more was spent than allotted.
    """

    total_budget: int
    tokens_used: int
    tokens_remaining: int
    utilization_percent: Annotated[float, AfterValidator(lambda percent: round(percent, 2))]
    is_warning: bool
    is_exhausted: bool
    is_over_budget: bool


class SessionStateResult(ToolResult):
    """State of a session, without its files and history. Times are ISO 8601 in UTC.

    Attributes:
        workspace: The directory that code in run_code sees.
    """

    session_id: str
    state: State
    workflow_type: str | None
    goal: str | None
    current_phase: str | None
    attempt_number: int
    token_budget: TokensLeft
    created_at: str
    updated_at: str
    completed_at: str | None
    revision: int
    workspace: str = ""

    def in_words(self) -> str:
        """Describe the session in one line."""
        phase = f"phase {self.current_phase}" if self.current_phase else "no phase"
        budget = self.token_budget
        return (
            f"Session {self.session_id} is {self.state}; {phase}, attempt {self.attempt_number}; "
            f"{budget.tokens_remaining:,} of {budget.total_budget:,} tokens are left"
            f"{' (nearly spent)' if budget.is_warning and not budget.is_exhausted else ''}"
            f"{' (over budget)' if budget.is_over_budget else ''}"
            f"{' (spent)' if budget.is_exhausted and not budget.is_over_budget else ''}."
        )


class ListedSession(Values):
    """Session in a listing.

    Attributes:
        goal: The goal of the work, shortened in its middle when long.
    """

    session_id: str
    state: State
    goal: Annotated[str | None, AfterValidator(lambda goal: goal and cut(goal, GOAL_CHARS)[0])]
    workflow_type: str | None
    current_phase: str | None
    attempt_number: int
    tokens_remaining: Annotated[
        int, Field(validation_alias=AliasPath("token_budget", "tokens_remaining"))
    ]
    created_at: str
    updated_at: str

    def line(self) -> str:
        """Describe the session in one line."""
        phase = f"phase {self.current_phase}" if self.current_phase else "no phase"
        goal = f": {' '.join(self.goal.split())}" if self.goal else ""
        return (
            f"{self.session_id}{goal} ({self.state}; {phase}, attempt {self.attempt_number}; "
            f"{self.tokens_remaining:,} tokens left; changed {self.updated_at})"
        )


class UnreadableResult(Values):
    """Session that exists but can't be read."""

    session_id: str
    problem: str


class SessionListResult(ToolResult):
    """Page of sessions, the last changed first.

    Attributes:
        total: The number of matches from `after` on; more than listed if limited, null if not
            counted.
        next: The value of `after` for the next page; null at the end.
    """

    sessions: list[ListedSession]
    total: int | None
    next: str | None
    unreadable: list[UnreadableResult]
    _more: int | None = PrivateAttr(None)

    @classmethod
    def of(
        cls, page: SessionPage, listed: list[ListedSession], problems: Sequence[tuple[str, str]]
    ) -> SessionListResult:
        """Describe a page: the listed sessions, and the problems of others."""
        made = cls(
            sessions=listed,
            total=None if page.more is None else len(page.sessions) + page.more,
            next=None if page.after is None else str(page.after),
            unreadable=[
                UnreadableResult(session_id=name, problem=cut(problem, _PROBLEM_CHARS)[0])
                for name, problem in problems
            ],
        )
        made._more = page.more
        return made

    def in_words(self) -> str:
        """Describe each session in one line."""
        lines = [one.line() for one in self.sessions]
        if self.next is not None:
            more = "more" if self._more is None else f"{self._more} more"
            lines.append(f"({more}; give a larger limit, a state or after={self.next})")
        lines += [f"{one.session_id}: can't be read: {one.problem}" for one in self.unreadable]
        return "\n".join(lines) or "There are no such sessions."


class ArtifactResult(Values):
    """File that the work made."""

    path: str
    artifact_type: Literal["created", "modified"]
    phase: str | None
    timestamp: str


def _on_one_line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _LINE_CHARS else f"{flat[: _LINE_CHARS - 1]}…"


def _shortened(value: Any) -> Any:
    """Return a value of an entry as JSON, each text of bounded length."""
    if isinstance(value, str):
        return cut(value, DETAILS_CHARS)[0]
    if isinstance(value, Mapping):
        return {name: _shortened(one) for name, one in value.items()}
    return [_shortened(one) for one in value] if isinstance(value, list | tuple) else value


class HistoryResult(Values):
    """An entry of the history.

    Attributes:
        details: Shortened in its middle when long.
        data: The event's values, for programs; empty for a note.
    """

    timestamp: str
    action: str
    phase: str | None
    details: Annotated[str | None, AfterValidator(_shortened)]
    data: Annotated[dict[str, Any], BeforeValidator(_shortened)]

    def line(self) -> str:
        """Describe the entry in one line."""
        phase = f" [{self.phase}]" if self.phase else ""
        details = _on_one_line(self.details or "")
        return f"- {self.timestamp}{phase} {self.action}{f': {details}' if details else ''}"


_SOUND = BeforeValidator(lambda text: text and sound(text))
_Text = Annotated[str, _SOUND]
_TextOrNone = Annotated[str | None, _SOUND]


class StepResult(Values):
    """Step of a program: its last attempt.

    Attributes:
        took_s: Seconds; null if not known.
        error: Why it failed, on one line; null if it did not.
    """

    step: _Text
    outcome: Literal["ok", "failed", "failing"]
    at: str
    took_s: float | None
    tokens: int
    micro_usd: int
    attempts: int
    error: _TextOrNone


class ProgramResult(Values):
    """Program of a session, with its last steps, oldest first.

    Attributes:
        recorded: The number of steps recorded so far.
        problem: Why its steps can't be read; null if they can.
    """

    workflow: _Text
    key: _Text
    recorded: int
    tokens: int
    micro_usd: int
    steps: list[StepResult]
    problem: _TextOrNone


class SessionShowResult(ToolResult):
    """Session with its last files, history entries and steps, oldest first."""

    session: SessionStateResult
    title: str | None
    tags: list[str]
    metadata: dict[str, Any]
    parent_id: str | None
    artifacts: list[ArtifactResult]
    artifacts_total: int
    history: list[HistoryResult]
    history_total: int
    program: ProgramResult | None
    _steps: Sequence[str] = PrivateAttr(())

    @classmethod
    def of(
        cls,
        session: SessionContext,
        state: SessionStateResult,
        program: ProgramView | None,
        *,
        history: int,
        artifacts: int,
    ) -> SessionShowResult:
        """Describe a session with limited numbers of entries and files."""
        shown_files = session.artifacts[-artifacts:] if artifacts else []
        shown_entries = session.history[-history:] if history else []
        made = cls(
            session=state,
            title=session.title,
            tags=list(session.tags),
            metadata=thawed(session.metadata),
            parent_id=session.parent_id,
            artifacts=[ArtifactResult.model_validate(one) for one in shown_files],
            artifacts_total=len(session.artifacts),
            history=[HistoryResult.model_validate(one) for one in shown_entries],
            history_total=len(session.history),
            program=None if program is None else ProgramResult.model_validate(program),
        )
        made._steps = () if program is None else program.lines()
        return made

    def in_words(self) -> str:
        """Describe the session's state, then each history entry and file in one line."""
        lines = [self.session.in_words()]
        about = {"Goal": self.session.goal, "Title": self.title, "Tags": ", ".join(self.tags)}
        lines += [f"{name}: {text}" for name, text in about.items() if text]
        if self.history:
            lines.append(f"History, the last {len(self.history)} of {self.history_total}:")
            lines += [one.line() for one in self.history]
        if self.artifacts:
            lines.append(f"Files made, the last {len(self.artifacts)} of {self.artifacts_total}:")
            lines += [f"- {one.path} ({one.artifact_type})" for one in self.artifacts]
        if self._steps:
            lines += ["Steps of the program, newest first:", *map(sound, self._steps)]
        return "\n".join(lines)


class BriefingResult(ToolResult):
    """A briefing.

    Attributes:
        briefing: Markdown.
    """

    session_id: str
    state: State
    briefing: str

    def in_words(self) -> str:
        """Return the briefing."""
        return self.briefing


class TokensResult(ToolResult):
    """A session after tokens were recorded.

    Attributes:
        can_continue: Whether the session is active and has tokens left.
    """

    session: SessionStateResult
    can_continue: bool

    def in_words(self) -> str:
        """Describe the session."""
        return self.session.in_words()


def sound(text: str) -> str:
    """Escape what UTF-8, and so JSON on the wire, can't hold."""
    return text.encode("utf-8", "backslashreplace").decode()


def cut(text: str, limit: int) -> tuple[str, bool]:
    """Shorten text in its middle: causes are at the beginning, errors at the end.

    Returns:
        The text, of about `limit` characters at most, and whether some was left out.
    """
    if len(text) <= limit:
        return text, False
    head = limit // 3
    tail = limit - head
    left_out = len(text) - limit
    return f"{text[:head]}\n[… {left_out:,} characters left out …]\n{text[-tail:]}", True
