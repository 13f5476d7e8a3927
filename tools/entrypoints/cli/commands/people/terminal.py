"""`agentforge questions`: answer waiting questions in a terminal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from ....terminal.theme_name import ThemeName
from ...asking.question_sessions import complete_question_ids, say_what_came
from ...context import Cli, cli_of
from ...options import (
    AsJson,
    QuestionsDirectory,
    SharedQuestions,
    argument,
    option,
    questions_directory,
)

if TYPE_CHECKING:
    from .....questions import QuestionSessions


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
    `agentforge ui` shows them in a browser.
    """
    from .....questions import load_config
    from .....wiring.bootstrap import open_questions

    cli = cli_of(context, json=json)
    where = questions_directory(directory, shared=shared)
    if cli.output.json:
        raise typer.BadParameter(
            "a terminal writes no JSON; use `agentforge history --json`", param_hint="--json"
        )
    config = load_config()
    sessions = open_questions(where, store=cli.store(), config=config, clock=cli.outside.clock)
    say_what_came(cli, sessions)
    first = sessions.resolve_id(session) if session is not None else None
    rings = config.notify.bell if bell is None else bell
    _show(cli, sessions, first=first, bell=rings, theme=theme)


def _show(
    cli: Cli, sessions: QuestionSessions, *, first: str | None, bell: bool, theme: ThemeName
) -> None:
    from ....terminal import run_terminal

    if not cli.output.color:
        os.environ["NO_COLOR"] = "1"  # what Textual looks at
    ended = run_terminal(sessions, first=first, bell=bell, theme=theme)
    if ended.drafts:
        count = len(ended.drafts)
        noun = "session" if count == 1 else "sessions"
        cli.output.line(
            f"What you typed for {count} {noun} is kept in {ended.where}; "
            "`agentforge questions` continues with it."
        )
    for text in ended.lost:
        cli.output.lines(f"Not kept: {text}")
