"""`agentforge sandbox ls`, `cat`, `put` and `rm`: the files of a session's workspace."""

from __future__ import annotations

import base64
import os
import sys
from typing import Annotated

import typer

from ...context import cli_of
from ...options import AsJson, Yes, argument, option
from .workspaces import DEFAULT_ROOT, SandboxId, WorkspaceRoot, find_place, read_local

_IsAgent = Annotated[
    bool, option("--agent-session", "ID names an agent's session, as in `agentforge list`.")
]


def add_to(group: typer.Typer) -> None:
    """Add these commands to the group."""
    group.command("ls")(ls)
    group.command("cat")(cat)
    group.command("put", short_help="Copy a file into a session's workspace.")(put)
    group.command("rm")(rm)


def ls(
    context: typer.Context,
    session_id: SandboxId,
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="Only files that match, as in '**/*.csv'.")
    ] = "**/*",
    agent_session: _IsAgent = False,
    workspace_root: WorkspaceRoot = DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """List the files in a session's workspace."""
    from .....sandbox import list_session_files

    cli = cli_of(context, json=as_json)
    place = find_place(cli, session_id, workspace_root, agent=agent_session)
    with place.named_errors(pattern):
        files = list_session_files(place.name, place.root, pattern)
    if cli.output.json:
        cli.output.document({**place.document(), "pattern": pattern, "files": files})
        return
    for one in files:
        cli.output.line(one)


def cat(
    context: typer.Context,
    session_id: SandboxId,
    path: Annotated[str, argument("PATH", "Path in the workspace.")],
    agent_session: _IsAgent = False,
    workspace_root: WorkspaceRoot = DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """Write a file of a session's workspace to standard output."""
    from .....sandbox import read_session_file
    from ...running.sandbox_shell import write_bytes, write_safely

    cli = cli_of(context, json=as_json)
    place = find_place(cli, session_id, workspace_root, agent=agent_session)
    with place.named_errors(path):
        data = read_session_file(place.name, path, place.root)
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
    cli.output.document(
        {
            **place.document(),
            "path": path,
            "size_bytes": len(data),
            "encoding": encoding,
            "content": content,
        }
    )


def put(
    context: typer.Context,
    session_id: SandboxId,
    local: Annotated[str, argument("LOCALFILE", "File on this machine; '-' for standard input.")],
    path: Annotated[
        str | None, argument("PATH", "Path in the workspace; the file's own name by default.")
    ] = None,
    agent_session: _IsAgent = False,
    workspace_root: WorkspaceRoot = DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """Copy a file into a session's workspace; replaces an existing one."""
    from .....sandbox import write_session_file

    cli = cli_of(context, json=as_json)
    if path is None and local == "-":
        raise typer.BadParameter("name the PATH that standard input is to have")
    place = find_place(cli, session_id, workspace_root, agent=agent_session)
    data = read_local(local, "LOCALFILE")
    target = path if path is not None else os.path.basename(local)
    with place.named_errors(target):
        write_session_file(place.name, target, data, place.root)
    cli.output.outcome(
        {**place.document(), "path": target, "size_bytes": len(data)},
        f"Wrote {len(data):,} bytes to {target}.",
    )


def rm(
    context: typer.Context,
    session_id: SandboxId,
    path: Annotated[str, argument("PATH", "Path in the workspace.")],
    recursive: Annotated[
        bool, option("--recursive, -r", "Delete a directory with all its files.")
    ] = False,
    agent_session: _IsAgent = False,
    workspace_root: WorkspaceRoot = DEFAULT_ROOT,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete a file or directory of a session's workspace; asks first."""
    from .....sandbox import delete_session_path

    cli = cli_of(context, json=as_json)
    place = find_place(cli, session_id, workspace_root, agent=agent_session)
    everything = " with all that is in it" if recursive else ""
    cli.output.ask(
        f"Delete {path}{everything} from the workspace of {place.session_id} for good?",
        operation=f"deleting {path}",
        yes=yes,
    )
    with place.named_errors(path):
        delete_session_path(place.name, path, place.root, recursive=recursive)
    cli.output.outcome({**place.document(), "path": path, "deleted": True}, f"Deleted {path}.")
