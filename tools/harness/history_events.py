"""What can happen to a session: one closed set of events, each with the fields it always has; pure.

An event becomes an entry of the history: `action` names it, `data` holds its fields, and `details`
says the same to people. Whatever is decided by what happened is decided by events
(`SessionHistory.event`), never by `details`. An entry that a caller added is a note, and no event,
whatever it is called.

To add a field, give it a default: entries of earlier versions have none. The module is long because
the set is one and closed; `event_codec` turns events into data and back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Final

_Values = Mapping[str, Any]
_QUIET: Final = {"logged": False}
"""Marks a field that is too long, or too private, for a log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEvent:
    """Something that happened to a session.

    Attributes:
        action: The name of it in the history.
        log_name: Its name in the log.
    """

    action: ClassVar[str]
    log_name: ClassVar[str]

    @property
    def sentence(self) -> str | None:
        """What happened, for people; None where the action says all."""
        return None


# ----------------------------------------------------------------------------------- the life cycle


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCreated(HistoryEvent):
    """A session began, in its first phase."""

    action = "session_created"
    log_name = "session.created"
    workflow_type: str | None = None
    token_budget: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPaused(HistoryEvent):
    """A session stopped until it is resumed.

    Attributes:
        reason: Why, for people, or None.
        cause: Why, for programs ("budget", "person", "agent", …), or None.
        question_id: The question whose answer it waits for, or None.
        missing_tokens: By how much the budget has to be extended first, in tokens, or None.
        back_to: The phase that a person may decide to go back to, or None.
        needs_retry: Whether only `retry` begins another attempt; `resume` would be refused.
    """

    action = "session_paused"
    log_name = "session.paused"
    reason: str | None = None
    cause: str | None = None
    question_id: str | None = None
    missing_tokens: int | None = None
    back_to: str | None = None
    needs_retry: bool = False

    @property
    def sentence(self) -> str | None:
        """The reason."""
        return self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResumed(HistoryEvent):
    """A paused session goes on."""

    action = "session_resumed"
    log_name = "session.resumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCompleted(HistoryEvent):
    """A session ended well."""

    action = "session_completed"
    log_name = "session.completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionAborted(HistoryEvent):
    """A session ended badly."""

    action = "session_aborted"
    log_name = "session.aborted"
    reason: str | None = None

    @property
    def sentence(self) -> str | None:
        """The reason."""
        return self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTaken(HistoryEvent):
    """Somebody marked that the work is in a good state."""

    action = "checkpoint"
    log_name = "session.checkpoint"


