"""What to do next: the answer of `agentforge` without a word."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...base.data_folder import find_data_folder
from ...base.errors import AgentForgeError
from .context import Cli
from .output.text import safe, shorten
from .tree import TREE

if TYPE_CHECKING:
    from ...harness import SessionSummary

_DO: Final = (
    'do "what you want"',
    "Have an agent work here, judged by your own tests.",
)
_HELLO: Final = ("run --example hello", "See a session of three small scripts.")
_STEPS: Final = 3


def show_next_steps(cli: Cli) -> None:
    """Show three commands that fit what is here; a file that can't be read is no obstacle."""
    head, said, steps = None, "No session is here yet.", _first_steps()
    try:
        last = _last_session(cli)
        if last is not None:
            head = last.head
            state, found = _after(cli, last)
            name = f": {safe(shorten(head.title, 60))}" if head.title else ""
            said, steps = f"The last session, {head.session_id}, is {state}{name}.", [*found, _DO]
    except (AgentForgeError, OSError) as error:
        said = f"Something here can't be read: {error}"
        steps = [("doctor", "Check this machine, the configuration and the sessions."), *steps]
    known = [
        (cli.command() + f" {words}", text)
        for words, text in steps
        if words.partition(" ")[0] in TREE[""] or words.startswith("git")
    ][:_STEPS]
    wide = max(len(command) for command, _ in known) + 2
    cli.output.outcome(
        {
            "session_id": None if head is None else head.session_id,
            "next": [{"command": command, "text": text} for command, text in known],
        },
        said,
        *(f"  {command:<{wide}}{text}" for command, text in known),
        f"All commands: {cli.command()} --help",
    )


def _first_steps() -> list[tuple[str, str]]:
    here = Path.cwd()
    if find_data_folder(here) is not None:
        return [_DO, ("run", "Run the workflow that the configuration names."), _HELLO]
    begin = ("init", "Write a configuration that fits this project.")
    return [_DO, begin, _HELLO, ("doctor", "Check this machine.")]


def _last_session(cli: Cli) -> SessionSummary | None:
    """Return the session that changed last, or None.

    Raises:
        AgentForgeError: The configuration, the store or the session can't be read.
    """
    _ = cli.configuration  # raises if it is invalid
    page = cli.manager().page(1)
    if not page.sessions and page.unreadable:
        raise page.unreadable[0].error
    return page.sessions[0] if page.sessions else None


def _after(cli: Cli, last: SessionSummary) -> tuple[str, list[tuple[str, str]]]:
    """Return the state of a session in words, and what to do with it."""
    from ...harness import SessionState
    from ...harness.views.checkpoints import base_snapshot

    store, session_id, state = cli.store(), last.session_id, last.head.state
    look, resume = (f"show {session_id}", "Show it."), (f"resume {session_id}", "Go on with it.")
    words, steps = state.value, [(f"show {session_id} --follow", "Watch it."), look]
    if not store.is_own(session_id):
        words = "not adopted"
        steps = [(f"session adopt {session_id}", "Look at it, and make it yours."), look]
    elif state in {SessionState.COMPLETED, SessionState.ABORTED}:
        session = store.load(session_id)
        steps = [look, (f"session report {session_id}", "Write its story as a page.")]
        if session is not None and base_snapshot(session) is not None:
            apply = (f"apply {session_id}", "Bring its result into your checkout.")
            steps = [(f"diff {session_id}", "Show what it changed."), apply]
    elif (waiting := _waiting_question(cli)) is not None:
        words = f"{state.value}, and a question waits"
        steps = [(f"answer {waiting}", "Answer it."), look]
    elif store.is_interrupted(session_id, state):
        from ...harness.steps.step_views import words_to_go_on

        resume = (shlex.join(words_to_go_on(store, session_id)), "Go on with it.")
        words, steps = "interrupted", [resume, look]
    elif state is SessionState.PAUSED:
        steps = [resume, look]
    return words, steps


def _waiting_question(cli: Cli) -> str | None:
    from ...wiring.bootstrap import open_questions

    sessions = open_questions(None, store=cli.store(), clock=cli.outside.clock)
    for one in reversed(sessions.list_sessions()):
        if not sessions.status_of(one).is_terminal:
            return one.session_id
    return None
