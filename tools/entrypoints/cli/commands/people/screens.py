"""`agentforge questions` and `ui`: questions in a terminal, all sessions in a browser."""

from __future__ import annotations

import os
from contextlib import ExitStack

from .....questions import load_config
from .....wiring.bootstrap import open_questions
from ....terminal.theme_name import ThemeName
from ...asking.question_sessions import complete_question_ids, question_sessions, say_what_came
from ...context import Cli
from ...options import QuestionPlace, argument, flag, misuse, option
from ...output.text import counted


def questions(
    cli: Cli,
    *,
    session: str | None = argument(
        "ID",
        "The question session to open, or the beginning of its id.",
        None,
        autocompletion=complete_question_ids,
    ),
    place: QuestionPlace,
    bell: bool | None = option(
        "--bell/--no-bell",
        "Ring the bell for a new question; the default is `bell` in [notify].",
    ),
    theme: ThemeName = option(
        "--theme <dark|light|contrast>",
        "The colours to begin with; t changes them.",
        ThemeName.DARK,
        envvar="AGENTFORGE_THEME",
        show_default=True,
    ),
) -> None:
    """Show waiting questions and answer them.

    Needs a terminal and the extra `terminal`. The foot of each screen shows its keys, ? shows all.
    `agentforge ui` shows them in a browser.
    """
    where = place.path
    if cli.output.json:
        raise misuse("--json", "a terminal writes no JSON; use `agentforge history --json`")
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


def ui(
    cli: Cli,
    *,
    port: int | None = option(
        "--port N", "The port on 127.0.0.1, 0 for any free one; 8766 by default.", min=0, max=65535
    ),
    read_only: bool = flag("--read-only", "Show everything, change and answer nothing."),
    open_it: bool = flag("--open/--no-open", "Open the page in a browser here; not by default."),
    questions: QuestionPlace,
) -> None:
    """Show all sessions in a browser on this machine, until Ctrl-C.

    Lists, shows, pauses, aborts, rewinds and forks sessions, answers their questions, shows what a
    prune would remove, and the workers and jobs of a fleet. Needs the extra `ui`. The address that
    it prints can be used once; Enter prints another. With --json each is written as JSON.
    """
    from ....loopback import standard_input
    from ....ui import DEFAULT_PORT, UiPlaces, run_ui
    from ....ui.launch import in_browser

    places = UiPlaces(
        sessions=cli.base,
        store=cli.store_url,
        direct=cli.store_direct,
        objects=cli.objects_url,
        questions=questions.path,
        command=cli.command(),
    )
    question_sessions(cli, questions)  # prints a notice of questions that came with the repository

    def ready(url: str) -> None:
        cli.output.address("All sessions are", url)
        if open_it:
            opened.enter_context(in_browser(url))

    with ExitStack() as opened:
        run_ui(
            places,
            port=DEFAULT_PORT if port is None else port,
            read_only=read_only,
            observers=cli.observers(),
            asked_by=standard_input(),
            ready=ready,
        )
