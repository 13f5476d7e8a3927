"""Commands of a fleet, which runs sessions: worker, workers, jobs, cancel."""

from __future__ import annotations

from pathlib import Path

from attrs import asdict

from ..... import harness
from .....fleet.stores import is_database
from .....wiring.fleet import fleet_settings, open_fleet, run_worker, worker_allowed
from ...context import Cli
from ...options import Reason, SessionId, flag, misuse, option
from ...output.logs import configure_service_logs
from ...output.text import State, age_text, first_line, moment_text, shorten

_CANCELLED = "cancelled"
"""The cause, for programs, of the pause of a cancelled session."""


def worker(
    cli: Cli,
    concurrency: int = option("--concurrency, -c N", default=1, min=1),
    queues: list[str] | None = option("--queue, -q NAME"),
    grace: float = option("--grace SECONDS", default=60.0, min=0.0),
    heartbeat: float = option("--heartbeat SECONDS", default=2.0, min=0.05),
    agents: list[str] | None = option("--agent NAME"),
    agent_commands: bool | None = option("--agent-commands/--no-agent-commands"),
    repositories: list[Path] | None = option("--repository DIR"),
    port: int | None = option("--port PORT", min=0, max=65535),
    host: str = option("--host ADDRESS", default="127.0.0.1"),
) -> None:
    """Run the sessions that were submitted to a PostgreSQL store, until SIGTERM or Ctrl-C.

    Args:
        concurrency: How many sessions run at once; 1 by default.
        queues: Take sessions of this queue; may be repeated. default is one.
        grace: How long sessions may go on after SIGTERM before they are handed back; 60 by default.
        heartbeat: How often the worker says that it is alive; 2 by default. Others take its
            sessions over after five times as long.
        agents: Ask this agent where a session names it (claude, codex, …); may be repeated. As
            `agents` in [worker] of your own configuration says, by default; none if it does not.
        agent_commands: Run the command lines that sessions name as their agents, in a jail.
        repositories: Begin sessions from repositories in this folder; may be repeated. That of the
            working directory always may be.
        port: Serve /healthz and /metrics at this port; 0 takes any. Not served by default.
        host: The address to serve them at; 127.0.0.1 by default.
    """
    store = store_of(cli)
    try:
        settings = fleet_settings(
            concurrency=concurrency, queues=queues, grace_s=grace, heartbeat_s=heartbeat
        )
    except ValueError as error:
        raise misuse("--queue", str(error)) from error
    allowed = worker_allowed(
        agents=agents,
        agent_commands=agent_commands,
        repositories=None if repositories is None else [one.absolute() for one in repositories],
    )

    configure_service_logs(verbose=cli.verbose, as_json=cli.output.json)
    run_worker(
        store,
        settings,
        allowed,
        base_path=cli.base,
        direct=cli.store_direct,
        objects=cli.objects_url,
        verbose=cli.verbose,
        address=None if port is None else (host, port),
    )


def workers(cli: Cli) -> None:
    """List the workers that are alive."""
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
    nobody = f"No worker is alive in {where}. To start one: agentforge fleet worker"
    cli.output.table(*columns, rows=rows, right=("PID", "RUNS"), empty=nobody)


def jobs(
    cli: Cli,
    failed: bool = flag("--failed"),
    limit: int = option("--limit N", default=50, min=1),
) -> None:
    """List the fleet's jobs: running, waiting, scheduled for later, failed.

    Args:
        failed: List only what has failed.
        limit: The most that are listed; 50 by default.
    """
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
    with open_fleet(store_of(cli)) as fleet:
        whole = cli.store().resolve(session_id)
        runs = fleet.withdraw(whole)

    def pause(manager: harness.SessionManager) -> None:
        session = manager.current_session
        if session is not None and session.state is harness.SessionState.ACTIVE:
            manager.pause(reason or "cancelled", cause=_CANCELLED)

    _, session = cli.change(whole, pause)
    again = cli.command("fleet", "submit", "--session", whole)
    ended = "its worker stops it" if runs else "no worker ran it"
    state = session.state.value
    cli.output.outcome(
        {"session_id": whole, "state": state, "was_running": runs, "next": again},
        f"Session {whole} is {state}; {ended}.",
        None if session.state.is_terminal else f"To have the workers go on: {again}",
    )


def _short(reason: str | None) -> str:
    return shorten(first_line(reason), 200)


def store_of(cli: Cli) -> str:
    """Return the address of the fleet's PostgreSQL store.

    Raises:
        typer.BadParameter: No PostgreSQL store is named.
    """
    if cli.store_url is None or not is_database(cli.store_url):
        raise misuse(
            "--store",
            "is missing; a fleet shares a PostgreSQL store: name it "
            "(postgresql://user@host/database?sslmode=verify-full), or have AGENTFORGE_STORE or "
            "the configuration do it (url in [store])",
        )
    return cli.store_url
