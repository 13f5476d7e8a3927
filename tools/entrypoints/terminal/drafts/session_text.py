"""Formats sessions for a person: the asker, the position, the answers, arrivals and endings."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ....base.errors import counted
from ....base.identifiers import is_session_id
from ....questions import Asker, Question, SessionStatus
from ..question_queue import QueueListing, SessionEnding, WaitingSession
from ..text import SHORT_ID, folder_name, harmless, one_line, running
from .draft import ASKS, Draft, Reply

_TITLE_WIDTH: Final = 16
_ASKED_WIDTH: Final = 60
_BY_OTHERS: Final = frozenset({SessionStatus.COMPLETED, SessionStatus.REJECTED})
"""Endings that another person may have caused while the session was open here."""


def asker_name(asker: Asker) -> str:
    """Return the asker's name: the agent session by the end of its id, else the process.

    `agentforge show` and similar commands accept the end of an id. A directory that is not named
    like an agent session has no id to show.
    """
    name = asker.session_name
    if name is None:
        return f"process {asker.process.pid}"
    return f"agent session {name.split('_', 2)[2]}" if is_session_id(name) else "an agent session"


def asked_text(waiting: WaitingSession, limit: int) -> str:
    """Return who asked and from which folder; "" if neither is known.

    The beginning of the folder's path is cut to fit `limit` characters.
    """
    if waiting.asker is None and not waiting.folder:
        return ""
    text = f"asked by {asker_name(waiting.asker)}" if waiting.asker is not None else "asked"
    if not waiting.folder:
        return text
    return f"{text} from {folder_name(waiting.folder, max(limit - len(text) - 6, 1))}"


def step_of(reply: Reply, *, here: bool) -> str:
    """Return a question's sign: current, asked back, answered, or open."""
    if here:
        return "▸"
    if reply.ask is not None:
        return "?"
    return "✓" if reply.answered else "·"


def steps_text(questions: tuple[Question, ...], draft: Draft, width: int) -> str:
    """Return a line of all questions: with titles if they fit, else with numbers, else a count."""
    signs = [step_of(reply, here=i == draft.position) for i, reply in enumerate(draft.replies)]
    titled = [
        f"{sign} {i + 1} {one_line(question.title, _TITLE_WIDTH)}"
        for i, (sign, question) in enumerate(zip(signs, questions, strict=True))
    ]
    text = "   ".join(titled)
    if len(text) <= width:
        return text
    text = "  ".join(f"{sign} {i + 1}" for i, sign in enumerate(signs))
    if len(text) <= width:
        return text
    return f"{sum(reply.answered for reply in draft.replies)} of {len(questions)} answered"


def head_text(
    waiting: WaitingSession, start: str, *, now: datetime, others: int, width: int
) -> str:
    """Return the first line: question, session, time waited, time left, other sessions.

    If that exceeds `width`, the number of other sessions is shortened, then omitted.
    """
    parts = [
        start,
        f"session {waiting.session_id[:SHORT_ID]}",
        f"waiting {running((now - waiting.created_at).total_seconds())}",
    ]
    if waiting.ends_at is not None:
        parts.append(f"{running((waiting.ends_at - now).total_seconds())} left")
    for more in (f"{others:,} more waiting", f"{others:,} more") if others else ():
        if len(text := " · ".join([*parts, more])) <= width:
            return text
    return " · ".join(parts)


def prompt_title(question: Question, waiting: WaitingSession) -> str:
    """Return the heading of a prompt: its title, who asked, and from which folder."""
    title = one_line(question.title) or "Question"
    asked = asked_text(waiting, _ASKED_WIDTH)
    return f"{title} · {asked}" if asked else title


def reply_lines(question: Question, reply: Reply) -> list[str]:
    """Return lines on what will be sent for a question, and what was entered and will not be."""
    if reply.ask is not None:
        guidance = harmless(reply.guidance).strip()
        wish = f"? {ASKS[reply.ask]}"
        lines = [f"{wish}: {guidance}" if guidance else wish]
        if (reply.picked and not reply.preselected) or reply.has_text:
            lines.append("  (your choice is not sent)")
        return lines
    note = "  (preselected)" if reply.preselected else ""
    lines = [f"→ {one_line(question.options[index].label)}{note}" for index in reply.picked]
    text = harmless(reply.text).strip()
    if reply.has_text:
        first, *rest = text.splitlines()
        lines += [f"→ Other: {first}", *[f"         {line}" for line in rest]]
    elif text:
        lines.append(f"  (typed for Other and not sent: {one_line(text, 60)})")
    if not reply.answered:
        lines.insert(0, "! no answer" + (", no option" if question.multi_select else ""))
    return lines


def review_text(questions: tuple[Question, ...], draft: Draft) -> str:
    """Return all questions and answers as plain text, to save or to read."""
    parts = []
    for index, (question, reply) in enumerate(zip(questions, draft.replies, strict=True)):
        heading = f"{index + 1}. {one_line(question.title)}"
        prompt = harmless(question.prompt).strip()
        parts.append("\n".join([heading, prompt, *reply_lines(question, reply)]))
    return "\n\n".join(parts) + "\n"


def bare_text(draft: Draft) -> str:
    """Return a draft as plain text without its questions, for when those can't be read."""
    parts = []
    for index, reply in enumerate(draft.replies):
        chosen = ", ".join(str(one + 1) for one in reply.picked)
        lines = [f"{index + 1}."]
        lines += [f"→ option {chosen}"] if chosen else []
        lines += [f"→ Other: {harmless(reply.text)}"] if reply.text.strip() else []
        lines += [f"? {harmless(reply.guidance)}"] if reply.guidance.strip() else []
        if len(lines) > 1:
            parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def ending_text(ending: SessionEnding) -> str:
    """Return how a session ended, as the predicate of a sentence about it."""
    if ending.status is None:
        return "was deleted"
    text, _, meaning = ending.status.phrase.partition(": ")
    if ending.status in _BY_OTHERS:
        text += " elsewhere"
    if ending.at is not None:
        text += f" at {ending.at.astimezone():%H:%M:%S}"
    if meaning:
        text += f": {meaning}"
    reason = one_line(ending.reason or "", 200)
    return f"{text} ({reason})" if reason else text


def arrivals_text(before: QueueListing, after: QueueListing) -> str:
    """Return a message on sessions that arrived; "" if none did."""
    known = {one.session_id for one in before.waiting}
    new = [one for one in after.waiting if one.session_id not in known]
    if not new:
        return ""
    if len(new) > 1:
        return f"{counted(len(new), 'new session')} waiting"
    (one,) = new
    title = one_line(one.titles[0], 40) if one.titles else "no title"
    return f"New: {title} (session {one.session_id[:SHORT_ID]})"
