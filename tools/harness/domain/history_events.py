"""What can happen to a session: one closed set of events, each with a fixed set of fields; pure.

An event becomes an entry of the history: `action` names it, `data` holds its fields, and `details`
says the same to people. Decisions are based on events (`SessionHistory.event`), never on `details`.
An entry added by a caller is a note, not an event, whatever its action.

To add a field, give it a default, for entries that were written without it. `session_entries` turns
events into data and back. The module is long because the set is one and closed.
"""

# Annotations are evaluated here: as strings, each field's would be compiled at import.

import json
from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import ClassVar, Final

from .event_values import EventValue, Occurrence

_QUIET: Final = {"logged": False}
"""Marks a field that is too long or too private for a log."""
_WHERE_GIVEN: Final = {"omitted": True}
"""Marks a field that entry data contains only if it is not None."""
BUDGET_CAUSE: Final = "budget"
"""The `cause` of a pause because the budget is spent."""
_events: Final[dict[str, type["HistoryEvent"]]] = {}


class HistoryEvent(Occurrence):
    """Something that happened to a session and has an entry in its history.

    Attributes:
        action: Its name in the history.
    """

    action: ClassVar[str]

    words: ClassVar[str | None] = None
    """A sentence for people, with the fields in braces; None if the action says everything."""

    def __init_subclass__(cls, *, action: str | None = None, log: str | None = None) -> None:
        """Register the class as the event of this action; `log` is its log name if that differs."""
        super().__init_subclass__()
        if action is not None:
            cls.action = action
            cls.log_name = log or action.replace("_", ".", 1)
            _events[action] = cls

    @property
    def sentence(self) -> str | None:
        """A sentence for people, or None if the action says everything."""
        return None if self.words is None else self.words.format_map(vars(self))


class _WithReason(HistoryEvent):
    """An event with a reason, in words for people, or None."""

    reason: str | None = None

    @property
    def sentence(self) -> str | None:
        """The reason."""
        return self.reason


class Checkpoint(HistoryEvent):
    """A state to return to: the session as it is, with its workspace.

    Attributes:
        snapshot: The snapshot of the workspace, or None.
        unkept: Why a snapshot that should exist is missing, or on one machine alone, or None.
    """

    snapshot: str | None = field(default=None, metadata=_WHERE_GIVEN)
    unkept: str | None = field(default=None, metadata=_WHERE_GIVEN)


# ----------------------------------------------------------------------------------- the life cycle


class SessionCreated(HistoryEvent, action="session_created"):
    """A session began, in its first phase."""

    workflow_type: str | None = None
    token_budget: int | None = None


class SessionDescribed(HistoryEvent, action="session_described"):
    """A session's title, tags or metadata were changed.

    Attributes:
        changed: Which of "title", "tags" and "metadata".
        title: The title after the change, or None.
        tags: The tags after the change.
        metadata_set: The metadata fields with a new value.
        metadata_removed: The metadata fields that were removed.
    """

    changed: tuple[str, ...] = ()
    title: str | None = None
    tags: tuple[str, ...] = ()
    metadata_set: tuple[str, ...] = ()
    metadata_removed: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """What changed, with the new values."""
        said = []
        if "title" in self.changed:
            said.append("no title" if self.title is None else f"title: {self.title}")
        if "tags" in self.changed:
            said.append(f"tags: {', '.join(self.tags)}" if self.tags else "no tags")
        if self.metadata_set:
            said.append(f"metadata set: {', '.join(self.metadata_set)}")
        if self.metadata_removed:
            said.append(f"metadata removed: {', '.join(self.metadata_removed)}")
        return "; ".join(said)


class SessionPaused(_WithReason, action="session_paused"):
    """A session stopped until it is resumed.

    Attributes:
        cause: The reason as a word for programs ("budget", "person", "agent", …), or None.
        question_id: The question that it waits for, or None.
        missing_tokens: The budget extension that is needed first, in tokens, or None.
        back_to: The phase that a person may choose to return to, or None.
        needs_retry: Whether `retry` is required for another attempt; `resume` would be refused.
    """

    cause: str | None = None
    question_id: str | None = None
    missing_tokens: int | None = None
    back_to: str | None = None
    needs_retry: bool = False


