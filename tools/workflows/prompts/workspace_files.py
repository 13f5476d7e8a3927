"""The host's access to a session's workspace: place, read and change files, check artifacts.

Every path is walked by directory descriptors and no link is followed, because code that ran in the
workspace may have created one anywhere.

The module is long because the same walk decides what may be read and what may be changed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from attrs import frozen

from ...base.files import FileSystem, ReadError, WriteError, replace_file
from ...base.files.filesystem import READ_FLAGS
from ...base.files.regular_file import read_descriptor
from ...base.files.safe_path import Missing, directory_beneath
from ...base.files.trees import Entry, walk_tree
from ...base.text.path_pattern import is_exact, matches
from ...harness import HarnessError
from ..workflow import Input
from .context_folder import ContextFolder

MAX_FILES: Final = 2000
MAX_FILE_BYTES: Final = 4 << 20
MAX_BYTES: Final = 32 << 20
_MAX_DEPTH: Final = 32
MAX_NAMES: Final = 50_000
_MORE: Final = 8
"""How many times the usual limit may be read if the files are named."""
_SKIPPED: Final = frozenset({"__pycache__"})
_NEVER_LISTED: Final = frozenset({".git", "__pycache__", "node_modules"})
_NOT_A_WAY: Final = frozenset({errno.ENOTDIR, errno.ELOOP})
_RUNS: Final = 0o111
_NEW_MODE: Final = 0o644


class WorkspaceTooLarge(HarnessError):
    """A workspace is larger than any agent's work; nothing was run."""

    message = (
        f"{{path}} holds more than {MAX_FILES:,} files or {MAX_BYTES >> 20} MiB. Take out what the "
        "work does not need, then resume."
    )
    path: Path


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

    def read(self, places: Iterable[str] | None = None) -> dict[str, bytes]:
        """Return the regular files, by path, without hidden names, caches and large files.

        Args:
            places: Only these files, hidden ones too, the content of these directories, which end
                in `/`, and the matches of these globs; all if None.

        Raises:
            WorkspaceTooLarge: The files exceed a limit.
            ReadError: The workspace can't be read.
        """
        found = _Found(self.root, 1 if places is None else _MORE)
        try:
            for place in {"": None} if places is None else dict.fromkeys(places):
                *above, name = place.split("/")
                if not is_exact(place):
                    self._read_below(found, self.fd, (), place)
                try:
                    with directory_beneath(self.fs, self.fd, above) as fd:
                        if name:
                            status = self.fs.stat(name, dir_fd=fd)
                            found.take(place, _read_regular(self.fs, fd, name, status))
                        else:
                            self._read_below(found, fd, above)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    if place and error.errno in _NOT_A_WAY:
                        continue
                    raise
        except OSError as error:
            raise ReadError(path=self.root, cause=error) from error
        return dict(sorted(found.files.items()))

    def _read_below(
        self, found: _Found, fd: int, above: Sequence[str], pattern: str | None = None
    ) -> None:
        for entry in walk_tree(self.fs, fd, enter=_is_entered):
            path = "/".join((*above, *entry.names))
            if entry.is_directory or _is_skipped(entry):
                continue
            if pattern is None or matches(pattern, path):
                found.take(
                    path, _read_regular(self.fs, entry.directory_fd, entry.name, entry.status)
                )

    def names(self) -> tuple[str, ...]:
        """Return the paths of all entries but directories, sorted, at most `MAX_NAMES`.

        Raises:
            ReadError: The workspace can't be read.
        """
        found: list[str] = []
        try:
            for entry in walk_tree(self.fs, self.fd, enter=_is_listed, onerror=lambda _: None):
                if not entry.is_directory:
                    found.append("/".join(entry.names))
                if len(found) >= MAX_NAMES:
                    break
        except OSError as error:
            raise ReadError(path=self.root, cause=error) from error
        return tuple(sorted(found))

    def ignored(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Return the paths that the workspace's `.gitignore` files exclude."""
        folder = ContextFolder(fs=self.fs, fd=self.fd, path=self.root)
        return tuple(path for path in sorted(paths) if folder.ignores(path))

    def place(self, inputs: Iterable[Input]) -> None:
        """Write input files, each atomically and durably, replacing files of the same name.

        Repeating an interrupted call gives the same files and leaves nothing else behind.

        Raises:
            WriteError: The write failed, or a parent is not a directory.
        """
        for one in inputs:
            self._put(one.target, one.content, None)

    def _put(self, target: str, content: bytes, executable: bool | None) -> None:
        """Write a file, with the permissions of the one it replaces."""
        *directories, name = target.split("/")
        path = self.root / target
        try:
            with directory_beneath(
                self.fs, self.fd, directories, missing=Missing.MADE_DURABLY
            ) as fd:
                mode = _mode_of(self.fs, fd, name)
                if executable is not None and executable != bool((mode or 0) & _RUNS):
                    mode = _runnable(mode) if executable else (mode or _NEW_MODE) & ~_RUNS
                replace_file(self.fs, fd, name, [content], path=path, mode=mode)
        except OSError as error:
            raise WriteError(path=path, operation="open its directory", cause=error) from error

    def apply(
        self,
        written: Mapping[str, bytes],
        deleted: Iterable[str],
        *,
        there: Mapping[str, bytes],
        executable: Mapping[str, bool | None] | None = None,
    ) -> None:
        """Write and delete files as an answer says, each atomically and durably.

        Applying an answer twice has the same effect as once: files that already have the content
        are not written again.

        Args:
            written: Files and their new content.
            deleted: Files to remove.
            there: The current content of these files in the workspace.
            executable: Whether files are executable; others keep their permissions.

        Raises:
            WriteError: The write failed, or a parent is not a directory; once that is fixed,
                repeating the call completes it.
        """
        for path in deleted:
            self._remove(path, known=path in there, emptied=written)
        for path, content in written.items():
            runs = None if executable is None else executable.get(path)
            if there.get(path) != content or self._differs(path, runs):
                self._put(path, content, runs)

    def _differs(self, path: str, executable: bool | None) -> bool:
        """Return whether an existing file's executable bit is not the wanted one."""
        if executable is None:
            return False
        *directories, name = path.split("/")
        try:
            with directory_beneath(self.fs, self.fd, directories) as fd:
                return executable != bool((_mode_of(self.fs, fd, name) or 0) & _RUNS)
        except OSError:
            return True

    def _remove(self, path: str, *, known: bool, emptied: Mapping[str, bytes]) -> None:
        """Remove a file, and the directories above it that a new file replaces."""
        *directories, name = path.split("/")
        try:
            with (
                directory_beneath(self.fs, self.fd, directories) as fd,
                suppress(FileNotFoundError),
            ):
                self.fs.unlink(name, dir_fd=fd)
                self.fs.fsync(fd)
            for depth in range(len(directories), 0, -1):
                if "/".join(directories[:depth]) in emptied:
                    with directory_beneath(self.fs, self.fd, directories[: depth - 1]) as above:
                        self.fs.rmdir(directories[depth - 1], dir_fd=above)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno == errno.ENOTEMPTY:
                return  # its other content is removed after this
            if not known and error.errno in {*_NOT_A_WAY, errno.EISDIR}:
                return  # there is no file
            raise WriteError(path=self.root / path, operation="unlink", cause=error) from error

    def missing(self, paths: Iterable[str]) -> list[str]:
        """Return the paths that are not regular files, reached without links, each with the reason.

        Existing files are synced with their directories, so that a success recorded after this call
        survives a power failure together with its files.

        Raises:
            WriteError: A file could not be synced.
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


class _Found:
    """The files found by a read, within the limits."""

    def __init__(self, root: Path, times: int) -> None:
        self._root = root
        self._times = times
        self._bytes = 0
        self.files: dict[str, bytes] = {}

    def take(self, path: str, data: bytes | None) -> None:
        if data is None or path in self.files:
            return
        self.files[path] = data
        self._bytes += len(data)
        times = self._times
        if len(self.files) > times * MAX_FILES or self._bytes > times * MAX_BYTES:
            raise WorkspaceTooLarge(self._root)


def _is_skipped(entry: Entry) -> bool:
    return entry.name.startswith(".") or entry.name in _SKIPPED


def _is_entered(entry: Entry) -> bool:
    return not _is_skipped(entry) and len(entry.names) <= _MAX_DEPTH


def _is_listed(entry: Entry) -> bool:
    return entry.name.lower() not in _NEVER_LISTED and len(entry.names) <= _MAX_DEPTH


def _read_regular(
    fs: FileSystem, directory_fd: int, name: str, status: os.stat_result
) -> bytes | None:
    """Return the content of a regular file; None if it is a link, special or too large."""
    if not _is_readable(status):
        return None
    fd = fs.open(name, READ_FLAGS, dir_fd=directory_fd)
    try:
        status = fs.fstat(fd)
        return read_descriptor(fs, fd, status.st_size) if _is_readable(status) else None
    finally:
        fs.close(fd)


def _mode_of(fs: FileSystem, directory_fd: int, name: str) -> int | None:
    """Return the permissions of a regular file, or None if there is none."""
    try:
        status = fs.stat(name, dir_fd=directory_fd)
    except FileNotFoundError:
        return None
    return stat.S_IMODE(status.st_mode) & 0o777 if stat.S_ISREG(status.st_mode) else None


def _runnable(mode: int | None) -> int:
    """Return permissions that let everyone execute who may read."""
    mode = _NEW_MODE if mode is None else mode
    return mode | (mode & 0o444) >> 2


def _is_readable(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_size <= MAX_FILE_BYTES


def _words(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return "is missing"
    if error.errno in {errno.ENOTDIR, errno.ELOOP}:
        return "is missing, or behind a link"
    return f"can't be opened ({os.strerror(error.errno or 0)})"
