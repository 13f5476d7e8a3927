"""What each tool returns, typed: the schema that clients see and the values that fit it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal

from mcp_types import CallToolResult
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from ...harness import (
    PhaseResult,
    SessionContext,
    SessionSummary,
)
from ...harness.session_ports import SessionPlaces

DETAILS_CHARS = 1_000
"""How many characters of an entry's details, and of each text in its data, are returned."""

GOAL_CHARS = 300
"""How many characters of a goal a listing shows."""
_LINE_CHARS = 300


class Values(BaseModel):
    """Values that `model_validate` also reads off an object's attributes of the same names."""

    model_config = ConfigDict(from_attributes=True)

    @field_validator("*", mode="before")
    @classmethod
    def _as_json_has_it(cls, value: object) -> object:
        if isinstance(value, datetime):
            return value.isoformat()
        return value.value if isinstance(value, Enum) else value


class Budget(Values):
    """A token budget."""

    total_budget: int
    tokens_used: int
    tokens_remaining: Annotated[int, Field(description="Negative when overspent.")]
    utilization_percent: Annotated[float, AfterValidator(lambda percent: round(percent, 2))]
    is_warning: Annotated[bool, Field(description="80 % or more is spent.")]
    is_exhausted: Annotated[bool, Field(description="Nothing is left.")]
    is_over_budget: Annotated[bool, Field(description="More was spent than allotted.")]


class SessionStateResult(Values):
    """Where a session is, without its files and history. Times are ISO 8601 in UTC."""

    session_id: str
    state: Literal["active", "paused", "completed", "aborted"]
    workflow_type: str | None
    goal: str | None
    current_phase: str | None
    attempt_number: int
    token_budget: Budget
    created_at: str
    updated_at: str
    completed_at: str | None
    revision: int
    workspace: Annotated[str, Field(description="The directory that run_code's code sees.")] = ""

    @classmethod
    def of(cls, session: SessionContext, store: SessionPlaces) -> SessionStateResult:
        """Describe a session."""
        workspace = store.workspace_path(session.session_id)
        if not session.state.is_terminal:
            with suppress(OSError):  # there for whoever is told of it; code makes it, too
                workspace.mkdir(0o700, exist_ok=True)
        return cls.model_validate(session).model_copy(update={"workspace": str(workspace)})

    def line(self) -> str:
        """Describe it in one line."""
        phase = f"phase {self.current_phase}" if self.current_phase else "no phase"
        budget = self.token_budget
        return (
            f"Session {self.session_id} is {self.state}; {phase}, attempt {self.attempt_number}; "
            f"{budget.tokens_remaining:,} of {budget.total_budget:,} tokens are left"
            f"{' (nearly spent)' if budget.is_warning and not budget.is_exhausted else ''}"
            f"{' (over budget)' if budget.is_over_budget else ''}"
            f"{' (spent)' if budget.is_exhausted and not budget.is_over_budget else ''}."
        )


class ListedSession(BaseModel):
    """A session as a listing shows it."""

    session_id: str
    state: Literal["active", "paused", "completed", "aborted"]
    goal: Annotated[
        str | None,
        Field(description="What the work is for; shortened in its middle when long."),
    ]
    workflow_type: str | None
    current_phase: str | None
    attempt_number: int
    tokens_remaining: int
    created_at: str
    updated_at: str

    @classmethod
    def of(cls, summary: SessionSummary, goal: str | None) -> ListedSession:
        """Describe a session."""
        head = summary.head
        return cls(
            session_id=head.session_id,
            state=head.state.value,
            goal=cut(goal, GOAL_CHARS)[0] if goal is not None else None,
            workflow_type=head.workflow_type,
            current_phase=head.current_phase,
            attempt_number=head.attempt_number,
            tokens_remaining=head.total_budget - head.tokens_used,
            created_at=head.created_at.isoformat(),
            updated_at=head.updated_at.isoformat(),
        )

    def line(self) -> str:
        """Describe it in one line."""
        phase = f"phase {self.current_phase}" if self.current_phase else "no phase"
        goal = f": {' '.join(self.goal.split())}" if self.goal else ""
        return (
            f"{self.session_id}{goal} ({self.state}; {phase}, attempt {self.attempt_number}; "
            f"{self.tokens_remaining:,} tokens left; changed {self.updated_at})"
        )


class UnreadableResult(BaseModel):
    """A session that is there and can't be read."""

    session_id: str
    problem: str


class SessionListResult(BaseModel):
    """The sessions, the last changed first."""

    sessions: list[ListedSession]
    total: Annotated[
        int | None,
        Field(
            description="How many fit, from `after` on; more than listed when limited, null where "
            "they are not counted."
        ),
    ]
    next: Annotated[
        str | None,
        Field(description="Give it as `after` to go on; null at the end."),
    ]
    unreadable: list[UnreadableResult]


class ArtifactResult(Values):
    """A file that the work made."""

    path: str
    artifact_type: Literal["created", "modified"]
    phase: str | None
    timestamp: str


