"""The host's side of a workspace: open it or a file in it, record an execution's changes.

Everything is opened by directory descriptors without following symbolic links, so nothing a guest
leaves in a workspace leads the host out of it.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final, Protocol

from ...base.files.filesystem import DIRECTORY_FLAGS, READ_FLAGS, OsFileSystem
from ..errors import WorkspaceError
from .quota import Quota, Room, UsageCounter

_OF_A_CHANGE: Final = 256
"""Host memory charged for a changed file, besides its path."""


class Keeper(Protocol):
    """Reserves the memory for records."""

    def hold(self, count: int) -> None:
        """Reserve bytes, or raise `OSError`."""

    def release(self, count: int) -> None:
        """Release reserved bytes."""


class ChangeLedger:
    """The files that an execution touches, compared with before the first touch.

    A file that was created and removed is forgotten, so the ledger has at most the files that exist
    now and those that existed at first.

    Attributes:
        complete: False once a file is missing from the ledger: more files were moved at once than
            are recorded, or there was no memory for its path.
        keeper: Reserves its memory; None for no limit.
        held: The reserved bytes.
    """

    def __init__(self) -> None:
        self._was: dict[str, bool] = {}
        self._is: dict[str, bool] = {}
        self.complete = True
        self.keeper: Keeper | None = None
        self.held = 0

    def wrote(self, path: str, *, existed: bool) -> None:
        """Record that a file was created, written to or replaced."""
        if path in self._was or self._hold(path):
            self._was.setdefault(path, existed)
            self._is[path] = True

    def removed(self, path: str) -> None:
        """Record that a file is no longer at its path."""
        if path not in self._was and not self._hold(path):
            return
        if self._was.setdefault(path, True):
            self._is[path] = False
        else:
            del self._was[path]
            self._is.pop(path, None)
            self._release(path)

    def _hold(self, path: str) -> bool:
        if self.keeper is not None:
            count = _OF_A_CHANGE + sys.getsizeof(path)
            try:
                self.keeper.hold(count)
            except OSError:
                self.complete = False
                return False
            self.held += count
        return True

    def _release(self, path: str) -> None:
        if self.keeper is not None:
            count = _OF_A_CHANGE + sys.getsizeof(path)
            self.keeper.release(count)
            self.held -= count

    def lists(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Return the files created, modified and deleted, each a sorted tuple of relative paths."""
        created, modified, deleted = [], [], []
        for path in sorted(self._was):
            relative = path.removeprefix("/")
            if not self._is[path]:
                deleted.append(relative)
            elif self._was[path]:
                modified.append(relative)
            else:
                created.append(relative)
        return tuple(created), tuple(modified), tuple(deleted)


def ensure_workspace(path: Path) -> Path:
    """Create a workspace directory if it is missing, and return its absolute path.

    A created directory gets mode 0700, and so do missing parents; an existing one is not changed.
    Symbolic links above the workspace are resolved once, here; the workspace itself must not be
    one.

    Args:
        path: The workspace directory.

    Raises:
        WorkspaceError: The path is a symbolic link, not a directory, or cannot be created.
    """
    try:
        given = Path(os.path.abspath(path))
        target = given.parent.resolve() / given.name
        _make_directories(target)
        os.close(open_workspace(target))
    except (OSError, ValueError, RuntimeError) as error:
        raise WorkspaceError(
            Path(path),
            f"it cannot be made or opened ({_words(error)})",
            "choose a directory this user may create and write",
        ) from error
    return target


def _make_directories(target: Path) -> None:
    missing = []
    here = target  # a dangling link counts as existing, so nothing is created through it
    while not os.path.lexists(here):
        missing.append(here)
        here = here.parent
    for directory in reversed(missing):
        try:
            os.mkdir(directory, 0o700)
        except FileExistsError:
            continue  # another process created it meanwhile; opening decides


def open_workspace(path: Path) -> int:
    """Open a workspace directory without following a link, and return the descriptor.

    Raises:
        WorkspaceError: There is no directory at the path, or it is a symbolic link.
    """
    try:
        return os.open(path, DIRECTORY_FLAGS)
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise WorkspaceError(
                path,
                "it does not exist",
                "make it, or create the sandbox again, which makes it",
            ) from error
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            if os.path.islink(path):
                raise WorkspaceError(
                    path,
                    "it is a symbolic link, which could be pointed elsewhere between two runs",
                    "name the directory it leads to",
                ) from error
            raise WorkspaceError(
                path, "it is not a directory", "move the file away or choose another path"
            ) from error
        raise WorkspaceError(
            path,
            f"it cannot be opened ({_words(error)})",
            "give this user the right to read and search it",
        ) from error


def open_workspace_file(workspace: Path, relative: str) -> BinaryIO:
    """Open a regular file of a workspace for reading, following no link on the way.

    For files that a guest left behind: it may have put a symbolic link where a file is expected.

    Args:
        workspace: The workspace directory.
        relative: A workspace-relative posix path, as in the lists of a `SandboxResult`.

    Raises:
        WorkspaceError: The path is absolute or climbs, leads over a link, or is not a regular file.
    """
    named = workspace / relative
    parts = PurePosixPath(relative).parts
    if not parts or relative.startswith("/") or ".." in parts or "\0" in relative:
        raise WorkspaceError(
            named, "the name is empty, absolute or climbs", "name a path inside the workspace"
        )
    from ...base.files.safe_path import directory_beneath  # executions don't need it

    here = open_workspace(workspace)
    try:
        try:
            with directory_beneath(OsFileSystem(), here, parts[:-1]) as parent:
                fd = os.open(parts[-1], READ_FLAGS, dir_fd=parent)
        except (OSError, UnicodeEncodeError) as error:
            raise WorkspaceError(
                named,
                f"it cannot be opened without following links ({_words(error)})",
                "name a regular file that is there",
            ) from error
    finally:
        os.close(here)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise WorkspaceError(named, "it is no regular file", "name a regular file")
    return os.fdopen(fd, "rb")


def _words(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


class ServedDirectory:
    """A directory served to an execution, with its quota and its changes.

    Attributes:
        root: A descriptor of the directory.
        hides: Whether the host's own file at the root is hidden.
        room: The remaining room.
        changes: The changes.
    """

    def __init__(
        self, root: int, quota: Quota, usage: UsageCounter | None = None, *, hide: bool = True
    ) -> None:
        """Serve a directory.

        Args:
            root: A descriptor of the directory; the caller owns it.
            quota: The guest's quota.
            usage: The directory's usage counter; None for a read-only directory.
            hide: Whether the host's own file at the root is hidden.
        """
        self.root: Final = root
        self.hides: Final = hide
        self.room: Final = Room(root, quota, usage)
        self.changes = ChangeLedger()
