"""`agentforge sandbox list` and `delete`: the sandbox sessions."""

from __future__ import annotations

from datetime import datetime

from ..... import sandbox
from ...context import Cli
from ...options import Yes
from ...output.text import moment_text
from .workspaces import SandboxId, WorkspaceRoot, find_place, session_ids


def list_(cli: Cli, workspace_root: WorkspaceRoot) -> None:
    """List the sandbox sessions, the last used first."""
    rows: list[tuple[str, datetime | None, datetime | None, str | None]] = []
    for session_id in session_ids(workspace_root):
        try:
            known = sandbox.read_session_metadata(session_id, workspace_root)
        except (sandbox.SessionWorkspaceMissing, sandbox.PathEscapesWorkspace):
            continue  # it went while this looked
        except sandbox.CorruptedMetadata as error:
            rows.append((session_id, None, None, error.reason))
        except OSError as error:
            rows.append((session_id, None, None, error.strerror or str(error)))
        else:
            dates = (None, None) if known is None else (known.created_at, known.updated_at)
            rows.append((session_id, *dates, None if known else "no metadata"))
    rows.sort(key=lambda row: row[2].timestamp() if row[2] else float("-inf"), reverse=True)
    names = ("session_id", "created_at", "updated_at", "problem")
    documents = [dict(zip(names, row, strict=True)) for row in rows]
    if cli.output.wrote({"workspace_root": workspace_root, "sessions": documents}):
        return
    shown = (
        (one, moment_text(made), moment_text(used), problem) for one, made, used, problem in rows
    )
    nothing = f"There are no sandbox sessions in {workspace_root}."
    cli.output.table("ID", "CREATED", "UPDATED", "NOTE", rows=shown, empty=nothing)


def delete(cli: Cli, session_id: SandboxId, workspace_root: WorkspaceRoot, yes: Yes) -> None:
    """Delete a sandbox session with its workspace; asks first."""
    place = find_place(cli, session_id, workspace_root, agent=False)
    cli.output.ask(
        f"Delete sandbox session {place.session_id} with all its files for good?", yes=yes
    )
    with place.named_errors():
        sandbox.delete_session_workspace(place.session_id, place.root)
    cli.output.outcome(
        {**place.document(), "deleted": True}, f"Deleted sandbox session {place.session_id}."
    )