class SessionResumed(HistoryEvent, action="session_resumed"):
    """A paused session goes on."""


class SessionCompleted(HistoryEvent, action="session_completed"):
    """A session ended well."""


class SessionAborted(_WithReason, action="session_aborted"):
    """A session ended badly."""


class CheckpointTaken(Checkpoint, action="checkpoint", log="session.checkpoint"):
    """The work was marked as being in a good state."""

    @property
    def sentence(self) -> str | None:
        """Why its snapshot is missing, or is on one machine alone."""
        return self.unkept


class WorkspacePrepared(Checkpoint, action="workspace_prepared"):
    """The workspace was made of a commit of a person's repository.

    Attributes:
        base: The commit's id.
        revision: How the person named it.
        with_uncommitted: Whether uncommitted work of their checkout was included.
    """

    base: str = ""
    revision: str = ""
    with_uncommitted: bool = False

    @property
    def sentence(self) -> str:
        """The commit."""
        also = " with uncommitted work" if self.with_uncommitted else ""
        return f"{self.revision} ({self.base[:12]}){also}"


class BackAtCheckpoint(HistoryEvent):
    """The work stands again where it stood at a checkpoint; what is spent stays spent.

    Attributes:
        checkpoint: The checkpoint's number.
        position: The last history entry that still counts, from 0: the checkpoint's.
        attempt: The attempt at the phase then.
        succeeded: Whether that attempt had succeeded; None if it had no result.
        snapshot: The snapshot that the workspace is restored to.
    """

    words = "checkpoint {checkpoint} (snapshot {snapshot:.12})"
    checkpoint: int = 0
    position: int = 0
    attempt: int = 1
    succeeded: bool | None = None
    snapshot: str = ""


class SessionRewound(BackAtCheckpoint, action="session_rewound"):
    """The session went back to a checkpoint of its own."""


class SessionForked(BackAtCheckpoint, action="session_forked"):
    """The session began at a checkpoint of another one, whose history stands before this.

    Attributes:
        parent_id: The parent session.
        parent_entries: The length of the parent's history then, entries after the checkpoint
            included.
    """

    words = "from {parent_id} at checkpoint {checkpoint}"
    parent_id: str = ""
    parent_entries: int = 0


# --------------------------------------------------------------------------------------- the phases


class PhaseAdvanced(Checkpoint, action="phase_advanced"):
    """A phase began, at its first attempt."""

    from_phase: str | None = None
    to_phase: str | None = None

    @property
    def sentence(self) -> str:
        """The old phase and the new one."""
        before = f"from {self.from_phase} " if self.from_phase else ""
        return f"{before}to {self.to_phase}"


class PhaseRetried(HistoryEvent, action="phase_retried"):
    """Another attempt at the phase began."""

    attempt: int | None = None
    reason: str | None = None

    @property
    def sentence(self) -> str:
        """The attempt's number and what is different."""
        return f"attempt {self.attempt}" + (f": {self.reason}" if self.reason else "")


class RetryReason(_WithReason, action="retry_reason", log="phase.retry_reason"):
    """Why an earlier phase is about to begin again."""


class InputsPlaced(HistoryEvent, action="inputs_placed"):
    """The inputs are in the workspace, for good.

    Attributes:
        paths: Their paths.
        snapshot: A snapshot that includes them, if another machine may need it; not a checkpoint.
    """

    paths: tuple[str, ...] = ()
    snapshot: str | None = field(default=None, metadata=_WHERE_GIVEN)

    @property
    def sentence(self) -> str:
        """The paths."""
        return ", ".join(self.paths)


class AgentAnswered(HistoryEvent, action="agent_answered"):
    """An agent's answer, or its failure, is stored and its tokens are charged.

    Attributes:
        call: The call's number in the attempt, from 1.
        tokens: The tokens charged.
        usage: The tokens by kind ("input", "output").
        estimated: Whether the tokens are an estimate.
        answer_sha256: The digest of the answer's text, or None without an answer.
        failure: Why there is no answer, or None.
    """

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
        """The call's number, its cost and duration, and the digest or the failure."""
        kinds = f"{self.usage.get('input', 0)} in, {self.usage.get('output', 0)} out"
        facts = (
            f"call {self.call}: {self.tokens} tokens "
            f"({kinds}{', estimated' if self.estimated else ''})",
            f"{self.seconds:.2f} s",
            f"{self.agent}",
            self.failure or f"answer sha256 {(self.answer_sha256 or '')[:16]}",
        )
        return "; ".join(facts)


