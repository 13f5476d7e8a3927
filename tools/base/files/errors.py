"""What can go wrong with a durable file, as typed errors with fields."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ..errors import AgentForgeError, ErrorKind


def _reason(cause: BaseException | None) -> str:
    if isinstance(cause, OSError) and cause.errno is not None:
        return os.strerror(cause.errno)
    return str(cause) if cause is not None else "unknown cause"


class DurableError(AgentForgeError):
    """Base of this package's errors.

    Attributes:
        path: The file or directory it is about.
    """

    kind = ErrorKind.STORAGE

    def __init__(self, message: str, *, path: Path) -> None:
        super().__init__(message)
        self.path = path


class WriteError(DurableError):
    """A write did not become durable.

    Attributes:
        path: The file that was to be written.
        operation: The step that failed: "create", "write", "fsync", "rename", "mkdir", ….
        cause: What the system answered.
        errno: The cause's errno, or None.
        visible: False: the old content is what a reader sees. True: the new content is visible,
            but the system would not confirm that it survives a power failure, and putting the old
            content back failed too.
    """

    def __init__(
        self,
        *,
        path: Path,
        operation: str,
        cause: BaseException | None = None,
        visible: bool = False,
        advice: str = "Free the disk or fix its permissions, then try again.",
    ) -> None:
        kept = (
            "the new content is in place but may not survive a power failure"
            if visible
            else "the old content is untouched"
        )
        super().__init__(
            f"could not write {path}: {operation} failed: {_reason(cause)}; {kept}. {advice}",
            path=path,
        )
        self.operation = operation
        self.cause = cause
        self.errno = cause.errno if isinstance(cause, OSError) else None
        self.visible = visible


class LockTimeout(WriteError):
    """Another process held the lock for longer than the caller was ready to wait.

    Attributes:
        timeout_s: How long was waited, in seconds.
        holder: Who holds it, as far as a lock file says, or None.
    """

    def __init__(self, *, path: Path, timeout_s: float, holder: str | None = None) -> None:
        super().__init__(
            path=path,
            operation=f"lock (waited {timeout_s:g} s)",
            cause=TimeoutError(f"{holder or 'another process'} holds the lock"),
            advice="See who has it open (fuser or lsof on the directory), then try again.",
        )
        self.timeout_s = timeout_s
        self.holder = holder


class ReadError(DurableError):
    """A file exists but could not be read.

    Attributes:
        path: The file.
        cause: What the system answered, or None where the file is refused for what it is.
    """

    def __init__(
        self, *, path: Path, cause: BaseException | None = None, reason: str | None = None
    ) -> None:
        super().__init__(
            f"could not read {path}: {reason or _reason(cause)}; nothing was changed.", path=path
        )
        self.cause = cause
        refused = cause is None or getattr(cause, "errno", None) == errno.ELOOP
        self.kind = ErrorKind.INVALID_FILE if refused else ErrorKind.STORAGE


class RemovalError(DurableError):
    """Something under a removed directory could not be deleted.

    Attributes:
        path: What is left, out of sight of every listing.
        cause: What the system answered.
    """

    def __init__(self, *, path: Path, cause: BaseException) -> None:
        super().__init__(
            f"could not delete {path}: {_reason(cause)}; it is out of every listing already and "
            "the next removal tries again.",
            path=path,
        )
        self.cause = cause
