"""Directory, ids and JSON documents for the commands on question sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ..context import Cli
from ..options import QuestionPlace, argument, misuse, questions_directory, read_given_text
from ..output.documents import selected

if TYPE_CHECKING:
    from ....questions import QuestionSession, QuestionSessions

_MAX_INPUT: Final = 8 * 1024 * 1024


def complete_question_ids(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the question sessions whose ids begin with `incomplete`, for shell completion."""
    from ....wiring.bootstrap import open_questions

    try:
        given, store = context.params, context.find_root().params.get("store")
        where = questions_directory(given.get("directory"), shared=bool(given.get("shared")))
        sessions = open_questions(where, store=store)
        return [
            (one.session_id, one.status.value)
            for one in sessions.list_sessions()
            if one.session_id.startswith(incomplete)
        ]
    except Exception:  # noqa: BLE001 (completion must not print an error into the command line)
        return []


QuestionId = Annotated[
    str,
    argument(
        "ID",
        "The question session's id, or an unambiguous beginning of it.",
        autocompletion=complete_question_ids,
    ),
]


def question_sessions(cli: Cli, place: QuestionPlace) -> QuestionSessions:
    """Return the question sessions that the options name."""
    from ....wiring.bootstrap import open_questions

    sessions = open_questions(place.path, store=cli.store(), clock=cli.outside.clock)
    say_what_came(cli, sessions)
    return sessions


def say_what_came(cli: Cli, sessions: QuestionSessions) -> None:
    """Write a remark if question sessions came with the repository."""
    told = sessions.came_with_repository()
    if told is not None:
        cli.output.remark(told)


def read_json(name: str) -> Any:
    """Read a JSON document from a file, or from standard input if its name is `-`.

    Raises:
        typer.BadParameter: It can't be read, is too large or is not JSON.
    """
    text = read_given_text(Path(name), option="--file", most=_MAX_INPUT)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise misuse("--file", f"{name} is no JSON: {error}") from error


def session_document(sessions: QuestionSessions, session: QuestionSession) -> dict[str, Any]:
    """Return a question session as a JSON document."""
    from ....questions.files.wire import answer_document, question_document

    answers = session.answers
    return {
        "session_id": session.session_id,
        "status": sessions.status_of(session),
        **selected(session, "created_at last_modified call_id rejection_reason"),
        "end_reason": session.record.end_reason,
        "questions": [question_document(one) for one in session.questions],
        "answers": None if answers is None else [answer_document(one) for one in answers.answers],
    }
