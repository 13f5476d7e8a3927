"""`agentforge session adopt`: make a session yours that came with a clone, a copy or an archive."""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from .....harness import LocalSessions, SessionContext, SessionNotFound
from .....harness.session_layout import RUN_LOCKS
from .....harness.views.session_head import SessionSummary
from .....questions import QuestionError, QuestionSession, QuestionSessions
from .....wiring.bootstrap import open_questions
from .....workflows import InvalidWorkflow, NotAWorkflowSession
from .....workflows.job import AgentWork
from ...context import Cli
from ...options import Yes, argument, flag, misuse
from ...output.documents import state_document
from ...output.render import budget_bar, field, labels_lines, words
from ...output.text import State, shorten
from ..questions.answering import show_question_session

if TYPE_CHECKING:
    from rich.console import RenderableType

_SHOWN_CHARS: Final = 4_000
"""The maximum number of characters of a goal that are shown."""


def adopt(
    cli: Cli,
    yes: Yes,
    session_id: str | None = argument("SESSION_ID", default=None),
    every: bool = flag("--all"),
) -> None:
    """Make a session yours that came with a clone, a copy or an archive; asks first.

    It shows what the session is, and what it would run. Agents are then shown its briefing, and
    resume and retry run what it carries.

    Args:
        session_id: The session, or the beginning of its id.
        every: All sessions that are not yours, as after a move of the project.
    """
    if (session_id is None) != every:
        raise misuse("SESSION_ID", "name a session, or give --all")
    questions, put = _foreign_questions(cli, session_id)
    asked = _foreign(cli) if session_id is None else []
    if session_id is not None and not put:
        asked = [_named(cli, session_id)]
    wanted = [one for one in asked if not one.store.is_own(one.session.session_id)]
    if not cli.output.json:
        for one in wanted:
            cli.output.show(*_view(one))
        for question in put:
            show_question_session(cli, questions, question)
    if wanted or put:
        names = [one.session.session_id for one in wanted] + [one.session_id for one in put]
        cli.output.ask(f"Make {', '.join(names)} yours?", yes=yes)
    for one in wanted:
        one.store.make_own(one.session.session_id, shown=one.shown)
    for question in put:
        questions.store.make_own(question)
    _say(cli, asked, wanted, put)


def _foreign_questions(
    cli: Cli, shortened: str | None
) -> tuple[QuestionSessions, list[QuestionSession]]:
    """Return the question sessions that came with the repository, all or by an id's beginning."""
    questions, found = open_questions(store=cli.store(), clock=cli.outside.clock), []
    for one in questions.store.foreign():
        if shortened is None:
            with suppress(QuestionError):  # stays unchanged; naming its id reports the error
                found.append(questions.store.read_foreign(one))
        elif one.startswith(shortened.lower()):
            found.append(questions.store.read_foreign(one))
    return questions, found


@frozen
class _Shown:
    """Session that is shown to a person.

    Attributes:
        store: The store it is in.
        session: The session.
        shown: Its fingerprint, taken before it was read.
    """

    store: LocalSessions
    session: SessionContext
    shown: str


def _read(store: LocalSessions, session_id: str) -> _Shown:
    shown = store.fingerprint(session_id)
    session = store.load(session_id)
    if session is None:
        raise SessionNotFound(session_id, path=store.where)
    return _Shown(store, session, shown)


def _named(cli: Cli, shortened: str) -> _Shown:
    store = cli.store()
    try:
        return _read(store, store.resolve(shortened))
    except SessionNotFound:
        brought = cli.sessions_brought()
        if brought is None:
            raise
        return _read(brought, brought.resolve(shortened))


def _foreign(cli: Cli) -> list[_Shown]:
    return [
        _read(store, one.session_id)
        for store in filter(None, (cli.store(), cli.sessions_brought()))
        for one in store.summaries()
        if isinstance(one, SessionSummary) and not store.is_own(one.session_id)
    ]


def _say(
    cli: Cli, asked: list[_Shown], adopted: list[_Shown], questions: list[QuestionSession]
) -> None:
    names = [one.session_id for one in questions]
    if cli.output.wrote(
        lambda: {"adopted": [_document(one) for one in adopted], "questions": names}
    ):
        return
    for question in questions:
        cli.output.line(f"Question session {question.session_id} is yours.")
    for one in adopted:
        cli.output.line(f"Session {one.session.session_id} is yours.")
    if not adopted and not questions:
        which = "It is yours already." if asked else "All sessions here are yours."
        cli.output.line(f"{which} Nothing was changed.")
    elif adopted and adopted[-1].store is not cli.store():
        cli.output.remark(
            f"The sessions of this project are in {adopted[-1].store.where} from now on; "
            f"`agentforge --base {cli.store().where} list` shows those that you had before"
        )


def _document(one: _Shown) -> dict[str, Any]:
    session = one.session
    return {
        **state_document(session, one.store),
        "title": session.title,
        "goal": session.goal,
        "runs": sorted(_runs(one.store, session.session_id)),
        "asks": _asks(one.store, session.session_id),
    }


def _view(one: _Shown) -> list[RenderableType]:
    """Return what a person sees before they confirm."""
    session = one.session
    directory = one.store.session_directory(session.session_id)
    lines: list[RenderableType] = [
        field("session", words(session.session_id, "bold")),
        field("state", State(session.state.value)),
        *labels_lines(session),
        field("goal", shorten(session.goal or "none", _SHOWN_CHARS)),
        field("budget", budget_bar(session.token_budget)),
        field("files", f"{directory}, of {_owner(directory)}"),
    ]
    asks = _asks(one.store, session.session_id)
    if asks is not None:
        lines.append(field("asks", asks))
    runs = _runs(one.store, session.session_id)
    if not runs:
        lines.append(field("runs", "nothing: it keeps no workflow"))
    for name, text in sorted(runs.items()):
        lines.append(field("runs", f"what {name} says:"))
        lines += [words(f"  {line}") for line in text.splitlines()]
    return lines


def _asks(store: LocalSessions, session_id: str) -> str | None:
    """Return the agent that a run of a session asks, and what it may use; None without an agent.

    An agent that is a command is shown as its command line.
    """
    try:
        agent = AgentWork.of_session(store, session_id).agent
    except NotAWorkflowSession:
        return None
    except InvalidWorkflow as error:
        return f"what can't be read, so nothing of it will run: {error}"
    if agent is None:
        return "the agent that `resume` is given"
    given = ["the network"] if agent.network else []
    given += [f"the variable {name}" for name in agent.environment]
    what = f"{agent.kind} {agent.value}"
    return f"{what}; it is given {', '.join(given)}" if given else what


def _runs(store: LocalSessions, session_id: str) -> dict[str, str]:
    """Return the texts of the workflows stored with a session, by name; a run follows these."""
    found = ((name, store.read_attachment(session_id, name)) for name in RUN_LOCKS)
    return {name: data.decode("utf-8", "replace") for name, data in found if data is not None}


def _owner(directory: Path) -> str:
    """Return the owner of a directory, by name if the machine has one for the user id."""
    try:
        number = os.lstat(directory).st_uid
        return pwd.getpwuid(number).pw_name
    except OSError:
        return "nobody"
    except KeyError:
        return f"user {number}"
