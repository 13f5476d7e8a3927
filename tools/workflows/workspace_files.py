"""The host's hand in a workspace: putting inputs there, and looking for what a phase left.

Every path is walked by directory descriptors and no link is followed, because a phase may have put
one anywhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from ..durable import FileSystem, WriteError, replace_file
from ..durable.filesystem import DIRECTORY_FLAGS, READ_FLAGS
from ..durable.safe_path import Missing, directory_beneath
from .workflow import Input


def make_workspace(fs: FileSystem, path: Path) -> None:
    """Make a directory of a session's, with mode 0700 and durably, if it is not there.

    Args:
        fs: The file system.
        path: The directory; its parent, the session's directory, has to be there.

    Raises:
        FileNotFoundError: The session is gone.
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


def place_inputs(fs: FileSystem, root_fd: int, inputs: Iterable[Input], *, root: Path) -> None:
    """Put files into a workspace, each whole and durable; what is there by their names goes.

    Doing it again after it was interrupted gives the same files and leaves nothing else behind.

    Args:
        fs: The file system.
        root_fd: The workspace, open and locked by the caller.
        inputs: The files.
        root: The workspace's path, for messages.

    Raises:
        WriteError: The system refused, or a directory on the way is none.
    """
    for one in inputs:
        *directories, name = one.target.split("/")
        path = root / one.target
        try:
            with directory_beneath(fs, root_fd, directories, missing=Missing.MADE_DURABLY) as fd:
                replace_file(fs, fd, name, [one.content], path=path)
        except OSError as error:
            raise WriteError(path=path, operation="open its directory", cause=error) from error


def missing_artifacts(
    fs: FileSystem, root_fd: int, paths: Iterable[str], *, root: Path
) -> list[str]:
    """Say which files are not in a workspace as regular files, reached over no link.

    Those that are there are synced with the directories they are in, so that a success that is
    recorded after this call is not recorded of a file that a power failure takes away.

    Args:
        fs: The file system.
        root_fd: The workspace, open.
        paths: The files, relative to it.
        root: The workspace's path, for messages.

    Returns:
        For each that is not there, its path and why.

    Raises:
        WriteError: One is there and could not be synced.
    """
    problems = []
    for path in paths:
        problem = _problem(fs, root_fd, path, root=root)
        if problem is not None:
            problems.append(f"{path} {problem}")
    return problems


def _problem(fs: FileSystem, root_fd: int, path: str, *, root: Path) -> str | None:
    *directories, name = path.split("/")
    try:
        with directory_beneath(fs, root_fd, directories) as directory_fd:
            try:
                fd = fs.open(name, READ_FLAGS, dir_fd=directory_fd)
            except OSError as error:
                return "is a symbolic link" if error.errno == errno.ELOOP else _words(error)
            try:
                if not stat.S_ISREG(fs.fstat(fd).st_mode):
                    return "is not a regular file"
                _sync(fs, [fd, directory_fd], path=root / path)
            finally:
                fs.close(fd)
    except OSError as error:
        return _words(error)
    return None


def _sync(fs: FileSystem, fds: list[int], *, path: Path) -> None:
    try:
        for fd in fds:
            fs.fsync(fd)
    except OSError as error:
        raise WriteError(path=path, operation="fsync", cause=error) from error


def _words(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return "is missing"
    if error.errno in {errno.ENOTDIR, errno.ELOOP}:
        return "is missing, or behind a link"
    return f"can't be opened ({os.strerror(error.errno or 0)})"