class GateJudged(EventValue):
    """What a gate said of an attempt: a part of the event that ends the attempt.

    Attributes:
        gate: The kind of gate.
        summary: The verdict on one line.
        evidence: The session's file with the complete evidence, or None.
        counts: Its counts by name ("collected", "passed", "failed", …).
    """

    gate: str
    passed: bool
    summary: str = ""
    evidence: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)


class PhaseEnded(Checkpoint):
    """An attempt at a phase has its result.

    Attributes:
        attempt: The attempt's number, from 1.
        seconds: How long the code or the gate ran; None if not measured.
        tokens: The attempt's cost, with the tokens charged for agents' answers.
        trapped: The limit that ended it, or None.
        fuel: The fuel consumed, or None.
        problem: Why it is not a success, or None.
        verdict: The gate's verdict, if there was a gate.
    """

    attempt: int | None = None
    seconds: float | None = None
    tokens: int = 0
    exit_code: int | None = None
    trapped: str | None = None
    fuel: int | None = None
    problem: str | None = None
    verdict: GateJudged | None = None


class PhaseSucceeded(PhaseEnded, action="phase_succeeded"):
    """An attempt at a phase succeeded."""


class PhaseFailed(PhaseEnded, action="phase_failed"):
    """An attempt at a phase failed."""


class PhaseRequest(EventValue):
    """What a suspended phase waits for: a part of `PhaseSuspended`.

    Attributes:
        id: Its number; a program uses none twice.
        kind: "ask" or "input" (a person), "call" (another program), or "sleep" (a moment).
        prompt: The question, or None.
        title: A word or two for it, or None.
        options: The offered answers.
        multi_select: Whether several of them may be chosen.
        tool: What is to be called, or None.
        arguments: Its arguments as JSON, or None.
        until: The moment in ISO 8601, or None.
    """

    id: int
    kind: str
    prompt: str | None = None
    title: str | None = None
    options: tuple[str, ...] = ()
    multi_select: bool = False
    tool: str | None = None
    arguments: str | None = None
    until: str | None = None


class PhaseSuspended(Checkpoint, action="phase_suspended"):
    """The code of a phase waits; its program is stored, and resumes at that line.

    Attributes:
        attempt: The attempt's number, from 1.
        seconds: How long it ran since it was started or resumed.
        program: The session's step with the state of the program.
        code_sha256: The digest of the phase's code; other code can't resume it.
        requests: What it waits for.
        wake_at: When it resumes without an answer, in ISO 8601, or None.
        where: The lines that wait, the innermost last.
    """

    attempt: int | None = None
    seconds: float | None = None
    program: str = ""
    code_sha256: str = ""
    requests: tuple[PhaseRequest, ...] = field(default=(), metadata=_QUIET)
    wake_at: str | None = None
    where: tuple[str, ...] = ()


class PhaseResumed(HistoryEvent, action="phase_resumed"):
    """A suspended program is about to go on.

    Attributes:
        program: The session's step with its state.
        answered: The requests that have their answer.
    """

    words = "{program}"
    program: str = ""
    answered: tuple[int, ...] = ()


class ProgramDropped(_WithReason, action="program_dropped"):
    """A suspended program will not go on; the code of the phase runs from its beginning.

    Attributes:
        program: The session's step with its state.
    """

    program: str = ""


# --------------------------------------------------------------------------------------- the budget


class BudgetExtended(HistoryEvent, action="budget_extended"):
    """More tokens were allotted."""

    words = "by {additional_tokens} to {total_budget} tokens"
    additional_tokens: int = 0
    total_budget: int = 0


