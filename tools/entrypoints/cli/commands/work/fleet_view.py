"""Commands that look at a fleet, and stop what it does with a session: workers, jobs, cancel."""

from __future__ import annotations

from attrs import asdict

from ..... import harness
from ...context import Cli
from ...options import Reason, SessionId, flag, option
from ...output.text import State, age_text, first_line, moment_text, shorten
from .fleet import store_of

_CANCELLED = "cancelled"
"""The cause of the pause of a session that was cancelled, for programs."""


def workers(cli: Cli) -> None:
    """List the workers that are alive."""
    from .....wiring.fleet import open_fleet

    with open_fleet(store_of(cli)) as fleet:
        found, where = fleet.workers(), fleet.where
    if cli.output.wrote({"store": where, "workers": [asdict(one) for one in found]}):
        return
    columns = ("HOST", "PID", "QUEUES", "RUNS", "HEARTBEAT", "SINCE", "PROBLEM")
    rows = (
        (
            *(one.host, one.pid, ", ".join(one.queues), f"{one.running}/{one.concurrency}"),
            *(age_text(one.silent_s), moment_text(one.started_at), _short(one.problem)),
        )
        for one in found
    )
    nobody = f"No worker is alive in {where}. To start one: agentforge worker"
    cli.output.table(*columns, rows=rows, right=("PID", "RUNS"), empty=nobody)


def jobs(
    cli: Cli,
    failed: bool = flag("--failed", "List only what has failed."),
    limit: int = option("--limit N", "The most that are listed; 50 by default.", 50, min=1),
) -> None:
    """List the fleet's jobs: running, waiting, scheduled for later, failed."""
    from .....wiring.fleet import open_fleet

    with open_fleet(store_of(cli)) as fleet:
        found, total = fleet.jobs(failed=failed, limit=limit)
        where = fleet.where
    if cli.output.wrote({"store": where, "total": total, "jobs": [asdict(one) for one in found]}):
        return
    columns = ("SESSION", "JOB", "AGE", "ATTEMPTS", "QUEUE", "STATE", "PHASE", "WORKER", "REASON")
    rows = (
        (
            *(one.session_id, State(one.state), age_text(one.age_s), one.attempts, one.queue),
            *(State(one.session_state or "deleted"), one.phase, one.worker),
            _short(one.reason),
        )
        for one in found
    )
    nothing = f"No job {'has failed' if failed else 'is there'} in {where}."
    cli.output.table(*columns, rows=rows, empty=nothing)
    if len(found) < total:
        cli.output.remark(f"{total - len(found)} more; --limit shows the first {limit}")


def cancel(cli: Cli, session_id: SessionId, reason: Reason) -> None:
    """Have the fleet work on a session no more: its job goes, or is stopped, and it is paused."""
    from .....wiring.fleet import open_fleet

    with open_fleet(store_of(cli)) as fleet:
        whole = cli.store().resolve(session_id)
        runs = fleet.withdraw(whole)

    def pause(manager: harness.SessionManager) -> None:
        session = manager.current_session
        if session is not None and session.state is harness.SessionState.ACTIVE:
            manager.pause(reason or "cancelled", cause=_CANCELLED)

    _, session = cli.change(whole, pause)
    again = cli.command("submit", "--session", whole)
    ended = "its worker stops it" if runs else "no worker ran it"
    state = session.state.value
    cli.output.outcome(
        {"session_id": whole, "state": state, "was_running": runs, "next": again},
        f"Session {whole} is {state}; {ended}.",
        None if session.state.is_terminal else f"To have the workers go on: {again}",
    )


def _short(reason: str | None) -> str:
    return shorten(first_line(reason), 200)
