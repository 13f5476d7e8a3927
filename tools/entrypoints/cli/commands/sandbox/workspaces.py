"""Find the workspace that a command works on, and read local files to put into one."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Final

from attrs import frozen

from ..... import sandbox
from .....base.errors import AmbiguousId
from .....base.identifiers import completions
from .....sandbox.session_workspaces.session_files import MAX_READ_BYTES
from .....sandbox.session_workspaces.session_paths import validate_session_id
from ...context import Cli
from ...options import argument, flag, option, read_given
from ...output.errors import (
    SandboxSessionNotFound,
    WorkspaceFileMissing,
    WorkspaceFileRefused,
)

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
class Place:
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
    """Options that select the session whose workspace a command works on."""

    session_id: SandboxId
    agent_session: Annotated[
        bool, flag("--agent-session", "ID names an agent's session, as in `agentforge list`.")
    ]
    workspace_root: WorkspaceRoot

    def find(self, cli: Cli) -> Place:
        """Return the selected workspace."""
        return find_place(cli, self.session_id, self.workspace_root, agent=self.agent_session)


def find_place(cli: Cli, shortened: str, root: Path, *, agent: bool) -> Place:
    """Return the workspace of a session, found by its id or a part of it."""
    if agent:
        store = cli.store()
        whole = store.resolve(shortened)
        path = store.workspace_path(whole)
        return Place(session_id=whole, name=path.name, root=path.parent, agent=True)
    whole = _resolve(shortened, root)
    return Place(session_id=whole, name=whole, root=root)


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
