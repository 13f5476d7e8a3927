"""The host's access to a session's workspace: place, read and change files, look for artifacts.

Every path is walked by directory descriptors and no link is followed, because what ran in the
workspace may have put one anywhere.

The module is long because what may be read and what may be changed are judged by the same walk.
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
from ...base.files.tree_walk import Entry, walk_tree
from ...base.path_pattern import is_exact, matches
from ...harness import HarnessError
from ..workflow import Input
from .context_folder import ContextFolder

MAX_FILES: Final = 2000
MAX_FILE_BYTES: Final = 4 << 20
MAX_BYTES: Final = 32 << 20
_MAX_DEPTH: Final = 32
MAX_NAMES: Final = 50_000
_MORE: Final = 8
"""How many times as much is read where it is named what."""
_SKIPPED: Final = frozenset({"__pycache__"})
_NEVER_LISTED: Final = frozenset({".git", "__pycache__", "node_modules"})
_NOT_A_WAY: Final = frozenset({errno.ENOTDIR, errno.ELOOP})
_RUNS: Final = 0o111
_NEW_MODE: Final = 0o644


class WorkspaceTooLarge(HarnessError):
    """A workspace holds more than an agent's work ever does; nothing was run."""

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
        """Read the regular files, by path; hidden names, caches and large files are passed over.

        Args:
            places: Only these files, hidden ones too, what is in these directories, which end in
                `/`, and what these globs name; all if None.

        Raises:
            WorkspaceTooLarge: There is too much.
            ReadError: The system refused.
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
        """Return the paths of what is there and no directory, sorted, as far as they are looked at.

        Raises:
            ReadError: The system refused.
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
        """Return which of some paths the rules of the workspace's `.gitignore` files exclude."""
        folder = ContextFolder(fs=self.fs, fd=self.fd, path=self.root)
        return tuple(path for path in sorted(paths) if folder.ignores(path))

    def place(self, inputs: Iterable[Input]) -> None:
        """Put files there, each whole and durable; they replace what has their names.

        Doing it again after it was interrupted gives the same files and leaves nothing else behind.

        Raises:
            WriteError: The system refused, or a directory on the way is none.
        """
        for one in inputs:
            self._put(one.target, one.content, None)

    def _put(self, target: str, content: bytes, executable: bool | None) -> None:
        """Put a file there; it keeps the permissions of the one that it replaces."""
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
        """Make files what an answer says, each whole and durable.

        Applying an answer twice gives what applying it once gives: files that hold what they
        should are not written again.

        Args:
            written: Files and what they are to hold.
            deleted: Files to remove.
            there: What the workspace holds now of these files.
            executable: Whether files can be run; what it leaves out stays as it is.

        Raises:
            WriteError: The system refused, or a directory on the way is none; doing it again
                after that is mended gives the whole.
        """
        for path in deleted:
            self._remove(path, known=path in there, emptied=written)
        for path, content in written.items():
            runs = None if executable is None else executable.get(path)
            if there.get(path) != content or self._differs(path, runs):
                self._put(path, content, runs)

    def _differs(self, path: str, executable: bool | None) -> bool:
        """Return whether a file that is there can be run and should not, or the other way round."""
        if executable is None:
            return False
        *directories, name = path.split("/")
        try:
            with directory_beneath(self.fs, self.fd, directories) as fd:
                return executable != bool((_mode_of(self.fs, fd, name) or 0) & _RUNS)
        except OSError:
            return True

    def _remove(self, path: str, *, known: bool, emptied: Mapping[str, bytes]) -> None:
        """Remove a file, and directories above it in whose place a file is to be."""
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
                return  # what else is in it is removed after this
            if not known and error.errno in {*_NOT_A_WAY, errno.EISDIR}:
                return  # no file is there
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


class _Found:
    """The files that a look has found, within the limits."""

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
    """Read a regular file; None if it is a link, special or too large."""
    if not _is_readable(status):
        return None
    fd = fs.open(name, READ_FLAGS, dir_fd=directory_fd)
    try:
        status = fs.fstat(fd)
        return read_descriptor(fs, fd, status.st_size) if _is_readable(status) else None
    finally:
        fs.close(fd)


def _mode_of(fs: FileSystem, directory_fd: int, name: str) -> int | None:
    """Return the permissions of a regular file, or None where there is none."""
    try:
        status = fs.stat(name, dir_fd=directory_fd)
    except FileNotFoundError:
        return None
    return stat.S_IMODE(status.st_mode) & 0o777 if stat.S_ISREG(status.st_mode) else None


def _runnable(mode: int | None) -> int:
    """Return permissions with which those who may read may run."""
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
