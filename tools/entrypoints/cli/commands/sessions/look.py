"""Commands that only read one session: show, log, brief, artifacts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ...context import Cli, cli_of
from ...options import AsJson, Follow, SessionId, option

if TYPE_CHECKING:
    from rich.console import RenderableType

    from .....harness import SessionContext, SessionManager
    from .....harness.session_ports import SessionRepository


_POLL_SECONDS: Final = 0.5
"""The interval between two looks at a session's file."""


def add_to(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.command("show", short_help="Show one session.")(show)
    app.command("log")(log)
    app.command("brief")(brief)
    app.command("artifacts", short_help="List the files that a session's phases produced.")(
        artifacts
    )


def show(
    context: typer.Context,
    session_id: SessionId,
    following: Follow = False,
    as_json: AsJson = False,
) -> None:
    """Show one session: its state, budget, phases, artifacts and latest history."""
    cli = cli_of(context, json=as_json)
    manager, session = cli.load(session_id)
    if following:
        with suppress(KeyboardInterrupt):
            _follow(cli, manager, session.session_id)
    elif cli.output.json:
        cli.output.document(_document(manager, session, children=_children(manager, session)))
    else:
        view = _view(cli, manager, session, children=_children(manager, session))
        cli.output.show(*view, *_in_fleet(cli, session.session_id))


def _in_fleet(cli: Cli, session_id: str) -> list[RenderableType]:
    """Return where a session's job stands, if the workers of a store have one."""
    from .....fleet.stores import is_database

    if cli.store_url is None or not is_database(cli.store_url):
        return []
    from .....wiring.fleet import open_fleet
    from ...output.render import field, words
    from ...output.text import duration_text

    with open_fleet(cli.store_url) as fleet:
        found, _ = fleet.jobs(session_id=session_id, limit=1)
    if not found:
        return []
    job = found[0]
    parts = [f"{job.state} for {duration_text(job.age_s)} in queue {job.queue}"]
    if job.worker is not None:
        parts.append(f"on {job.worker}")
    if job.scheduled_at is not None and job.state == "scheduled":
        parts.append(f"not before {job.scheduled_at:%Y-%m-%d %H:%M:%S}Z")
    if job.attempts:
        parts.append(f"after {job.attempts} that did not get on: {job.reason or ''}".rstrip(": "))
    return [field("job", words(", ".join(parts)))]


def _children(manager: SessionManager, session: SessionContext) -> list[str]:
    """Return the sessions that were made from one; every session is looked at, so do it once."""
    return [one.session_id for one in manager.children(session.session_id)]


def _view(
    cli: Cli, manager: SessionManager, session: SessionContext, *, children: Sequence[str] = ()
) -> list[RenderableType]:
    from ...output import render

    store = manager.store
    interrupted = store.is_interrupted(session.session_id, session.state)
    return render.session_view(
        session,
        path=store.where_is(session.session_id),
        workspace=store.workspace_path(session.session_id),
        now=cli.outside.clock(),
        interrupted=cli.command("resume", session.session_id) if interrupted else None,
        adopt=None
        if store.is_own(session.session_id)
        else cli.command("adopt", session.session_id),
        children=children,
    )


def _document(
    manager: SessionManager, session: SessionContext, *, children: Sequence[str] | None = None
) -> dict[str, Any]:
    from ...output.documents import session_document

    store = manager.store
    interrupted = store.is_interrupted(session.session_id, session.state)
    return session_document(session, store, interrupted=interrupted, children=children)


def _follow(cli: Cli, manager: SessionManager, session_id: str) -> None:
    changes = _changes(manager.store, session_id, sleep=cli.outside.sleep)
    if cli.output.json:
        for session in changes:
            cli.output.json_line(_document(manager, session))
            if cli.output.closed:
                return
    elif cli.output.interactive:
        from rich.console import Group
        from rich.live import Live

        with Live(console=cli.output.console, auto_refresh=False) as live:
            for session in changes:
                live.update(Group(*_view(cli, manager, session)), refresh=True)
                if cli.output.closed:
                    return
    else:
        from ...output import render

        for session in changes:
            cli.output.show(render.state_line(session))
            if cli.output.closed:
                return


def _changes(
    store: SessionRepository, session_id: str, *, sleep: Callable[[float], None]
) -> Iterator[SessionContext]:
    """Yield the session as it is, and again at each new revision, until it has ended.

    Between two looks only the session's mark is read; the session itself only when that changed.

    Args:
        store: Where the session is.
        session_id: Which.
        sleep: How to wait between two looks.

    Raises:
        SessionNotFound: There is none, or it was deleted meanwhile.
        SessionCorrupted: Its file is no session (any more).
    """
    from .....harness import SessionNotFound

    seen: Hashable | None = None
    revision: int | None = None
    while True:
        mark = store.change_mark(session_id)
        if mark != seen or mark is None:  # the store says what is wrong
            session = store.load(session_id)
            if session is None:
                raise SessionNotFound(session_id, path=store.where)
            seen = mark
            if session.revision != revision:
                revision = session.revision
                yield session
                if session.state.is_terminal:
                    return
        sleep(_POLL_SECONDS)


def log(
    context: typer.Context,
    session_id: SessionId,
    limit: Annotated[int | None, option("--limit, -n N", "Only the last N entries.", min=0)] = None,
    following: Follow = False,
    as_json: AsJson = False,
) -> None:
    """Show a session's history, the oldest entry first."""
    cli = cli_of(context, json=as_json)
    manager, session = cli.load(session_id)
    total = len(session.history)
    begin = 0 if limit is None else max(total - limit, 0)
    if following:
        with suppress(KeyboardInterrupt):
            _follow_log(cli, manager, session.session_id, begin)
    elif cli.output.json:
        from ...output.documents import entry_document

        cli.output.document(
            {
                "session_id": session.session_id,
                "total": total,
                "history": [
                    entry_document(index, session.history[index]) for index in range(begin, total)
                ],
            }
        )
    else:
        from ...output import render

        cli.output.show(*map(render.entry_block, session.history[begin:]))


def _follow_log(cli: Cli, manager: SessionManager, session_id: str, begin: int) -> None:
    from ...output import render
    from ...output.documents import entry_document

    for session in _changes(manager.store, session_id, sleep=cli.outside.sleep):
        for index in range(begin, len(session.history)):
            entry = session.history[index]
            if cli.output.json:
                cli.output.json_line(entry_document(index, entry))
            else:
                cli.output.show(render.entry_block(entry))
        begin = max(begin, len(session.history))
        if cli.output.closed:
            return


def brief(
    context: typer.Context,
    session_id: SessionId,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", min=1, help="Maximum length of the briefing.")
    ] = 2000,
    as_json: AsJson = False,
) -> None:
    """Write the briefing of a session for its next worker."""
    from .....harness.views.briefing import estimate_tokens

    cli = cli_of(context, json=as_json)
    manager, session = cli.load(cli.own_id(session_id))
    text = manager.briefing(max_tokens)
    if cli.output.json:
        cli.output.document(
            {
                "session_id": session.session_id,
                "max_tokens": max_tokens,
                "estimated_tokens": estimate_tokens(text),
                "briefing": text,
            }
        )
    else:
        cli.output.lines(text)


def artifacts(
    context: typer.Context,
    session_id: SessionId,
    phase: Annotated[str | None, option("--phase", "Only those of this phase.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the files that a session's phases produced, oldest first."""
    cli = cli_of(context, json=as_json)
    manager, session = cli.load(session_id)
    found = session.get_artifacts(phase)
    workspace = manager.store.workspace_path(session.session_id)
    if cli.output.json:
        from ...output.documents import artifact_document

        cli.output.document(
            {
                "session_id": session.session_id,
                "workspace": workspace,
                "artifacts": [artifact_document(one) for one in found],
            }
        )
        return
    from ...output import render

    if found:
        cli.output.show(render.artifact_table(found))
        cli.output.line(f"They are in {workspace}")
    else:
        cli.output.line("No artifact is recorded.")
