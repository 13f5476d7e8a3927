"""A guest's quota, how much room is left of it, and how full a workspace is.

Counting walks the entire tree, so it waits until a guest first makes something grow; the count is
then cached in this process by the workspace's identity. Executions of other processes leave a mark
on the directory (an extended attribute) that makes this process count again. Files that others
write meanwhile are not in the count, so it is repeated before a guest is refused for lack of room.
"""

# No deferred annotations here: as strings, each field's would have to be compiled.

import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, Literal, NamedTuple, Self

MARK_ATTRIBUTE: Final = "user.agentforge.execution"

Short = Literal["workspace_bytes", "workspace_files"]


class SpaceUsed(NamedTuple):
    """Bytes of all regular files, and the number of files and directories."""

    bytes: int
    entries: int

    def refuses(self, more_bytes: int, more_entries: int, limit: Self) -> Short | None:
        """Return which limit a growth would exceed, or None."""
        if more_bytes > 0 and self.bytes + more_bytes > limit.bytes:
            return "workspace_bytes"
        if more_entries > 0 and self.entries + more_entries > limit.entries:
            return "workspace_files"
        return None


class UsageCounter:
    """This process's knowledge of one workspace's usage.

    Only the holder of the workspace's claim uses a counter, so it needs no lock of its own.
    """

    def __init__(self) -> None:
        self._usage: SpaceUsed | None = None
        self._mark: bytes | None = None
        self._changed = False
        self._marked = False
        self._cut = False
        self.counts = 0

    def begin(self, root: int) -> None:
        """Start an execution: forget the count if another process has executed meanwhile."""
        self._changed = self._marked = False
        if self._usage is not None and _read_mark(root) != self._mark:
            self._usage = None

    def known(
        self, root: int, limit: SpaceUsed, look: Callable[[], object] | None = None
    ) -> SpaceUsed:
        """Return the usage before something grows; count it if unknown.

        Leaves the mark for other processes: they count again even if this one is killed.

        Args:
            root: A descriptor of the workspace.
            limit: Where counting may stop: beyond it, everything is refused anyway.
            look: Called repeatedly while counting; an exception from it ends the count.
        """
        if not self._marked:
            self._leave_mark(root)
        if self._usage is None:
            from .workspace_tree import measure_tree  # needed only for growth

            self.counts += 1
            total, entries = measure_tree(root, max_entries=limit.entries, tick=look)
            self._usage = SpaceUsed(bytes=total, entries=entries)
            self._cut = entries > limit.entries
        return self._usage

    def add(self, more_bytes: int, more_entries: int) -> None:
        """Count a growth or shrinkage."""
        self._changed = True
        if self._cut:
            self._usage = None  # an incomplete count cannot be updated
        if self._usage is not None:
            self._usage = SpaceUsed(
                bytes=max(0, self._usage.bytes + more_bytes),
                entries=max(0, self._usage.entries + more_entries),
            )

    def forget(self) -> None:
        """Count again when the usage is next needed."""
        self._usage = None

    def end(self, root: int) -> None:
        """Finish an execution; leave a mark for other processes if anything changed."""
        if not self._changed:
            if self._mark is None:
                self._usage = None  # an unmarked directory looks the same after later changes
            return
        if not self._marked:
            self._leave_mark(root)
        if self._mark is None:
            # No attributes here: other processes' changes go unnoticed, so count each time.
            self._usage = None

    def _leave_mark(self, root: int) -> None:
        self._marked = True
        self._mark = None
        mark = os.urandom(8)
        with suppress(OSError):
            if hasattr(os, "setxattr"):
                os.setxattr(root, MARK_ATTRIBUTE, mark)
                self._mark = mark


def _read_mark(root: int) -> bytes | None:
    with suppress(OSError):
        if hasattr(os, "getxattr"):
            mark: bytes = os.getxattr(root, MARK_ATTRIBUTE)
            return mark
    return None


_MAX_COUNTERS: Final = 4096
_counters_lock = threading.Lock()
_counters: dict[tuple[int, int], UsageCounter] = {}


def usage_counter(identity: tuple[int, int]) -> UsageCounter:
    """Return the counter of a workspace by device and inode, shared by all its sandboxes."""
    with _counters_lock:
        counter = _counters.pop(identity, None) or UsageCounter()
        _counters[identity] = counter  # most recently used last
        while len(_counters) > _MAX_COUNTERS:
            del _counters[next(iter(_counters))]
        return counter


def forget_usage(path: str | os.PathLike[str]) -> None:
    """Make a workspace's usage be counted again, after its files were changed by other means.

    Args:
        path: The workspace; nothing happens if it does not exist.
    """
    try:
        seen = os.stat(path, follow_symlinks=False)
    except OSError:
        return
    with _counters_lock:
        _counters.pop((seen.st_dev, seen.st_ino), None)


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


_NOTHING: Final = SpaceUsed(bytes=0, entries=0)


def _said(measured: Callable[[], str | None], forget: Callable[[], object]) -> str | None:
    del forget
    return measured()


class Room:
    """The room of one execution, shared by everything its guest can write to.

    It counts the workspace's files, including open ones without a name, and separately the files in
    `/tmp`. A write is refused when it is made.

    Attributes:
        look: Called repeatedly while the workspace is counted, or None; may raise to end that.
        judge: Called with what judges a growth, and what makes that count again; returns what it
            says.
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
        self.judge: Callable[..., str | None] = _said
        self._root = root
        self._usage = usage
        self._recounted = False
        self._exceeded: set[str] = set()
        self._promised = 0
        self._promised_temporary = 0
        self._temporary = _NOTHING
        self._limit = SpaceUsed(bytes=quota.workspace_bytes, entries=quota.workspace_files)

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
        wrong = self.judge(
            partial(self._excess, self._usage, more_bytes, more_entries), self._usage.forget
        )
        if wrong is not None:
            raise self._over(wrong, errno.ENOSPC)

    def _excess(self, usage: UsageCounter, more_bytes: int, more_entries: int) -> str | None:
        wrong = self._short_of(usage, more_bytes, more_entries)
        if wrong is not None and not self._recounted:
            # Others may have made room: count once more before refusing.
            self._recounted = True
            usage.forget()
            wrong = self._short_of(usage, more_bytes, more_entries)
        return wrong

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
            self._temporary = SpaceUsed(
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
