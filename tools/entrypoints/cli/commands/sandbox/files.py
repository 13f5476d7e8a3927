"""`agentforge sandbox list`, `delete`, `ls`, `cat`, `put` and `rm`: sessions and files."""

from __future__ import annotations

import base64
import os
import sys
from datetime import datetime
from typing import Annotated

import typer

from ..... import sandbox
from ...context import Cli
from ...options import Yes, argument, flag
from ...output.text import moment_text
from .workspaces import (
    PlaceOptions,
    SandboxId,
    WorkspaceRoot,
    find_place,
    read_local,
    session_ids,
)

_Path = Annotated[str, argument("PATH", "Path in the workspace.")]


def list_(cli: Cli, workspace_root: WorkspaceRoot) -> None:
    """List the sandbox sessions, the last used first."""
    rows: list[tuple[str, datetime | None, datetime | None, str | None]] = []
    for session_id in session_ids(workspace_root):
        try:
            known = sandbox.read_session_metadata(session_id, workspace_root)
        except (sandbox.SessionWorkspaceMissing, sandbox.PathEscapesWorkspace):
            continue  # it was removed during the listing
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


def ls(
    cli: Cli,
    session: PlaceOptions,
    pattern: str = argument(
        "PATTERN", "Only files that match, as in '**/*.csv'.", "**/*", show_default=True
    ),
) -> None:
    """List the files in a session's workspace."""
    place = session.find(cli)
    with place.named_errors(pattern):
        files = sandbox.list_session_files(place.name, place.root, pattern)
    cli.output.outcome({**place.document(), "pattern": pattern, "files": files}, *files)


def cat(cli: Cli, session: PlaceOptions, path: _Path) -> None:
    """Write a file of a session's workspace to standard output."""
    from ...running.sandbox_shell import write_bytes, write_safely

    place = session.find(cli)
    with place.named_errors(path):
        data = sandbox.read_session_file(place.name, path, place.root)
    if not cli.output.json:
        if sys.stdout.isatty():
            write_safely(sys.stdout, data.decode("utf-8", "replace"))
        else:
            write_bytes(sys.stdout, data)
        return
    try:
        content, encoding = data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        content, encoding = base64.b64encode(data).decode("ascii"), "base64"
    about = {**place.document(), "path": path, "size_bytes": len(data)}
    cli.output.document({**about, "encoding": encoding, "content": content})


def put(
    cli: Cli,
    session: PlaceOptions,
    local: str = argument("LOCALFILE", "File on this machine; '-' for standard input."),
    path: str | None = argument(
        "PATH", "Path in the workspace; the file's own name by default.", None
    ),
) -> None:
    """Copy a file into a session's workspace; replaces an existing one."""
    if path is None and local == "-":
        raise typer.BadParameter("name the PATH that standard input is to have")
    place = session.find(cli)
    data = read_local(local, "LOCALFILE")
    target = path if path is not None else os.path.basename(local)
    with place.named_errors(target):
        sandbox.write_session_file(place.name, target, data, place.root)
    cli.output.outcome(
        {**place.document(), "path": target, "size_bytes": len(data)},
        f"Wrote {len(data):,} bytes to {target}.",
    )


def rm(
    cli: Cli,
    session: PlaceOptions,
    path: _Path,
    yes: Yes,
    recursive: bool = flag("--recursive, -r", "Delete a directory with all its files."),
) -> None:
    """Delete a file or directory of a session's workspace; asks first."""
    place = session.find(cli)
    everything = " with all that is in it" if recursive else ""
    cli.output.ask(
        f"Delete {path}{everything} from the workspace of {place.session_id} for good?", yes=yes
    )
    with place.named_errors(path):
        sandbox.delete_session_path(place.name, path, place.root, recursive=recursive)
    cli.output.outcome({**place.document(), "path": path, "deleted": True}, f"Deleted {path}.")
