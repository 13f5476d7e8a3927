"""Record sections: files, specification, questions, conversations, steps, checkpoints, history."""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from ...base.errors import counted
from ...base.question import Option
from ...harness import SessionHistory
from ...harness.views.checkpoints import CheckpointEntry
from ...harness.views.checkpoints import checkpoints as checkpoints_of
from ...harness.views.conversations import Conversation, budget_stops
from ...harness.views.conversations import conversations as conversations_of
from .html import Child, anchor, element
from .parts import (
    READ_ONLY,
    Actions,
    code,
    facts,
    folded,
    left_out,
    muted,
    note,
    nothing,
    plain_text,
    prose,
    section,
    state_badge,
    table,
    when,
)
from .values.asked_questions import AskedPrompt, QuestionView
from .values.contents import Content, ImageContent, NoContent, TextContent
from .values.session_view import FileView, SessionView
from .values.texts import duration, size

MAX_HISTORY: Final = 1_000
"""Maximum number of history entries shown; the last ones are."""
MAX_QUESTIONS: Final = 200
"""Maximum number of questions shown; the last ones are."""
_MAX_CHECKPOINTS: Final = 200
_MAX_NAMED: Final = 50
_MAX_DETAILS: Final = 4_000
_OPEN_LINES: Final = 40


# -------------------------------------------------------------------------------------- the files


def files(view: SessionView) -> Element:
    """Return the files that the session made, with their contents where they can be shown."""
    return section("files", "Files", [_file(one) for one in view.files] or nothing("None."))


def _file(one: FileView) -> Element:
    content, artifact = one.content, one.artifact
    times = f", {counted(one.times, 'time')}" if one.times > 1 else ""
    how_large = None if content is None or isinstance(content, NoContent) else size(content.size)
    parts = (f"{artifact.artifact_type}{times}", artifact.phase, how_large)
    about = muted(", ".join(part for part in parts if part))
    is_short = isinstance(content, TextContent) and content.text.count("\n") <= _OPEN_LINES
    return folded(
        (element("code", one.path, class_="path"), about),
        _content(content, one.path),
        is_open=isinstance(content, ImageContent) or is_short,
        id_=anchor("file", one.path),
        class_="file",
    )


def _content(content: Content | None, name: str) -> Child:
    """Return a file's text or picture, or the reason why it is not shown."""
    match content:
        case NoContent(reason=reason):
            return note(f"Not shown: {reason}.")
        case ImageContent(address=address, width=width, height=height):
            return element(
                "img", src=address, alt=name, width=width, height=height, class_="picture"
            )
        case TextContent(text=text, left_out=more):
            rest = note(f"{counted(more, 'more character')} left out.") if more else None
            return (code(text, name), rest)
    return None


def specification(view: SessionView) -> Element | None:
    """Return the specification that the session works from; None if it has none."""
    if view.specification is None:
        return None
    name = "specification.yaml"
    shown = folded(name, _content(view.specification, name), class_="file")
    return section("specification", "Specification", shown)


# ---------------------------------------------------------------------------------- the questions


def questions(view: SessionView) -> Element | None:
    """Return the last questions to a person, with their answers; None if there are none."""
    if not view.questions:
        return None
    shown = view.questions[-MAX_QUESTIONS:]
    rest = left_out(len(view.questions), len(shown), "questions")
    return section("questions", "Questions", rest, map(_question, shown))


def _question(one: QuestionView) -> Element:
    name = anchor("question", one.question_id)
    outcome, ended = one.outcome.replace("_", " "), one.ended_at
    waited = None if ended is None else duration((ended - one.asked_at).total_seconds())
    header = element(
        "header",
        element(
            "h3",
            element("a", "Question", href=f"#{name}"),
            " ",
            element("code", one.question_id[:8]),
        ),
        state_badge(one.outcome),
        muted(
            "asked ",
            when(one.asked_at),
            f", {outcome} after {waited}" if waited else None,
            f", phase {one.phase}" if one.phase else None,
        ),
    )
    reason = element("p", "Reason: ", one.reason, class_="lines") if one.reason else None
    prompts = [_prompt(each) for each in one.prompts]
    return element("article", header, prompts, reason, id=name, class_="attempt question")


def _prompt(one: AskedPrompt) -> Element:
    options = [element("li", _option(each)) for each in one.options]
    answer = None
    if one.answer is not None:
        answer = element("p", element("b", "Answer: "), one.answer, class_="lines answer")
    shown = element("ul", options, class_="options") if options else None
    return element("div", prose(one.prompt, most=10_000), shown, answer, class_="prompt")


def _option(one: Option) -> Child:
    return one.label, muted(f" {one.description}") if one.description else None


# ------------------------------------------------------------------------------ agents' programs


