"""`agentforge fleet submit`: hand work to the workers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final

import typer
from attrs import evolve

from .....harness.submission import Submission
from ...context import Cli
from ...on_demand import new_group
from ...options import flag, misuse, option
from ...running.run_session import submit_existing, submit_failed
from ...tree import TREE
from ..work.run import USAGE, RunGroup
from .workers import store_of

_ASKS_FOR_HELP: Final = f"{__name__}.help"


class _SubmitGroup(RunGroup):
    """The commands that start a session, after the options that say when and who."""

    alone: ClassVar = ("session", "failed")

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command; its help needs no store."""
        ctx.meta[_ASKS_FOR_HELP] = not set(ctx.help_option_names).isdisjoint(args)
        return super().resolve_command(ctx, args)


def submit(
    context: typer.Context,
    cli: Cli,
    session: str | None = option("--session ID"),
    failed: bool = flag("--failed"),
    queue: str = option("--queue, -q NAME", default="default"),
    priority: int = option("--priority N", default=0),
    at: str | None = option("--at TIME"),
    after: timedelta | None = option("--in DURATION"),
) -> None:
    """Hand work to the workers of a PostgreSQL store.

    Args:
        session: Have the workers go on with this session; name no other work.
        failed: Have the workers go on with all that have failed; name no other work.
        queue: The queue of the workers that take it; default is one.
        priority: Before those of a lower priority; 0 by default.
        at: Not before this time, as 2026-03-01T09:30 or …T09:30+01:00.
        after: Not before so long, as 90m or 8h.
    """
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
    if session is not None:
        if context.invoked_subcommand is not None:
            raise misuse("--session", f"begins no session, and {context.invoked_subcommand} does")
        submit_existing(cli, session)


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


group = new_group(
    "submit",
    TREE["run"],
    callback=submit,
    kind=_SubmitGroup,
    help="Hand work to the workers of a store: `agentforge fleet submit W.yaml` begins the session "
    "that `agentforge run W.yaml` does, and a worker runs it.",
    subcommand_metavar=USAGE,
)
