"""`agentforge sandbox list`, `delete`, `ls`, `cat`, `put` and `rm`: sessions and files."""

from __future__ import annotations

import base64
import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from attrs import frozen

from ..... import sandbox
from .....base.errors import AmbiguousId
from .....base.identifiers import completions
from .....sandbox.session_workspaces.session_files import MAX_READ_BYTES
from .....sandbox.session_workspaces.session_paths import validate_session_id
from ...context import Cli
from ...options import Yes, argument, flag, option, read_given
from ...output.errors import SandboxSessionNotFound, WorkspaceFileMissing, WorkspaceFileRefused
from ...output.text import moment_text

_REFUSED: Final = frozenset(
    (
        *(errno.ENOTEMPTY, errno.EISDIR, errno.ENOTDIR, errno.EINVAL),
        *(errno.EEXIST, errno.EOVERFLOW, errno.EFBIG, errno.ENAMETOOLONG),
    )
)

WorkspaceRoot = Annotated[
    Path,
    option(
        "--workspace-root DIR",
        "Directory of the sandbox sessions.",
        Path("workspace"),
        show_default=True,
    ),
]
SandboxId = Annotated[str, argument("ID", "The session's id, or an unambiguous part of it.")]


@frozen(kw_only=True)
class WorkspaceFolder:
    """Workspace of a session: the directory `name` in `root`.

    Attributes:
        session_id: The session that the workspace belongs to.
        name: The workspace's name.
        root: The parent directory.
        agent: Whether the session is an agent's; otherwise it is a sandbox session.
    """

    session_id: str
    name: str
    root: Path
    agent: bool = False

    def document(self) -> dict[str, Any]:
        """Return the fields that describe the workspace in JSON output."""
        return {
            "session_id": self.session_id,
            "agent_session": self.agent,
            "workspace": self.root / self.name,
        }

    @contextmanager
    def named_errors(self, path: str = "") -> Iterator[None]:
        """Convert errors of the block into errors that name the session and the path."""
        try:
            yield
        except sandbox.SessionWorkspaceMissing:
            raise SandboxSessionNotFound(self.session_id, self.root, agent=self.agent) from None
        except sandbox.SandboxError:
            raise
        except FileNotFoundError:
            raise WorkspaceFileMissing(self.session_id, path) from None
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            reason = error.strerror or str(error)
            raise WorkspaceFileRefused(self.session_id, path, reason) from None


@frozen
class PlaceOptions:
    """Options that select the session whose workspace a command works on.

    Attributes:
        agent_session: ID names an agent's session, as in `agentforge list`.
    """

    session_id: SandboxId
    agent_session: Annotated[bool, flag("--agent-session")]
    workspace_root: WorkspaceRoot

    def find(self, cli: Cli) -> WorkspaceFolder:
        """Return the selected workspace."""
        return find_place(cli, self.session_id, self.workspace_root, agent=self.agent_session)


def find_place(cli: Cli, shortened: str, root: Path, *, agent: bool) -> WorkspaceFolder:
    """Return the workspace of a session, found by its id or a part of it."""
    if agent:
        store = cli.store()
        whole = store.resolve(shortened)
        path = store.workspace_path(whole)
        return WorkspaceFolder(session_id=whole, name=path.name, root=path.parent, agent=True)
    whole = _resolve(shortened, root)
    return WorkspaceFolder(session_id=whole, name=whole, root=root)


def _resolve(shortened: str, root: Path) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,128}", shortened):
        raise sandbox.InvalidSessionId(shortened)
    fitting = completions(shortened, session_ids(root))
    if not fitting:
        raise SandboxSessionNotFound(shortened, path=root)
    if len(fitting) > 1:
        raise AmbiguousId(shortened, fitting, "sandbox sessions")
    return fitting[0]


def session_ids(root: Path) -> list[str]:
    """Return the sorted ids of the sessions in a directory; links and files are ignored."""
    found = []
    with suppress(FileNotFoundError), os.scandir(root) as entries:
        for entry in entries:
            with suppress(sandbox.InvalidSessionId):
                if entry.is_dir(follow_symlinks=False):
                    found.append(validate_session_id(entry.name))
    return sorted(found)


def read_local(name: str, hint: str) -> bytes:
    """Read a local file or standard input, up to the size limit of a workspace's file."""
    return read_given(Path(name), option=hint, most=MAX_READ_BYTES)


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
    pattern: str = argument("PATTERN", default="**/*", show_default=True),
) -> None:
    """List the files in a session's workspace.

    Args:
        pattern: Only files that match, as in '**/*.csv'.
    """
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
    local: str = argument("LOCALFILE"),
    path: str | None = argument("PATH", default=None),
) -> None:
    """Copy a file into a session's workspace; replaces an existing one.

    Args:
        local: File on this machine; '-' for standard input.
        path: Path in the workspace; the file's own name by default.
    """
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
    recursive: bool = flag("--recursive, -r"),
) -> None:
    """Delete a file or directory of a session's workspace; asks first.

    Args:
        recursive: Delete a directory with all its files.
    """
    place = session.find(cli)
    everything = " with all that is in it" if recursive else ""
    cli.output.ask(
        f"Delete {path}{everything} from the workspace of {place.session_id} for good?", yes=yes
    )
    with place.named_errors(path):
        sandbox.delete_session_path(place.name, path, place.root, recursive=recursive)
    cli.output.outcome({**place.document(), "path": path, "deleted": True}, f"Deleted {path}.")
