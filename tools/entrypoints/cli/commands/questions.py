"""Commands about question sessions: ask, answer, reject, history."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ..context import Cli, cli_of
from ..options import (
    AsJson,
    QuestionsCommand,
    QuestionsDirectory,
    SharedQuestions,
    parse_duration,
    questions_directory,
)
from ..question_signals import Terminated, end_by, ended_by_signals

if TYPE_CHECKING:
    from ....questions import (
        Question,
        QuestionSession,
        QuestionSessions,
        SessionStatus,
        UnreadableQuestion,
    )

_MAX_INPUT: Final = 8 * 1024 * 1024


_STATUSES: Final = ("waiting", "answered", "rejected", "timed_out", "abandoned")
"""How a history can be narrowed, as the shell is told."""


def _status_of(given: str) -> SessionStatus:
    """Return the status that is meant, by the word that is shown or by its name in JSON."""
    from ....questions import SessionStatus

    name = given.strip().casefold().replace("-", "_").replace(" ", "_")
    for one in SessionStatus:
        if name in {one.value, one.word.replace(" ", "_")}:
            return one
    raise typer.BadParameter(
        f"there is no status {given!r}; there are {', '.join(_STATUSES)}", param_hint="--status"
    )


def complete_question_ids(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Name the question sessions whose ids begin with `incomplete`, for the shell."""
    from ....questions import open_sessions

    try:
        sessions = open_sessions(_directory_of(context))
        return [
            (one.session_id, one.status.value)
            for one in sessions.list_sessions()
            if one.session_id.startswith(incomplete)
        ]
    except Exception:  # noqa: BLE001 (a shell that is being typed in must see no error)
        return []


def _directory_of(context: typer.Context) -> Path | None:
    given = context.params
    return questions_directory(given.get("directory"), shared=bool(given.get("shared")))


QuestionId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The question session's id, or the beginning of it that no other has.",
        autocompletion=complete_question_ids,
        show_default=False,
    ),
]


def add_to(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.command("ask", cls=QuestionsCommand)(ask)
    app.command("answer", cls=QuestionsCommand, short_help="Answer a question session.")(answer)
    app.command("reject", cls=QuestionsCommand)(reject)
    app.command(
        "history", cls=QuestionsCommand, short_help="List the question sessions, or show one."
    )(history)


def _sessions(cli: Cli, directory: str | None, *, shared: bool) -> QuestionSessions:
    from ....adapters.question_channel import open_questions

    where = questions_directory(directory, shared=shared)
    return open_questions(where, clock=cli.outside.clock)


# ---------------------------------------------------------------------------------------- ask


def ask(
    context: typer.Context,
    prompt: Annotated[
        str | None,
        typer.Argument(metavar="PROMPT", help="The question.", show_default=False),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            metavar="LABEL[=DESCRIPTION]",
            help="An answer to choose from; give it again for each.",
            show_default=False,
        ),
    ] = None,
    title: Annotated[
        str | None,
        typer.Option("--title", help="A word or two for lists; by default the prompt's beginning."),
    ] = None,
    multi: Annotated[bool, typer.Option("--multi", help="Several may be chosen.")] = False,
    file: Annotated[
        str | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help='Questions as JSON: a list, or an object with "questions"; - is standard input.',
            show_default=False,
        ),
    ] = None,
    wait_for: Annotated[
        str | None,
        typer.Option(
            "--wait-for", metavar="ID", help="Ask nothing; wait for a session that was asked."
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait for the answer, or only tell the id.")
    ] = True,
    timeout: Annotated[
        timedelta | None,
        typer.Option(
            parser=parse_duration,
            metavar="DURATION",
            help="The longest wait, as in 10m.",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep", help="Let the question wait on when the wait ends without an answer."
        ),
    ] = False,
    call_id: Annotated[
        str | None, typer.Option("--call-id", help="A call id to keep with the session.")
    ] = None,
    directory: QuestionsDirectory = None,
    shared: SharedQuestions = False,
    as_json: AsJson = False,
) -> None:
    """Ask a person and wait for the answer.

    Ends with 0 when it was answered, 1 when it was rejected (the reason is on standard output), 124
    when nobody answered in time. If you press Ctrl-C, the command is terminated or the time is
    over, the question is withdrawn, unless you say --keep.
    """
    from ....questions import Asker, current_directory

    cli = cli_of(context, json=as_json)
    if timeout is not None and not wait:
        raise typer.BadParameter(
            "--no-wait waits for nothing, so nothing would end after this time",
            param_hint="--timeout",
        )
    sessions = _sessions(cli, directory, shared=shared)
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
            _tell_person(sessions, session_id)
        if wait:
            with ended_by_signals():
                _wait_and_tell(cli, sessions, session_id, timeout, keep=keep)
            if wait_for is not None:
                _note_fetched(sessions, session_id)
        elif cli.output.json:
            cli.output.document({"session_id": session_id, "status": "pending"})
        else:
            cli.output.line(session_id)
    except KeyboardInterrupt:
        if not keep:
            _withdraw(sessions, session_id, "the one who asked was interrupted")
        raise
    except Terminated as ended:
        if not keep:
            _withdraw(sessions, session_id, "the one who asked was terminated")
        end_by(ended.number)


