"""How full a workspace is, counted once and then kept up to date.

Counting walks the whole tree, so it is done when a guest first makes something grow, and then
remembered in this process for the workspace's identity. Executions of other processes leave a mark
on the directory (an extended attribute) that makes this process count again. Files others write
below the workspace in the meantime are not in the count; before a guest is refused for want of
room, it is taken anew.
"""

# Annotations are evaluated here: each field's would be compiled if it were a text.

import os
import threading
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, Self

MARK_ATTRIBUTE: Final = "user.agentforge.execution"

Short = Literal["workspace_bytes", "workspace_files"]


class Usage(NamedTuple):
    """Bytes of all regular files, and the number of files and directories."""

    bytes: int
    entries: int

    def refuses(self, more_bytes: int, more_entries: int, limit: Self) -> Short | None:
        """Which limit a growth would pass, or None."""
        if more_bytes > 0 and self.bytes + more_bytes > limit.bytes:
            return "workspace_bytes"
        if more_entries > 0 and self.entries + more_entries > limit.entries:
            return "workspace_files"
        return None


class UsageCounter:
    """What this process knows of one workspace's usage.

    Only the holder of the workspace's claim uses a counter, so it needs no lock of its own.
    """

    def __init__(self) -> None:
        self._usage: Usage | None = None
        self._mark: bytes | None = None
        self._changed = False
        self._marked = False
        self._cut = False
        self.counts = 0

    def begin(self, root: int) -> None:
        """An execution starts: forget what is known if another process executed meanwhile."""
        self._changed = self._marked = False
        if self._usage is not None and _read_mark(root) != self._mark:
            self._usage = None

    def known(self, root: int, limit: Usage, look: Callable[[], object] | None = None) -> Usage:
        """The usage now, before something grows; counted if it is not known.

        Leaves the mark for other processes: they count again even if this one is killed.

        Args:
            root: A descriptor of the workspace.
            limit: Where counting may stop: past it, everything is refused anyway.
            look: Called again and again while it counts; what it raises ends that.
        """
        if not self._marked:
            self._leave_mark(root)
        if self._usage is None:
            from .workspace_tree import measure_tree  # for what grows only

            self.counts += 1
            total, entries = measure_tree(root, max_entries=limit.entries, tick=look)
            self._usage = Usage(bytes=total, entries=entries)
            self._cut = entries > limit.entries
        return self._usage

    def add(self, more_bytes: int, more_entries: int) -> None:
        """Something grew or shrank by this much."""
        self._changed = True
        if self._cut:
            self._usage = None  # a count that was broken off cannot be kept up to date
        if self._usage is not None:
            self._usage = Usage(
                bytes=max(0, self._usage.bytes + more_bytes),
                entries=max(0, self._usage.entries + more_entries),
            )

    def forget(self) -> None:
        """Count again when the usage is next needed."""
        self._usage = None

    def end(self, root: int) -> None:
        """An execution ended: see that there is a mark for other processes if anything changed."""
        if not self._changed:
            if self._mark is None:
                self._usage = None  # an unmarked directory cannot be distinguished from a later one
            return
        if not self._marked:
            self._leave_mark(root)
        if self._mark is None:
            # No attributes here: what other processes do cannot be noticed, so count each time.
            self._usage = None

    def _leave_mark(self, root: int) -> None:
        self._marked = True
        mark = os.urandom(8)
        try:
            os.setxattr(root, MARK_ATTRIBUTE, mark)
        except (OSError, AttributeError):
            self._mark = None
        else:
            self._mark = mark


def _read_mark(root: int) -> bytes | None:
    try:
        return os.getxattr(root, MARK_ATTRIBUTE)
    except (OSError, AttributeError):
        return None


_MAX_COUNTERS: Final = 4096
_counters_lock = threading.Lock()
_counters: dict[tuple[int, int], UsageCounter] = {}


def usage_counter(identity: tuple[int, int]) -> UsageCounter:
    """The counter of the workspace with this device and inode, one for every sandbox over it."""
    with _counters_lock:
        counter = _counters.pop(identity, None) or UsageCounter()
        _counters[identity] = counter  # the most recently used is last
        while len(_counters) > _MAX_COUNTERS:
            del _counters[next(iter(_counters))]
        return counter


def forget_usage(path: str | os.PathLike[str]) -> None:
    """Have a workspace's usage counted anew, after files were put there or taken by other means.

    Args:
        path: The workspace; nothing happens if it is not there.
    """
    try:
        seen = os.stat(path, follow_symlinks=False)
    except OSError:
        return
    with _counters_lock:
        _counters.pop((seen.st_dev, seen.st_ino), None)
