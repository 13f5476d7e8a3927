"""Commands that change one session: pause, abort, complete, budget, set."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...context import Cli, cli_of
from ...options import AsJson, Metadata, SessionId, Tags, Yes, option, parse_metadata

if TYPE_CHECKING:
    from .....harness import SessionManager

_Reason = Annotated[str | None, option("--reason, -r", "The reason; recorded in the history.")]


def add_to(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.command("pause")(pause)
    app.command("abort")(abort)
    app.command("complete")(complete)
    app.command("budget", short_help="Show or extend a token budget, or record tokens.")(budget)
    app.command("set", short_help="Change a session's title, tags and metadata.")(set_labels)


def pause(
    context: typer.Context, session_id: SessionId, reason: _Reason = None, as_json: AsJson = False
) -> None:
    """Stop an active session until it is resumed."""
    cli = cli_of(context, json=as_json)
    _lead(cli, session_id, lambda manager: manager.pause(reason))


def abort(
    context: typer.Context,
    session_id: SessionId,
    reason: _Reason = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Abort a session for good; asks first."""
    cli = cli_of(context, json=as_json)
    _, session = cli.load(session_id)
    if not session.state.is_terminal:
        cli.output.ask(
            f"Abort session {session.session_id} for good?",
            operation=f"aborting session {session.session_id} for good",
            yes=yes,
        )
    _lead(cli, session.session_id, lambda manager: manager.abort(reason))


def complete(context: typer.Context, session_id: SessionId, as_json: AsJson = False) -> None:
    """Mark an active session as completed, for good."""
    cli = cli_of(context, json=as_json)
    _lead(cli, session_id, lambda manager: manager.complete())


def _lead(cli: Cli, session_id: str, act: Callable[[SessionManager], Any]) -> None:
    manager, session, _ = cli.change(session_id, act)
    if cli.output.json:
        from ...output.documents import state_document

        cli.output.document(state_document(session, manager.store))
        return
    cli.output.line(f"Session {session.session_id} is {session.state.value}.")
    if session.state.value == "paused":
        cli.output.line(f"To go on: {cli.command('resume', session.session_id)}")


def budget(
    context: typer.Context,
    session_id: SessionId,
    extend: Annotated[int | None, option("--extend N", "Allot N more tokens.", min=1)] = None,
    record: Annotated[int | None, option("--record N", "Record N tokens as spent.", min=1)] = None,
    as_json: AsJson = False,
) -> None:
    """Show a session's token budget, extend it, or record tokens spent."""
    cli = cli_of(context, json=as_json)
    manager, session = cli.load(session_id)
    if extend is not None:
        more = extend
        manager, session, _ = cli.change(
            session.session_id, lambda manager: manager.extend_budget(more)
        )
    if record is not None:
        spent = record
        manager, session, _ = cli.change(
            session.session_id, lambda manager: manager.record_tokens(spent)
        )
    if cli.output.json:
        from ...output.documents import state_document

        cli.output.document(state_document(session, manager.store))
        return
    from ...output import render

    cli.output.line(f"Session {session.session_id} is {session.state.value}.")
    cli.output.show(render.budget_bar(session.token_budget))
    left = session.token_budget.tokens_remaining
    cli.output.line(f"{left:,} tokens are left.")


def set_labels(
    context: typer.Context,
    session_id: SessionId,
    title: Annotated[
        str | None, option("--title TEXT", "What people call the session; '' takes the title away.")
    ] = None,
    tags: Tags = None,
    untag: Annotated[
        list[str] | None, option("--untag NAME", "A tag to take away; may be repeated.")
    ] = None,
    metadata: Metadata = None,
    unset: Annotated[
        list[str] | None,
        option("--unset KEY", "A field of the metadata to take away; may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change a session's title, tags and metadata; what is not named stays as it is."""
    from .....harness import UNCHANGED

    cli = cli_of(context, json=as_json)
    fields = parse_metadata(metadata)
    if title is None and not (tags or untag or fields or unset):
        raise typer.BadParameter(
            "name what to change: --title, --tag, --untag, --metadata or --unset"
        )
    manager, session, _ = cli.change(
        session_id,
        lambda manager: manager.describe(
            title=UNCHANGED if title is None else title or None,
            add_tags=tags or (),
            remove_tags=untag or (),
            metadata=fields,
            remove_metadata=unset or (),
        ),
    )
    if cli.output.json:
        from ...output.documents import labels_document, state_document

        cli.output.document({**state_document(session, manager.store), **labels_document(session)})
        return
    from ...output import render

    cli.output.show(render.field("session", render.words(session.session_id, "bold")))
    cli.output.show(*render.labels_lines(session))
