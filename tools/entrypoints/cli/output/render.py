"""Sessions as text for people, made safe by `cli.text`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from attrs import define
from rich.console import JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from .... import harness
from ....harness.domain.history_events import (
    AgentAnswered,
    PhaseAdvanced,
    PhaseEnded,
    PhaseRetried,
    PhaseSucceeded,
    SessionCreated,
)
from ....harness.format.session_digest import NOTICE
from ....harness.views.conversations import Conversation, budget_stops, conversations
from .text import (
    State,
    age_text,
    duration_text,
    first_line,
    lines_of,
    moment_text,
    safe,
    shorten,
    some_of,
)

if TYPE_CHECKING:
    from ....harness.steps.step_views import ProgramView
    from ....questions import UnreadableQuestion

STATE_STYLES: Final = {
    state: style
    for style, states in (
        ("bold cyan", ("active", "running")),
        ("bold yellow", ("paused", "stopped", "interrupted", "warn")),
        ("bold green", ("completed", "succeeded", "ok")),
        ("bold red", ("aborted", "failed", "failing", "unreadable", "fail")),
        ("dim", ("pending",)),
    )
    for state in states
}
_NAME_WIDTH: Final = 11
_BAR_CELLS: Final = 24
_LAST_ENTRIES: Final = 8
_GOAL_CHARS: Final = 600
_LAST_ARTIFACTS: Final = 8
_METADATA_CHARS: Final = 200
_CHILDREN_SHOWN: Final = 5


# ------------------------------------------------------------------------------------ small parts


def words(text: object, style: str = "") -> Text:
    """Return one line of text, made safe, in a style."""
    return Text(safe(text), style)


def state_text(state: str) -> Text:
    """Return a state in its colour."""
    return words(state, STATE_STYLES.get(state, ""))


def budget_bar(budget: harness.TokenBudget) -> Text:
    """Draw the spent part of a budget."""
    share = min(budget.utilization_percent, 100.0) / 100
    filled = min(round(share * _BAR_CELLS), _BAR_CELLS)
    style = "red" if budget.is_exhausted else "yellow" if budget.is_warning else "green"
    bar = Text("█" * filled, style)
    bar.append("░" * (_BAR_CELLS - filled), "dim")
    bar.append(f" {budget.utilization_percent:.0f} %", style)
    bar.append(f"  {budget.tokens_used:,} of {budget.total_budget:,} tokens")
    if budget.is_exhausted:
        bar.append("  spent", "bold red")
    return bar


def table(*columns: str, rows: Iterable[Sequence[object]] = (), right: Iterable[str] = ()) -> Table:
    """Return a table without rules, for `grep` and `awk`; its cells are made safe."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        justify: JustifyMethod = "right" if column in right else "left"
        made.add_column(column, justify=justify, overflow="fold")
    for row in rows:
        made.add_row(*map(_cell, row))
    return made


def _cell(value: object) -> Text:
    if isinstance(value, State):
        return state_text(value)
    return value if isinstance(value, Text) else words("" if value is None else value)


def field(name: str, value: object) -> Text:
    """Return a name and a value on one line, as in a table's cell."""
    return Text(f"{name:<{_NAME_WIDTH}}", "dim").append_text(_cell(value))


def fields(**values: object) -> list[Text]:
    """Return a line for each name whose value is not empty."""
    return [field(name, value) for name, value in values.items() if value]


# ------------------------------------------------------------------------------------- the phases


@define
class PhaseRow:
    """State of one phase, as far as the history records it.

    Attributes:
        name: The phase.
        state: "pending", "running", "succeeded", "failed", "stopped" (the run ended before the
            phase), or the session's state if that is not active.
        attempt: The latest attempt of its round.
        round_number: How many times the phase was entered, from 1.
        duration_s: The total time of its runs; None before the first result.
        tokens: The total tokens charged for its runs.
        began: The time at which it was entered.
    """

    name: str
    state: str = "pending"
    attempt: int = 1
    duration_s: float | None = None
    tokens: int = 0
    began: datetime | None = None
    round_number: int = 1


