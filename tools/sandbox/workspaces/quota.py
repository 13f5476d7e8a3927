"""A guest's quota, and how much room is left of it."""

# No deferred annotations here: as strings, each field's would have to be compiled.

import errno
import os
from collections.abc import Callable
from typing import Final, NamedTuple

from .workspace_usage import Usage, UsageCounter


class Quota(NamedTuple):
    """The limits of what a guest may store.

    Attributes:
        workspace_bytes: The most bytes of all files of the workspace together.
        workspace_files: The most files and directories in it.
        file_bytes: The largest file that may be opened or written.
        temporary_bytes: The most bytes of all files in `/tmp`, which are in the host's memory; None
            for no limit.
        temporary_files: The most files and directories in `/tmp`; None for no limit.
        host_bytes: The most host memory besides their content; None for no limit.
    """

    workspace_bytes: int
    workspace_files: int
    file_bytes: int
    temporary_bytes: int | None = None
    temporary_files: int | None = None
    host_bytes: int | None = None


_NOTHING: Final = Usage(bytes=0, entries=0)


class Room:
    """The room of one execution, shared by everything its guest can write to.

    It counts the workspace's files, including open ones without a name, and separately the files in
    `/tmp`. A write is refused when it is made.

    Attributes:
        look: Called repeatedly while the workspace is counted, or None; may raise to end that.
    """

    def __init__(self, root: int, quota: Quota, usage: UsageCounter | None) -> None:
        """Remember the limits; nothing is counted yet.

        Args:
            root: A descriptor of the workspace.
            quota: The limits.
            usage: The workspace's usage counter; None for a read-only directory.
        """
        self.quota: Final = quota
        self.look: Callable[[], object] | None = None
        self._root = root
        self._usage = usage
        self._recounted = False
        self._exceeded: set[str] = set()
        self._promised = 0
        self._promised_temporary = 0
        self._temporary = _NOTHING
        self._limit = Usage(bytes=quota.workspace_bytes, entries=quota.workspace_files)

    @property
    def exceeded(self) -> tuple[str, ...]:
        """The quotas that refused something: "workspace_bytes" and the like, sorted."""
        return tuple(sorted(self._exceeded))

    def allow_size(self, size: int) -> None:
        """Refuse a file that is too large.

        Raises:
            OSError: The file is too large (EFBIG).
        """
        if size > self.quota.file_bytes:
            raise self._over("file_bytes", errno.EFBIG)

    def afford(self, more_bytes: int, more_entries: int, *, temporary: bool = False) -> None:
        """Refuse a growth past the quota; shrinking is always allowed.

        Args:
            more_bytes: How many bytes more.
            more_entries: How many files and directories more.
            temporary: Whether `/tmp` is to grow, not the workspace.

        Raises:
            OSError: There is no room for it (ENOSPC).
        """
        if self._usage is None or (more_bytes <= 0 and more_entries <= 0):
            return
        if temporary:
            self._afford_temporary(more_bytes, more_entries)
            return
        wrong = self._short_of(self._usage, more_bytes, more_entries)
        if wrong is not None and not self._recounted:
            # Others may have made room: count once more before refusing.
            self._recounted = True
            self._usage.forget()
            wrong = self._short_of(self._usage, more_bytes, more_entries)
        if wrong is not None:
            raise self._over(wrong, errno.ENOSPC)

    def _afford_temporary(self, more_bytes: int, more_entries: int) -> None:
        most, entries = self.quota.temporary_bytes, self.quota.temporary_files
        held = self._temporary.bytes + self._promised_temporary
        if most is not None and 0 < more_bytes > most - held:
            raise self._over("temporary_bytes", errno.ENOSPC)
        if entries is not None and 0 < more_entries > entries - self._temporary.entries:
            raise self._over("temporary_files", errno.ENOSPC)

    def spend(self, more_bytes: int, more_entries: int, *, temporary: bool = False) -> None:
        """Count a growth or shrinkage."""
        if temporary:
            self._temporary = Usage(
                bytes=self._temporary.bytes + more_bytes,
                entries=self._temporary.entries + more_entries,
            )
        elif self._usage is not None:
            self._usage.add(more_bytes, more_entries)

    def promise(self, more_bytes: int, *, temporary: bool = False) -> None:
        """Reserve room for what an open file will need; a negative number releases it."""
        if temporary:
            self._promised_temporary = max(0, self._promised_temporary + more_bytes)
        else:
            self._promised = max(0, self._promised + more_bytes)

    def _short_of(self, usage: UsageCounter, more_bytes: int, more_entries: int) -> str | None:
        if more_bytes > 0:
            more_bytes += self._promised
        known = usage.known(self._root, self._limit, self.look)
        return known.refuses(more_bytes, more_entries, self._limit)

    def no_host_bytes(self) -> None:
        """Record that there was no room in the host's memory."""
        self._exceeded.add("host_bytes")

    def _over(self, quota: str, number: int) -> OSError:
        self._exceeded.add(quota)
        return OSError(number, os.strerror(number))
