"""`agentforge adopt`: make sessions this person's that came with a clone, a copy or an archive."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..... import harness
from ...context import Cli
from ...options import Yes, argument, flag, misuse
from ...output.text import State
from ...signatures import CommandModule

if TYPE_CHECKING:
    from rich.console import RenderableType


_SHOWN_CHARS: Final = 4_000
"""How much of a goal is shown."""


commands = CommandModule()


@commands.add("adopt")
def adopt(
    cli: Cli,
    yes: Yes,
    session_id: str | None = argument(
        "SESSION_ID", "The session, or the beginning of its id.", None
    ),
    every: bool = flag("--all", "All sessions that are not yours, as after a move of the project."),
) -> None:
    """Make a session yours that came with a clone, a copy or an archive; asks first.

    It shows what the session is, and what it would run. Agents are then shown its briefing, and
    resume and retry run what it carries.
    """
    if (session_id is None) != every:
        raise misuse("SESSION_ID", "name a session, or give --all")
    sessions = _foreign(cli) if session_id is None else [cli.load(session_id)[1]]
    store = cli.store()
    wanted = [one for one in sessions if not store.is_own(one.session_id)]
    if wanted and not cli.output.json:
        for session in wanted:
            cli.output.show(*_view(cli, session))
    if wanted:
        names = ", ".join(one.session_id for one in wanted)
        cli.output.ask(f"Make {names} yours?", yes=yes)
    for session in wanted:
        store.make_own(session.session_id)
    _say(cli, sessions, wanted)


def _foreign(cli: Cli) -> list[harness.SessionContext]:
    manager = cli.manager()
    found = manager.list(on_unreadable=lambda _: None)
    ids = [one.session_id for one in found if not manager.store.is_own(one.session_id)]
    return [session for one in ids if (session := manager.store.load(one)) is not None]


def _say(
    cli: Cli, asked: list[harness.SessionContext], adopted: list[harness.SessionContext]
) -> None:
    if cli.output.wrote(lambda: {"adopted": [_document(cli, one) for one in adopted]}):
        return
    for session in adopted:
        cli.output.line(f"Session {session.session_id} is yours.")
    if not adopted:
        which = "It is yours already." if asked else "All sessions here are yours."
        cli.output.line(f"{which} Nothing was changed.")


def _document(cli: Cli, session: harness.SessionContext) -> dict[str, Any]:
    from ...output.documents import state_document

    return {
        **state_document(session, cli.store()),
        "title": session.title,
        "goal": session.goal,
        "runs": sorted(_runs(cli, session.session_id)),
        "asks": _asks(cli, session.session_id),
    }


def _view(cli: Cli, session: harness.SessionContext) -> list[RenderableType]:
    """Return what a person looks at before they say yes."""
    from ...output.render import budget_bar, field, labels_lines, words
    from ...output.text import shorten

    directory = cli.store().session_directory(session.session_id)
    lines: list[RenderableType] = [
        field("session", words(session.session_id, "bold")),
        field("state", State(session.state.value)),
        *labels_lines(session),
        field("goal", shorten(session.goal or "none", _SHOWN_CHARS)),
        field("budget", budget_bar(session.token_budget)),
        field("files", f"{directory}, of {_owner(directory)}"),
    ]
    asks = _asks(cli, session.session_id)
    if asks is not None:
        lines.append(field("asks", asks))
    runs = _runs(cli, session.session_id)
    if not runs:
        lines.append(field("runs", "nothing: it keeps no workflow"))
    for name, text in sorted(runs.items()):
        lines.append(field("runs", f"what {name} says:"))
        lines += [words(f"  {line}") for line in text.splitlines()]
    return lines


def _asks(cli: Cli, session_id: str) -> str | None:
    """Return which agent a run of a session asks, and what that is given; None where it has none.

    Of a command, that is what it runs.
    """
    from .....workflows import InvalidWorkflow, NotAWorkflowSession
    from .....workflows.job import AgentWork

    try:
        agent = AgentWork.of_session(cli.store(), session_id).agent
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


def _runs(cli: Cli, session_id: str) -> dict[str, str]:
    """Return what a run of a session goes by: the text of the workflows that it keeps."""
    from .....harness.session_layout import RUN_LOCKS

    found = ((name, cli.store().read_attachment(session_id, name)) for name in RUN_LOCKS)
    return {name: data.decode("utf-8", "replace") for name, data in found if data is not None}


def _owner(directory: Path) -> str:
    """Return whose a directory is, by name where the machine knows one."""
    try:
        number = os.lstat(directory).st_uid
        return pwd.getpwuid(number).pw_name
    except OSError:
        return "nobody"
    except KeyError:
        return f"user {number}"
