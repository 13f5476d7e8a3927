"""Results of a search, as lines for people and as a document for programs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from ... import harness
from ...base.search_words import Passage, SearchWords, TextSource
from ...harness.views.session_search import SessionMatch
from .context import Cli
from .output.documents import error_document, selected, summary_document, unreadable_document
from .output.render import state_text, unreadable_lines, words
from .output.text import age_text, first_line, safe, shorten

if TYPE_CHECKING:
    from ...questions import QuestionSessions
    from ...questions.listing import QuestionMatch
    from ...wiring.searching import SearchResult

_MARK: Final = "bold magenta"
_GOAL_CHARS: Final = 100
_PLACE_WIDTH: Final = 12


def show_found(
    cli: Cli, found: SearchResult, manager: harness.SessionManager, questions: QuestionSessions
) -> None:
    """Write each result with its passages; a terminal shows the words in colour."""
    now = cli.outside.clock()
    for one in found.matches:
        if isinstance(one, SessionMatch):
            cli.output.show(*_session_lines(one, manager, now))
        else:
            cli.output.show(_question_line(one, questions, now))
        cli.output.show(*map(_passage_line, one.passages))
    cli.output.show(*unreadable_lines([*found.unreadable, *found.unreadable_questions]))


def _session_lines(one: SessionMatch, manager: harness.SessionManager, now: datetime) -> list[Text]:
    head = one.summary.head
    line = Text(head.session_id, "bold")
    interrupted = manager.store.is_interrupted(head.session_id, head.state)
    line.append("  ").append_text(state_text("interrupted" if interrupted else head.state.value))
    about = [head.workflow_type, head.current_phase, *head.tags]
    for text in (*filter(None, about), age_text((now - head.updated_at).total_seconds())):
        line.append(f"  {safe(text)}")
    shown = {passage.place for passage in one.passages}
    name = head.title or first_line(one.goal)
    if not name or TextSource.TITLE in shown or (not head.title and TextSource.GOAL in shown):
        return [line]
    return [line, words(f"  {shorten(name, _GOAL_CHARS)}", "dim")]


def _question_line(one: QuestionMatch, questions: QuestionSessions, now: datetime) -> Text:
    line = Text(one.session_id, "bold").append("  question  ")
    line.append(questions.status_of(one.session).word)
    return line.append(f"  {age_text((now - one.changed_at).total_seconds())}")


def _passage_line(passage: Passage) -> Text:
    number = "" if passage.number is None else f" {passage.number + 1}"
    line = Text(f"  {passage.place.value + number:<{_PLACE_WIDTH}}  ", "dim")
    at = 0
    for begin, end in passage.marks:
        line.append(safe(passage.text[at:begin]), "not dim")
        line.append(safe(passage.text[begin:end]), f"not dim {_MARK}")
        at = end
    return line.append(safe(passage.text[at:]), "not dim")


def found_document(
    found: SearchResult,
    asked: SearchWords,
    manager: harness.SessionManager,
    questions: QuestionSessions,
) -> dict[str, Any]:
    """Return the results as a JSON document."""
    return {
        "base": manager.store.where,
        "questions": questions.where,
        "words": list(asked.terms),
        "matches": [
            {
                **(
                    _session_document(one, manager)
                    if isinstance(one, SessionMatch)
                    else _question_document(one, questions)
                ),
                "passages": [
                    {**selected(passage, "place number"), "timestamp": passage.at}
                    | selected(passage, "text marks")
                    for passage in one.passages
                ],
            }
            for one in found.matches
        ],
        "more": found.more,
        "unreadable": [unreadable_document(one) for one in found.unreadable],
        "unreadable_questions": [
            {"session_id": one.session_id, "error": error_document(one.error)}
            for one in found.unreadable_questions
        ],
    }


def _session_document(one: SessionMatch, manager: harness.SessionManager) -> dict[str, Any]:
    head = one.summary.head
    interrupted = manager.store.is_interrupted(head.session_id, head.state)
    own = manager.store.is_own(head.session_id)
    return {
        "kind": "session",
        **summary_document(one.summary, interrupted=interrupted, own=own),
        **selected(head, "title tags"),
        "goal": one.goal,
    }


def _question_document(one: QuestionMatch, questions: QuestionSessions) -> dict[str, Any]:
    asker = one.session.asker
    return {
        "kind": "question",
        "session_id": one.session_id,
        "status": questions.status_of(one.session),
        "created_at": one.session.created_at,
        "last_modified": one.changed_at,
        "agent_session": None if asker is None else asker.session_name,
        "titles": one.session.titles,
    }
