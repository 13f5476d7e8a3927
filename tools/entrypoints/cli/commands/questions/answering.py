"""Commands on question sessions: answer, reject, history, and questions in a terminal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar, Final

from .....questions import (
    SessionEnded,
    SessionStatus,
    UnreadableQuestion,
    format_user_response,
    load_config,
    parse_answers,
)
from .....wiring.bootstrap import open_questions
from ....terminal.theme_name import ThemeName
from ...asking import (
    QuestionId,
    complete_question_ids,
    from_options,
    from_person,
    question_sessions,
    read_json,
    say_what_came,
    session_document,
    show_question,
)
from ...context import Cli
from ...on_demand import GroupWithDefault, new_group
from ...options import QuestionPlace, argument, misuse, option
from ...output.text import counted, moment_text
from ...tree import TREE

if TYPE_CHECKING:
    from .....questions import QuestionSession, QuestionSessions

_STATUSES: Final = ("waiting", "answered", "rejected", "timed_out", "abandoned")
"""The statuses that `questions history --status` accepts and the shell completes."""


class _QuestionsGroup(GroupWithDefault):
    """The commands on question sessions; without one, the waiting ones are shown."""

    default: ClassVar = "waiting"

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, and the options of the one without a word."""
        self.format_commands(ctx, formatter)
        self.commands[self.default].format_options(ctx, formatter)


group = new_group(
    "questions",
    TREE["questions"],
    kind=_QuestionsGroup,
    help="Show waiting questions in the terminal and answer them; ask, reject and list them.",
    options_metavar="",
    subcommand_metavar="[ID | COMMAND] [OPTIONS]",
)


def waiting(
    cli: Cli,
    *,
    session: str | None = argument("ID", default=None, autocompletion=complete_question_ids),
    place: QuestionPlace,
    bell: bool | None = option("--bell/--no-bell"),
    theme: ThemeName = option(
        "--theme <dark|light|contrast>",
        default=ThemeName.DARK,
        envvar="AGENTFORGE_THEME",
        show_default=True,
    ),
) -> None:
    """Show waiting questions and answer them.

    Needs a terminal and the extra `terminal`. The foot of each screen shows its keys, ? shows all.
    `agentforge ui` shows them in a browser.

    Args:
        session: The question session to open, or the beginning of its id.
        bell: Ring the bell for a new question; the default is `bell` in [notify].
        theme: The colours to begin with; t changes them.
    """
    where = place.path
    if cli.output.json:
        raise misuse(
            "--json", "a terminal writes no JSON; use `agentforge questions history --json`"
        )
    config = load_config()
    sessions = open_questions(where, store=cli.store(), config=config, clock=cli.outside.clock)
    say_what_came(cli, sessions)
    first = sessions.resolve_id(session) if session is not None else None
    from ....terminal import run_terminal

    if not cli.output.color:
        os.environ["NO_COLOR"] = "1"  # Textual reads this variable
    rings = config.notify.bell if bell is None else bell
    ended = run_terminal(sessions, first=first, bell=rings, theme=theme)
    if ended.drafts:
        cli.output.line(
            f"What you typed for {counted(len(ended.drafts))} is kept in {ended.where}; "
            "`agentforge questions` continues with it."
        )
    for text in ended.lost:
        cli.output.lines(f"Not kept: {text}")


def answer(
    cli: Cli,
    session_id: QuestionId,
    *,
    select: list[str] | None = option("--select, -s [N:]LABEL"),
    text: list[str] | None = option("--text, -t [N:]TEXT"),
    nothing: list[int] | None = option("--none N", min=1),
    file: str | None = option("--file, -f FILE"),
    place: QuestionPlace,
) -> None:
    """Answer a question session; without options, asks at the terminal for each answer.

    The answers are checked before anything is written.

    Args:
        select: The option chosen for question N, from 1; again for each. N: is needed only where
            there are several questions.
        text: An answer in your own words, for question N.
        nothing: Choose nothing for multi-select question N.
        file: Answers as JSON: a list, or an object with "answers"; - is standard input.
    """
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
        answers = from_options(
            session.questions, select=select or [], text=text or [], nothing=nothing or []
        )
    else:
        answers = from_person(cli.output, session.questions)
    saved = sessions.save_session_answers(session.session_id, answers)
    cli.output.outcome(
        session_document(sessions, sessions.get(session.session_id)),
        f"Question session {session.session_id} {SessionStatus.COMPLETED.phrase}.",
    )
    if not cli.output.json:
        cli.output.lines(format_user_response(saved, session.questions))