def phase_rows(session: harness.SessionContext) -> list[PhaseRow]:
    """Return the state of each phase from the history, in the order of entry.

    The cost of an agent's answer counts from the answer on, with or without a result of the
    attempt.
    """
    rows: list[PhaseRow] = []
    answered = 0  # the charge of the attempt that has no result yet
    for entry in session.history:
        event = entry.event
        if isinstance(event, SessionCreated | PhaseAdvanced | PhaseRetried):
            answered = 0
        if isinstance(event, SessionCreated | PhaseAdvanced) and entry.phase:
            again = 1 + sum(1 for row in rows if row.name == entry.phase)
            rows.append(PhaseRow(entry.phase, "running", began=entry.timestamp, round_number=again))
            continue
        if not rows or entry.phase != rows[-1].name:
            continue
        row = rows[-1]
        if isinstance(event, PhaseRetried):
            row.attempt += 1
            row.state = "running"
        elif isinstance(event, AgentAnswered):
            row.tokens += event.tokens
            answered += event.tokens
        elif isinstance(event, PhaseEnded):
            row.state = "succeeded" if isinstance(event, PhaseSucceeded) else "failed"
            row.tokens += max(event.tokens - answered, 0)
            answered = 0
            if event.seconds is not None:
                row.duration_s = (row.duration_s or 0.0) + event.seconds
    if rows and rows[-1].name == session.current_phase:
        rows[-1].attempt = session.attempt_number
        if rows[-1].state == "running" and session.state.value != "active":
            rows[-1].state = session.state.value
    return rows


def _attempt_text(row: PhaseRow) -> str:
    return f"round {row.round_number}, {row.attempt}" if row.round_number > 1 else f"{row.attempt}"


def phase_table(rows: Sequence[PhaseRow]) -> Table:
    """Return a table of the phases."""
    return table(
        *("PHASE", "STATE", "ATTEMPT", "DURATION", "TOKENS"),
        rows=(
            (
                row.name,
                state_text(row.state),
                _attempt_text(row) if row.state != "pending" else "",
                "" if row.duration_s is None else duration_text(row.duration_s),
                f"{row.tokens:,}" if row.tokens else "",
            )
            for row in rows
        ),
        right=("ATTEMPT", "DURATION", "TOKENS"),
    )


# ------------------------------------------------------------------------------------ the commands


def session_view(
    session: harness.SessionContext,
    *,
    path: object,
    workspace: object,
    now: datetime,
    interrupted: str | None = None,
    adopt: str | None = None,
    children: Sequence[str] = (),
    program: ProgramView | None = None,
) -> list[RenderableType]:
    """Return the view of a session: its state, budget, phases, files and last entries.

    Args:
        session: The session.
        path: Its file.
        workspace: Its workspace.
        now: The current time.
        interrupted: The command that continues it, if it is active without a worker.
        adopt: The command that makes it this person's, if it is not.
        children: The sessions that were created from it.
        program: The program that leads it.
    """
    attempt = f", attempt {session.attempt_number}" if session.current_phase else ""
    age = age_text((now - session.updated_at).total_seconds())
    parts: list[RenderableType] = [
        field("session", words(session.session_id, "bold")),
        field("state", _state_of(session, interrupted)),
        *fields(adopted=adopt and f"no; look at it, then: {adopt}"),
        *labels_lines(session, children=children),
        *fields(
            workflow=session.workflow_type,
            goal=session.goal and shorten(session.goal, _GOAL_CHARS),
            phase=f"{session.current_phase or 'none'}{attempt}",
            budget=budget_bar(session.token_budget),
            time=_time_split(session),
            created=moment_text(session.created_at),
            updated=f"{moment_text(session.updated_at)} ({age})",
            ended=moment_text(session.completed_at),
            file=f"{path} (revision {session.revision})",
            notice=words(NOTICE, "yellow") if session.unlike_its_digest else None,
            workspace=workspace,
        ),
    ]
    rows = phase_rows(session)
    if rows:
        parts += [Text(), phase_table(rows)]
    if program is not None:
        parts += _program_parts(program)
    talks = conversations(session.history)
    if talks:
        parts += [_title("Conversations", len(talks), len(talks)), conversation_table(talks)]
        parts += [entry_line(one) for one in budget_stops(session.history)]
    if session.artifacts:
        kept = session.artifacts[-_LAST_ARTIFACTS:]
        parts += [_title("Artifacts", len(kept), len(session.artifacts)), artifact_table(kept)]
    if session.history:
        entries = session.history[-_LAST_ENTRIES:]
        parts += [_title("History", len(entries), len(session.history))]
        parts += [entry_line(entry) for entry in entries]
    return parts


