"""`agentforge prune repair`: date sandbox sessions that have no usable metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from ...context import Cli, cli_of
from ...options import AsJson, Yes, option
from ...output.exit_codes import ExitCode
from ...output.text import counted
from .options import WorkspaceRoot, outside_of, select_kinds


def add_to(group: typer.Typer) -> None:
    """Add the command to the group."""
    group.command("repair", short_help="Write metadata for sandbox sessions that have none.")(
        repair
    )


def repair(
    context: typer.Context,
    workspace_root: WorkspaceRoot = None,
    dry_run: Annotated[bool, option("--dry-run", "Only show what would be written.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Write metadata for sandbox sessions whose own is missing or corrupted; asks first.

    A session is dated by its files. Metadata that can't be read is left as it is.
    """
    from .....prune import RetentionPolicy
    from .....sandbox import repair_session_metadata

    cli = cli_of(context, json=as_json)
    sandboxes = select_kinds(cli, "sandbox", workspace_root, None)["sandbox"]
    root = sandboxes.target.root
    found = sandboxes.prune(RetentionPolicy(), dry_run=True, outside=outside_of(cli))
    broken = [
        one.session_id
        for one in found.skipped
        if one.reason in {"no_metadata", "corrupted_metadata"}
    ]
    if broken and not dry_run:
        cli.output.ask(
            f"Make metadata for {counted(len(broken))}?",
            operation=f"repairing {counted(len(broken))}",
            yes=yes,
        )
    repaired: list[dict[str, Any]] = []
    errors: dict[str, str] = dict(found.errors)
    for session_id in broken:
        try:
            done = repair_session_metadata(
                session_id, root, dry_run=dry_run, clock=cli.outside.clock
            )
        except (OSError, ValueError) as error:  # the sandbox's errors are among these
            errors[session_id] = str(error)
            continue
        repaired.append(
            {
                "session_id": session_id,
                "action": done.action,
                "created_at": done.metadata.created_at,
                "updated_at": done.metadata.updated_at,
                "reason": done.reason,
            }
        )
    _report(cli, repaired, errors, dry_run=dry_run)
    if errors:
        raise typer.Exit(ExitCode.NOT_DONE)


def _report(
    cli: Cli, repaired: Sequence[dict[str, Any]], errors: dict[str, str], *, dry_run: bool
) -> None:
    if cli.output.json:
        cli.output.document({"dry_run": dry_run, "repaired": repaired, "errors": errors})
        return
    if not repaired and not errors:
        cli.output.line("All metadata is in order.")
        return
    from ...output import render

    made = render.table("ID", "WAS", "CREATED", "LAST USED")
    for one in repaired:
        made.add_row(
            render.words(one["session_id"]),
            render.words(one["reason"] or "missing"),
            render.moment_text(one["created_at"]),
            render.moment_text(one["updated_at"]),
        )
    if repaired:
        cli.output.show(made)
    for session_id, error in errors.items():
        cli.output.remark(f"warning: {session_id}: {error}")
    if dry_run:
        cli.output.line("Nothing was written: this was a dry run.")
    elif repaired:
        cli.output.line(f"Repaired {counted(len(repaired))}.")
    else:
        cli.output.line("Nothing was repaired.")
