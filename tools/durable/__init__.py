"""Durable files: atomic replacement, locks that die with their owner, removal that stays inside.

This package knows nothing of sessions. It names directories by descriptor wherever somebody else
could swap a path under it, follows no symbolic link below the directory that the caller names, and
turns every `OSError` into an error that says which path, which step, and what became of the data.
"""

from tools.durable.directories import make_durable_directory
from tools.durable.errors import DurableError, LockTimeout, ReadError, RemovalError, WriteError
from tools.durable.files import read_regular_file
from tools.durable.filesystem import FileSystem, OsFileSystem
from tools.durable.locks import DirectoryLock, FileLock
from tools.durable.ownership import hand_over
from tools.durable.replacing import AtomicFileWriter, replace_file
from tools.durable.trees import (
    Undeletable,
    discard_tree,
    empty_directory,
    remove_directory,
    sweep_discarded,
)

__all__ = [
    "AtomicFileWriter",
    "DirectoryLock",
    "DurableError",
    "FileLock",
    "FileSystem",
    "LockTimeout",
    "OsFileSystem",
    "ReadError",
    "RemovalError",
    "Undeletable",
    "WriteError",
    "discard_tree",
    "empty_directory",
    "hand_over",
    "make_durable_directory",
    "read_regular_file",
    "remove_directory",
    "replace_file",
    "sweep_discarded",
]
