"""`agentforge submit`: hand work to the fleet instead of running it here."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import typer
from attrs import evolve

from .....harness.submission import Submission
from .....workflows.documents.workflow_document import document_kind
from ...context import Cli
from ...on_demand import GroupOnDemand, commands_in, new_group
from ...options import flag, misuse, option
from ...running.submitting import submit_existing, submit_failed
from .fleet import store_of

_LISTED: Final = (
    ("run", "work", "Run a workflow in a new session."),
    ("tdflow", "agent_work", "Have an agent develop a component test first."),
    ("spec", "agent_work", "Have an agent write a specification with you."),
    ("drive", "agent_work", "Have an agent work through a workflow of your own."),
)
"""Each command's name, module and help, in the order of the help."""


_ASKS_FOR_HELP: Final = f"{__name__}.help"
_FOR_KIND: Final = {"workflow": "run", "agent workflow": "drive", "specification": "tdflow"}


class _SubmitGroup(GroupOnDemand):
    """Group of the commands that start a session, each as without `submit`; a file selects one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of a name, or the command for the kind of a file."""
        ctx.meta[_ASKS_FOR_HELP] = not set(ctx.help_option_names).isdisjoint(args)
        if args and args[0] not in self.commands and os.path.isfile(args[0]):
            args = [_FOR_KIND[document_kind(Path(args[0]))], *args]
        return super().resolve_command(ctx, args)


def submit(
    context: typer.Context,
    cli: Cli,
    session: str | None = option(
        "--session ID", "Have the workers go on with this session; name no other work."
    ),
    failed: bool = flag(
        "--failed", "Have the workers go on with all that have failed; name no other work."
    ),
    queue: str = option(
        "--queue, -q NAME", "The queue of the workers that take it; default is one.", "default"
    ),
    priority: int = option("--priority N", "Before those of a lower priority; 0 by default.", 0),
    at: str | None = option(
        "--at TIME", "Not before this time, as 2026-03-01T09:30 or …T09:30+01:00."
    ),
    after: timedelta | None = option("--in DURATION", "Not before so long, as 90m or 8h."),
) -> None:
    """Hand work to the workers of a PostgreSQL store."""
    if not context.meta.get(_ASKS_FOR_HELP):
        store_of(cli)
    if at is not None and after is not None:
        raise misuse("--at", "give --at or --in, not both")
    if failed:
        if session is not None or context.invoked_subcommand is not None:
            raise misuse("--failed", "takes all that have failed up again")
        submit_failed(cli, store_of(cli))
        return
    when = _time(at) if after is None else cli.outside.clock() + after
    try:
        chosen = Submission(queue=queue, priority=priority, at=when)
    except ValueError as error:
        raise misuse(f"--{str(error).partition(':')[0]}", str(error)) from error
    context.find_root().obj = cli = evolve(cli, submission=chosen)
    if context.invoked_subcommand is not None:
        if session is not None:
            raise misuse("--session", f"begins no session, and {context.invoked_subcommand} does")
        return
    if session is None:
        typer.echo(context.get_help())
        raise typer.Exit
    submit_existing(cli, session)


group = new_group(
    "submit",
    commands_in(__package__, _LISTED),
    callback=submit,
    kind=_SubmitGroup,
    help="Hand work to the workers of a store: `agentforge submit run W.yaml` begins "
    "the session that `agentforge run W.yaml` does, and a worker runs it. A file in place of "
    "the command names it: a workflow run or drive, a specification tdflow.",
    short_help="Have the workers run a workflow, or an agent's work.",
)


def _time(at: str | None) -> datetime | None:
    if at is None:
        return None
    try:
        found = datetime.fromisoformat(at)
    except ValueError:
        raise misuse(
            "--at",
            f"{at[:60]!r} is no time. Write it as 2026-03-01T09:30, here in your time zone, or "
            "2026-03-01T09:30+01:00",
        ) from None
    return found.astimezone(UTC)
