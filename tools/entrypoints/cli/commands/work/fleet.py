"""`agentforge worker`: run the sessions that were submitted."""

from __future__ import annotations

from pathlib import Path

from ...context import Cli
from ...options import misuse, option


def worker(
    cli: Cli,
    concurrency: int = option(
        "--concurrency, -c N", "How many sessions run at once; 1 by default.", 1, min=1
    ),
    queues: list[str] | None = option(
        "--queue, -q NAME", "Take sessions of this queue; may be repeated. default is one."
    ),
    grace: float = option(
        "--grace SECONDS",
        "How long sessions may go on after SIGTERM before they are handed back; 60 by default.",
        60.0,
        min=0.0,
    ),
    heartbeat: float = option(
        "--heartbeat SECONDS",
        "How often the worker says that it is alive; 2 by default. Others take its sessions over "
        "after five times as long.",
        2.0,
        min=0.05,
    ),
    agents: list[str] | None = option(
        "--agent NAME",
        "Ask this agent where a session names it (claude, codex, …); may be repeated. As `agents` "
        "in [worker] of your own configuration says, by default; none if it does not.",
    ),
    agent_commands: bool | None = option(
        "--agent-commands/--no-agent-commands",
        "Run the command lines that sessions name as their agents, in a jail.",
    ),
    repositories: list[Path] | None = option(
        "--repository DIR",
        "Begin sessions from repositories in this folder; may be repeated. That of the working "
        "directory always may be.",
    ),
    port: int | None = option(
        "--port PORT",
        "Serve /healthz and /metrics at this port; 0 takes any. Not served by default.",
        min=0,
        max=65535,
    ),
    host: str = option(
        "--host ADDRESS", "The address to serve them at; 127.0.0.1 by default.", "127.0.0.1"
    ),
) -> None:
    """Run the sessions that were submitted to a PostgreSQL store, until SIGTERM or Ctrl-C."""
    store = store_of(cli)
    from .....wiring.fleet import fleet_settings, run_worker, worker_allowed
    from ...output.logs import configure_service_logs

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


def store_of(cli: Cli) -> str:
    """Return the store that a fleet shares.

    Raises:
        typer.BadParameter: There is none.
    """
    from .....fleet.stores import is_database

    if cli.store_url is None or not is_database(cli.store_url):
        raise misuse(
            "--store",
            "is missing; a fleet shares a PostgreSQL store: name it "
            "(postgresql://user@host/database?sslmode=verify-full), or have AGENTFORGE_STORE or "
            "the configuration do it (url in [store])",
        )
    return cli.store_url
