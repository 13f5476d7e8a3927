"""A person's folder, read by descriptor: following no link, and never blocking."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from attrs import frozen

from ...files import FileSystem, ReadError, read_regular_file
from ...files.filesystem import close_reader
from ...files.safe_path import open_directory

_MAX_BYTES: Final = 4 << 20


@frozen
class OpenFolder:
    """An open folder; links, special files and files that are too large count as missing.

    Attributes:
        fs: The file system.
        fd: The folder's descriptor.
        path: Its path, for messages.
    """

    fs: FileSystem
    fd: int
    path: Path

    def text(self, name: str) -> str | None:
        """Return a file's text, or None."""
        try:
            data = read_regular_file(
                self.fs,
                name,
                path=self.path / name,
                max_bytes=_MAX_BYTES,
                directory_fd=self.fd,
            )
            return None if data is None else data.decode("utf-8-sig")
        except (ReadError, UnicodeDecodeError):
            return None

    def has(self, name: str) -> bool:
        """Return whether there is anything of this name."""
        try:
            self.fs.stat(name, dir_fd=self.fd)
        except OSError:
            return False
        return True

    def is_directory(self, name: str) -> bool:
        """Return whether there is a directory of this name; a link to one is not."""
        try:
            fd = open_directory(self.fs, name, dir_fd=self.fd)
        except OSError:
            return False
        close_reader(self.fs, fd)
        return True

    def names(self, name: str) -> tuple[str, ...]:
        """Return the entries of a subdirectory; nothing if it is not a directory."""
        try:
            fd = open_directory(self.fs, name, dir_fd=self.fd)
        except OSError:
            return ()
        try:
            return tuple(sorted(self.fs.listdir(fd)))
        except OSError:
            return ()
        finally:
            close_reader(self.fs, fd)
