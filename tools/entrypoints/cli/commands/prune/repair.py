"""`agentforge prune repair`: date sandbox sessions that have no usable metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from ..... import prune, sandbox
from ...context import Cli
from ...options import Yes, flag
from ...output.documents import selected
from ...output.exit_codes import ExitCode
from ...output.text import counted, moment_text
from .options import KindOptions, WorkspaceRoot, outside_of


def repair(
    cli: Cli,
    workspace_root: WorkspaceRoot,
    yes: Yes,
    dry_run: bool = flag("--dry-run", "Only show what would be written."),
) -> None:
    """Write metadata for sandbox sessions whose own is missing or corrupted; asks first.

    A session is dated by its files. Metadata that can't be read is left as it is.
    """
    sandboxes = KindOptions("sandbox", workspace_root, None).select(cli)["sandbox"]
    root = sandboxes.target.root
    found = sandboxes.prune(prune.RetentionPolicy(), dry_run=True, outside=outside_of(cli))
    broken = [
        one.session_id
        for one in found.skipped
        if one.reason in {"no_metadata", "corrupted_metadata"}
    ]
    if broken and not dry_run:
        cli.output.ask(f"Make metadata for {counted(len(broken))}?", yes=yes)
    repaired: list[dict[str, Any]] = []
    errors: dict[str, str] = dict(found.errors)
    for session_id in broken:
        try:
            done = sandbox.repair_session_metadata(
                session_id, root, dry_run=dry_run, clock=cli.outside.clock
            )
        except (OSError, ValueError) as error:  # the sandbox's errors are among these
            errors[session_id] = str(error)
            continue
        dates = selected(done.metadata, "created_at updated_at")
        about = {"session_id": session_id, "action": done.action}
        repaired.append({**about, **dates, "reason": done.reason})
    _report(cli, repaired, errors, dry_run=dry_run)
    if errors:
        raise typer.Exit(ExitCode.NOT_DONE)


def _report(
    cli: Cli, repaired: Sequence[dict[str, Any]], errors: dict[str, str], *, dry_run: bool
) -> None:
    if cli.output.wrote({"dry_run": dry_run, "repaired": repaired, "errors": errors}):
        return
    if not repaired and not errors:
        cli.output.line("All metadata is in order.")
        return
    rows = [
        (
            *(one["session_id"], one["reason"] or "missing"),
            *(moment_text(one[name]) for name in ("created_at", "updated_at")),
        )
        for one in repaired
    ]
    if rows:
        cli.output.table("ID", "WAS", "CREATED", "LAST USED", rows=rows)
    for session_id, error in errors.items():
        cli.output.remark(f"warning: {session_id}: {error}")
    if dry_run:
        cli.output.line("Nothing was written: this was a dry run.")
    elif repaired:
        cli.output.line(f"Repaired {counted(len(repaired))}.")
    else:
        cli.output.line("Nothing was repaired.")
