"""The host's access to a session's workspace: place, read and change files, look for artifacts.

Every path is walked by directory descriptors and no link is followed, because what ran in the
workspace may have put one anywhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from attrs import frozen

from ..durable import FileSystem, ReadError, WriteError, replace_file
from ..durable.filesystem import DIRECTORY_FLAGS, READ_FLAGS
from ..durable.regular_file import read_descriptor
from ..durable.safe_path import Missing, directory_beneath
from ..durable.tree_walk import Entry, walk_tree
from ..harness import HarnessError
from .workflow import Input

MAX_FILES: Final = 2000
MAX_FILE_BYTES: Final = 4 << 20
MAX_BYTES: Final = 32 << 20
_MAX_DEPTH: Final = 32
_SKIPPED: Final = frozenset({"__pycache__"})


class WorkspaceTooLarge(HarnessError):
    """A workspace holds more than an agent's work ever does; nothing was run.

    Attributes:
        path: The workspace.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} holds more than {MAX_FILES:,} files or {MAX_BYTES >> 20} MiB. Take out what "
            "the work does not need, then resume."
        )
        self.path = path


def make_workspace(fs: FileSystem, path: Path) -> None:
    """Make a directory of a session's, with mode 0700 and durably, if it is not there.

    Args:
        fs: The file system.
        path: The directory; its parent, the session's directory, has to be there.

    Raises:
        FileNotFoundError: The session is not there any more.
        WriteError: The system refused.
    """
    operation = "open the session's directory"
    try:
        parent_fd = fs.open(str(path.parent), DIRECTORY_FLAGS)
        try:
            operation = "mkdir"
            try:
                fs.mkdir(path.name, 0o700, dir_fd=parent_fd)
            except FileExistsError:
                return
            operation = "fsync of the session's directory"
            fs.fsync(parent_fd)
        finally:
            fs.close(parent_fd)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise WriteError(path=path, operation=operation, cause=error) from error


@frozen(kw_only=True)
class WorkspaceFiles:
    """The files of a workspace that the caller holds open and locked.

    Attributes:
        fs: The file system.
        fd: A descriptor of the workspace.
        root: Its path.
    """

    fs: FileSystem
    fd: int
    root: Path

    def read(self) -> dict[str, bytes]:
        """Read the regular files, by path; hidden names, caches and large files are passed over.

        Raises:
            WorkspaceTooLarge: There is too much.
            ReadError: The system refused.
        """
        found: dict[str, bytes] = {}
        size = 0
        names: tuple[str, ...] = ()
        try:
            for entry in walk_tree(self.fs, self.fd, enter=_is_entered):
                names = entry.names
                data = None if entry.is_directory or _is_skipped(entry) else _read(self.fs, entry)
                if data is None:
                    continue
                size += len(data)
                found["/".join(names)] = data
                if len(found) > MAX_FILES or size > MAX_BYTES:
                    raise WorkspaceTooLarge(self.root)
        except OSError as error:
            raise ReadError(path=self.root.joinpath(*names[:-1]), cause=error) from error
        return dict(sorted(found.items()))

    def place(self, inputs: Iterable[Input]) -> None:
        """Put files there, each whole and durable; they replace what has their names.

        Doing it again after it was interrupted gives the same files and leaves nothing else behind.

        Raises:
            WriteError: The system refused, or a directory on the way is none.
        """
        for one in inputs:
            *directories, name = one.target.split("/")
            path = self.root / one.target
            try:
                with directory_beneath(
                    self.fs, self.fd, directories, missing=Missing.MADE_DURABLY
                ) as fd:
                    replace_file(self.fs, fd, name, [one.content], path=path)
            except OSError as error:
                raise WriteError(path=path, operation="open its directory", cause=error) from error

    def apply(
        self, written: Mapping[str, bytes], deleted: Iterable[str], *, there: Mapping[str, bytes]
    ) -> None:
        """Make files what an answer says, each whole and durable.

        Applying an answer twice gives what applying it once gives: files that hold what they
        should are not written again.

        Args:
            written: Files and what they are to hold.
            deleted: Files to remove.
            there: What the workspace holds now.

        Raises:
            WriteError: The system refused, or a directory on the way is none; doing it again
                after that is mended gives the whole.
        """
        self.place(
            Input(target=path, content=content)
            for path, content in written.items()
            if there.get(path) != content
        )
        for path in deleted:
            if path in there:
                self._remove(path)

    def _remove(self, path: str) -> None:
        *directories, name = path.split("/")
        try:
            with directory_beneath(self.fs, self.fd, directories) as fd:
                with suppress(FileNotFoundError):
                    self.fs.unlink(name, dir_fd=fd)
                self.fs.fsync(fd)
        except OSError as error:
            raise WriteError(path=self.root / path, operation="unlink", cause=error) from error

    def missing(self, paths: Iterable[str]) -> list[str]:
        """Return which files are not there as regular files, reached over no link, and why.

        Those that are there are synced with the directories they are in, so that a success that
        is recorded after this call is not recorded of a file that a power failure takes away.

        Raises:
            WriteError: One is there and could not be synced.
        """
        problems = ((path, self._problem(path)) for path in paths)
        return [f"{path} {problem}" for path, problem in problems if problem is not None]

    def _problem(self, path: str) -> str | None:
        *directories, name = path.split("/")
        try:
            with directory_beneath(self.fs, self.fd, directories) as directory_fd:
                try:
                    fd = self.fs.open(name, READ_FLAGS, dir_fd=directory_fd)
                except OSError as error:
                    return "is a symbolic link" if error.errno == errno.ELOOP else _words(error)
                try:
                    if not stat.S_ISREG(self.fs.fstat(fd).st_mode):
                        return "is not a regular file"
                    self._sync([fd, directory_fd], path=self.root / path)
                finally:
                    self.fs.close(fd)
        except OSError as error:
            return _words(error)
        return None

    def _sync(self, fds: list[int], *, path: Path) -> None:
        try:
            for fd in fds:
                self.fs.fsync(fd)
        except OSError as error:
            raise WriteError(path=path, operation="fsync", cause=error) from error


def _is_skipped(entry: Entry) -> bool:
    return entry.name.startswith(".") or entry.name in _SKIPPED


def _is_entered(entry: Entry) -> bool:
    return not _is_skipped(entry) and len(entry.names) <= _MAX_DEPTH


def _read(fs: FileSystem, entry: Entry) -> bytes | None:
    """Read a regular file; None if it is a link, special or too large."""
    if not _is_readable(entry.status):
        return None
    fd = fs.open(entry.name, READ_FLAGS, dir_fd=entry.directory_fd)
    try:
        status = fs.fstat(fd)
        return read_descriptor(fs, fd, status.st_size) if _is_readable(status) else None
    finally:
        fs.close(fd)


def _is_readable(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_size <= MAX_FILE_BYTES


def _words(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return "is missing"
    if error.errno in {errno.ENOTDIR, errno.ELOOP}:
        return "is missing, or behind a link"
    return f"can't be opened ({os.strerror(error.errno or 0)})"