def conversations(view: SessionView) -> Element | None:
    """Return the conversations of agent programs; None if there were none."""
    found = list(conversations_of(view.session.history))
    if not found:
        return None
    head = ("Conversation", "First", "Last", "Prompts", "Turns", "Compactions", "Tokens", "Files")
    stopped = "Stopped because of the budget"
    stops = [(when(one.timestamp), one.details or "") for one in budget_stops(view.session.history)]
    why = (element("h3", stopped), table(stopped, ("When", "Why"), stops))
    return section(
        "conversations",
        "Conversations",
        table("Conversations", head, map(_conversation, found)),
        why if stops else None,
    )


def _conversation(one: Conversation) -> tuple[Child, ...]:
    models = (
        muted(f"{name or 'unknown'}: {count:,}", tag="div")
        for name, count in sorted(one.models.items())
    )
    more = len(one.files) - _MAX_NAMED
    return (
        (one.program, " ", element("code", one.agent_session)),
        when(one.first),
        when(one.last),
        one.prompts,
        one.turns,
        one.compactions,
        (f"{one.tokens:,}", models, muted(one.cost, tag="div")),
        (", ".join(one.files[:_MAX_NAMED]), f" and {more:,} more" if more > 0 else None),
    )


# ------------------------------------------------------------------------- a program's steps


def steps(view: SessionView, actions: Actions = READ_ONLY) -> Element | None:
    """Return the last steps of the program that leads the session; None without one."""
    program = view.program
    if program is None:
        return None
    head = ("Step", "Outcome", "Started", "Took", "Cost", "Attempts")
    rows = (
        (
            (element("code", one.step), actions.step(one)),
            (state_badge(one.outcome), muted(one.error, tag="div") if one.error else None),
            when(one.at),
            muted("-") if one.took_s is None else duration(one.took_s),
            one.cost,
            one.attempts,
        )
        for one in program.steps
    )
    return section(
        "steps",
        "Steps",
        facts(
            (
                ("Program", program.workflow),
                ("Key", element("code", program.key)),
                ("Recorded", f"{program.recorded:,}"),
                ("Cost", program.cost or None),
            )
        ),
        note(f"The steps can't be read: {program.problem}") if program.problem else None,
        table("The last steps", head, rows, class_="figures"),
    )


# -------------------------------------------------------------------------------- the checkpoints


def checkpoints(view: SessionView, actions: Actions = READ_ONLY) -> Element:
    """Return the last checkpoints, at which the session can go back or be forked."""
    found = checkpoints_of(view.session)
    shown = found[-_MAX_CHECKPOINTS:]
    command = f"agentforge session checkpoints {view.session.session_id}"
    head = ("No", "When", "After", "Attempt", "Snapshot")
    return section(
        "checkpoints",
        "Checkpoints",
        left_out(len(found), len(shown), "checkpoints", command),
        table("Checkpoints", head, (_checkpoint(one, actions) for one in shown)),
    )


def _checkpoint(one: CheckpointEntry, actions: Actions) -> tuple[Child, ...]:
    snapshot = (
        element("code", one.snapshot[:12]) if one.snapshot else None,
        muted(f"none: {one.unkept}") if one.unkept else None,
        None if one.snapshot or one.unkept else muted("none"),
        None if one.in_force else muted(" gone back behind"),
        actions.checkpoint(one),
    )
    return (
        element("span", str(one.number), id=f"checkpoint-{one.number}"),
        when(one.at),
        one.action.replace("_", " "),
        one.name or muted("-"),
        snapshot,
    )


# ------------------------------------------------------------------------------------ the history


def history(view: SessionView) -> Element:
    """Return the last entries of the history, oldest first."""
    entries = view.session.history
    shown = entries[-MAX_HISTORY:]
    first = len(entries) - len(shown) + 1
    command = f"agentforge session log {view.session.session_id}"
    head = ("No", "When", "Phase", "What", "Details")
    rows = (_entry(number, one) for number, one in enumerate(shown, first))
    return section(
        "history",
        "History",
        left_out(len(entries), len(shown), "entries", command),
        table("History", head, rows, class_="history"),
    )


def _first_line(text: str) -> tuple[str, str]:
    """Split a text into its first line, shown at once, and the rest, which is folded."""
    first, _, rest = text.partition("\n")
    if len(first) > _MAX_DETAILS:
        first, rest = first[:_MAX_DETAILS], f"{first[_MAX_DETAILS:]}\n{rest}"
    return first, rest


def _entry(number: int, entry: SessionHistory) -> tuple[Child, ...]:
    first, rest = _first_line(entry.details or "")
    details: Child = first
    if rest.strip():
        details = folded(first, plain_text(rest, "Details", most=_MAX_DETAILS), class_="more")
    return (
        element("span", f"{number:,}", id=f"entry-{number}", class_="muted"),
        when(entry.timestamp),
        entry.phase or "",
        entry.action.replace("_", " "),
        details,
    )