def _check_asks_nothing(about_a_question: Iterable[object], *, wait: bool) -> None:
    if any(given is not None for given in about_a_question):
        raise typer.BadParameter("asks nothing, so it takes no question", param_hint="--wait-for")
    if not wait:
        raise typer.BadParameter("waits, so it takes no --no-wait", param_hint="--wait-for")


def _note_fetched(sessions: QuestionSessions, session_id: str) -> None:
    """Note on disk that answers were fetched; what goes wrong with it takes no answer away."""
    from ....questions import QuestionError

    with suppress(QuestionError):
        sessions.mark_answers_read(session_id)


def _withdraw(sessions: QuestionSessions, session_id: str, why: str) -> None:
    from ....questions import QuestionError

    with suppress(QuestionError):  # it ended meanwhile
        sessions.abandon_session(session_id, why)


def _wait_and_tell(
    cli: Cli,
    sessions: QuestionSessions,
    session_id: str,
    timeout: timedelta | None,
    *,
    keep: bool,
) -> None:
    from ....questions import SessionRejected, format_rejection, format_user_response
    from ..exit_codes import ExitCode

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
        cli.output.document({**_document(sessions, session), "text": text})
    else:
        cli.output.lines(text)


def _tell_person(sessions: QuestionSessions, session_id: str) -> None:
    from ....questions import Notifier, QuestionError, load_config

    with suppress(QuestionError):
        sessions.pending()  # ends what nobody waits for any more

    Notifier(load_config().notify, sessions.base_dir, terminal=sys.stderr).tell(
        sessions.get(session_id)
    )


def _questions_of(
    prompt: str | None, options: list[str], title: str | None, *, multi: bool, file: str | None
) -> tuple[Question, ...]:
    from ....questions import Option, Question, parse_questions

    if prompt is None:
        if options or title is not None or multi:
            raise typer.BadParameter("these options need a prompt", param_hint="PROMPT")
        if file is None and sys.stdin.isatty():
            raise typer.BadParameter("give a prompt, or --file", param_hint="PROMPT")
        document = _read_json(file if file is not None else "-")
        if isinstance(document, dict):
            document = document.get("questions")
        return parse_questions(document)
    if file is not None:
        raise typer.BadParameter("a prompt and a file are two ways to ask", param_hint="--file")
    made = []
    for one in options:
        label, _, description = one.partition("=")
        made.append(Option(label=label.strip(), description=description.strip() or None))
    from ..text import shorten

    return (
        Question(
            prompt=prompt,
            title=title if title is not None else shorten(" ".join(prompt.split()), 24),
            options=tuple(made),
            multi_select=multi,
        ),
    )


def _read_json(name: str) -> Any:
    try:
        if name == "-":
            data = sys.stdin.buffer.read(_MAX_INPUT + 1)
        else:
            with Path(name).open("rb") as stream:
                data = stream.read(_MAX_INPUT + 1)
    except OSError as error:
        raise typer.BadParameter(
            f"{name}: {error.strerror or error}", param_hint="--file"
        ) from error
    if len(data) > _MAX_INPUT:
        raise typer.BadParameter(f"{name}: more than {_MAX_INPUT:,} bytes", param_hint="--file")
    try:
        return json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{name} is no JSON: {error}", param_hint="--file") from error


# ------------------------------------------------------------------------------ answer, reject


def answer(
    context: typer.Context,
    session_id: QuestionId,
    select: Annotated[
        list[str] | None,
        typer.Option(
            "--select",
            "-s",
            metavar="[N:]LABEL",
            help="The option chosen for question N, from 1; again for each. N: is needed only "
            "where there are several questions.",
            show_default=False,
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            "--text",
            "-t",
            metavar="[N:]TEXT",
            help="An answer in your own words, for question N.",
            show_default=False,
        ),
    ] = None,
    nothing: Annotated[
        list[int] | None,
        typer.Option(
            "--none", metavar="N", min=1, help="Choose nothing for multi-select question N."
        ),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help='Answers as JSON: a list, or an object with "answers"; - is standard input.',
            show_default=False,
        ),
    ] = None,
    directory: QuestionsDirectory = None,
    shared: SharedQuestions = False,
    as_json: AsJson = False,
) -> None:
    """Answer a question session; without options it asks you here, question by question.

    The answers are checked before anything is written.
    """
    from ....questions import (
        SessionEnded,
        SessionStatus,
        format_user_response,
        parse_answers,
    )
    from .. import question_answers

    cli = cli_of(context, json=as_json)
    sessions = _sessions(cli, directory, shared=shared)
    session = sessions.get(sessions.resolve_id(session_id))
    standing = sessions.standing(session)
    if standing.is_terminal:
        raise SessionEnded(session.session_id, status=standing, operation="answer")
    given = bool(select or text or nothing)
    if file is not None:
        if given:
            raise typer.BadParameter("the file says it all", param_hint="--file")
        document = _read_json(file)
        inner = document.get("answers") if isinstance(document, dict) else document
        answers = list(parse_answers(inner))
    elif given:
        answers = question_answers.from_options(
            session.questions, select=select or [], text=text or [], nothing=nothing or []
        )
    else:
        answers = question_answers.from_person(cli.output, session.questions)
    saved = sessions.save_session_answers(session.session_id, answers)
    if cli.output.json:
        cli.output.document(_document(sessions, sessions.get(session.session_id)))
        return
    cli.output.line(f"Question session {session.session_id} {SessionStatus.COMPLETED.told}.")
    cli.output.lines(format_user_response(saved, session.questions))


