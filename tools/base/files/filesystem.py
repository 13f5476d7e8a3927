"""The system calls that durable files use, as a port, so that tests can inject faults."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


FileStatus = os.stat_result
"""The result of `stat`."""

_NO_FULL_SYNC: Final = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY})
"""What a file system answers that has no `F_FULLFSYNC`; any other error is a failed sync."""


def syncing_by(
    full: int | None,
    *,
    control: Callable[[int, int], object] = fcntl.fcntl,
    fsync: Callable[[int], None] = os.fsync,
) -> Callable[[int], None]:
    """Return the call that puts an open file or directory on the disk.

    On macOS `fsync` leaves data in the drive's own cache, from which `F_FULLFSYNC` takes it (Apple,
    fsync(2)); a file system that has no such call, as of a network, gets an `fsync`. The call
    raises `OSError` if it failed: the data may be lost, and a second attempt proves nothing.

    Args:
        full: The number of `F_FULLFSYNC`; None where the system has none.
        control: Calls it.
        fsync: The sync of all other systems.
    """
    if full is None:
        return fsync

    def sync(fd: int) -> None:
        try:
            control(fd, full)
        except OSError as error:
            if error.errno not in _NO_FULL_SYNC:
                raise
            fsync(fd)

    return sync


def unlink_as_linux(
    path: str, *, dir_fd: int | None = None, unlink: Callable[..., None] = os.unlink
) -> None:
    """Remove a name; a directory is refused with EISDIR, for which POSIX and macOS have EPERM.

    Raises:
        IsADirectoryError: It is a directory.
        OSError: As `os.unlink`.
    """
    try:
        unlink(path, dir_fd=dir_fd)
    except PermissionError as error:
        if stat.S_ISDIR(os.lstat(path, dir_fd=dir_fd).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path) from error
        raise


class FileSystem(Protocol):
    """System calls, named and behaving like those of `os`; every method may raise `OSError`."""

    def open(self, path: str, flags: int, mode: int = 0o600, *, dir_fd: int | None = None) -> int:
        """See `os.open`."""
        ...

    def close(self, fd: int) -> None:
        """See `os.close`."""
        ...

    def writev(self, fd: int, buffers: Sequence[bytes | bytearray | memoryview]) -> int:
        """See `os.writev`: may write less than it was given."""
        ...

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        """See `os.pread`."""
        ...

    def fsync(self, fd: int) -> None:
        """See `syncing_by`."""
        ...

    def ftruncate(self, fd: int, length: int) -> None:
        """See `os.ftruncate`."""
        ...

    def fstat(self, fd: int) -> os.stat_result:
        """See `os.fstat`."""
        ...

    def stat(self, path: str, *, dir_fd: int | None = None) -> os.stat_result:
        """See `os.lstat`: never follows a link in the last component."""
        ...

    def rename(
        self, source: str, target: str, *, src_dir_fd: int | None, dst_dir_fd: int | None
    ) -> None:
        """See `os.rename`."""
        ...

    def link(self, source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        """See `os.link`: gives a file a second name, and refuses one that is taken."""
        ...

    def unlink(self, path: str, *, dir_fd: int | None = None) -> None:
        """See `os.unlink`; raises `IsADirectoryError` for a directory."""
        ...

    def rmdir(self, path: str, *, dir_fd: int | None = None) -> None:
        """See `os.rmdir`."""
        ...

    def mkdir(self, path: str, mode: int = 0o700, *, dir_fd: int | None = None) -> None:
        """See `os.mkdir`."""
        ...

    def listdir(self, fd: int) -> list[str]:
        """See `os.listdir` of a descriptor."""
        ...

    def flock(self, fd: int, operation: int) -> None:
        """See `fcntl.flock`."""
        ...


class Closer(Protocol):
    """Closes descriptors."""

    def close(self, fd: int) -> None:
        """See `os.close`."""
        ...


def close_reader(fs: Closer, fd: int) -> None:
    """Close a descriptor that was only read from, ignoring errors.

    It is closed in any case, and no data depends on the result, so an error must not fail the
    caller.
    """
    try:  # noqa: SIM105 (suppress() is slower, and a walk closes ten thousand directories)
        fs.close(fd)
    except OSError:
        pass


@contextmanager
def opened(fs: FileSystem, path: str, flags: int, *, dir_fd: int | None = None) -> Iterator[int]:
    """Hold open a file or directory that nothing is written through; see `close_reader`."""
    fd = fs.open(path, flags, dir_fd=dir_fd)
    try:
        yield fd
    finally:
        close_reader(fs, fd)


def hand_over(fs: FileSystem, fd: int, directory_fd: int) -> None:
    """Give a new file to the owner of its directory, if root made it.

    A file that its owner can't open would shut them out of their own directory. Does nothing for
    any other user, and in a directory of root's.

    Args:
        fs: The file system.
        fd: The new file, open; still empty, so that nothing is given away if it was swapped.
        directory_fd: The directory that sets the owner.

    Raises:
        OSError: The system refused.
    """
    if os.geteuid() != 0:
        return
    owner = fs.fstat(directory_fd)
    if owner.st_uid != 0:
        os.fchown(fd, owner.st_uid, owner.st_gid)


class OsFileSystem:
    """The real system calls."""

    open = staticmethod(os.open)
    close = staticmethod(os.close)
    writev = staticmethod(os.writev)
    pread = staticmethod(os.pread)
    fsync = staticmethod(syncing_by(getattr(fcntl, "F_FULLFSYNC", None)))
    ftruncate = staticmethod(os.ftruncate)
    fstat = staticmethod(os.fstat)
    rename = staticmethod(os.rename)
    unlink = staticmethod(os.unlink if sys.platform == "linux" else unlink_as_linux)
    rmdir = staticmethod(os.rmdir)
    mkdir = staticmethod(os.mkdir)
    flock = staticmethod(fcntl.flock)
    stat = staticmethod(os.lstat)  # `path` itself, never what it links to

    @staticmethod
    def link(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        """Give a file a second name, which must be unused."""
        os.link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=False)

    @staticmethod
    def listdir(fd: int) -> list[str]:
        """List the entries of the directory open at `fd`."""
        return os.listdir(fd)
