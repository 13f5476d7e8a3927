"""Commands that only read a session: show, log, brief, artifacts."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ..... import harness
from .....harness.session_layout import STEPS_KEY
from ...context import Cli
from ...options import Follow, SessionId, flag, option
from ...output.documents import artifact_document, entry_document, session_document

if TYPE_CHECKING:
    from rich.console import RenderableType

    from .....agents.transcripts.entries import Stored
    from .....harness.session_ports import SessionRepository


_POLL_SECONDS: Final = 0.5
"""The interval between two polls of a session, in seconds."""


def show(cli: Cli, session_id: SessionId, following: Follow) -> None:
    """Show one session: its state, budget, phases, artifacts and latest history."""
    manager, session = cli.load(session_id)
    if following:
        with suppress(KeyboardInterrupt):
            _follow(cli, manager, session.session_id)
        return
    children = [one.session_id for one in manager.children(session.session_id)]
    if not cli.output.wrote(lambda: _document(manager, session, children=children)):
        view = _view(cli, manager, session, children=children)
        cli.output.show(*view, *_in_fleet(cli, session.session_id))


def _in_fleet(cli: Cli, session_id: str) -> list[RenderableType]:
    """Return a line about the fleet's job for a session; empty without a fleet or a job."""
    from .....fleet.stores import is_database

    if cli.store_url is None or not is_database(cli.store_url):
        return []
    from .....wiring.fleet import open_fleet
    from ...output.render import field
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
    return [field("job", ", ".join(parts))]


def _view(
    cli: Cli,
    manager: harness.SessionManager,
    session: harness.SessionContext,
    *,
    children: Sequence[str] = (),
) -> list[RenderableType]:
    from ...output import render

    store, whole = manager.store, session.session_id
    program = None
    go_on: Sequence[str] = ("resume", whole)
    if STEPS_KEY in session.workflow_state:
        from .....harness.steps.step_views import program_view, words_to_go_on

        program = program_view(store, session)
        go_on = words_to_go_on(store, whole)
    interrupted = store.is_interrupted(whole, session.state)
    return render.session_view(
        session,
        path=store.where_is(whole),
        workspace=store.workspace_path(whole),
        now=cli.outside.clock(),
        interrupted=cli.command(*go_on) if interrupted else None,
        adopt=None if store.is_own(whole) else cli.command("session", "adopt", whole),
        children=children,
        program=program,
    )


def _document(
    manager: harness.SessionManager,
    session: harness.SessionContext,
    *,
    children: Sequence[str] | None = None,
) -> dict[str, Any]:
    store = manager.store
    interrupted = store.is_interrupted(session.session_id, session.state)
    return session_document(session, store, interrupted=interrupted, children=children)


def _follow(cli: Cli, manager: harness.SessionManager, session_id: str) -> None:
    changes = _changes(cli, manager.store, session_id)
    if cli.output.interactive:
        from rich.console import Group
        from rich.live import Live

        with Live(console=cli.output.console, auto_refresh=False) as live:
            for session in changes:
                live.update(Group(*_view(cli, manager, session)), refresh=True)
        return
    from ...output import render

    for session in changes:
        if cli.output.json:
            cli.output.json_line(_document(manager, session))
        else:
            cli.output.show(render.state_line(session))


def _changes(
    cli: Cli, store: SessionRepository, session_id: str
) -> Iterator[harness.SessionContext]:
    """Yield the session now and at each new revision, until it ends or the output is closed.

    Each poll reads only the session's change mark; the session itself is read only after a change.

    Raises:
        SessionNotFound: The session does not exist, or was deleted meanwhile.
        SessionCorrupted: The session's file is not, or no longer, a valid session.
    """
    seen: Hashable | None = None
    revision: int | None = None
    while True:
        mark = store.change_mark(session_id)
        if mark != seen or mark is None:  # no mark: loading reports why
            session = store.load(session_id)
            if session is None:
                raise harness.SessionNotFound(session_id, path=store.where)
            seen = mark
            if session.revision != revision:
                revision = session.revision
                yield session
                if session.state.is_terminal or cli.output.closed:
                    return
        cli.outside.sleep(_POLL_SECONDS)


