"""A session's record: files, specification, questions, conversations, checkpoints, history."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from xml.etree.ElementTree import Element

from ...base.errors import counted
from ...harness import SessionHistory
from ...harness.views.checkpoints import CheckpointEntry
from ...harness.views.conversations import Conversation
from .actions import READ_ONLY, Actions
from .html import Child, anchor, element, fragment
from .parts import OUTCOME_TONES, badge, code, folded, note, plain_text, section, table, when
from .prose import prose
from .values.asked_questions import AskedPrompt, QuestionView
from .values.contents import Content, ImageContent, NoContent, TextContent
from .values.session_view import FileView, SessionView
from .values.texts import cut, duration, first_line, size

_MAX_NAMED: Final = 50
_MAX_DETAILS: Final = 4_000
MAX_QUESTIONS: Final = 200
"""How many questions are shown: the last ones."""
_OPEN_LINES: Final = 40


# -------------------------------------------------------------------------------------- the files


def files(view: SessionView, actions: Actions = READ_ONLY) -> Element:
    """Return the files that the session made, with what they hold."""
    return section(
        "files",
        "Files",
        [_file(one, actions) for one in view.files] or element("p", "None.", class_="none"),
        attributes=actions.section("files"),
    )


def _file(one: FileView, actions: Actions) -> Element:
    content = one.content
    times = f", {counted(one.times, 'time')}" if one.times > 1 else ""
    how_large = None if content is None or isinstance(content, NoContent) else size(content.size)
    about = ", ".join(part for part in (f"{one.made}{times}", one.phase, how_large) if part)
    summary = fragment(
        element("code", one.path, class_="path"),
        element("span", about, class_="muted"),
    )
    return folded(
        summary,
        actions.file(one),
        shown_content(content, one.path),
        is_open=isinstance(content, ImageContent) or _is_short(content),
        id_=anchor("file", one.path),
        class_="file",
    )


def _is_short(content: Content | None) -> bool:
    return isinstance(content, TextContent) and content.text.count("\n") <= _OPEN_LINES


def shown_content(content: Content | None, name: str) -> Child:
    """Return what a file holds, as text or as a picture, or why it is not shown."""
    if content is None:
        return None
    if isinstance(content, NoContent):
        return note(f"Not shown: {content.reason}.")
    if isinstance(content, ImageContent):
        return element(
            "img",
            src=content.address,
            alt=name,
            width=content.width,
            height=content.height,
            class_="picture",
        )
    more = content.left_out
    return fragment(
        code(content.text, name),
        note(f"{counted(more, 'more character')} left out.") if more else None,
    )


def specification(view: SessionView, actions: Actions = READ_ONLY) -> Element | None:
    """Return the specification that the session works from; None where it has none."""
    if view.specification is None:
        return None
    return section(
        "specification",
        "Specification",
        folded(
            "specification.yaml",
            shown_content(view.specification, "specification.yaml"),
            class_="file",
        ),
        attributes=actions.section("specification"),
    )


# ---------------------------------------------------------------------------------- the questions


def questions(view: SessionView, actions: Actions = READ_ONLY) -> Element | None:
    """Return the questions to a person with their answers; None where nothing was asked."""
    if not view.questions:
        return None
    shown = view.questions[-MAX_QUESTIONS:]
    left_out = len(view.questions) - len(shown)
    return section(
        "questions",
        "Questions",
        note(f"The first {left_out:,} of {len(view.questions):,} are left out.")
        if left_out
        else None,
        [question(one, actions) for one in shown],
        attributes=actions.section("questions"),
    )


def question(one: QuestionView, actions: Actions = READ_ONLY) -> Element:
    """Return questions that were asked together: they can stand alone."""
    name = anchor("question", one.question_id)
    outcome = one.outcome.replace("_", " ")
    ended = one.ended_at
    waited = None if ended is None else duration((ended - one.asked_at).total_seconds())
    return element(
        "article",
        element(
            "header",
            element(
                "h3",
                element("a", "Question", href=f"#{name}"),
                " ",
                element("code", one.question_id[:8]),
            ),
            badge(outcome, OUTCOME_TONES.get(one.outcome, "plain")),
            element(
                "span",
                "asked ",
                when(one.asked_at),
                f", {outcome} after {waited}" if waited else None,
                f", phase {one.phase}" if one.phase else None,
                class_="muted",
            ),
        ),
        [_prompt(each) for each in one.prompts],
        element("p", "Reason: ", one.reason, class_="lines") if one.reason else None,
        actions.question(one) if one.waits else None,
        id=name,
        class_="attempt question",
    )


def _prompt(one: AskedPrompt) -> Element:
    chosen = one.answer
    return element(
        "div",
        prose(one.prompt, most=10_000),
        element(
            "ul",
            [
                element(
                    "li",
                    option.label,
                    element("span", f" {option.description}", class_="muted")
                    if option.description
                    else None,
                )
                for option in one.options
            ],
            class_="options",
        )
        if one.options
        else None,
        element("p", element("b", "Answer: "), chosen, class_="lines answer")
        if chosen is not None
        else None,
        class_="prompt",
    )


# ------------------------------------------------------------------------------ agents' programs


def conversations(view: SessionView, actions: Actions = READ_ONLY) -> Element | None:
    """Return the conversations of agent programs; None where there were none."""
    if not view.conversations:
        return None
    head = ("Conversation", "First", "Last", "Prompts", "Turns", "Compactions", "Tokens", "Files")
    return section(
        "conversations",
        "Conversations",
        table("Conversations", head, map(_conversation, view.conversations)),
        _stops(view.stops),
        attributes=actions.section("conversations"),
    )


def _conversation(one: Conversation) -> tuple[Child, ...]:
    models = sorted(one.models.items())
    named = ", ".join(one.files[:_MAX_NAMED])
    more = len(one.files) - _MAX_NAMED
    return (
        fragment(one.program, " ", element("code", one.agent_session)),
        when(one.first),
        when(one.last),
        one.prompts,
        one.turns,
        one.compactions,
        fragment(
            f"{one.tokens:,}",
            [
                element("div", f"{name or 'unknown'}: {count:,}", class_="muted")
                for name, count in models
            ],
        ),
        fragment(named, f" and {more:,} more" if more > 0 else None),
    )


def _stops(stops: Iterable[SessionHistory]) -> Child:
    rows = [(when(one.timestamp), one.details or "") for one in stops]
    if not rows:
        return None
    return fragment(
        element("h3", "Stopped because of the budget"),
        table("Stopped because of the budget", ("When", "Why"), rows),
    )


# -------------------------------------------------------------------------------- the checkpoints


def checkpoints(view: SessionView, actions: Actions = READ_ONLY) -> Element:
    """Return the checkpoints: what the session can go back to, or be forked at."""
    shown = view.checkpoints[-_MAX_ROWS:]
    left_out = len(view.checkpoints) - len(shown)
    return section(
        "checkpoints",
        "Checkpoints",
        note(
            f"The first {left_out:,} are left out; ",
            element("code", f"agentforge checkpoints {view.session_id}"),
            " lists all.",
        )
        if left_out
        else None,
        table(
            "Checkpoints",
            ("No", "When", "After", "Attempt", "Snapshot"),
            (_checkpoint(one, actions) for one in shown),
        ),
        attributes=actions.section("checkpoints"),
    )


_MAX_ROWS: Final = 200


def _checkpoint(one: CheckpointEntry, actions: Actions) -> tuple[Child, ...]:
    return (
        element("span", str(one.number), id=f"checkpoint-{one.number}"),
        when(one.at),
        one.action.replace("_", " "),
        one.name or element("span", "-", class_="muted"),
        fragment(
            element("code", one.snapshot[:12]) if one.snapshot else None,
            element("span", f"none: {one.unkept}", class_="muted") if one.unkept else None,
            element("span", "none", class_="muted")
            if one.snapshot is None and one.unkept is None
            else None,
            None if one.in_force else element("span", " gone back behind", class_="muted"),
            actions.checkpoint(one),
        ),
    )


# ------------------------------------------------------------------------------------ the history


def history(view: SessionView, actions: Actions = READ_ONLY) -> Element:
    """Return the last entries of the history, oldest first."""
    found = view.history
    left_out = found.first - 1
    return section(
        "history",
        "History",
        note(
            f"The first {left_out:,} of {found.total:,} entries are left out; ",
            element("code", f"agentforge log {view.session_id}"),
            " shows all.",
        )
        if left_out
        else None,
        table(
            "History",
            ("No", "When", "Phase", "What", "Details"),
            (_entry(number, one) for number, one in enumerate(found.entries, found.first)),
            class_="history",
        ),
        attributes=actions.section("history"),
    )


def _entry(number: int, entry: SessionHistory) -> tuple[Child, ...]:
    first, rest = first_line(entry.details or "")
    if len(first) > _MAX_DETAILS:
        first, rest = first[:_MAX_DETAILS], f"{first[_MAX_DETAILS:]}\n{rest}"
    details: Child = first
    if rest.strip():
        details = folded(first, plain_text(cut(rest, _MAX_DETAILS), "Details"), class_="more")
    return (
        element("span", f"{number:,}", id=f"entry-{number}", class_="muted"),
        when(entry.timestamp),
        entry.phase or "",
        entry.action.replace("_", " "),
        details,
    )
