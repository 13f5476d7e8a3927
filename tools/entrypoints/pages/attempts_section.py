"""The attempts section of a session's page: each attempt's verdict, changes, answer and prompt.

The differences of files are side by side where the page is wide enough, else in one column.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final
from xml.etree.ElementTree import Element

from ...base.errors import counted
from ...base.files import ReadError
from ...harness.domain.history_events import PhaseEnded, PhaseSucceeded
from ...workflows.agents.port import AgentAnswer, WorkspaceChange
from ...workflows.fenced_blocks import fenced_blocks
from ...workflows.gates.verdict import Verdict
from .html import Child, element
from .parts import (
    changed_lines,
    facts,
    folded,
    left_out,
    muted,
    note,
    nothing,
    plain_text,
    prose,
    scrolled,
    section,
    state_badge,
    value_in_words,
    when,
)
from .values.attempts import AttemptView, CallView, ChangeView
from .values.material import MAX_ATTEMPTS
from .values.patches import DiffLine, FileDiff, Hunk, LineKind, Piece, side_by_side, word_changes
from .values.session_view import SessionView
from .values.texts import duration

MAX_ROWS: Final = 1_200
"""Maximum number of rows shown of one file's difference."""
OPEN_ROWS: Final = 250
"""A difference of more lines is folded; `_OPEN_ALONE` is the limit for added or deleted files."""
_OPEN_ALONE: Final = 40


def differences(files: Iterable[FileDiff], command: str | None) -> Element:
    """Return the differences of files, in the given order.

    Args:
        files: The differences.
        command: The command that shows them in full, named where rows are left out; or None.
    """
    return element("div", [_file(one, command) for one in files], class_="differences")


def _file(one: FileDiff, command: str | None) -> Element:
    limit = _OPEN_ALONE if _is_alone(one) else OPEN_ROWS
    summary = (
        element("code", one.path, class_="path"),
        muted(one.kind),
        element("span", changed_lines(one.added, one.removed), class_="counts"),
    )
    return folded(summary, _body(one, command), is_open=0 < one.lines <= limit, class_="file")


def _body(one: FileDiff, command: str | None) -> Child:
    if one.is_binary:
        return note("It is no text.")
    if not one.hunks:
        said = "too long to be compared" if one.left_out else "the same lines"
        return note(f"There is nothing to show: {said}.")
    shown = list(islice(_rows(one), MAX_ROWS))
    form = "diff one" if _is_alone(one) else "diff two"
    body = scrolled(f"Changes of {one.path}", _head(one), element("tbody", shown), class_=form)
    if not one.left_out and len(shown) < MAX_ROWS:
        return body
    lines = one.lines + one.left_out
    rest = ("; ", element("code", command), " shows all") if command else None
    return (body, note(f"The rest of {counted(lines, 'line')} is left out", rest, "."))


def _is_alone(one: FileDiff) -> bool:
    """Return whether the file was added or deleted, so that the difference has only one side."""
    return one.kind in {"added", "deleted"}


def _head(one: FileDiff) -> tuple[Element, ...]:
    sides = {"added": ("After",), "deleted": ("Before",)}.get(one.kind, ("Before", "After"))
    names = (name for side in sides for name in (f"Line {side.lower()}", side))
    heads = [
        element("th", element("span", name, class_="visually-hidden"), scope="col")
        for name in names
    ]
    columns = [element("col", class_=kind) for _ in sides for kind in ("no", "side")]
    return element("colgroup", columns), element("thead", element("tr", heads))


def _rows(one: FileDiff) -> Iterable[Element]:
    width = 2 if _is_alone(one) else 4
    for number, hunk in enumerate(one.hunks):
        if number:
            yield element("tr", element("td", "⋯", colspan=width), class_="gap")
        yield from _alone(hunk) if _is_alone(one) else _paired(hunk)


def _alone(hunk: Hunk) -> Iterable[Element]:
    for line in hunk:
        number = line.old if line.new is None else line.new
        yield element("tr", _number(number), _side(line, [(line.text, False)]))


def _paired(hunk: Hunk) -> Iterable[Element]:
    for before, after in side_by_side(hunk):
        old = [] if before is None else [(before.text, False)]
        new = [] if after is None else [(after.text, False)]
        if before is not None and after is not None and before is not after:
            old, new = word_changes(before.text, after.text)
        cells = (_cells(before, old, "old"), _cells(after, new, "new"))
        yield element("tr", cells, class_="same" if before is after else None)


def _cells(line: DiffLine | None, pieces: list[Piece], side: str) -> tuple[Element, Element]:
    if line is None:
        return element("td", class_="no none"), element("td", class_="none")
    return _number(line.old if side == "old" else line.new), _side(line, pieces)


def _number(number: int | None) -> Element:
    return element("td", "" if number is None else str(number), class_="no")


_MARKS: Final = {LineKind.ADDED: "add", LineKind.REMOVED: "del", LineKind.KEPT: "kept"}


def _side(line: DiffLine, pieces: list[Piece]) -> Element:
    tag = "ins" if line.kind is LineKind.ADDED else "del"
    return element(
        "td",
        [element(tag, text) if differs else text for text, differs in pieces],
        class_=_MARKS[line.kind],
    )


_NOT_SHOWN: Final = frozenset({"test_digests", "written", "deleted"})
"""Facts of a verdict that are meant for programs or shown elsewhere on the page."""
_MAX_EVIDENCE: Final = 60_000
_MAX_REMARKS: Final = 50


