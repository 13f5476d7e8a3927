"""File and disk errors as the harness raises them.

Each is both a `base.files` error, with its fields, and a `HarnessError`: `except HarnessError`
catches what a store or a manager raises about a session, and `except base.files.WriteError` still
catches write failures.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ..base import files as durable
from ..base.errors import ErrorKind
from ..base.files.errors import StorageErrors
from .errors import HarnessError, SessionCorrupted


class WriteError(HarnessError, durable.WriteError, kind=ErrorKind.STORAGE, retryable=True):
    """A session's change did not become durable; `base.files.WriteError` describes the fields."""


class LockTimeout(WriteError, durable.LockTimeout):
    """Another process held a session's lock for longer than the store waits."""


class RemovalError(HarnessError, durable.RemovalError, kind=ErrorKind.STORAGE, retryable=True):
    """A deleted session is out of every listing, but some of its files could not be removed."""


class ReadError(HarnessError, durable.ReadError, kind=ErrorKind.STORAGE):
    """A directory or store that holds sessions could not be read."""


class SessionUnreadable(SessionCorrupted, ReadError):
    """A session exists but its file can't be read: not a regular file, too large, or refused."""

    path: Path
    faults: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.faults = (str(self),)
        super().__post_init__()

    def __str__(self) -> str:
        return durable.ReadError.__str__(self)


STORE_ERRORS: Final = StorageErrors(
    {
        durable.LockTimeout: LockTimeout,
        durable.WriteError: WriteError,
        durable.RemovalError: RemovalError,
        durable.ReadError: ReadError,
    }
)
"""Error classes for operations on all sessions of a store."""
SESSION_ERRORS: Final = StorageErrors(
    {**STORE_ERRORS.kinds, durable.ReadError: SessionUnreadable}, subject="session_id"
)
"""Error classes for operations on one session."""
