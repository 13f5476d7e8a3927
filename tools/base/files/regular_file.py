"""Write one file to its last byte, and read one if it is a regular file."""

from __future__ import annotations

import errno
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import ReadError
from .filesystem import (
    CREATE_FLAGS,
    DIRECTORY_FLAGS,
    READ_FLAGS,
    FileSystem,
    close_reader,
    hand_over,
)
from .safe_path import directory_beneath

Chunk = bytes | bytearray | memoryview

_IOV_MAX = 1024
_READ_PIECE = 1 << 20


def write_all(fs: FileSystem, fd: int, chunks: Sequence[Chunk]) -> None:
    """Write pieces one after another, repeating short writes.

    Raises:
        OSError: The system refused.
    """
    pending: list[Chunk] = [chunk for chunk in chunks if chunk]
    while pending:
        written = fs.writev(fd, pending[:_IOV_MAX])
        if written <= 0:
            raise OSError(errno.EIO, "the file system took no byte")
        if written == sum(map(len, pending)):
            return
        done = 0
        while done < len(pending) and written >= len(pending[done]):
            written -= len(pending[done])
            done += 1
        del pending[:done]
        if written:
            pending[0] = memoryview(pending[0])[written:]


@contextmanager
def being_written(fs: FileSystem, fd: int, directory_fd: int, name: str) -> Iterator[None]:
    """Close a new file when the block that writes it ends; remove it if the block fails.

    Args:
        fs: The file system.
        fd: The file, open for writing.
        directory_fd: The directory it is in.
        name: Its name there.
    """
    try:
        try:
            yield
        finally:
            fs.close(fd)
    except BaseException:
        with suppress(OSError):
            fs.unlink(name, dir_fd=directory_fd)
        raise


def create_file(
    fs: FileSystem,
    directory_fd: int,
    name: str,
    chunks: Sequence[Chunk],
    *,
    handed_over: bool = False,
) -> None:
    """Write a new file and sync its content; the caller syncs the directory.

    Args:
        fs: The file system.
        directory_fd: The directory.
        name: The file's name in it.
        chunks: The content, in pieces.
        handed_over: Whether to give it to the directory's owner if root makes it.

    Raises:
        OSError: The system refused; a partly written file is removed.
    """
    try:
        fd = fs.open(name, CREATE_FLAGS, 0o600, dir_fd=directory_fd)
    except FileExistsError:
        fs.unlink(name, dir_fd=directory_fd)
        fd = fs.open(name, CREATE_FLAGS, 0o600, dir_fd=directory_fd)
    with being_written(fs, fd, directory_fd, name):
        if handed_over:
            hand_over(fs, fd, directory_fd)
        write_all(fs, fd, chunks)
        fs.fsync(fd)


def read_descriptor(fs: FileSystem, fd: int, size: int) -> bytes:
    """Read `size` bytes (fewer at the end of the file) from the start of an open file."""
    pieces = []
    offset = 0
    while offset < size:
        piece = fs.pread(fd, min(size - offset, _READ_PIECE), offset)
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def read_regular_file(
    fs: FileSystem,
    name: str,
    *,
    path: Path,
    max_bytes: int,
    directory_fd: int | None = None,
) -> bytes | None:
    """Read a whole file, if it is a regular one.

    Args:
        fs: The file system.
        name: The file, relative to `directory_fd` if that is given.
        path: Its path, for messages.
        max_bytes: The largest size that is read.
        directory_fd: The directory it is in, or None.

    Returns:
        The content, or None if there is no such file.

    Raises:
        ReadError: It is a link, a directory, a FIFO or a device, is larger than `max_bytes`, or the
            system refused. Never blocks on a FIFO.
    """
    try:
        fd = fs.open(name, READ_FLAGS, dir_fd=directory_fd)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        reason = (
            "it is a symbolic link, which is not followed" if error.errno == errno.ELOOP else None
        )
        raise ReadError(path=path, cause=error, reason=reason) from error
    try:
        status = fs.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise ReadError(path=path, reason="it is not a regular file")
        if status.st_size > max_bytes:
            raise ReadError(
                path=path,
                reason=f"it has {status.st_size:,} bytes, more than the limit of {max_bytes:,}",
            )
        return read_descriptor(fs, fd, status.st_size)
    except OSError as error:
        raise ReadError(path=path, cause=error) from error
    finally:
        close_reader(fs, fd)


def read_beneath(fs: FileSystem, root: Path, path: str, *, max_bytes: int) -> bytes | None:
    """Read a whole file below a directory, following no link; None if it does not exist.

    Args:
        fs: The file system.
        root: The directory.
        path: The file, relative to it, its parts separated by `/`.
        max_bytes: The largest size that is read.

    Raises:
        ReadError: It is not a regular file, is larger, or the system refused.
        OSError: A directory on the way can't be opened, for example because it is a link.
    """
    *directories, name = path.split("/")
    try:
        root_fd = fs.open(str(root), DIRECTORY_FLAGS)
        try:
            with directory_beneath(fs, root_fd, directories) as fd:
                whole = root / path
                return read_regular_file(fs, name, path=whole, max_bytes=max_bytes, directory_fd=fd)
        finally:
            close_reader(fs, root_fd)
    except (FileNotFoundError, NotADirectoryError):
        return None
