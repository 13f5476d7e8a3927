"""The host's hand in an agent session's workspace: reading its files, applying an answer to them.

No link is followed, whatever stands in the workspace. Applying an answer twice gives what applying
it once gives: files that hold what they should are not written again.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from ..durable import FileSystem, ReadError, WriteError
from ..durable.filesystem import READ_FLAGS
from ..durable.regular_file import read_descriptor
from ..durable.safe_path import directory_beneath
from ..durable.tree_walk import Entry, walk_tree
from ..harness import HarnessError
from .workflow import Input
from .workspace_files import place_inputs

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


def read_workspace(fs: FileSystem, root_fd: int, *, root: Path) -> dict[str, bytes]:
    """Read the regular files of a workspace, by path; hidden names and caches are passed over.

    Raises:
        WorkspaceTooLarge: There is too much.
        ReadError: The system refused.
    """
    found: dict[str, bytes] = {}
    size = 0
    here = root
    try:
        for entry in walk_tree(fs, root_fd, enter=_is_entered):
            here = root.joinpath(*entry.names[:-1])
            data = None if entry.is_directory or _is_skipped(entry) else _read(fs, entry)
            if data is None:
                continue
            size += len(data)
            found["/".join(entry.names)] = data
            if len(found) > MAX_FILES or size > MAX_BYTES:
                raise WorkspaceTooLarge(root)
    except OSError as error:
        raise ReadError(path=here, cause=error) from error
    return dict(sorted(found.items()))


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


def apply_files(
    fs: FileSystem,
    root_fd: int,
    written: Mapping[str, bytes],
    deleted: Iterable[str],
    *,
    there: Mapping[str, bytes],
    root: Path,
) -> None:
    """Make files what an answer says, each whole and durable.

    Args:
        fs: The file system.
        root_fd: The workspace, open and locked by the caller.
        written: Files and what they are to hold.
        deleted: Files that are to go.
        there: What the workspace holds now.
        root: Its path, for messages.

    Raises:
        WriteError: The system refused, or a directory on the way is none; doing it again after
            that is mended gives the whole.
    """
    place_inputs(
        fs,
        root_fd,
        [
            Input(target=path, content=content)
            for path, content in written.items()
            if there.get(path) != content
        ],
        root=root,
    )
    for path in deleted:
        if path not in there:
            continue
        *directories, name = path.split("/")
        try:
            with directory_beneath(fs, root_fd, directories) as fd:
                with suppress(FileNotFoundError):
                    fs.unlink(name, dir_fd=fd)
                fs.fsync(fd)
        except OSError as error:
            raise WriteError(path=root / path, operation="unlink", cause=error) from error