def log(
    cli: Cli,
    session_id: SessionId,
    following: Follow,
    limit: int | None = option("--limit, -n N", min=0),
    transcript: bool = flag("--transcript"),
) -> None:
    """Show a session's history, the oldest entry first.

    Args:
        limit: Only the last N entries.
        transcript: Instead, what was said and done in each conversation with an agent program.
    """
    manager, session = cli.load(session_id)
    if transcript:
        _show_transcripts(cli, manager, session, limit)
        return
    total = len(session.history)
    begin = 0 if limit is None else max(total - limit, 0)
    if following:
        with suppress(KeyboardInterrupt):
            _follow_log(cli, manager, session.session_id, begin)
        return
    from ...output import render

    def document() -> dict[str, Any]:
        entries = [entry_document(index, session.history[index]) for index in range(begin, total)]
        return {"session_id": session.session_id, "total": total, "history": entries}

    if not cli.output.wrote(document):
        cli.output.show(*map(render.entry_block, session.history[begin:]))


def _show_transcripts(
    cli: Cli, manager: harness.SessionManager, session: harness.SessionContext, limit: int | None
) -> None:
    from .....agents.transcripts.reading import conversations_of, lines_of, read_transcript

    def last(found: list[Stored]) -> list[Stored]:
        return found if limit is None else found[max(len(found) - limit, 0) :]

    whole = session.session_id
    talks = [
        (*talk, last(read_transcript(manager.store, whole, *talk)))
        for talk in conversations_of(session)
    ]
    shown = [
        {
            "program": program,
            "agent_session": name,
            "entries": [{**head, **body} for head, body in entries],
        }
        for program, name, entries in talks
    ]
    if cli.output.wrote({"session_id": whole, "transcripts": shown}):
        return
    for program, name, entries in talks:
        cli.output.line(f"{program} {name}: {len(entries)} entries")
        for text in lines_of(entries):
            cli.output.lines(text)


def _follow_log(cli: Cli, manager: harness.SessionManager, session_id: str, begin: int) -> None:
    from ...output import render

    for session in _changes(cli, manager.store, session_id):
        for index in range(begin, len(session.history)):
            entry = session.history[index]
            if cli.output.json:
                cli.output.json_line(entry_document(index, entry))
            else:
                cli.output.show(render.entry_block(entry))
        begin = max(begin, len(session.history))


def brief(
    cli: Cli,
    session_id: SessionId,
    max_tokens: int = option("--max-tokens N", default=2000, min=1, show_default=True),
) -> None:
    """Write the briefing of a session for its next worker.

    Args:
        max_tokens: Maximum length of the briefing.
    """
    from .....agents.hooks.messages import known_work
    from .....harness.views.briefing import estimate_tokens

    manager, session = cli.load(cli.own_id(session_id))
    text = manager.briefing(max_tokens, **known_work(cli.store(), session, lambda _: True))
    document = {
        "session_id": session.session_id,
        "max_tokens": max_tokens,
        "estimated_tokens": estimate_tokens(text),
        "briefing": text,
    }
    if not cli.output.wrote(document):
        cli.output.lines(text)


def artifacts(
    cli: Cli,
    session_id: SessionId,
    phase: str | None = option("--phase TEXT"),
) -> None:
    """List the files that a session's phases produced, oldest first.

    Args:
        phase: Only those of this phase.
    """
    manager, session = cli.load(session_id)
    found = session.get_artifacts(phase)
    workspace = manager.store.workspace_path(session.session_id)
    made = [artifact_document(one) for one in found]
    document = {"session_id": session.session_id, "workspace": workspace, "artifacts": made}
    if cli.output.wrote(document):
        return
    if not found:
        cli.output.line("No artifact is recorded.")
        return
    from ...output import render

    cli.output.show(render.artifact_table(found))
    cli.output.line(f"They are in {workspace}")