def reject(
    cli: Cli,
    session_id: QuestionId,
    *,
    reason: str | None = option("--reason, -r TEXT"),
    place: QuestionPlace,
) -> None:
    """Reject a question session: you will not answer it.

    Args:
        reason: The reason, for the asker.
    """
    sessions = question_sessions(cli, place)
    found = sessions.resolve_id(session_id)
    rejected = sessions.reject_session(found, reason)
    cli.output.outcome(
        session_document(sessions, sessions.get(found)),
        f"Question session {found} {rejected.status.phrase}.",
    )


def history(
    cli: Cli,
    *,
    session_id: str | None = argument("ID", default=None, autocompletion=complete_question_ids),
    status: str | None = option(
        "--status STATUS",
        f"Only those that are {', '.join(_STATUSES[:-1])} or {_STATUSES[-1]}.",
        autocompletion=lambda: list(_STATUSES),
    ),
    limit: int | None = option("--limit N", min=1),
    place: QuestionPlace,
) -> None:
    """List the question sessions, the last asked first, or show one with its answers.

    Args:
        session_id: Show this question session in full.
        limit: Only the last N.
    """
    wanted = None if status is None else _status_of(status)
    sessions = question_sessions(cli, place)
    if session_id is not None:
        show_question_session(cli, sessions, sessions.get(sessions.resolve_id(session_id)))
        return
    unreadable: list[UnreadableQuestion] = []
    found = sessions.list_sessions(on_unreadable=unreadable.append)
    found = [one for one in reversed(found) if wanted in {None, sessions.status_of(one)}]
    found = found[:limit]
    broken = [{"session_id": one.session_id, "error": str(one.error)} for one in unreadable]
    documents = [session_document(sessions, one) for one in found]
    if cli.output.wrote({"directory": sessions.where, "sessions": documents, "unreadable": broken}):
        return
    short = sessions.short_ids()
    for one in found:
        titles = ", ".join(one.titles)
        when = one.created_at.astimezone().strftime("%Y-%m-%d %H:%M")
        name = short.get(one.session_id, one.session_id)
        cli.output.line(f"{name}  {sessions.status_of(one).word:<9}  {when}  {titles}")
    if not found:
        which = "is there" if wanted is None else f"is {wanted.word}"
        cli.output.line(f"No question session {which} in {sessions.where}.")
    for bad in unreadable:
        cli.output.remark(f"{bad.session_id} can't be read: {bad.error}")


def show_question_session(cli: Cli, sessions: QuestionSessions, session: QuestionSession) -> None:
    """Show a question session in full."""
    if cli.output.wrote(session_document(sessions, session)):
        return
    cli.output.line(f"Question session {session.session_id} {sessions.status_of(session).phrase}.")
    cli.output.line(f"Asked {moment_text(session.created_at)}")
    reason = session.rejection_reason or session.record.end_reason
    if reason:
        cli.output.line(f"Reason: {reason}")
    if session.answers is not None:
        cli.output.lines(format_user_response(session.answers, session.questions))
        return
    for index, question in enumerate(session.questions):
        show_question(cli.output, index, question, numbered=False)


def _status_of(given: str) -> SessionStatus:
    """Return the status of a word, as shown to people or as in JSON."""
    name = given.strip().casefold().replace("-", "_").replace(" ", "_")
    for one in SessionStatus:
        if name in {one.value, one.word.replace(" ", "_")}:
            return one
    raise misuse("--status", f"there is no status {given!r}; there are {', '.join(_STATUSES)}")
