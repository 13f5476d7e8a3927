"""Typed errors of durable files, with fields."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

from ..errors import AgentForgeError, ErrorKind, reason_of, retyped


class DurableError(AgentForgeError, kind=ErrorKind.STORAGE, kw_only=True):
    """Base of this package's errors."""

    path: Path
    """The file or directory concerned."""


class WriteError(DurableError, kw_only=True):
    """A write did not become durable."""

    message = """could not write {path}: {operation} failed: {cause:or unknown cause}; {kept}.
    {advice}"""
    operation: str
    """The step that failed: "create", "write", "fsync", "rename", "mkdir", …."""
    cause: BaseException | None = None
    visible: bool = False
    """False: readers see the old content. True: readers see the new content, but the system would
    not confirm that it survives a power failure, and restoring the old content failed too."""
    advice: str = "Free the disk or fix its permissions, then try again."

    def __post_init__(self) -> None:
        super().__post_init__()
        self.errno = self.cause.errno if isinstance(self.cause, OSError) else None

    @property
    def kept(self) -> str:
        """What a reader finds now."""
        if self.visible:
            return "the new content is in place but may not survive a power failure"
        return "the old content is untouched"


class LockTimeout(WriteError, kw_only=True):
    """Another process held the lock for longer than the time limit."""

    message = """could not write {path}: {operation} failed: {holder:or another process} holds it
    (waited {timeout_s:g} s); {kept}. {advice}"""
    operation: str = "lock"
    timeout_s: float
    holder: str | None = None
    """The holder, as far as a lock file names it."""
    advice: str = "See who has it open (fuser or lsof on the directory), then try again."


class ReadError(DurableError, kw_only=True):
    """A file exists but could not be read."""

    cause: BaseException | None = None
    """The system's error, or None where the file itself is unacceptable."""
    reason: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        refused = self.cause is None or getattr(self.cause, "errno", None) == errno.ELOOP
        self.kind = ErrorKind.INVALID_FILE if refused else ErrorKind.STORAGE

    def __str__(self) -> str:
        reason = self.reason or reason_of(self.cause)
        return f"could not read {self.path}: {reason}; nothing was changed."


class RemovalError(DurableError, kw_only=True):
    """Something under a removed directory could not be deleted."""

    message = """could not delete {path}: {cause}; it is out of every listing already and the next
    removal tries again."""
    cause: BaseException


_P = ParamSpec("_P")
_T = TypeVar("_T")
_Owner = TypeVar("_Owner")


class StorageErrors:
    """Maps errors of files and disks to one package's own classes and subject."""

    def __init__(
        self, kinds: Mapping[type[DurableError], type[AgentForgeError]], *, subject: str = ""
    ) -> None:
        """Set the package's class for each of this package's, and the field of the subject."""
        self.kinds: Final = kinds
        self._ours = tuple(kinds.values())
        self._subject = subject

    def of(self, error: DurableError, subject: object = None) -> AgentForgeError:
        """Return the package's error that corresponds to an error of a file or a disk."""
        kind = next((self.kinds[one] for one in type(error).__mro__ if one in self.kinds), None)
        if kind is None or isinstance(error, self._ours):
            return error
        return retyped(error, kind, **({self._subject: subject} if self._subject else {}))

    def raised(
        self, subject: str = ""
    ) -> Callable[[Callable[Concatenate[_Owner, _P], _T]], Callable[Concatenate[_Owner, _P], _T]]:
        """Return a decorator that makes a method raise the package's errors.

        Args:
            subject: The method's parameter that is the subject, or `parameter.attribute`.
        """
        parameter, _, attribute = subject.partition(".")

        def decorated(
            method: Callable[Concatenate[_Owner, _P], _T],
        ) -> Callable[Concatenate[_Owner, _P], _T]:
            place = method.__code__.co_varnames.index(parameter) - 1 if parameter else None

            @wraps(method)
            def call(owner: _Owner, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
                try:
                    return method(owner, *args, **kwargs)
                except DurableError as error:
                    about: object = None
                    if place is not None:
                        about = args[place] if place < len(args) else kwargs[parameter]
                        about = getattr(about, attribute) if attribute else about
                    typed = self.of(error, about)
                    if typed is error:
                        raise
                    raise typed from error

            return call

        return decorated
