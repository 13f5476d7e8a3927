"""Commands that change one session: pause, abort, complete, budget, set."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import Any

import typer

from ..... import harness
from ...context import Cli
from ...options import METADATA, TAGS, Reason, SessionId, Yes, option, parse_metadata
from ...output.documents import labels_document, state_document


def pause(cli: Cli, session_id: SessionId, reason: Reason) -> None:
    """Stop an active session until it is resumed."""
    _lead(cli, session_id, lambda manager: manager.pause(reason))


def abort(cli: Cli, session_id: SessionId, reason: Reason, yes: Yes) -> None:
    """Abort a session for good; asks first."""
    _, session = cli.load(session_id)
    if not session.state.is_terminal:
        cli.output.ask(f"Abort session {session.session_id} for good?", yes=yes)
    _lead(cli, session.session_id, lambda manager: manager.abort(reason))


def complete(cli: Cli, session_id: SessionId) -> None:
    """Mark an active session as completed, for good."""
    _lead(cli, session_id, lambda manager: manager.complete())


def _lead(cli: Cli, session_id: str, act: Callable[[harness.SessionManager], Any]) -> None:
    manager, session = cli.change(session_id, act)
    paused = session.state.value == "paused"
    cli.output.outcome(
        state_document(session, manager.store),
        f"Session {session.session_id} is {session.state.value}.",
        f"To go on: {cli.command('resume', session.session_id)}" if paused else None,
    )


def budget(
    cli: Cli,
    session_id: SessionId,
    extend: int | None = option("--extend N", "Allot N more tokens.", min=1),
    record: int | None = option("--record N", "Record N tokens as spent.", min=1),
) -> None:
    """Show a session's token budget, extend it, or record tokens spent."""
    manager, session = cli.load(session_id)
    for number, act in ((extend, "extend_budget"), (record, "record_tokens")):
        if number is not None:
            manager, session = cli.change(session.session_id, methodcaller(act, number))
    if cli.output.wrote(state_document(session, manager.store)):
        return
    from ...output import render

    cli.output.line(f"Session {session.session_id} is {session.state.value}.")
    cli.output.show(render.budget_bar(session.token_budget))
    cli.output.line(f"{session.token_budget.tokens_remaining:,} tokens are left.")


def set_labels(
    cli: Cli,
    session_id: SessionId,
    title: str | None = option(
        "--title TEXT", "What people call the session; '' takes the title away."
    ),
    tags: list[str] | None = TAGS,
    untag: list[str] | None = option("--untag NAME", "A tag to take away; may be repeated."),
    metadata: list[str] | None = METADATA,
    unset: list[str] | None = option(
        "--unset KEY", "A field of the metadata to take away; may be repeated."
    ),
) -> None:
    """Change a session's title, tags and metadata; what is not named stays as it is."""
    from .....harness.domain.session_description import UNCHANGED

    fields = parse_metadata(metadata)
    if title is None and not (tags or untag or fields or unset):
        raise typer.BadParameter(
            "name what to change: --title, --tag, --untag, --metadata or --unset"
        )
    manager, session = cli.change(
        session_id,
        lambda manager: manager.describe(
            title=UNCHANGED if title is None else title or None,
            add_tags=tags or (),
            remove_tags=untag or (),
            metadata=fields,
            remove_metadata=unset or (),
        ),
    )
    found = {**state_document(session, manager.store), **labels_document(session)}
    if cli.output.wrote(found):
        return
    from ...output import render

    cli.output.show(render.field("session", render.words(session.session_id, "bold")))
    cli.output.show(*render.labels_lines(session))
