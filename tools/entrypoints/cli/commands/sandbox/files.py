"""`agentforge sandbox ls`, `cat`, `put` and `rm`: the files of a session's workspace."""

from __future__ import annotations

import base64
import os
import sys
from typing import Annotated

import typer

from ..... import sandbox
from ...context import Cli
from ...options import Yes, argument, flag
from .workspaces import PlaceOptions, read_local

_Path = Annotated[str, argument("PATH", "Path in the workspace.")]


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
