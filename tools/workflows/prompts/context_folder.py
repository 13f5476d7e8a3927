"""A project folder as an agent may see it: file names, and texts read by descriptor.

The walk follows no link, enters no ignored folder and is bounded; a file is read without following
links, and only if it is a regular text file of moderate size.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attrs import field, frozen

from ...base.files import FileSystem, ReadError, read_regular_file
from ...base.files.filesystem import DIRECTORY_FLAGS, close_reader
from ...base.files.safe_path import directory_beneath
from ...base.files.trees import Entry, walk_tree
from ...base.settings.ignored_files import NEVER, FolderRules, looks_secret
from ..names import path_problem

_KEY: Final = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----")
MAX_FILE_BYTES: Final = 512 * 1024
"""The largest file that is read, in bytes."""
MAX_ENTRIES: Final = 50_000
"""The most entries that a walk visits."""
LINK: Final = "is a symbolic link, which is not followed"
_MAX_DEPTH: Final = 32


def holds_private_key(data: bytes) -> bool:
    """Return whether a file's content contains the beginning of a private key."""
    return _KEY.search(data) is not None


@frozen
class ContextListing:
    """The result of a walk.

    Attributes:
        files: The regular files, by path, sorted, without those that look secret.
        links: The symbolic links, which are not followed.
        secret: Files that look as if they held a secret.
        cut: Whether the walk ended at its limit.
    """

    files: tuple[str, ...]
    links: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    cut: bool = False


class NotShown(Exception):
    """A file is not shown; the message says why."""


@frozen(kw_only=True)
class ContextFolder:
    """An open folder.

    Attributes:
        fs: The file system.
        fd: Its descriptor.
        path: Its path, for messages.
    """

    fs: FileSystem
    fd: int
    path: Path
    max_entries: int = MAX_ENTRIES
    _rules: FolderRules = field(init=False, repr=False)

    @_rules.default
    def _no_rules_yet(self) -> FolderRules:
        return FolderRules(fs=self.fs, fd=self.fd, path=self.path)

    def list(self) -> ContextListing:
        """Walk the folder and return its files.

        Raises:
            ReadError: The folder itself can't be listed.
        """
        files: list[str] = []
        links: list[str] = []
        secret: list[str] = []
        seen = 0
        cut = False
        try:
            for entry in walk_tree(self.fs, self.fd, enter=self._enters, onerror=lambda _: None):
                seen += 1
                if seen > self.max_entries:
                    cut = True
                    break
                if entry.is_directory or self._is_ignored(entry):
                    continue
                path = "/".join(entry.names)
                if stat.S_ISLNK(entry.status.st_mode):
                    links.append(path)
                elif stat.S_ISREG(entry.status.st_mode):
                    (secret if looks_secret(path) else files).append(path)
        except OSError as error:
            raise ReadError(path=self.path, cause=error) from error
        return ContextListing(
            tuple(sorted(files)), tuple(sorted(links)), tuple(sorted(secret)), cut
        )

    def ignores(self, path: str) -> bool:
        """Return whether a file of this path is ignored, by its own rule or a folder's."""
        names = tuple(path.split("/"))
        return any(
            name.lower() in NEVER or self._rules.judged(names[: depth + 1], depth + 1 < len(names))
            for depth, name in enumerate(names)
        )

    def _enters(self, entry: Entry) -> bool:
        return len(entry.names) <= _MAX_DEPTH and not self._is_ignored(entry)

    def _is_ignored(self, entry: Entry) -> bool:
        if entry.name.lower() in NEVER:
            return True
        self._rules.read(entry.names[:-1], entry.directory_fd)
        return self._rules.judged(entry.names, entry.is_directory)

    def text(self, path: str, *, named: bool) -> str:
        """Return a file's text.

        Args:
            path: Its path, relative to the folder.
            named: Whether a person named exactly this file, so that it may look secret.

        Raises:
            NotShown: The file is not shown; the message says why.
        """
        problem = _path_problem(path)
        if problem is not None:
            raise NotShown(problem)
        if not named and looks_secret(path):
            raise NotShown("looks like a secret; name it itself if it has to be sent")
        data = self._read(path)
        if not named and holds_private_key(data):
            raise NotShown("holds a private key; name it itself if it has to be sent")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise NotShown("is no text in UTF-8") from error
        if "\0" in text:
            raise NotShown("is no text")
        return text

    def _read(self, path: str) -> bytes:
        *folders, name = path.split("/")
        try:
            with directory_beneath(self.fs, self.fd, folders) as directory_fd:
                status = self.fs.stat(name, dir_fd=directory_fd)
                if stat.S_ISLNK(status.st_mode):
                    raise NotShown(LINK)
                if not stat.S_ISREG(status.st_mode):
                    raise NotShown("is no regular file")
                if status.st_size > MAX_FILE_BYTES:
                    raise NotShown(f"has more than {MAX_FILE_BYTES:,} bytes")
                data = read_regular_file(
                    self.fs,
                    name,
                    path=self.path / path,
                    max_bytes=MAX_FILE_BYTES,
                    directory_fd=directory_fd,
                )
        except FileNotFoundError:
            data = None
        except (OSError, ReadError) as error:
            behind = isinstance(error, OSError) and error.errno in {errno.ELOOP, errno.ENOTDIR}
            raise NotShown("is behind a link" if behind else "can't be read") from error
        if data is None:
            raise NotShown("is not there")
        return data


def _path_problem(path: str) -> str | None:
    """Return why a path is never shown to an agent, or None."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return "has a name that is not UTF-8"
    problem = path_problem(path)
    return None if problem is None else "is no plain path inside the folder"


@contextmanager
def context_folder(fs: FileSystem, path: Path) -> Iterator[ContextFolder]:
    """Yield a folder, open during the block.

    Raises:
        ReadError: The path is not a folder, or can't be read.
    """
    try:
        fd = fs.open(os.path.realpath(path), DIRECTORY_FLAGS)
    except OSError as error:
        raise ReadError(path=path, cause=error) from error
    try:
        yield ContextFolder(fs=fs, fd=fd, path=path)
    finally:
        close_reader(fs, fd)
