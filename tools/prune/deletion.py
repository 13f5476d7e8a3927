"""Deleting what is out of sight: emptied by its descriptor, then its name removed.

May run in a thread of its own: nothing here is kept or told, what stands against it is returned.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import Final

from attrs import frozen

from ..durable import FileSystem, remove_directory
from ..durable.filesystem import DIRECTORY_FLAGS, close_reader

NO_DIRECTORY: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""What the system answers where no directory has the name (any more)."""


@frozen(kw_only=True)
class Deletion:
    """Deletes directories that are out of sight in a directory of ours.

    Attributes:
        fs: The file system.
        mount_of: Which mount an open directory is reached through.
        cancelled: Whether to stop in the middle; what is left is finished by the next prune.
    """

    fs: FileSystem
    mount_of: Callable[[int], object]
    cancelled: Callable[[], bool]

    def hidden(self, parent_fd: int, hidden: str) -> str | None:
        """Delete what has a name out of sight, a directory or what somebody put in its place.

        Returns:
            What stands against it, or None if it is gone.
        """
        try:
            fd = self.fs.open(hidden, DIRECTORY_FLAGS, dir_fd=parent_fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in NO_DIRECTORY:
                return error.strerror or str(error)
            try:
                self.fs.unlink(hidden, dir_fd=parent_fd)
            except OSError as cause:
                return cause.strerror or str(cause)
            return None
        try:
            if self.mount_of(fd) != self.mount_of(parent_fd):
                return "something is mounted there"
            return self.opened(parent_fd, hidden, fd)
        finally:
            close_reader(self.fs, fd)

    def opened(
        self, parent_fd: int, hidden: str, fd: int, names: Sequence[str] | None = None
    ) -> str | None:
        """Empty a directory by its descriptor and remove its name.

        Args:
            parent_fd: The directory that it is in.
            hidden: Its name there.
            fd: The directory, open.
            names: What was in it when it was looked at, if that is known: with nothing else in it,
                it need not be listed again.

        Returns:
            What stands against it, or None if it is gone.
        """
        if names is not None and self._is_gone(parent_fd, hidden, fd, names):
            return None
        try:
            left = remove_directory(self.fs, parent_fd, hidden, fd, cancelled=self.cancelled)
            if left:
                cause = left[0].cause
                more = f" and {len(left) - 1} more" if len(left) > 1 else ""
                return f"{left[0].name!r} in it can't be deleted: {cause.strerror or cause}{more}"
        except OSError as error:
            return error.strerror or str(error)
        return None

    def _is_gone(self, parent_fd: int, hidden: str, fd: int, names: Sequence[str]) -> bool:
        """Delete files by their names and the directory; say False at the first that resists."""
        try:
            for name in names:
                self.fs.unlink(name, dir_fd=fd)
            self.fs.rmdir(hidden, dir_fd=parent_fd)
        except OSError:
            return False
        return True