def reject(
    context: typer.Context,
    session_id: QuestionId,
    reason: Annotated[
        str | None,
        typer.Option("--reason", "-r", help="Why; the one who asked reads it.", show_default=False),
    ] = None,
    directory: QuestionsDirectory = None,
    shared: SharedQuestions = False,
    as_json: AsJson = False,
) -> None:
    """Reject a question session: you will not answer it."""
    cli = cli_of(context, json=as_json)
    sessions = _sessions(cli, directory, shared=shared)
    found = sessions.resolve_id(session_id)
    rejected = sessions.reject_session(found, reason)
    if cli.output.json:
        cli.output.document(_document(sessions, sessions.get(found)))
    else:
        cli.output.line(f"Question session {found} {rejected.status.told}.")


# ------------------------------------------------------------------------------------ history


def history(
    context: typer.Context,
    session_id: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="Show this one whole.",
            autocompletion=complete_question_ids,
            show_default=False,
        ),
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(
            metavar="STATUS",
            help=f"Only those that are {', '.join(_STATUSES[:-1])} or {_STATUSES[-1]}.",
            autocompletion=lambda: list(_STATUSES),
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only the last N.", show_default=False)
    ] = None,
    directory: QuestionsDirectory = None,
    shared: SharedQuestions = False,
    as_json: AsJson = False,
) -> None:
    """List the question sessions, the last asked first, or show one with its answers."""
    cli = cli_of(context, json=as_json)
    wanted = None if status is None else _status_of(status)
    sessions = _sessions(cli, directory, shared=shared)
    if session_id is not None:
        _show(cli, sessions, sessions.get(sessions.resolve_id(session_id)))
        return
    unreadable: list[UnreadableQuestion] = []
    found = sessions.list_sessions(on_unreadable=unreadable.append)
    found = [one for one in reversed(found) if wanted in {None, sessions.standing(one)}]
    found = found[:limit]
    if cli.output.json:
        cli.output.document(
            {
                "directory": sessions.base_dir,
                "sessions": [_document(sessions, one) for one in found],
                "unreadable": [
                    {"session_id": one.session_id, "error": str(one.error)} for one in unreadable
                ],
            }
        )
        return
    short = sessions.short_ids()
    for one in found:
        titles = ", ".join(one.titles)
        when = one.created_at.astimezone().strftime("%Y-%m-%d %H:%M")
        name = short.get(one.session_id, one.session_id)
        cli.output.line(f"{name}  {sessions.standing(one).word:<9}  {when}  {titles}")
    if not found:
        which = "is there" if wanted is None else f"is {wanted.word}"
        cli.output.line(f"No question session {which} in {sessions.base_dir}.")
    for bad in unreadable:
        cli.output.remark(f"{bad.session_id} can't be read: {bad.error}")


def _show(cli: Cli, sessions: QuestionSessions, session: QuestionSession) -> None:
    from ....questions import format_user_response
    from ..render import moment_text

    if cli.output.json:
        cli.output.document(_document(sessions, session))
        return
    cli.output.line(f"Question session {session.session_id} {sessions.standing(session).told}.")
    cli.output.line(f"Asked {moment_text(session.created_at)}")
    reason = session.rejection_reason or session.record.end_reason
    if reason:
        cli.output.line(f"Reason: {reason}")
    if session.answers is not None:
        cli.output.lines(format_user_response(session.answers, session.questions))
        return
    for number, question in enumerate(session.questions, 1):
        cli.output.lines(f"{number}. {question.prompt}")
        for option in question.options:
            more = f" — {option.description}" if option.description else ""
            cli.output.line(f"   - {option.label}{more}")


def _document(sessions: QuestionSessions, session: QuestionSession) -> dict[str, Any]:
    from ....questions.wire import answer_document, question_document

    answers = session.answers
    return {
        "session_id": session.session_id,
        "status": sessions.standing(session),
        "created_at": session.created_at,
        "last_modified": session.last_modified,
        "call_id": session.call_id,
        "rejection_reason": session.rejection_reason,
        "end_reason": session.record.end_reason,
        "questions": [question_document(one) for one in session.questions],
        "answers": None if answers is None else [answer_document(one) for one in answers.answers],
    }
