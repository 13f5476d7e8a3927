"""Errors of files and disks as the harness raises them.

Each is both `base.files`'s error, with its fields, and one of the harness's family, so that
`except HarnessError` catches what a store or a manager raises about a session, and
`except base.files.WriteError` still does.
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
    """A session's change did not become durable; `base.files.WriteError` has the fields."""


class LockTimeout(WriteError, durable.LockTimeout):
    """Another process held a session's lock for longer than the store waits."""


class RemovalError(HarnessError, durable.RemovalError, kind=ErrorKind.STORAGE, retryable=True):
    """A deleted session is out of every listing, but some of its files resist."""


class ReadError(HarnessError, durable.ReadError, kind=ErrorKind.STORAGE):
    """A place that holds sessions could not be read."""


class SessionUnreadable(SessionCorrupted, ReadError):
    """A session is there, and its file could not be read: no regular file, too large, refused."""

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
"""Those about all sessions of a store."""
SESSION_ERRORS: Final = StorageErrors(
    {**STORE_ERRORS.kinds, durable.ReadError: SessionUnreadable}, subject="session_id"
)
"""Those about one session."""
