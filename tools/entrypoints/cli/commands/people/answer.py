"""`agentforge answer` and `reject`: end a question session."""

from __future__ import annotations

from ...asking.question_sessions import QuestionId, question_sessions, read_json, session_document
from ...context import Cli
from ...options import QuestionPlace, misuse, option


def answer(
    cli: Cli,
    session_id: QuestionId,
    *,
    select: list[str] | None = option(
        "--select, -s [N:]LABEL",
        "The option chosen for question N, from 1; again for each. N: is needed only where there "
        "are several questions.",
    ),
    text: list[str] | None = option(
        "--text, -t [N:]TEXT", "An answer in your own words, for question N."
    ),
    nothing: list[int] | None = option(
        "--none N", "Choose nothing for multi-select question N.", min=1
    ),
    file: str | None = option(
        "--file, -f FILE",
        'Answers as JSON: a list, or an object with "answers"; - is standard input.',
    ),
    place: QuestionPlace,
) -> None:
    """Answer a question session; without options, asks at the terminal for each answer.

    The answers are checked before anything is written.
    """
    from .....questions import SessionEnded, SessionStatus, format_user_response, parse_answers
    from ...asking import question_answers

    sessions = question_sessions(cli, place)
    session = sessions.get(sessions.resolve_id(session_id))
    standing = sessions.status_of(session)
    if standing.is_terminal:
        raise SessionEnded(session.session_id, status=standing, operation="answer")
    given = bool(select or text or nothing)
    if file is not None:
        if given:
            raise misuse("--file", "the file says it all")
        document = read_json(file)
        inner = document.get("answers") if isinstance(document, dict) else document
        answers = list(parse_answers(inner))
    elif given:
        answers = question_answers.from_options(
            session.questions, select=select or [], text=text or [], nothing=nothing or []
        )
    else:
        answers = question_answers.from_person(cli.output, session.questions)
    saved = sessions.save_session_answers(session.session_id, answers)
    if cli.output.wrote(session_document(sessions, sessions.get(session.session_id))):
        return
    cli.output.line(f"Question session {session.session_id} {SessionStatus.COMPLETED.phrase}.")
    cli.output.lines(format_user_response(saved, session.questions))


def reject(
    cli: Cli,
    session_id: QuestionId,
    *,
    reason: str | None = option("--reason, -r TEXT", "The reason, for the asker."),
    place: QuestionPlace,
) -> None:
    """Reject a question session: you will not answer it."""
    sessions = question_sessions(cli, place)
    found = sessions.resolve_id(session_id)
    rejected = sessions.reject_session(found, reason)
    cli.output.outcome(
        session_document(sessions, sessions.get(found)),
        f"Question session {found} {rejected.status.phrase}.",
    )
