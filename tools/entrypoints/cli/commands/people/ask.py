"""`agentforge ask`: ask a person, and wait for the answer."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from ...asking.question_sessions import question_sessions, read_json, session_document
from ...asking.question_signals import Terminated, end_by, ended_by_signals
from ...context import Cli, cli_of
from ...options import AsJson, QuestionsDirectory, SharedQuestions, argument, option, parse_duration
from ...output.exit_codes import ExitCode
from ...output.text import shorten

if TYPE_CHECKING:
    from .....questions import Question, QuestionSessions


def add_to(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("ask")(ask)


def ask(
    context: typer.Context,
    prompt: Annotated[str | None, argument("PROMPT", "The question.")] = None,
    option: Annotated[
        list[str] | None,
        option("--option, -o LABEL[=DESCRIPTION]", "An answer to choose from; may be repeated."),
    ] = None,
    title: Annotated[
        str | None,
        option("--title", "Short title for lists; the beginning of the prompt by default."),
    ] = None,
    multi: Annotated[bool, option("--multi", "Allow several options to be chosen.")] = False,
    file: Annotated[
        str | None,
        option(
            "--file, -f FILE",
            'Questions as JSON: a list, or an object with "questions"; - is standard input.',
        ),
    ] = None,
    wait_for: Annotated[
        str | None, option("--wait-for ID", "Ask nothing; wait for an existing question session.")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait for the answer, or only write the id.")
    ] = True,
    timeout: Annotated[
        timedelta | None,
        option("--timeout DURATION", "Maximum wait, as in 10m.", parser=parse_duration),
    ] = None,
    keep: Annotated[
        bool, option("--keep", "Keep the question open when the wait ends without an answer.")
    ] = False,
    call_id: Annotated[
        str | None, option("--call-id", "A call id to keep with the session.")
    ] = None,
    directory: QuestionsDirectory = None,
    shared: SharedQuestions = False,
    as_json: AsJson = False,
) -> None:
    """Ask a person and wait for the answer.

    The exit code is 0 for an answer, 1 for a rejection (its reason is on standard output) and 124
    if there was no answer in time. The question is withdrawn at Ctrl-C, when the command is
    terminated and when the time is over, unless --keep is given.
    """
    from .....questions import Asker, current_directory

    cli = cli_of(context, json=as_json)
    if timeout is not None and not wait:
        raise typer.BadParameter(
            "--no-wait waits for nothing, so nothing would end after this time",
            param_hint="--timeout",
        )
    sessions = question_sessions(cli, directory, shared=shared)
    if wait_for is not None:
        _check_asks_nothing((prompt, option, file, title, multi or None, call_id), wait=wait)
        session_id, keep = sessions.resolve_id(wait_for), True
    else:
        questions = _questions_of(prompt, option or [], title, multi=multi, file=file)
        session_id = sessions.create_session(
            questions,
            call_id=call_id,
            working_directory=current_directory(),
            asker=Asker.current() if wait and not keep else None,
        )
    try:
        if wait_for is None:
            _notify_person(sessions, session_id)
        if wait:
            with ended_by_signals():
                _wait_and_report(cli, sessions, session_id, timeout, keep=keep)
            if wait_for is not None:
                _note_fetched(sessions, session_id)
        elif cli.output.json:
            cli.output.document({"session_id": session_id, "status": "pending"})
        else:
            cli.output.line(session_id)
    except KeyboardInterrupt:
        if not keep:
            _withdraw(cli, sessions, session_id, "the one who asked was interrupted")
        raise
    except Terminated as ended:
        if not keep:
            _withdraw(cli, sessions, session_id, "the one who asked was terminated")
        end_by(ended.number)


def _check_asks_nothing(about_a_question: Iterable[object], *, wait: bool) -> None:
    if any(given is not None for given in about_a_question):
        raise typer.BadParameter("asks nothing, so it takes no question", param_hint="--wait-for")
    if not wait:
        raise typer.BadParameter("waits, so it takes no --no-wait", param_hint="--wait-for")


def _note_fetched(sessions: QuestionSessions, session_id: str) -> None:
    """Record that answers were fetched; an error does not withhold the answers."""
    from .....questions import QuestionError

    with suppress(QuestionError):
        sessions.mark_answers_read(session_id)


def _withdraw(cli: Cli, sessions: QuestionSessions, session_id: str, why: str) -> None:
    from .....questions import QuestionError, SessionEnded, SessionNotFound

    try:
        sessions.abandon_session(session_id, why)
    except (SessionEnded, SessionNotFound):
        pass  # somebody was faster
    except QuestionError as error:
        cli.output.remark(f"The question {session_id} was not withdrawn, and still waits: {error}")


def _wait_and_report(
    cli: Cli,
    sessions: QuestionSessions,
    session_id: str,
    timeout: timedelta | None,
    *,
    keep: bool,
) -> None:
    from .....questions import SessionRejected, format_rejection, format_user_response

    if not cli.output.json:
        short = sessions.short_ids().get(session_id, session_id)
        cli.output.remark(f"Waiting for an answer to {session_id}: agentforge answer {short}")
    try:
        answers = sessions.wait_for_answers(
            session_id,
            timeout.total_seconds() if timeout is not None else None,
            on_timeout="leave" if keep else "end",
        )
    except SessionRejected as error:
        if cli.output.json:
            raise
        cli.output.lines(format_rejection(error.reason).rstrip("\n"))
        raise typer.Exit(ExitCode.NOT_DONE) from error
    session = sessions.get(session_id)
    text = format_user_response(answers, session.questions)
    if cli.output.json:
        cli.output.document({**session_document(sessions, session), "text": text})
    else:
        cli.output.lines(text)


def _notify_person(sessions: QuestionSessions, session_id: str) -> None:
    from .....questions import Notifier, QuestionError, load_config

    with suppress(QuestionError):
        sessions.pending()  # ends sessions whose asker is dead

    Notifier(load_config().notify, sessions.where, terminal=sys.stderr).notify(
        sessions.get(session_id)
    )


def _questions_of(
    prompt: str | None, options: list[str], title: str | None, *, multi: bool, file: str | None
) -> tuple[Question, ...]:
    from .....questions import Option, Question, parse_questions

    if prompt is None:
        if options or title is not None or multi:
            raise typer.BadParameter("these options need a prompt", param_hint="PROMPT")
        if file is None and sys.stdin.isatty():
            raise typer.BadParameter("give a prompt, or --file", param_hint="PROMPT")
        document = read_json(file if file is not None else "-")
        if isinstance(document, dict):
            document = document.get("questions")
        return parse_questions(document)
    if file is not None:
        raise typer.BadParameter("a prompt and a file are two ways to ask", param_hint="--file")
    made = []
    for one in options:
        label, _, description = one.partition("=")
        made.append(Option(label=label.strip(), description=description.strip() or None))
    return (
        Question(
            prompt=prompt,
            title=title if title is not None else shorten(" ".join(prompt.split()), 24),
            options=tuple(made),
            multi_select=multi,
        ),
    )