def _on_one_line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _LINE_CHARS else f"{flat[: _LINE_CHARS - 1]}…"


def _shortened(value: Any) -> Any:
    """Return a value of an entry as JSON has it, each text of bounded length."""
    if isinstance(value, str):
        return cut(value, DETAILS_CHARS)[0]
    if isinstance(value, Mapping):
        return {name: _shortened(one) for name, one in value.items()}
    return [_shortened(one) for one in value] if isinstance(value, list | tuple) else value


class HistoryResult(Values):
    """An entry of the history."""

    timestamp: str
    action: str
    phase: str | None
    details: Annotated[
        str | None,
        Field(description="Shortened in its middle when long."),
        AfterValidator(_shortened),
    ]
    data: Annotated[
        dict[str, Any],
        Field(description="The values of what happened, for programs; empty for a note."),
        BeforeValidator(_shortened),
    ]

    def line(self) -> str:
        """Describe it in one line."""
        phase = f" [{self.phase}]" if self.phase else ""
        details = _on_one_line(self.details or "")
        return f"- {self.timestamp}{phase} {self.action}{f': {details}' if details else ''}"


class SessionShowResult(BaseModel):
    """A session with the last of its files and history, oldest first."""

    session: SessionStateResult
    title: str | None
    tags: list[str]
    metadata: dict[str, Any]
    parent_id: str | None
    artifacts: list[ArtifactResult]
    artifacts_total: int
    history: list[HistoryResult]
    history_total: int


class BriefingResult(BaseModel):
    """A briefing."""

    session_id: str
    state: Literal["active", "paused", "completed", "aborted"]
    briefing: Annotated[str, Field(description="Markdown.")]


class TokensResult(BaseModel):
    """A session after tokens were recorded."""

    session: SessionStateResult
    can_continue: Annotated[
        bool, Field(description="Whether the session is active and has tokens left.")
    ]


class RunCodeResult(BaseModel):
    """What code did, as it was recorded in the session."""

    session: SessionStateResult
    recorded: Annotated[
        bool,
        Field(description="False: the code ran, but the session knows nothing of it."),
    ]
    record_problem: Annotated[
        str | None, Field(description="Why the result is not recorded, or not safely.")
    ]
    success: Annotated[bool, Field(description="It ran to its end with exit code 0.")]
    exit_code: Annotated[int | None, Field(description="None when a limit ended it.")]
    trapped: Annotated[
        str | None,
        Field(description="The limit that ended it: deadline, fuel, memory, cancelled, …"),
    ]
    stdout: str
    stderr: str
    truncated: Annotated[
        bool, Field(description="Whether the sandbox or output_chars cut off some output.")
    ]
    duration_s: float
    fuel_consumed: int | None
    files_created: list[str]
    files_modified: list[str]
    files_deleted: list[str]
    files_unlisted: Annotated[int, Field(description="How many more files there are.")]
    quota_exceeded: list[str]


class AnswerResult(BaseModel):
    """The answer to one question."""

    question_index: Annotated[int, Field(description="Counts from 0.")]
    prompt: str
    selected_option: str | None
    selected_options: list[str] | None
    custom_text: str | None


class QuestionsResult(BaseModel):
    """Where questions to a person stand."""

    session_id: str
    status: Literal["pending", "completed", "rejected", "timed_out", "abandoned"]
    text: Annotated[str, Field(description="The answers in words, or where the questions stand.")]
    answers: Annotated[list[AnswerResult] | None, Field(description="None until answered.")]
    rejection_reason: str | None
    end_reason: Annotated[
        str | None,
        Field(description="Why they timed out or were abandoned, as far as it is known."),
    ]


StateAnswer = Annotated[CallToolResult, SessionStateResult]
ListAnswer = Annotated[CallToolResult, SessionListResult]
ShowAnswer = Annotated[CallToolResult, SessionShowResult]
BriefingAnswer = Annotated[CallToolResult, BriefingResult]
TokensAnswer = Annotated[CallToolResult, TokensResult]
RunCodeAnswer = Annotated[CallToolResult, RunCodeResult]
QuestionsAnswer = Annotated[CallToolResult, QuestionsResult]


def sound(text: str) -> str:
    """Spell out what UTF-8, and so JSON on the wire, can't hold."""
    return text.encode("utf-8", "backslashreplace").decode()


def cut(text: str, limit: int) -> tuple[str, bool]:
    """Shorten text in its middle; errors stand at the end, causes at the beginning.

    Returns:
        The text of about `limit` characters at the most, and whether some was left out.
    """
    if len(text) <= limit:
        return text, False
    head = limit // 3
    tail = limit - head
    left_out = len(text) - limit
    return f"{text[:head]}\n[… {left_out:,} characters left out …]\n{text[-tail:]}", True


def outcome_line(result: PhaseResult) -> str:
    """Describe in one line how code ended."""
    facts = [*result.limit_problems()]
    if result.trapped is None:
        facts.insert(0, f"exit code {result.exit_code}")
    facts.append(f"{result.duration_s:.2f} s")
    return "; ".join(facts)
