"""`agentforge questions`: answer waiting questions in a terminal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ....terminal.theme_name import ThemeName
from ...asking.question_sessions import complete_question_ids, say_what_came
from ...context import Cli
from ...options import QuestionPlace, argument, misuse, option
from ...output.text import counted

if TYPE_CHECKING:
    from .....questions import QuestionSessions


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
    from .....questions import load_config
    from .....wiring.bootstrap import open_questions

    where = place.path
    if cli.output.json:
        raise misuse("--json", "a terminal writes no JSON; use `agentforge history --json`")
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
        cli.output.line(
            f"What you typed for {counted(len(ended.drafts))} is kept in {ended.where}; "
            "`agentforge questions` continues with it."
        )
    for text in ended.lost:
        cli.output.lines(f"Not kept: {text}")
