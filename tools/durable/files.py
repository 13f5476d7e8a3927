"""One file, replaced as a whole or not at all."""

from __future__ import annotations

import errno
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tools.durable.errors import ReadError, WriteError
from tools.durable.filesystem import CREATE_FLAGS, READ_FLAGS, FileSystem, close_reader
from tools.durable.ownership import hand_over

Chunk = bytes | bytearray | memoryview

_IOV_MAX = 1024
_READ_PIECE = 1 << 20


def write_all(fs: FileSystem, fd: int, chunks: Sequence[Chunk]) -> None:
    """Write pieces one after another, however little the system takes at once.

    Raises:
        OSError: As the system answered.
    """
    pending: list[Chunk] = [chunk for chunk in chunks if chunk]
    while pending:
        written = fs.writev(fd, pending[:_IOV_MAX])
        if written <= 0:
            raise OSError(errno.EIO, "the file system took no byte")
        done = 0
        while done < len(pending) and written >= len(pending[done]):
            written -= len(pending[done])
            done += 1
        del pending[:done]
        if written:
            pending[0] = memoryview(pending[0])[written:]


def temporary_name(name: str) -> str:
    """Name the file in which a new content of `name` is built.

    One fixed name is enough: a writer holds the directory's lock, so whatever carries this name
    when it comes was left by a writer that was killed.
    """
    return f".{name}.tmp"


@contextmanager
def being_written(fs: FileSystem, fd: int, directory_fd: int, name: str) -> Iterator[None]:
    """Close a new file at the end of the block that writes it, and remove it if that fails.

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
        handed_over: Whether it belongs to the directory's owner, where root makes it.

    Raises:
        OSError: As the system answered; a file that was begun is gone again.
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


def replace_file(
    fs: FileSystem,
    directory_fd: int,
    name: str,
    chunks: Sequence[Chunk],
    *,
    path: Path,
    previous_fd: int | None = None,
    verify: bool = False,
) -> None:
    """Replace the content of a file, atomically and durably.

    The order: create a temporary file beside it, write, fsync it, rename it over the old one,
    fsync the directory. A reader sees the old content or the new, never a mixture; when the call
    returns, the new content survives a power failure (as far as the disk keeps its word on
    fsync; Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014, is why each step
    is there).

    Args:
        fs: The file system.
        directory_fd: The directory, open and locked by the caller.
        name: The file's name in it.
        chunks: The new content, in pieces.
        path: The file's path, for messages only.
        previous_fd: The old file, open for reading, where the caller has it open already. A failure
            of the last fsync puts its content back, so that what a reader sees is what the caller
            is told.
        verify: Read the temporary file back and compare it before it takes the name.

    Raises:
        WriteError: The old content is untouched (unless `visible` says otherwise) and no temporary
            file is left behind.
    """
    temporary = temporary_name(name)
    operation = "write"
    previous = _Previous(fs, directory_fd, name, previous_fd)
    try:
        try:
            create_file(fs, directory_fd, temporary, chunks)
            if verify:
                operation = "verify"
                _verify(fs, directory_fd, temporary, chunks)
            previous.hold()
            operation = "rename"
            try:
                fs.rename(temporary, name, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
            except OSError:
                with suppress(OSError):
                    fs.unlink(temporary, dir_fd=directory_fd)
                raise
        except OSError as error:
            raise WriteError(path=path, operation=operation, cause=error) from error
        try:
            fs.fsync(directory_fd)
        except OSError as error:
            visible = not previous.put_back()
            raise WriteError(
                path=path, operation="fsync of the directory", cause=error, visible=visible
            ) from error
    finally:
        previous.close()


def _verify(fs: FileSystem, directory_fd: int, name: str, chunks: Sequence[Chunk]) -> None:
    """Compare a file with what was written to it; remove it if it differs or can't be read."""
    try:
        if _content(fs, directory_fd, name) == b"".join(bytes(chunk) for chunk in chunks):
            return
    except OSError:
        with suppress(OSError):
            fs.unlink(name, dir_fd=directory_fd)
        raise
    with suppress(OSError):
        fs.unlink(name, dir_fd=directory_fd)
    raise OSError(errno.EIO, "what was read back is not what was written")


def _content(fs: FileSystem, directory_fd: int, name: str) -> bytes:
    fd = fs.open(name, READ_FLAGS, dir_fd=directory_fd)
    try:
        return read_descriptor(fs, fd, fs.fstat(fd).st_size)
    finally:
        close_reader(fs, fd)


class _Previous:
    """What a file held before it is replaced, kept so that it can be put back."""

    def __init__(self, fs: FileSystem, directory_fd: int, name: str, fd: int | None) -> None:
        self._fs = fs
        self._directory_fd = directory_fd
        self._name = name
        self._fd = fd
        self._ours = False
        self._absent = False

    def hold(self) -> None:
        """Open the old file, unless the caller did; one that can't be opened can't be put back."""
        if self._fd is not None:
            return
        try:
            self._fd = self._fs.open(self._name, READ_FLAGS, dir_fd=self._directory_fd)
            self._ours = True
        except FileNotFoundError:
            self._absent = True
        except OSError:
            return

    def put_back(self) -> bool:
        """Undo a rename whose directory could not be synced; say whether all is as it was."""
        fs, directory_fd, name = self._fs, self._directory_fd, self._name
        temporary = temporary_name(name)
        try:
            if self._absent:
                fs.unlink(name, dir_fd=directory_fd)
                return True
            if self._fd is None:
                return False
            old = read_descriptor(fs, self._fd, fs.fstat(self._fd).st_size)
            create_file(fs, directory_fd, temporary, [old])
        except OSError:
            return False
        try:
            fs.rename(temporary, name, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
        except OSError:
            with suppress(OSError):
                fs.unlink(temporary, dir_fd=directory_fd)
            return False
        return True

    def close(self) -> None:
        """Let go of the old file, if it was opened here."""
        if self._ours and self._fd is not None:
            close_reader(self._fs, self._fd)


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
    """Read a whole file, if it is one.

    Args:
        fs: The file system.
        name: The file, relative to `directory_fd` if that is given.
        path: Its path, for messages.
        max_bytes: The largest size that is read.
        directory_fd: The directory it is in, or None.

    Returns:
        The content, or None if there is no such file.

    Raises:
        ReadError: It is a link, a directory, a FIFO or a device, is larger than `max_bytes`, or
            the system would not read it. Never blocks on a FIFO.
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
