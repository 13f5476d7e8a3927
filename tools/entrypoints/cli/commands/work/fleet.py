"""`agentforge worker`: run the sessions that were submitted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...context import Cli, cli_of
from ...options import AsJson, option


def add_to(app: typer.Typer) -> None:
    """Add this command to the application."""
    app.command("worker", short_help="Run the sessions that were submitted.")(worker)


def worker(
    context: typer.Context,
    concurrency: Annotated[
        int, option("--concurrency, -c N", "How many sessions run at once; 1 by default.", min=1)
    ] = 1,
    queues: Annotated[
        list[str] | None,
        option("--queue, -q NAME", "Take sessions of this queue; may be repeated. default is one."),
    ] = None,
    grace: Annotated[
        float,
        option(
            "--grace SECONDS",
            "How long sessions may go on after SIGTERM before they are handed back; 60 by default.",
            min=0.0,
        ),
    ] = 60.0,
    heartbeat: Annotated[
        float,
        option(
            "--heartbeat SECONDS",
            "How often the worker says that it is alive; 2 by default. Others take its sessions "
            "over after five times as long.",
            min=0.05,
        ),
    ] = 2.0,
    agents: Annotated[
        list[str] | None,
        option(
            "--agent NAME",
            "Ask this agent where a session names it (claude, codex, …); may be repeated. As "
            "`agents` in [worker] of your own configuration says, by default; none if it does not.",
        ),
    ] = None,
    agent_commands: Annotated[
        bool | None,
        option(
            "--agent-commands/--no-agent-commands",
            "Run the command lines that sessions name as their agents, in a jail.",
        ),
    ] = None,
    repositories: Annotated[
        list[Path] | None,
        option(
            "--repository DIR",
            "Begin sessions from repositories in this folder; may be repeated. That of the working "
            "directory always may be.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        option(
            "--port PORT",
            "Serve /healthz and /metrics at this port; 0 takes any. Not served by default.",
            min=0,
            max=65535,
        ),
    ] = None,
    host: Annotated[
        str, option("--host ADDRESS", "The address to serve them at; 127.0.0.1 by default.")
    ] = "127.0.0.1",
    as_json: AsJson = False,
) -> None:
    """Run the sessions that were submitted to a PostgreSQL store, until SIGTERM or Ctrl-C."""
    cli = cli_of(context, json=as_json)
    store = store_of(cli)
    from .....wiring.fleet import fleet_settings, run_worker, worker_allowed
    from ...output.logs import configure_service_logs

    try:
        settings = fleet_settings(
            concurrency=concurrency, queues=queues, grace_s=grace, heartbeat_s=heartbeat
        )
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--queue") from error
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


def store_of(cli: Cli) -> str:
    """Return the store that a fleet shares.

    Raises:
        typer.BadParameter: There is none.
    """
    from .....fleet.stores import is_database

    if cli.store_url is None or not is_database(cli.store_url):
        raise typer.BadParameter(
            "is missing; a fleet shares a PostgreSQL store: name it "
            "(postgresql://user@host/database?sslmode=verify-full), or have AGENTFORGE_STORE or "
            "the configuration do it (url in [store])",
            param_hint="--store",
        )
    return cli.store_url
