"""Durable files: atomic replacement, locks that die with their owner, removal that stays inside.

This package knows nothing of sessions. It names directories by descriptor wherever another process
could swap a path under it, follows no symbolic link below the directory that the caller names, and
turns every `OSError` into an error with the path, the step, and the state of the data. Each name
loads its module on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..exports import on_first_use

if TYPE_CHECKING:
    from .atomic_file import AtomicFileWriter, replace_file
    from .directory_store import make_durable_directory
    from .errors import DurableError, LockTimeout, ReadError, RemovalError, WriteError
    from .file_lock import DirectoryLock, FileLock, Patience, try_lock, unlock
    from .filesystem import FileStatus, FileSystem, OsFileSystem, hand_over
    from .regular_file import read_beneath, read_regular_file
    from .tree_removal import (
        Undeletable,
        discard_tree,
        empty_directory,
        remove_directory,
        sweep_discarded,
    )
else:
    __getattr__ = on_first_use(
        __name__,
        {
            "atomic_file": "AtomicFileWriter replace_file",
            "directory_store": "make_durable_directory",
            "errors": "DurableError LockTimeout ReadError RemovalError WriteError",
            "file_lock": "DirectoryLock FileLock Patience try_lock unlock",
            "filesystem": "FileStatus FileSystem OsFileSystem hand_over",
            "regular_file": "read_beneath read_regular_file",
            "tree_removal": "Undeletable discard_tree empty_directory remove_directory "
            "sweep_discarded",
        },
    )

__all__ = [
    "AtomicFileWriter",
    "DirectoryLock",
    "DurableError",
    "FileLock",
    "FileStatus",
    "FileSystem",
    "LockTimeout",
    "OsFileSystem",
    "Patience",
    "ReadError",
    "RemovalError",
    "Undeletable",
    "WriteError",
    "discard_tree",
    "empty_directory",
    "hand_over",
    "make_durable_directory",
    "read_beneath",
    "read_regular_file",
    "remove_directory",
    "replace_file",
    "sweep_discarded",
    "try_lock",
    "unlock",
]