# --------------------------------------------------------------------------------------- the phases


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseAdvanced(HistoryEvent):
    """A phase began, at its first attempt."""

    action = "phase_advanced"
    log_name = "phase.advanced"
    from_phase: str | None = None
    to_phase: str | None = None

    @property
    def sentence(self) -> str:
        """From where to where."""
        before = f"from {self.from_phase} " if self.from_phase else ""
        return f"{before}to {self.to_phase}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRetried(HistoryEvent):
    """Another attempt at the phase began."""

    action = "phase_retried"
    log_name = "phase.retried"
    attempt: int | None = None
    reason: str | None = None

    @property
    def sentence(self) -> str:
        """Which attempt, and what is different."""
        return f"attempt {self.attempt}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryReason(HistoryEvent):
    """Why an earlier phase is about to begin again."""

    action = "retry_reason"
    log_name = "phase.retry_reason"
    reason: str | None = None

    @property
    def sentence(self) -> str | None:
        """The reason."""
        return self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class InputsPlaced(HistoryEvent):
    """The inputs are in the workspace, for good."""

    action = "inputs_placed"
    log_name = "inputs.placed"
    paths: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Which ones."""
        return ", ".join(self.paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentAnswered(HistoryEvent):
    """An agent's answer, or its failure, is stored and its tokens are charged.

    Attributes:
        call: Which call of the attempt, from 1.
        agent: Who answered.
        tokens: What it cost, in tokens.
        usage: The same by kind ("input", "output").
        estimated: Whether that was estimated.
        seconds: How long it took.
        answer_sha256: The digest of the answer's text, or None where there is none.
        failure: Why there is none, or None.
    """

    action = "agent_answered"
    log_name = "agent.answered"
    call: int | None = None
    agent: str | None = None
    tokens: int = 0
    usage: Mapping[str, int] = field(default_factory=dict)
    estimated: bool = False
    seconds: float = 0.0
    answer_sha256: str | None = None
    failure: str | None = None

    @property
    def sentence(self) -> str:
        """Which call, its cost, its time, and the digest or the failure."""
        kinds = f"{self.usage.get('input', 0)} in, {self.usage.get('output', 0)} out"
        facts = (
            f"call {self.call}: {self.tokens} tokens "
            f"({kinds}{', estimated' if self.estimated else ''})",
            f"{self.seconds:.2f} s",
            f"{self.agent}",
            self.failure or f"answer sha256 {(self.answer_sha256 or '')[:16]}",
        )
        return "; ".join(facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateJudged:
    """What a gate said of an attempt: a part of the event that ends the attempt.

    Attributes:
        gate: The kind of gate.
        passed: Whether the phase is passed.
        summary: The verdict on one line.
        evidence: The session's file that holds all of the evidence, or None where there is none.
        counts: What it counted ("collected", "passed", "failed", …).
    """

    gate: str
    passed: bool
    summary: str = ""
    evidence: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseEnded(HistoryEvent):
    """An attempt at a phase has its result.

    Attributes:
        attempt: Which attempt, from 1.
        seconds: How long the code, or the gate, ran; None where nobody measured.
        tokens: What the attempt cost: with what its answers were charged, where agents gave them.
        exit_code: The code's exit code, or None.
        trapped: Which limit ended it, or None.
        fuel: What it consumed, or None.
        problem: Why it is no success, or None.
        verdict: What the gate said, where there was one.
    """

    attempt: int | None = None
    seconds: float | None = None
    tokens: int = 0
    exit_code: int | None = None
    trapped: str | None = None
    fuel: int | None = None
    problem: str | None = None
    verdict: GateJudged | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSucceeded(PhaseEnded):
    """An attempt at a phase succeeded."""

    action = "phase_succeeded"
    log_name = "phase.succeeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseFailed(PhaseEnded):
    """An attempt at a phase failed."""

    action = "phase_failed"
    log_name = "phase.failed"


# --------------------------------------------------------------------------------------- the budget


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetExtended(HistoryEvent):
    """More tokens were allotted."""

    action = "budget_extended"
    log_name = "budget.extended"
    additional_tokens: int = 0
    total_budget: int = 0

    @property
    def sentence(self) -> str:
        """By how much."""
        return f"by {self.additional_tokens} to {self.total_budget} tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetCrossed(HistoryEvent):
    """The tokens used crossed a line of the budget."""

    tokens_used: int = 0
    total_budget: int = 0

    @property
    def sentence(self) -> str:
        """How much is used."""
        percent = self.tokens_used / self.total_budget * 100 if self.total_budget else 0.0
        return f"{self.tokens_used:,} of {self.total_budget:,} tokens used ({percent:.0f} %)"


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningCrossed(BudgetCrossed):
    """80 % of the budget is used."""

    action = "budget_warning"
    log_name = "session.budget.warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitCrossed(BudgetCrossed):
    """More than the budget is used."""

    action = "budget_exceeded"
    log_name = "session.budget.exceeded"


# ------------------------------------------------------------------------------------ the questions


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenAnswer:
    """What a person answered to one question: a part of `QuestionAnswered`."""

    question_index: int
    selected: tuple[str, ...] = ()
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAsked(HistoryEvent):
    """A question is about to be put to a person.

    Attributes:
        question_id: Its id.
        key: What it was asked under; None in an entry of the first versions, which had no keys.
        prompts: The questions.
    """

    action = "question_asked"
    log_name = "question.asked"
    question_id: str = ""
    key: str | None = field(default=None, metadata=_QUIET)
    prompts: tuple[str, ...] = field(default=(), metadata=_QUIET)

    @property
    def sentence(self) -> str:
        """The id, the key and the questions."""
        prompts = [f"{number}. {one}" for number, one in enumerate(self.prompts, 1)]
        return "\n".join([f"question {self.question_id}, key {self.key}", *prompts])


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionNotAsked(HistoryEvent):
    """The question that was about to be asked could not be put."""

    action = "question_not_asked"
    log_name = "question.not_asked"
    question_id: str = ""
    key: str | None = field(default=None, metadata=_QUIET)
    problem: str | None = None

    @property
    def sentence(self) -> str:
        """The id, the key and the problem."""
        return f"question {self.question_id}, key {self.key}\n{self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionEnded(HistoryEvent):
    """It is known what became of a question.

    Attributes:
        question_id: Its id.
        reason: Why it was rejected, or ended without an answer, or None.
        text: The answers as a model reads them; empty unless answered.
        answers: The answers; empty unless answered.
    """

    outcome: ClassVar[str]
    question_id: str = ""
    reason: str | None = field(default=None, metadata=_QUIET)
    text: str = field(default="", metadata=_QUIET)
    answers: tuple[GivenAnswer, ...] = field(default=(), metadata=_QUIET)

    @property
    def sentence(self) -> str:
        """The id, the reason and the answers."""
        lines = [f"question {self.question_id}"]
        if self.reason:
            lines.append(f"reason: {' '.join(self.reason.split())}")
        if self.answers:
            told = [[one.question_index, list(one.selected), one.text] for one in self.answers]
            lines.append(f"answers: {json.dumps(told, ensure_ascii=False)}")
        if self.text:
            lines.append(self.text)
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAnswered(QuestionEnded):
    """A person answered."""

    action = "question_answered"
    log_name = "question.answered"
    outcome = "answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRejected(QuestionEnded):
    """A person declined to answer."""

    action = "question_rejected"
    log_name = "question.rejected"
    outcome = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionTimedOut(QuestionEnded):
    """Nobody answered in time."""

    action = "question_timed_out"
    log_name = "question.timed_out"
    outcome = "timed_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAbandoned(QuestionEnded):
    """The question was withdrawn, or is gone."""

    action = "question_abandoned"
    log_name = "question.abandoned"
    outcome = "abandoned"


_ENDINGS: Final = (QuestionAnswered, QuestionRejected, QuestionTimedOut, QuestionAbandoned)
_ALL: Final[tuple[type[HistoryEvent], ...]] = (
    *(SessionCreated, SessionPaused, SessionResumed, SessionCompleted, SessionAborted),
    *(CheckpointTaken, PhaseAdvanced, PhaseRetried, RetryReason, InputsPlaced, AgentAnswered),
    *(PhaseSucceeded, PhaseFailed, BudgetExtended, WarningCrossed, LimitCrossed),
    *(QuestionAsked, QuestionNotAsked, *_ENDINGS),
)
EVENTS: Final[Mapping[str, type[HistoryEvent]]] = MappingProxyType(
    {one.action: one for one in _ALL}
)
"""Every event by its action."""
QUESTION_ENDINGS: Final[Mapping[str, type[QuestionEnded]]] = MappingProxyType(
    {one.outcome: one for one in _ENDINGS}
)
"""What became of a question, and its event."""
