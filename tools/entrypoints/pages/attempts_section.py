"""The attempts of a session, one below the other: verdict, change, answer and prompt of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from xml.etree.ElementTree import Element

from ...base.errors import counted
from ...workflows.fenced_blocks import fenced_blocks
from .actions import READ_ONLY, Actions
from .diffs import differences
from .html import Child, element, fragment
from .parts import OUTCOME_TONES, badge, facts, folded, note, plain_text, section, when
from .prose import prose
from .values.attempts import AttemptView, CallView, ChangeView, VerdictView
from .values.material import MAX_ATTEMPTS
from .values.session_view import SessionView
from .values.texts import as_words, cut, duration

_NOT_SHOWN: Final = frozenset({"test_digests", "written", "deleted"})
"""What a verdict notes for programs, or what stands elsewhere on the page."""
_MAX_EVIDENCE: Final = 60_000
_MAX_REMARKS: Final = 50


def attempts(view: SessionView, actions: Actions = READ_ONLY) -> Element:
    """Return the attempts, the last `material.MAX_ATTEMPTS` of them in full."""
    shown = view.attempts[-MAX_ATTEMPTS:]
    left_out = len(view.attempts) - len(shown)
    return section(
        "attempts",
        "Attempts",
        note(
            f"The first {left_out:,} of {len(view.attempts):,} attempts are left out; ",
            element("code", f"agentforge log {view.session_id}"),
            " lists all.",
        )
        if left_out
        else None,
        [attempt(one, view.session_id) for one in shown]
        or element("p", "No phase was begun.", class_="none"),
        attributes=actions.section("attempts"),
    )


def attempt(one: AttemptView, session_id: str) -> Element:
    """Return one attempt, whole: it can stand alone."""
    outcome = one.outcome.value
    name = f"attempt-{one.number}"
    return element(
        "article",
        element(
            "header",
            element(
                "h3",
                element(
                    "a", one.phase, " ", element("span", one.label, class_="muted"), href=f"#{name}"
                ),
                id=f"{name}-title",
            ),
            badge(outcome, OUTCOME_TONES[outcome]),
            element(
                "span",
                f"{counted(one.tokens, 'token')}, {duration(one.seconds)}, began ",
                when(one.began),
                class_="muted",
            ),
        ),
        verdict(one.verdict) if one.verdict else None,
        change(one, session_id),
        [_call(call, one, of_several=len(one.calls) > 1) for call in one.calls],
        id=name,
        class_="attempt",
        aria_labelledby=f"{name}-title",
    )


# ------------------------------------------------------------------------------------ the verdict


def verdict(one: VerdictView) -> Element:
    """Return what a gate said."""
    tone = "good" if one.passed else "bad"
    more = {name: value for name, value in one.facts.items() if name not in _NOT_SHOWN}
    counts = [f"{value:,} {name}" for name, value in one.counts.items() if value]
    time = f"{duration(one.seconds)}" if one.seconds else None
    said = " · ".join(part for part in (*counts, time) if part)
    return element(
        "div",
        element(
            "p",
            element("span", one.gate or "result", class_="gate-name"),
            " ",
            element("strong", one.summary),
            element("span", f" {said}", class_="muted") if said else None,
        ),
        note(f"The stored verdict can't be read: {one.problem}") if one.problem else None,
        _evidence(one),
        folded(
            "What else it noted",
            facts((name.replace("_", " "), _fact(value)) for name, value in more.items()),
        )
        if _says_more(more, one.counts)
        else None,
        class_=f"verdict {tone}",
    )


def _says_more(facts_: Mapping[str, Any], counts: Mapping[str, int]) -> bool:
    return any(name not in counts for name in facts_)


def _fact(value: object) -> Child:
    return element("span", cut(as_words(value), 4_000), class_="lines")


def _evidence(one: VerdictView) -> Child:
    text = "\n\n".join(one.evidence)
    if not text.strip():
        return None
    count = counted(len(one.evidence), "piece")
    return folded(
        f"Evidence ({count})",
        plain_text(cut(text, _MAX_EVIDENCE), "Evidence"),
        is_open=not one.passed and len(text) < 4_000,
    )


# ------------------------------------------------------------------------------------- the change


def change(one: AttemptView, session_id: str) -> Child:
    """Return what an attempt changed."""
    found = one.change
    if found is None:
        return None
    if not found.files:
        said = "No file changed." if found.note is None else found.note
        return note(said)
    added = sum(each.added for each in found.files)
    removed = sum(each.removed for each in found.files)
    count = counted(len(found.files), "file")
    return fragment(
        element(
            "h4",
            f"Changes: {count} ",
            element("span", f"+{added:,}", class_="plus") if added else None,
            " ",
            element("span", f"-{removed:,}", class_="minus") if removed else None,
        ),
        differences(found.files, _command(found, session_id)),
        note(found.note) if found.note else None,
    )


def _command(found: ChangeView, session_id: str) -> str | None:
    if found.after is None:
        return None
    if found.before is None:
        return f"agentforge diff {session_id}"
    return f"agentforge diff {session_id} {found.before} {found.after}"


# --------------------------------------------------------------------------- prompts and answers


def _call(one: CallView, of: AttemptView, *, of_several: bool) -> Element:
    name = f"attempt-{of.number}-call-{one.number}"
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in one.usage.items())
    tokens = None if one.tokens is None else counted(one.tokens, "token")
    if tokens and kinds:
        tokens += f" ({kinds}{', estimated' if one.is_estimated else ''})"
    said = ", ".join(part for part in (one.agent, tokens, duration(one.seconds)) if part)
    return element(
        "div",
        element("h4", f"Call {one.number}" if of_several else "Agent"),
        element("p", said, class_="note"),
        element("p", "It gave no answer: ", one.failure, class_="problem") if one.failure else None,
        [note(each) for each in one.problems],
        prose(prose_of(one.answer or "")),
        _remarks(one),
        _said("Answer", one.answer),
        _said("Prompt", one.prompt),
        id=name,
        class_="call",
    )


def _remarks(one: CallView) -> Child:
    """Return what it asked, and what of its changes was not taken."""
    remarks: list[Child] = [fragment("Asked: ", each) for each in one.questions]
    remarks += [
        fragment("Put back: ", element("code", path), f", {reason}")
        for path, reason in one.put_back
    ]
    remarks += [
        fragment("Not taken, since the project's rules ignore it: ", element("code", path))
        for path in one.dropped[:_MAX_REMARKS]
    ]
    return element("ul", [element("li", each) for each in remarks]) if remarks else None


def _said(kind: str, text: str | None) -> Child:
    if not text:
        return None
    return folded(
        fragment(kind, " ", element("span", counted(len(text), "character"), class_="muted")),
        plain_text(text, kind),
    )


def prose_of(answer: str) -> str:
    """Return an answer without its fenced blocks."""
    lines = answer.replace("\r\n", "\n").split("\n")
    inside: set[int] = set()
    for block in fenced_blocks(lines, 0):
        inside.update(range(block.line, block.line + len(block.lines) + 2))
    kept = [line for number, line in enumerate(lines) if number not in inside]
    return "\n".join(kept).strip()
