"""Commands that look at a fleet, and stop what it does with a session: workers, jobs, cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...context import cli_of
from ...options import AsJson, SessionId, option
from .fleet import store_of

if TYPE_CHECKING:
    from .....harness import SessionManager

_CANCELLED = "cancelled"
"""The cause of the pause of a session that was cancelled, for programs."""


def add_to(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.command("workers", short_help="List the workers of the fleet.")(workers)
    app.command("jobs", short_help="List what the fleet runs, and what waits or failed.")(jobs)
    app.command("cancel", short_help="Have the fleet work on a session no more.")(cancel)


def workers(context: typer.Context, as_json: AsJson = False) -> None:
    """List the workers that are alive."""
    from .....wiring.fleet import open_fleet

    cli = cli_of(context, json=as_json)
    with open_fleet(store_of(cli)) as fleet:
        found, where = fleet.workers(), fleet.where
    if cli.output.json:
        cli.output.document({"store": where, "workers": [_plain(one) for one in found]})
        return
    if not found:
        cli.output.line(f"No worker is alive in {where}. To start one: agentforge worker")
        return
    from ...output.render import moment_text, table, words
    from ...output.text import age_text

    made = table(
        *("HOST", "PID", "QUEUES", "RUNS", "HEARTBEAT", "SINCE", "PROBLEM"), right=("PID", "RUNS")
    )
    for one in found:
        made.add_row(
            words(one.host),
            str(one.pid),
            words(", ".join(one.queues)),
            f"{one.running}/{one.concurrency}",
            age_text(one.silent_s),
            moment_text(one.started_at),
            words(_short(one.problem)),
        )
    cli.output.show(made)


def jobs(
    context: typer.Context,
    failed: Annotated[bool, option("--failed", "List only what has failed.")] = False,
    limit: Annotated[
        int, option("--limit N", "The most that are listed; 50 by default.", min=1)
    ] = 50,
    as_json: AsJson = False,
) -> None:
    """List the fleet's jobs: running, waiting, scheduled for later, failed."""
    from .....wiring.fleet import open_fleet

    cli = cli_of(context, json=as_json)
    with open_fleet(store_of(cli)) as fleet:
        found, total = fleet.jobs(failed=failed, limit=limit)
        where = fleet.where
    if cli.output.json:
        cli.output.document(
            {"store": where, "total": total, "jobs": [_plain(one) for one in found]}
        )
        return
    if not found:
        cli.output.line(f"No job {'has failed' if failed else 'is there'} in {where}.")
        return
    from ...output.render import state_text, table, words
    from ...output.text import age_text

    made = table("SESSION", "JOB", "AGE", "ATTEMPTS", "QUEUE", "STATE", "PHASE", "WORKER", "REASON")
    for one in found:
        made.add_row(
            words(one.session_id),
            state_text(one.state),
            age_text(one.age_s),
            str(one.attempts),
            words(one.queue),
            state_text(one.session_state or "deleted"),
            words(one.phase or ""),
            words(one.worker or ""),
            words(_short(one.reason)),
        )
    cli.output.show(made)
    if len(found) < total:
        cli.output.remark(f"{total - len(found)} more; --limit shows the first {limit}")


def cancel(
    context: typer.Context,
    session_id: SessionId,
    reason: Annotated[
        str | None, option("--reason, -r", "The reason; recorded in the history.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Have the fleet work on a session no more: its job goes, or is stopped, and it is paused."""
    from .....harness import SessionState
    from .....wiring.fleet import open_fleet

    cli = cli_of(context, json=as_json)
    with open_fleet(store_of(cli)) as fleet:
        whole = cli.store().resolve(session_id)
        runs = fleet.withdraw(whole)

    def pause(manager: SessionManager) -> None:
        session = manager.current_session
        if session is not None and session.state is SessionState.ACTIVE:
            manager.pause(reason or "cancelled", cause=_CANCELLED)

    _, session, _ = cli.change(whole, pause)
    again = cli.command("submit", "--session", whole)
    if cli.output.json:
        cli.output.document(
            {
                "session_id": whole,
                "state": session.state.value,
                "was_running": runs,
                "next": again,
            }
        )
        return
    ended = "its worker stops it" if runs else "no worker ran it"
    cli.output.line(f"Session {whole} is {session.state.value}; {ended}.")
    if not session.state.is_terminal:
        cli.output.line(f"To have the workers go on: {again}")


def _plain(view: Any) -> dict[str, Any]:
    from attrs import asdict

    return asdict(view)


def _short(reason: str | None) -> str:
    from ...output.text import first_line, shorten

    return shorten(first_line(reason), 200)
