"""`agentforge questions`: answer waiting questions in a terminal or a browser."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ....stores import is_database
from ...terminal.theme_name import ThemeName
from ..context import STORE_VARIABLE, Cli, cli_of
from ..options import (
    QUESTIONS_OPTION,
    AsJson,
    QuestionsDirectory,
    SharedQuestions,
    argument,
    option,
    questions_directory,
)
from ..question_sessions import complete_question_ids

if TYPE_CHECKING:
    from ....questions import QuestionSessions

_Web = Annotated[bool, option("--web", "Show them in a browser on this machine instead.")]
_Port = Annotated[
    int | None,
    option(
        "--port N",
        "With --web: the port on 127.0.0.1, 0 for any free one; 8765 by default.",
        min=0,
        max=65535,
    ),
]


def add_to(app: typer.Typer) -> None:
    """Add this command to the application."""
    app.command("questions")(questions)


def questions(
    context: typer.Context,
    session: Annotated[
        str | None,
        argument(
            "ID",
            "The question session to open, or the beginning of its id.",
            autocompletion=complete_question_ids,
        ),
    ] = None,
    directory: QuestionsDirectory = None,
    shared: SharedQuestions = False,
    web: _Web = False,
    port: _Port = None,
    bell: Annotated[
        bool | None,
        option(
            "--bell/--no-bell",
            "Ring the bell for a new question; the default is `bell` in [notify].",
        ),
    ] = None,
    theme: Annotated[
        ThemeName,
        typer.Option(
            "--theme",
            envvar="AGENTFORGE_THEME",
            help="The colours to begin with; t changes them.",
        ),
    ] = ThemeName.DARK,
    json: AsJson = False,
) -> None:
    """Show waiting questions and answer them.

    Needs a terminal and the extra `terminal`. The foot of each screen shows its keys, ? shows all.
    With --web it runs in a browser on this machine until Ctrl-C. The address that it prints can be
    used once; Enter prints another. With --json each is written as JSON.
    """
    from ....bootstrap import open_questions
    from ....questions import load_config

    cli = cli_of(context, json=json)
    where = questions_directory(directory, shared=shared)
    if port is not None and not web:
        raise typer.BadParameter("it is the port of --web; add --web", param_hint="--port")
    if cli.output.json and not web:
        raise typer.BadParameter(
            "a terminal writes no JSON; use `agentforge history --json`", param_hint="--json"
        )
    config = load_config()
    sessions = open_questions(where, store=cli.store(), config=config, clock=cli.outside.clock)
    first = sessions.resolve_id(session) if session is not None else None
    rings = config.notify.bell if bell is None else bell
    if web:
        place = [QUESTIONS_OPTION, os.path.abspath(sessions.base_dir)]
        if where is None and cli.store_url is not None and is_database(cli.store_url):
            os.environ[STORE_VARIABLE], place = cli.store_url, []  # no password in a command line
        _serve(cli, place, first=first, port=port, bell=rings, theme=theme)
    else:
        _show(cli, sessions, first=first, bell=rings, theme=theme)


def _show(
    cli: Cli, sessions: QuestionSessions, *, first: str | None, bell: bool, theme: ThemeName
) -> None:
    from ...terminal import run_terminal
    from ...terminal.launch import DRIVER_VARIABLE

    if not cli.output.color:
        os.environ["NO_COLOR"] = "1"  # what Textual looks at
    ended = run_terminal(sessions, first=first, bell=bell, theme=theme)
    if DRIVER_VARIABLE in os.environ:  # standard output belongs to the page
        return
    if ended.drafts:
        count = len(ended.drafts)
        noun = "session" if count == 1 else "sessions"
        cli.output.line(
            f"What you typed for {count} {noun} is kept in {ended.where}; "
            "`agentforge questions` continues with it."
        )
    for text in ended.lost:
        cli.output.lines(f"Not kept: {text}")


def _serve(
    cli: Cli,
    place: list[str],
    *,
    first: str | None,
    port: int | None,
    bell: bool,
    theme: ThemeName,
) -> None:
    from ...enter_key import standard_input
    from ...terminal import DEFAULT_PORT, run_web

    words = [sys.executable, "-m", "agentforge_sessions.entrypoints.cli", "questions"]
    words += [*place, "--bell" if bell else "--no-bell", "--theme", theme.value]
    words += [first] if first is not None else []

    run_web(
        words,
        port=DEFAULT_PORT if port is None else port,
        asked_by=standard_input(),
        ready=lambda url: cli.output.address("The questions are", url),
    )
