"""`agentforge ui`: all sessions in a browser of this machine."""

from __future__ import annotations

from contextlib import ExitStack

from ...asking.question_sessions import question_sessions
from ...context import Cli
from ...options import QuestionPlace, flag, option


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
    from ....enter_key import standard_input
    from ....ui import DEFAULT_PORT, UiPlaces, run_ui
    from ....ui.browser import in_browser

    places = UiPlaces(
        sessions=cli.base,
        store=cli.store_url,
        direct=cli.store_direct,
        objects=cli.objects_url,
        questions=questions.path,
        command=cli.command(),
    )

    question_sessions(cli, questions)  # says what came with the repository

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