class BudgetCrossed(HistoryEvent):
    """The tokens used crossed a line of the budget."""

    level = "warning"
    tokens_used: int = 0
    total_budget: int = 0

    @property
    def sentence(self) -> str:
        """The used part of the budget."""
        percent = self.tokens_used / self.total_budget * 100 if self.total_budget else 0.0
        return f"{self.tokens_used:,} of {self.total_budget:,} tokens used ({percent:.0f} %)"


class WarningCrossed(BudgetCrossed, action="budget_warning", log="session.budget.warning"):
    """80 % of the budget is used."""


class LimitCrossed(BudgetCrossed, action="budget_exceeded", log="session.budget.exceeded"):
    """More than the budget is used."""


# ------------------------------------------------------------------------------ agent programs


class OfAgent(HistoryEvent):
    """What an agent program reported of a conversation of its own, by the hook.

    Attributes:
        program: The program ("claude-code", "codex", …).
        agent_session: The program's own id of the conversation.
    """

    program: str = ""
    agent_session: str = ""


class AgentStarted(OfAgent, action="agent_started"):
    """A conversation of an agent program works on the session from now on.

    Attributes:
        source: How it started: "startup", "resume", "clear", …
    """

    words = "{program} {agent_session} ({source})"
    source: str = ""


class _OfSpeech(OfAgent):
    """Something that was said in a conversation.

    Attributes:
        masked: How many secrets are masked in it, or None.
    """

    masked: int | None = field(default=None, metadata=_WHERE_GIVEN)


class AgentPrompted(_OfSpeech, action="agent_prompted"):
    """A person gave the agent a prompt."""

    words = "{text}"
    text: str = field(default="", metadata=_QUIET)


class AgentTurnEnded(_OfSpeech, action="agent_turn_ended"):
    """The agent ended a turn, with what it said last."""

    words = "{text}"
    text: str = field(default="", metadata=_QUIET)


class AgentEdited(OfAgent, action="agent_edited"):
    """The agent created or modified a file of the project.

    Attributes:
        path: The file, relative to the project.
        change: "created" or "modified".
        sha256: The digest of its content, or None if it could not be read.
    """

    path: str = ""
    change: str = "modified"
    sha256: str | None = None

    @property
    def sentence(self) -> str:
        """The file and its digest."""
        digest = f", sha256 {self.sha256[:16]}" if self.sha256 else ""
        return f"{self.change} {self.path}{digest}"


class AgentCompacted(_OfSpeech, action="agent_compacted"):
    """The agent's context was replaced by a summary of it.

    Attributes:
        trigger: "manual" or "auto".
        summary: The summary.
    """

    words = "{summary}"
    trigger: str = ""
    summary: str = field(default="", metadata=_QUIET)


class AgentUsage(OfAgent, action="agent_usage"):
    """Tokens that an agent program reported were charged.

    Attributes:
        tokens: The tokens charged against the budget; cached ones by the person's weights.
        total: All tokens that the program had reported for the conversation so far, charged here or
            not; the next charge is the excess over this.
        models: The reported tokens, by model.
        kinds: The reported tokens, by kind ("input", "cache_read", "cache_write", "output",
            "reasoning"); without kinds that have none.
        micro_usd: What they cost, in millionths of a US dollar; None if that is unknown. It may
            also correct earlier charges, once the program states its own figure.
        unpriced: How many of them are of models whose price is unknown: `micro_usd` is without
            them.
        priced_by: Whose figure the cost is: "program", "prices DATE", both, or an empty text.
        session_micro_usd: The cost of all conversations of the session up to here.
    """

    tokens: int = 0
    total: int = 0
    models: Mapping[str, int] = field(default_factory=dict)
    kinds: Mapping[str, int] = field(default_factory=dict)
    micro_usd: int | None = None
    unpriced: int = 0
    priced_by: str = ""
    session_micro_usd: int = 0

    @property
    def sentence(self) -> str:
        """The tokens charged, by model, and their cost."""
        models = ", ".join(f"{name} {count:,}" for name, count in sorted(self.models.items()))
        cost = cost_words(self.micro_usd, self.unpriced)
        return f"{self.tokens:,} tokens of {self.program}{f' ({models})' if models else ''}, {cost}"