def _program_parts(program: ProgramView) -> list[RenderableType]:
    parts: list[RenderableType] = [
        Text(),
        *fields(
            program=program.workflow,
            key=program.key,
            spent=program.cost,
            steps=program.problem and f"can't be read: {first_line(program.problem)}",
        ),
    ]
    if program.steps:
        figures = ("TOOK", "COST", "ATTEMPTS")
        rows = (
            (
                one.step,
                state_text(one.outcome),
                "" if one.took_s is None else duration_text(one.took_s),
                one.cost,
                one.attempts if one.attempts > 1 else "",
                moment_text(one.at),
            )
            for one in program.steps
        )
        parts.append(_title("Steps", len(program.steps), max(program.recorded, len(program.steps))))
        parts.append(table("STEP", "OUTCOME", *figures, "STARTED", rows=rows, right=figures))
    failed = (one for one in program.steps if one.error is not None)
    return [*parts, *(words(f"{one.step}: {one.error}", "red") for one in failed)]


def labels_lines(session: harness.SessionContext, *, children: Sequence[str] = ()) -> list[Text]:
    """Return lines for a session's title, tags, metadata and relatives, as far as set."""
    lines = [] if session.title is None else [field("title", session.title)]
    lines += fields(tags=", ".join(session.tags))
    for name, value in session.metadata.items():
        said = f"{name} = {json.dumps(value, ensure_ascii=False)}"
        lines.append(field("metadata", shorten(said, _METADATA_CHARS)))
    if session.workflow_state:
        names = ", ".join(session.workflow_state)
        lines.append(field("state of", shorten(f"its workflow: {names}", _METADATA_CHARS)))
    return lines + fields(parent=session.parent_id, children=some_of(children, _CHILDREN_SHOWN))


def _state_of(session: harness.SessionContext, interrupted: str | None) -> Text:
    if interrupted is None:
        return state_text(session.state.value)
    text = state_text("interrupted")
    text.append(f"  no worker is at it; go on with: {interrupted}", "default")
    return text


def _time_split(session: harness.SessionContext) -> str:
    """Return how an agent's session spent its time; empty for other sessions."""
    if not any(entry.event_type is AgentAnswered for entry in session.history):
        return ""
    from ....workflows.run.progress import time_spent

    spent = time_spent(session.history)
    parts = (("agent", spent.agent), ("gate", spent.gate), ("person", spent.person))
    return ", ".join(f"{name} {duration_text(seconds)}" for name, seconds in parts)


def _title(name: str, shown: int, total: int) -> Text:
    more = f" (the last {shown} of {total})" if shown < total else ""
    return Text(f"\n{name}{more}", "bold")


def entry_line(entry: harness.SessionHistory) -> Text:
    """Return a history entry on one line."""
    line = _entry_head(entry)
    first = first_line(entry.details)
    if first:
        line.append(f"  {shorten(safe(first), 200)}")
    return line


