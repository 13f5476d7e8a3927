"""The space that a folder takes up on the disk."""

from __future__ import annotations

import errno
import os
from typing import Final

from attrs import frozen

from ...base.files import OsFileSystem
from ...base.files.filesystem import DIRECTORY_FLAGS
from ...base.files.trees import Entry, walk_tree

_BLOCK: Final = 512
_DEPTH: Final = 600
"""The depth limit of a look; a deeper tree counts as too many files, and so does a folder
that can't be read.
"""


@frozen(kw_only=True)
class DiskUsage:
    """Bytes on the disk, each file once whatever its names, and the number of entries.

    Attributes:
        bytes: Bytes on the disk.
        entries: Files and folders.
        device: The device that the folder is on.
    """

    bytes: int
    entries: int
    device: int


def disk_usage(folder: str | os.PathLike[str], *, most_entries: int) -> DiskUsage:
    """Return the space that a folder takes up, following no link and staying on its device.

    Args:
        folder: The folder.
        most_entries: The most entries to count; the count is one more if there are more, if they
            are too deep, or if a folder can't be read.

    Raises:
        OSError: The folder can't be opened.
    """
    fs = OsFileSystem()
    root = os.open(folder, DIRECTORY_FLAGS)
    try:
        device = os.fstat(root).st_dev
        total = entries = 0
        seen: set[int] = set()

        def enter(entry: Entry) -> bool:
            return entry.status.st_dev == device and len(entry.names) < _DEPTH

        hidden = False

        def onerror(error: OSError) -> None:
            nonlocal hidden
            hidden = hidden or error.errno == errno.EACCES

        for entry in walk_tree(fs, root, enter=enter, onerror=onerror):
            entries += 1
            status = entry.status
            if entry.is_directory and len(entry.names) >= _DEPTH:
                entries = most_entries + 1
            if entries > most_entries:
                break
            if status.st_dev != device:
                continue
            if status.st_nlink > 1 and not entry.is_directory:
                if status.st_ino in seen:
                    continue
                seen.add(status.st_ino)
            total += status.st_blocks * _BLOCK
        if hidden:
            entries = most_entries + 1
        return DiskUsage(bytes=total, entries=entries, device=device)
    finally:
        os.close(root)