def cost_words(micro_usd: int | None, unpriced: int) -> str:
    """Return a cost in words: "$1.25", with the tokens of unknown price if there are any."""
    if micro_usd is None:
        return "cost unknown"
    more = f" and {unpriced:,} tokens of unknown price" if unpriced else ""
    return f"{dollars(micro_usd)}{more}"


def dollars(micro_usd: int) -> str:
    """Return a sum in US dollars, with four decimals below one dollar."""
    digits = 2 if abs(micro_usd) >= 1_000_000 else 4
    return f"{'-' if micro_usd < 0 else ''}${abs(micro_usd) / 1_000_000:,.{digits}f}"


class AgentGateJudged(OfAgent, action="agent_gate"):
    """The project's own command judged the end of an agent's turn.

    Attributes:
        passed: Whether it passed.
        number: The count of such verdicts since the person's last prompt, from 1.
        summary: The verdict on one line.
        evidence: The end of the command's output, if it failed.
    """

    passed: bool = False
    number: int = 1
    summary: str = ""
    evidence: str = field(default="", metadata=_QUIET)

    @property
    def sentence(self) -> str:
        """The verdict, with the evidence of a failure."""
        return f"{self.summary}\n{self.evidence}" if self.evidence else self.summary


# ------------------------------------------------------------------------------------ the questions


class PersonAnswer(EventValue):
    """What a person answered to one question: a part of `QuestionAnswered`.

    Attributes:
        question_index: The question's index, from 0.
        selected: The chosen labels, in the person's order.
        text: The person's own words, or None.
    """

    question_index: int
    selected: tuple[str, ...] = ()
    text: str | None = None


class QuestionAsked(HistoryEvent, action="question_asked"):
    """A question is about to be put to a person.

    Attributes:
        key: The key it was asked under; None if an agent program asked it and the hook recorded it.
        prompts: The questions.
    """

    question_id: str = ""
    key: str | None = field(default=None, metadata=_QUIET)
    prompts: tuple[str, ...] = field(default=(), metadata=_QUIET)

    @property
    def sentence(self) -> str:
        """The id, the key and the questions."""
        prompts = [f"{number}. {one}" for number, one in enumerate(self.prompts, 1)]
        return "\n".join([f"question {self.question_id}, key {self.key}", *prompts])


class QuestionNotAsked(HistoryEvent, action="question_not_asked"):
    """The question that was about to be asked could not be put."""

    words = "question {question_id}, key {key}\n{problem}"
    question_id: str = ""
    key: str | None = field(default=None, metadata=_QUIET)
    problem: str | None = None


class QuestionEnded(HistoryEvent):
    """How questions to a person ended: the reply to who asked, and its entry in the history.

    Attributes:
        outcome: "answered", "rejected", "timed_out" or "abandoned".
        question_id: The questions' id.
        reason: Why it was rejected or ended without an answer, or None.
        text: The answers as text for a model; empty unless answered.
        answers: The answers; empty unless answered, or if the hook recorded it (it has only the
            text).
    """

    outcome: ClassVar[str]
    question_id: str = ""
    reason: str | None = field(default=None, metadata=_QUIET)
    text: str = field(default="", metadata=_QUIET)
    answers: tuple[PersonAnswer, ...] = field(default=(), metadata=_QUIET)

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


class QuestionAnswered(QuestionEnded, action="question_answered"):
    """A person answered."""

    outcome = "answered"


class QuestionRejected(QuestionEnded, action="question_rejected"):
    """A person declined to answer."""

    outcome = "rejected"


class QuestionTimedOut(QuestionEnded, action="question_timed_out"):
    """There was no answer in time."""

    outcome = "timed_out"


class QuestionAbandoned(QuestionEnded, action="question_abandoned"):
    """The question was withdrawn, or does not exist any more."""

    outcome = "abandoned"


EVENTS: Final[Mapping[str, type[HistoryEvent]]] = MappingProxyType(_events)
"""All events by action."""
QUESTION_ENDINGS: Final[Mapping[str, type[QuestionEnded]]] = MappingProxyType(
    {one.outcome: one for one in _events.values() if issubclass(one, QuestionEnded)}
)
"""The event class for each `outcome` of a question."""