def entry_block(entry: harness.SessionHistory) -> Text:
    """Return a history entry in full, its further lines indented."""
    block = _entry_head(entry)
    first, *others = lines_of(entry.details)
    if first:
        block.append(f"  {first}")
    for line in others:
        block.append(f"\n    {line}", "dim")
    return block


def _entry_head(entry: harness.SessionHistory) -> Text:
    style = {"failed": "red", "paused": "yellow", "aborted": "red", "succeeded": "green"}
    outcome = entry.action.rsplit("_", 1)[-1]
    line = Text(moment_text(entry.timestamp), "dim")
    line.append(f"  {safe(entry.action)}", style.get(outcome, "bold"))
    if entry.phase:
        line.append(f"  [{safe(entry.phase)}]", "cyan")
    return line


def conversation_table(found: Iterable[Conversation]) -> Table:
    """Return a table of what agent programs did, one row per conversation."""
    counts = ("PROMPTS", "TURNS", "FILES", "COMPACTIONS", "TOKENS")
    rows = (
        (
            *(one.program, one.agent_session[:8]),
            *(one.prompts, one.turns, len(one.files), one.compactions, f"{one.tokens:,}"),
            ", ".join(f"{name or 'unknown'} {n:,}" for name, n in sorted(one.models.items())),
            one.cost,
            moment_text(one.last),
        )
        for one in found
    )
    return table(
        "PROGRAM", "CONVERSATION", *counts, "BY MODEL", "COST", "LAST", rows=rows, right=counts
    )


def artifact_table(artifacts: Iterable[harness.SessionArtifact]) -> Table:
    """Return a table of recorded files."""
    rows = (
        (one.path, one.artifact_type, one.phase, moment_text(one.timestamp)) for one in artifacts
    )
    return table("PATH", "TYPE", "PHASE", "RECORDED", rows=rows)


def session_table(
    sessions: Iterable[harness.SessionSummary],
    *,
    now: datetime,
    interrupted: Collection[str] = (),
    foreign: Collection[str] = (),
) -> Table:
    """Return a table of sessions.

    Args:
        sessions: The sessions.
        now: The current time.
        interrupted: The ids of those that are active without a worker.
        foreign: The ids of those that are not this person's.
    """
    columns = ("ID", "STATE", "WORKFLOW", "PHASE", "BUDGET", "UPDATED")
    rows = []
    for head in (one.head for one in sessions):
        budget = harness.TokenBudget(head.total_budget, head.tokens_used)
        attempt = f" #{head.attempt_number}" if head.attempt_number > 1 else ""
        state = state_text("interrupted" if head.session_id in interrupted else head.state.value)
        if head.session_id in foreign:
            state.append(", not adopted", "default")
        phase = f"{head.current_phase or ''}{attempt}"
        age = age_text((now - head.updated_at).total_seconds())
        spent = f"{budget.utilization_percent:.0f} %"
        rows.append((head.session_id, state, head.workflow_type, phase, spent, age))
    return table(*columns, rows=rows, right=("BUDGET",))


def unreadable_lines(
    unreadable: Iterable[harness.UnreadableSession | UnreadableQuestion],
) -> list[Text]:
    """Return a line for each unreadable session."""
    lines = []
    for one in unreadable:
        line = words(one.session_id)
        line.append("  unreadable  ", STATE_STYLES["unreadable"])
        line.append(safe(one.error))
        lines.append(line)
    return lines


def state_line(session: harness.SessionContext) -> Text:
    """Return a session's state on one line, for plain output."""
    line = Text(moment_text(session.updated_at), "dim")
    line.append(f"  revision {session.revision}  ")
    line.append_text(state_text(session.state.value))
    line.append(f"  {safe(session.current_phase or 'no phase')} #{session.attempt_number}")
    budget = session.token_budget
    line.append(f"  {budget.tokens_used:,}/{budget.total_budget:,} tokens")
    if session.history:
        last = session.history[-1]
        first = first_line(last.details)
        line.append(f"  {safe(last.action)}{': ' if first else ''}{shorten(safe(first), 160)}")
    return line
