"""Errors of files and disks as the harness raises them.

Each is both `durable`'s error, with its fields, and one of the harness's family, so that
`except HarnessError` catches what a store or a manager raises about a session, and
`except durable.WriteError` still does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ClassVar, Concatenate, ParamSpec, TypeVar

from ..base import files as durable
from ..base.errors import ErrorKind
from .errors import HarnessError, SessionCorrupted

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Owner = TypeVar("_Owner")


class WriteError(HarnessError, durable.WriteError):
    """A session's change did not become durable; `base.files.WriteError` has the fields."""

    kind = ErrorKind.STORAGE
    retryable: ClassVar[bool] = True

    def __init__(self, error: durable.WriteError, *, session_id: str | None = None) -> None:
        _take(self, error, session_id)


class LockTimeout(WriteError, durable.LockTimeout):
    """Another process held a session's lock for longer than the store waits."""


class RemovalError(HarnessError, durable.RemovalError):
    """A deleted session is out of every listing, but some of its files resist."""

    kind = ErrorKind.STORAGE
    retryable: ClassVar[bool] = True

    def __init__(self, error: durable.RemovalError, *, session_id: str | None = None) -> None:
        _take(self, error, session_id)


class ReadError(HarnessError, durable.ReadError):
    """A place that sessions are kept in could not be read."""

    kind = ErrorKind.STORAGE

    def __init__(self, error: durable.ReadError, *, session_id: str | None = None) -> None:
        _take(self, error, session_id)


class SessionUnreadable(SessionCorrupted, ReadError):
    """A session is there, and its file could not be read: no regular file, too large, refused.

    Attributes:
        path: The file or directory; it was not touched.
        where: The same as text.
        faults: Why, as one item.
        details: The same as text.
        cause: What the system answered, or None where the file is refused for what it is.
    """

    def __init__(self, error: durable.ReadError, *, session_id: str | None = None) -> None:
        _take(self, error, session_id)
        self.where = str(error.path)
        self.faults = (str(error),)
        self.details = str(error)


def _take(made: HarnessError, error: durable.DurableError, session_id: str | None) -> None:
    """Give an error of the harness the text and the fields of the one that it stands for."""
    Exception.__init__(made, *error.args)
    vars(made).update(vars(error))
    made.session_id = session_id


def of_the_harness(
    error: durable.DurableError, session_id: str | None
) -> HarnessError | durable.DurableError:
    """Return the error of this family that stands for one of a file or a disk.

    Args:
        error: What the disk's layer raised.
        session_id: The session it is about, or None where it is about all of them.
    """
    if isinstance(error, HarnessError):
        return error
    if isinstance(error, durable.LockTimeout):
        return LockTimeout(error, session_id=session_id)
    if isinstance(error, durable.WriteError):
        return WriteError(error, session_id=session_id)
    if isinstance(error, durable.RemovalError):
        return RemovalError(error, session_id=session_id)
    if isinstance(error, durable.ReadError):
        kind = ReadError if session_id is None else SessionUnreadable
        return kind(error, session_id=session_id)
    return error


def raising_harness_errors(
    method: Callable[Concatenate[_Owner, _P], _T],
) -> Callable[Concatenate[_Owner, _P], _T]:
    """Have a store's method raise this family's errors for those of files and disks.

    The session is the method's first argument: its id or itself, or none.
    """

    @wraps(method)
    def call(owner: _Owner, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return method(owner, *args, **kwargs)
        except durable.DurableError as error:
            subject = next(iter((*args, *kwargs.values())), None)
            named = getattr(subject, "session_id", subject)
            typed = of_the_harness(error, named if isinstance(named, str) else None)
            if typed is error:
                raise
            raise typed from error

    return call
