"""`agentforge sandbox list` and `delete`: the sandbox sessions."""

from __future__ import annotations

from datetime import datetime

import typer

from ...context import cli_of
from ...options import AsJson, Yes
from .workspaces import DEFAULT_ROOT, SandboxId, WorkspaceRoot, find_place, session_ids


def add_to(group: typer.Typer) -> None:
    """Add these commands to the group."""
    group.command("list")(list_)
    group.command("delete")(delete)


def list_(
    context: typer.Context, workspace_root: WorkspaceRoot = DEFAULT_ROOT, as_json: AsJson = False
) -> None:
    """List the sandbox sessions, the last used first."""
    from .....sandbox import (
        CorruptedMetadata,
        PathEscapesWorkspace,
        SessionWorkspaceMissing,
        read_session_metadata,
    )

    cli = cli_of(context, json=as_json)
    rows: list[tuple[str, datetime | None, datetime | None, str | None]] = []
    for session_id in session_ids(workspace_root):
        try:
            known = read_session_metadata(session_id, workspace_root)
        except (SessionWorkspaceMissing, PathEscapesWorkspace):
            continue  # it went while this looked
        except CorruptedMetadata as error:
            rows.append((session_id, None, None, error.reason))
        except OSError as error:
            rows.append((session_id, None, None, error.strerror or str(error)))
        else:
            dates = (None, None) if known is None else (known.created_at, known.updated_at)
            rows.append((session_id, *dates, None if known else "no metadata"))
    rows.sort(key=lambda row: row[2].timestamp() if row[2] else float("-inf"), reverse=True)
    if cli.output.json:
        cli.output.document(
            {
                "workspace_root": workspace_root,
                "sessions": [
                    {"session_id": one, "created_at": made, "updated_at": used, "problem": problem}
                    for one, made, used, problem in rows
                ],
            }
        )
        return
    if not rows:
        cli.output.line(f"There are no sandbox sessions in {workspace_root}.")
        return
    from ...output import render

    shown = render.table("ID", "CREATED", "UPDATED", "NOTE")
    for one, made, used, problem in rows:
        shown.add_row(
            render.words(one),
            render.moment_text(made),
            render.moment_text(used),
            render.words(problem or ""),
        )
    cli.output.show(shown)


def delete(
    context: typer.Context,
    session_id: SandboxId,
    workspace_root: WorkspaceRoot = DEFAULT_ROOT,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete a sandbox session with its workspace; asks first."""
    from .....sandbox import delete_session_workspace

    cli = cli_of(context, json=as_json)
    place = find_place(cli, session_id, workspace_root, agent=False)
    cli.output.ask(
        f"Delete sandbox session {place.session_id} with all its files for good?",
        operation=f"deleting sandbox session {place.session_id}",
        yes=yes,
    )
    with place.named_errors():
        delete_session_workspace(place.session_id, place.root)
    cli.output.outcome(
        {**place.document(), "deleted": True}, f"Deleted sandbox session {place.session_id}."
    )
