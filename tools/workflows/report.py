"""The story of a session as one HTML page: nothing is loaded from anywhere, no script runs.

A pure function of the session and of its stored steps. Whatever an agent or a test wrote is
escaped; the page's own policy forbids it to load or run anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from attrs import define, field

from ..durable import ReadError
from ..harness import SessionContext, SessionHistory
from ..harness.conversations import budget_stops, conversations
from ..harness.history_events import PhaseFailed, PhaseRetried, PhaseSucceeded
from ..harness.session_ports import SessionRepository
from .html_page import WIDTH, drawing, escaped, shown_moment, table, whole_page
from .progress import BEGINNINGS, attempt_label, charges, extension_in, time_spent
from .step_journal import StepJournal

MAX_TEXT: Final = 200_000
"""The most that is shown of one prompt or answer."""
_ROW: Final = 26
_CHART: Final = 180
_FILES: Final = 50


@define
class _Attempt:
    """An attempt at a phase, as the history has it."""

    serial: int
    phase: str
    label: str
    began: datetime
    ended: datetime
    outcome: str = "open"
    details: str = ""
    tokens: int = 0
    entries: list[SessionHistory] = field(factory=list)


def session_report(session: SessionContext, store: SessionRepository) -> str:
    """Write the page of a session.

    Args:
        session: The session.
        store: Where it is, for the stored prompts, answers and verdicts; a session that was not an
            agent's has none, and the page does without.

    Raises:
        ReadError: The system refused to list the steps.
    """
    steps = StepJournal(store, session.session_id)
    kept: dict[str, Mapping[str, Any] | str] = {}
    for name in steps.names():
        try:
            kept[name] = steps.read(name) or {}
        except ReadError as error:
            kept[name] = str(error)
    return render_report(session, kept)


def render_report(
    session: SessionContext, steps: Mapping[str, Mapping[str, Any] | str] | None = None
) -> str:
    """Write the page from a session and its steps by name (or why one can't be read)."""
    attempts = _attempts(session)
    parts = [
        f"<h1>{escaped(session.session_id)}</h1>",
        f"<p class=lead>{escaped(session.goal or '')}</p>",
        _facts(session, attempts),
        "<h2>Timeline</h2>",
        _timeline(attempts),
        "<h2>Budget</h2>",
        _burn_down(session),
        "<h2>Gates</h2>",
        _gates(attempts),
        *_conversations(session),
        "<h2>Artifacts</h2>",
        table(
            ("Path", "Type", "Phase", "Recorded"),
            [
                (one.path, one.artifact_type, one.phase or "", shown_moment(one.timestamp))
                for one in session.artifacts
            ],
        ),
        "<h2>History</h2>",
        _history(session.history),
    ]
    if steps:
        parts += ["<h2>Prompts, answers and verdicts</h2>", *map(_step, steps.items())]
    return whole_page(title=escaped(session.session_id), body="\n".join(parts))


def _attempts(session: SessionContext) -> list[_Attempt]:
    found: list[_Attempt] = []
    rounds: dict[str, int] = {}
    number = 1
    for entry, cost in charges(session.history):
        kind = entry.event_type
        if kind in BEGINNINGS and entry.phase:
            again = kind is PhaseRetried and found
            number = number + 1 if again else 1
            if number == 1:
                rounds[entry.phase] = rounds.get(entry.phase, 0) + 1
            label = attempt_label(rounds.get(entry.phase, 1), number)
            serial = len(found) + 1
            found.append(_Attempt(serial, entry.phase, label, entry.timestamp, entry.timestamp))
            continue
        if not found:
            continue
        one = found[-1]
        one.entries.append(entry)
        one.tokens += cost
        if kind in {PhaseSucceeded, PhaseFailed}:
            one.outcome = "passed" if kind is PhaseSucceeded else "failed"
            one.details = entry.details or ""
            one.ended = entry.timestamp
        elif one.outcome == "open":
            one.ended = entry.timestamp
    return found


def _facts(session: SessionContext, attempts: Sequence[_Attempt]) -> str:
    budget = session.token_budget
    spent = time_spent(session.history)
    parts = (("agent", spent.agent), ("gate", spent.gate), ("person", spent.person))
    latest = [one.label for one in attempts[-1:]]
    took = session.updated_at - session.created_at
    rows = [
        ("State", session.state.value),
        ("Workflow", session.workflow_type or ""),
        ("Phase", ", ".join([session.current_phase or "none", *latest])),
        ("Began", shown_moment(session.created_at)),
        ("Last change", f"{shown_moment(session.updated_at)} (after {str(took).split('.')[0]})"),
        ("Attempts", str(len(attempts))),
        ("Time", ", ".join(f"{name} {seconds:.1f} s" for name, seconds in parts)),
        (
            "Tokens",
            f"{budget.tokens_used:,} of {budget.total_budget:,} "
            f"({budget.utilization_percent:.0f} %)",
        ),
        ("Revision", str(session.revision)),
    ]
    cells = "".join(f"<dt>{escaped(name)}</dt><dd>{escaped(value)}</dd>" for name, value in rows)
    return f"<dl>{cells}</dl>"


def _timeline(attempts: Sequence[_Attempt]) -> str:
    """Draw a bar for each attempt; what it is stands beside it in words, not in colour alone."""
    if not attempts:
        return "<p>No phase was begun.</p>"
    first = attempts[0].began
    span = max((attempts[-1].ended - first).total_seconds(), 0.001)
    label, width = 190, WIDTH - 190 - 150
    rows = []
    for index, one in enumerate(attempts):
        y = index * _ROW
        x = label + width * (one.began - first).total_seconds() / span
        seconds = (one.ended - one.began).total_seconds()
        length = max(3.0, width * seconds / span)
        x = min(x, label + width - length)
        rows.append(
            f'<text x="0" y="{y + 17}">{escaped(one.phase)}, {one.label}</text>'
            f'<rect class="{one.outcome}" x="{x:.1f}" y="{y + 4}" width="{length:.1f}" '
            f'height="{_ROW - 8}" rx="3"><title>{escaped(one.details[:300])}</title></rect>'
            f'<text x="{label + width + 8}" y="{y + 17}">{one.outcome}, {seconds:.1f} s</text>'
        )
    return drawing("".join(rows), len(attempts) * _ROW, "Phases and attempts over time")


def _burn_down(session: SessionContext) -> str:
    """Draw what was left of the budget after each charge and each extension."""
    budget = session.token_budget
    changes = [
        (entry.timestamp, cost, extension_in(entry)) for entry, cost in charges(session.history)
    ]
    most = budget.total_budget
    if not changes or most <= 0:
        return "<p>There is no budget to draw.</p>"
    left = most - sum(more for _, _, more in changes)
    points = [(changes[0][0], left)]
    for moment, cost, more in changes:
        left += more - cost
        points.append((moment, left))
    # What was charged besides, as by `agentforge budget --record`, is in no entry.
    points.append((max(session.updated_at, points[-1][0]), budget.tokens_remaining))
    first = points[0][0]
    span = max((points[-1][0] - first).total_seconds(), 0.001)
    low = min(0, *(rest for _, rest in points))
    high = max(most, *(rest for _, rest in points))

    def height(rest: float) -> float:
        return 10 + (_CHART - 20) * (high - rest) / (high - low)

    def across(moment: datetime) -> float:
        return 60 + (WIDTH - 80) * (moment - first).total_seconds() / span

    path = f"M{across(first):.1f},{height(points[0][1]):.1f}" + "".join(
        f"H{across(moment):.1f}V{height(rest):.1f}" for moment, rest in points[1:]
    )
    warning, empty = height(most - most * 80 / 100), height(0)
    body = (
        f'<line x1="60" x2="{WIDTH - 20}" y1="{warning:.1f}" y2="{warning:.1f}" class="warning"/>'
        f'<text x="0" y="{warning + 4:.1f}">80 %</text>'
        f'<line x1="60" x2="{WIDTH - 20}" y1="{empty:.1f}" y2="{empty:.1f}" class="empty"/>'
        f'<text x="0" y="{empty + 4:.1f}">spent</text>'
        f'<text x="0" y="{height(most) + 6:.1f}">{most:,}</text>'
        f'<path d="{path}" class="left"/>'
    )
    return drawing(body, _CHART, f"Tokens left: {budget.tokens_remaining:,} of {most:,}")


def _gates(attempts: Sequence[_Attempt]) -> str:
    rows = [
        (
            f"{one.phase}, {one.label}",
            one.outcome,
            _first_line(one.details)[0],
            f"{one.tokens:,}",
        )
        for one in attempts
        if one.outcome != "open"
    ]
    return table(("Attempt", "Verdict", "What the gate said", "Tokens"), rows)


def _conversations(session: SessionContext) -> list[str]:
    """Tell what agent programs did, and when the budget stopped them; nothing without any."""
    found = conversations(session.history)
    if not found:
        return []
    rows = [
        (
            f"{one.program}\n{one.agent_session}",
            f"{shown_moment(one.first)}\n{shown_moment(one.last)}",
            f"{one.prompts}, {one.turns}",
            str(one.compactions),
            "\n".join(one.files[:_FILES]) + ("\n…" if len(one.files) > _FILES else ""),
            f"{one.tokens:,}",
            "\n".join(f"{name or 'unknown'}: {n:,}" for name, n in sorted(one.models.items())),
        )
        for one in found
    ]
    head = ("Conversation", "First and last", "Prompts, turns", "Compactions", "Files")
    parts = ["<h2>Conversations</h2>", table((*head, "Tokens", "By model"), rows)]
    stops = [
        (shown_moment(one.timestamp), one.details or "") for one in budget_stops(session.history)
    ]
    if stops:
        parts += ["<h3>Stopped because of the budget</h3>", table(("When", "Why"), stops)]
    return parts


def _history(history: Sequence[SessionHistory]) -> str:
    items = []
    for entry in history:
        first, rest = _first_line(entry.details or "")
        more = f"<pre>{escaped(rest)}</pre>" if rest.strip() else ""
        items.append(
            f"<li><time>{shown_moment(entry.timestamp)}</time> <b>{escaped(entry.action)}</b> "
            f"<i>{escaped(entry.phase or '')}</i> {escaped(first)}{more}</li>"
        )
    return f"<ol>{''.join(items)}</ol>"


def _step(step: tuple[str, Mapping[str, Any] | str]) -> str:
    name, value = step
    if isinstance(value, str):
        body = f"<p>It can't be read: {escaped(value)}</p>"
    elif isinstance(value.get("prompt"), str):
        body = f"<pre>{escaped(_cut(value['prompt']))}</pre>"
    elif isinstance(value.get("text"), str):
        edited = value.get("change")
        said = value["text"] or str(value.get("failure"))
        body = f"<pre>{escaped(_cut(said))}</pre>" if value["text"] or not edited else ""
        body += _edit(edited) if isinstance(edited, dict) else ""
    else:
        rows = [(key, _value(item)) for key, item in value.items()]
        body = table(("Field", "Value"), rows)
    return f"<details><summary>{escaped(name)}</summary>{body}</details>"


def _edit(change: Mapping[str, Any]) -> str:
    """Show what an agent that edits in place has changed."""
    rows = [("written", str(one.get("path"))) for one in change.get("written", ())]
    rows += [("deleted", str(path)) for path in change.get("deleted", ())]
    rows += [("put back", f"{path}: {reason}") for path, reason in change.get("refused", ())]
    rows += [("not taken, ignored", str(path)) for path in change.get("dropped", ())]
    return table(("Edited in place", "Path"), rows)


def _first_line(text: str) -> tuple[str, str]:
    """Return the first line and the rest, for showing them."""
    first, _, rest = text.partition("\n")
    return first, rest


def _value(value: object) -> str:
    if isinstance(value, list):
        return "\n".join(map(str, value))
    if isinstance(value, dict):
        return "\n".join(f"{key}: {item}" for key, item in value.items())
    return str(value)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}\n[…]"