def attempts(view: SessionView) -> Element:
    """Return the section of the last `material.MAX_ATTEMPTS` attempts."""
    session_id, shown = view.session.session_id, view.attempts[-MAX_ATTEMPTS:]
    return section(
        "attempts",
        "Attempts",
        left_out(
            len(view.attempts), len(shown), "attempts", f"agentforge session log {session_id}"
        ),
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
            state_badge(one.outcome.value),
            muted(took, when(one.began)),
        ),
        _verdict(one),
        _change(one, one.change, session_id) if one.change else None,
        [_call(call, one) for call in one.calls],
        id=name,
        class_="attempt",
        aria_labelledby=f"{name}-title",
    )


def _verdict(one: AttemptView) -> Element | None:
    """Return the verdict: from the history if present there, with the stored one's evidence."""
    event = None if one.result is None else one.result.event
    stored = one.verdict if isinstance(one.verdict, Verdict) else _NO_VERDICT
    counts: list[str] = []
    if isinstance(event, PhaseEnded):
        passed, judged = isinstance(event, PhaseSucceeded), event.verdict
        summary = (event.problem if judged is None else judged.summary) or one.outcome.value
        gate, counted_ = ("", {}) if judged is None else (judged.gate, judged.counts)
        counts = [f"{value:,} {name}" for name, value in counted_.items() if value]
        counts += [duration(event.seconds)] if event.seconds else []
    elif one.verdict is None:
        return None
    else:
        passed, summary, gate, counted_ = stored.passed is True, stored.summary, stored.gate, {}
    names = [name for name in stored.facts if name not in _NOT_SHOWN]
    noted = [(name.replace("_", " "), value_in_words(stored.facts[name])) for name in names]
    problem = one.verdict if isinstance(one.verdict, ReadError) else None
    said = " · ".join(counts)
    return element(
        "div",
        element(
            "p",
            element("span", gate or "result", class_="gate-name"),
            " ",
            element("strong", summary),
            muted(f" {said}") if said else None,
        ),
        note(f"The stored verdict can't be read: {problem}") if problem else None,
        _evidence(stored, passed=passed),
        folded("What else it noted", facts(noted)) if set(names) - counted_.keys() else None,
        class_=f"verdict {'good' if passed else 'bad'}",
    )


_NO_VERDICT: Final = Verdict(gate="", passed=False, summary="unknown")


def _evidence(stored: Verdict, *, passed: bool) -> Child:
    text = "\n\n".join(stored.evidence)
    if not text.strip():
        return None
    return folded(
        f"Evidence ({counted(len(stored.evidence), 'piece')})",
        plain_text(text, "Evidence", most=_MAX_EVIDENCE),
        is_open=not passed and len(text) < 4_000,
    )


def _change(of: AttemptView, found: ChangeView, session_id: str) -> Child:
    if not found.files:
        return note("No file changed." if found.note is None else found.note)
    added = sum(each.added for each in found.files)
    removed = sum(each.removed for each in found.files)
    title = f"Changes: {counted(len(found.files), 'file')} "
    command = None
    if found.by_snapshots:
        between = "" if of.before is None else f" {of.before} {of.after}"
        command = f"agentforge diff {session_id}{between}"
    return (
        element("h4", title, changed_lines(added, removed)),
        differences(found.files, command),
        note(found.note) if found.note else None,
    )


def _call(one: CallView, of: AttemptView) -> Element:
    tokens, seconds, event, stored = None, 0.0, one.event, one.stored
    agent = stored.agent if stored else None
    failure = stored.failure if stored else None
    if event is not None:
        agent, failure, seconds = event.agent or agent, event.failure or failure, event.seconds
        tokens = counted(event.tokens, "token")
        if event.usage:
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in event.usage.items())
            tokens += f" ({kinds}{', estimated' if event.estimated else ''})"
    said = ", ".join(part for part in (agent, tokens, duration(seconds)) if part)
    answer = stored.answer if stored else AgentAnswer(text="")
    return element(
        "div",
        element("h4", f"Call {one.number}" if len(of.calls) > 1 else "Agent"),
        note(said),
        element("p", "It gave no answer: ", failure, class_="problem") if failure else None,
        [note(each) for each in one.problems],
        prose(prose_of(answer.text)),
        _remarks(answer),
        _said("Answer", answer.text),
        _said("Prompt", one.prompt),
        id=f"attempt-{of.number}-call-{one.number}",
        class_="call",
    )


def _remarks(answer: AgentAnswer) -> Child:
    """Return the questions the agent asked, and its changes that were rejected or ignored."""
    change = answer.change or WorkspaceChange()
    ignored = "Not taken, since the project's rules ignore it: "
    remarks = [
        *(("Asked: ", each.prompt) for each in answer.questions),
        *(("Put back: ", element("code", path), f", {why}") for path, why in change.refused),
        *((ignored, element("code", path)) for path in change.dropped[:_MAX_REMARKS]),
    ]
    return element("ul", [element("li", each) for each in remarks]) if remarks else None


def _said(kind: str, text: str | None) -> Child:
    if not text:
        return None
    summary = (kind, " ", muted(counted(len(text), "character")))
    return folded(summary, plain_text(text, kind))


def prose_of(answer: str) -> str:
    """Return an agent's answer without its fenced blocks."""
    lines = answer.replace("\r\n", "\n").split("\n")
    for block in reversed(list(fenced_blocks(lines, 0))):
        del lines[block.line : block.line + len(block.lines) + 2]
    return "\n".join(lines).strip()
