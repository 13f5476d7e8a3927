"""The attempts of a session, one below the other: verdict, change, answer and prompt of each."""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from ...base.errors import counted
from ...workflows.fenced_blocks import fenced_blocks
from .diffs import differences
from .html import Child, element, fragment
from .parts import (
    changed_lines,
    facts,
    folded,
    left_out,
    muted,
    note,
    nothing,
    outcome_badge,
    plain_text,
    section,
    value_in_words,
    when,
)
from .prose import prose
from .values.attempts import AttemptView, CallView, ChangeView, VerdictView
from .values.material import MAX_ATTEMPTS
from .values.session_view import SessionView
from .values.texts import duration

_NOT_SHOWN: Final = frozenset({"test_digests", "written", "deleted"})
"""What a verdict notes for programs, or what stands elsewhere on the page."""
_MAX_EVIDENCE: Final = 60_000
_MAX_REMARKS: Final = 50


def attempts(view: SessionView) -> Element:
    """Return the attempts, the last `material.MAX_ATTEMPTS` of them in full."""
    session_id, shown = view.session.session_id, view.attempts[-MAX_ATTEMPTS:]
    return section(
        "attempts",
        "Attempts",
        left_out(len(view.attempts), len(shown), "attempts", f"agentforge log {session_id}"),
        [_attempt(one, session_id) for one in shown] or nothing("No phase was begun."),
    )


def _attempt(one: AttemptView, session_id: str) -> Element:
    name = f"attempt-{one.number}"
    link = element("a", one.phase, " ", muted(one.label), href=f"#{name}")
    took = f"{counted(one.tokens, 'token')}, {duration(one.seconds)}, began "
    return element(
        "article",
        element(
            "header",
            element("h3", link, id=f"{name}-title"),
            outcome_badge(one.outcome.value),
            muted(took, when(one.began)),
        ),
        _verdict(one.verdict) if one.verdict else None,
        _change(one.change, session_id) if one.change else None,
        [_call(call, one) for call in one.calls],
        id=name,
        class_="attempt",
        aria_labelledby=f"{name}-title",
    )


def _verdict(one: VerdictView) -> Element:
    more = {name: value for name, value in one.facts.items() if name not in _NOT_SHOWN}
    counts = [f"{value:,} {name}" for name, value in one.counts.items() if value]
    said = " · ".join([*counts, *([duration(one.seconds)] if one.seconds else [])])
    noted = ((name.replace("_", " "), value_in_words(value)) for name, value in more.items())
    return element(
        "div",
        element(
            "p",
            element("span", one.gate or "result", class_="gate-name"),
            " ",
            element("strong", one.summary),
            muted(f" {said}") if said else None,
        ),
        note(f"The stored verdict can't be read: {one.problem}") if one.problem else None,
        _evidence(one),
        folded("What else it noted", facts(noted)) if more.keys() - one.counts.keys() else None,
        class_=f"verdict {'good' if one.passed else 'bad'}",
    )


def _evidence(one: VerdictView) -> Child:
    text = "\n\n".join(one.evidence)
    if not text.strip():
        return None
    return folded(
        f"Evidence ({counted(len(one.evidence), 'piece')})",
        plain_text(text, "Evidence", most=_MAX_EVIDENCE),
        is_open=not one.passed and len(text) < 4_000,
    )


def _change(found: ChangeView, session_id: str) -> Child:
    if not found.files:
        return note("No file changed." if found.note is None else found.note)
    added = sum(each.added for each in found.files)
    removed = sum(each.removed for each in found.files)
    title = f"Changes: {counted(len(found.files), 'file')} "
    command = None
    if found.after is not None:
        between = "" if found.before is None else f" {found.before} {found.after}"
        command = f"agentforge diff {session_id}{between}"
    return fragment(
        element("h4", title, changed_lines(added, removed)),
        differences(found.files, command),
        note(found.note) if found.note else None,
    )


def _call(one: CallView, of: AttemptView) -> Element:
    tokens, seconds, event = None, 0.0, one.event
    if event is not None:
        tokens, seconds = counted(event.tokens, "token"), event.seconds
        if event.usage:
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in event.usage.items())
            tokens += f" ({kinds}{', estimated' if event.estimated else ''})"
    said = ", ".join(part for part in (one.agent, tokens, duration(seconds)) if part)
    return element(
        "div",
        element("h4", f"Call {one.number}" if len(of.calls) > 1 else "Agent"),
        note(said),
        element("p", "It gave no answer: ", one.failure, class_="problem") if one.failure else None,
        [note(each) for each in one.problems],
        prose(prose_of(one.answer or "")),
        _remarks(one),
        _said("Answer", one.answer),
        _said("Prompt", one.prompt),
        id=f"attempt-{of.number}-call-{one.number}",
        class_="call",
    )


def _remarks(one: CallView) -> Child:
    """Return what it asked, and what of its changes was not taken."""
    ignored = "Not taken, since the project's rules ignore it: "
    remarks = [
        *(("Asked: ", each) for each in one.questions),
        *(("Put back: ", element("code", path), f", {reason}") for path, reason in one.put_back),
        *((ignored, element("code", path)) for path in one.dropped[:_MAX_REMARKS]),
    ]
    return element("ul", [element("li", each) for each in remarks]) if remarks else None


def _said(kind: str, text: str | None) -> Child:
    if not text:
        return None
    summary = (kind, " ", muted(counted(len(text), "character")))
    return folded(summary, plain_text(text, kind))


def prose_of(answer: str) -> str:
    """Return an answer without its fenced blocks."""
    lines = answer.replace("\r\n", "\n").split("\n")
    for block in reversed(list(fenced_blocks(lines, 0))):
        del lines[block.line : block.line + len(block.lines) + 2]
    return "\n".join(lines).strip()
