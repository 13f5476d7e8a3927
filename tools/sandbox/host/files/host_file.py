"""An open regular file of the host: one descriptor of it for each of the guest's."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from typing import Final

from ....base.files.filesystem import close_reader
from .files import Buffers, FileStatus, NodeKind, Times, refusal
from .host_tree import OPEN_FILE, ServedTree, open_as_seen, status_of
from .path_resolution import ResolvedPath
from .quota import LostAt
from .upkeep import BYTES_OF_A_STEP

_COPIED_AT_ONCE: Final = 1 << 20
_WHATEVER_SIZE: Final = 1 << 63
"""A size no file reaches: later writes cannot make good a loss at a close or a sync."""


class HostFile:
    """One handle of a regular file.

    Args:
        tree: The tree it is in.
        fd: A descriptor of it; this handle owns it, even if the construction fails.
        path: Its path from the root of the tree.
        seen: Its status when it was opened; read if None.
    """

    kind = NodeKind.REGULAR

    def __init__(
        self, tree: ServedTree, fd: int, path: bytes, seen: os.stat_result | None = None
    ) -> None:
        self.tree: Final = tree
        self._calls = tree.calls
        self._fd = fd
        self._written = False
        try:
            self._account = tree.account(tree.calls.fstat(fd) if seen is None else seen, path)
        except BaseException:
            close_reader(tree.calls, fd)
            raise

    @property
    def path(self) -> bytes | None:
        """Its path from the root of the tree; None once it lost that name."""
        return self._account.path

    @property
    def key(self) -> tuple[int, int] | None:
        """The identity that all handles of the file share."""
        return self._account.key

    @contextlib.contextmanager
    def reading(self) -> Iterator[int]:
        """Yield a descriptor of it for reading, even if this handle is for writing only.

        Raises:
            OSError: The system refuses.
        """
        path, flags = b"/proc/self/fd/%d" % self._fd, os.O_RDONLY | os.O_CLOEXEC
        fd = self._calls.open(path, flags, dir_fd=self._fd)
        try:
            yield fd
        finally:
            close_reader(self._calls, fd)

    def status(self) -> FileStatus:
        """Return its status."""
        return status_of(self._calls.fstat(self._fd))

    def read(self, buffers: Buffers, at: int) -> int:
        """Read from a position."""
        return self._calls.preadv(self._fd, buffers, at)

    def write(self, buffers: Buffers, at: int | None) -> tuple[int, int]:
        """Write at a position, or at the end."""
        start = self._calls.fstat(self._fd).st_size if at is None else at
        end = start + sum(map(len, buffers))
        if end == start:
            return 0, start
        tree, account = self.tree, self._account
        tree.meter.allow(account, end)
        try:
            count = self._calls.pwritev(self._fd, buffers, start)
        except OSError as error:
            self._lost(error, end)
            raise
        self._written = True
        tree.meter.resized(account, max(account.size, start + count))
        tree.noted(account)
        return count, start + count

    def truncate(self, size: int) -> None:
        """Change the size; added bytes are zeros and count."""
        tree, account = self.tree, self._account
        tree.meter.allow(account, size)
        try:
            self._calls.ftruncate(self._fd, size)
        except OSError as error:
            self._lost(error, size)
            raise
        self._written = True
        tree.meter.resized(account, size)
        tree.noted(account)

    def begin_anew(self) -> None:
        """Truncate to zero; earlier losses no longer matter."""
        if self._account.path is not None:
            self.tree.meter.losses.forget(self._account.path)
        self.truncate(0)

    def set_times(self, times: Times) -> None:
        """Set its times."""
        seen = self._calls.fstat(self._fd)
        self.tree.require_writable()
        if self.tree.has_names_elsewhere(seen):
            raise refusal(errno.EPERM)
        self._calls.futimens(self._fd, times(seen.st_atime_ns, seen.st_mtime_ns))

    def sync(self) -> bool:
        """Flush what was written to disk; if the disk refuses, it counts as lost."""
        if not self.tree.syncs:
            return False
        try:
            self._calls.fsync(self._fd)
        except OSError as error:
            self._lost(error, _WHATEVER_SIZE, "sync")
            raise
        return True

    def close(self) -> None:
        """Close this handle, even if an error is raised.

        Raises:
            OSError: What was written through the handle may be lost.
        """
        self.tree.leave(self._account)
        if not self._written:
            close_reader(self._calls, self._fd)
            return
        try:
            self._calls.close(self._fd)
        except OSError as error:
            self._lost(error, _WHATEVER_SIZE, "close")
            raise

    def _lost(self, error: OSError, size: int, at: LostAt = "write") -> None:
        losses = self.tree.meter.losses
        losses.refuse(self._account.path, error.errno or errno.EIO, size, at)


def separate(tree: ServedTree, place: ResolvedPath) -> None:
    """Replace a name's file by its own copy; the other names still refer to the old file.

    The copy is created under a temporary name beside it and renamed, so a failed copy changes
    nothing. A killed process may leave the temporary file behind; the next copy of this name
    removes it.
    """
    calls, name = tree.calls, _name_of_copy(place.name)
    source, seen = open_as_seen(place, os.O_RDONLY, stat.S_ISREG)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPEN_FILE
        try:
            target = calls.open(name, flags, 0o666, dir_fd=place.directory)
        except FileExistsError:
            left = calls.stat(name, dir_fd=place.directory)
            calls.unlink(name, dir_fd=place.directory)
            tree.unnamed(left, place.path[: -len(place.name)] + name)
            target = calls.open(name, flags, 0o666, dir_fd=place.directory)
        try:
            try:
                while calls.sendfile(target, source, _COPIED_AT_ONCE):
                    tree.upkeep.work(_COPIED_AT_ONCE // BYTES_OF_A_STEP)
            finally:
                calls.close(target)
            calls.rename(name, place.name, src_dir_fd=place.directory, dst_dir_fd=place.directory)
            tree.one_name_less(seen)
        except BaseException:
            with contextlib.suppress(OSError):
                calls.unlink(name, dir_fd=place.directory)
            raise
    finally:
        close_reader(calls, source)


def _name_of_copy(name: bytes) -> bytes:
    """Return a copy's temporary name: the same on each attempt, and unlikely to be chosen."""
    return b".agentforge-copy-" + hashlib.blake2s(name, digest_size=12).hexdigest().encode()
