"""Quota accounting of files that are open or were written, by file and not by handle."""

# No deferred annotations here: as strings, each field's would have to be compiled.

import errno
from typing import Final, Literal, NamedTuple

from ...workspaces.quota import Room

_MOST_NOTED: Final = 1000


class Account:
    """One file in use; all its handles share it.

    Attributes:
        size: Its size, as counted.
        names: How many names it has; each counts, as in a walk of the tree.
        path: Its path from the root of its tree; None once it has no name.
        handles: How many handles are open.
        noted: The path under which a change was last recorded.
        key: The host file's identity; None for a file in memory.
    """

    __slots__ = ("handles", "key", "names", "noted", "path", "size")

    def __init__(
        self,
        size: int,
        names: int,
        path: bytes | None,
        handles: int = 0,
        noted: bytes | None = None,
        key: tuple[int, int] | None = None,
    ) -> None:
        self.size = size
        self.names = names
        self.path = path
        self.handles = handles
        self.noted = noted
        self.key = key


LostAt = Literal["write", "close", "sync"]


class Loss(NamedTuple):
    """A refused write that was not made good.

    Attributes:
        errno: The host's errno.
        size: The size at which the file counts as made good.
        at: When it was refused: "write", "close", or "sync".
    """

    errno: int
    size: int
    at: LostAt


class Losses:
    """The files that differ from what the guest wrote, because a write was refused.

    A thousand are recorded; one more represents all others, and is never made good.
    """

    def __init__(self) -> None:
        self.refused = 0
        self._losses: dict[bytes, Loss] = {}
        self._further: tuple[bytes, Loss] | None = None

    def refuse(
        self,
        path: bytes | None,
        number: int,
        size: int,
        at: LostAt = "write",
    ) -> None:
        """Record that a write up to this size was refused, or lost later."""
        self.refused += 1
        if path is not None:
            before = self._losses.get(path)
            if before is None and len(self._losses) >= _MOST_NOTED:
                self._further = self._further or (path, Loss(number, size, at))
                return
            size = size if before is None else max(size, before.size)
            self._losses[path] = Loss(number, size, at)

    def reached(self, path: bytes | None, size: int) -> None:
        """Note that a file has reached this size."""
        if path is not None and self._losses:
            loss = self._losses.get(path)
            if loss is not None and size >= loss.size:
                del self._losses[path]

    def forget(self, path: bytes) -> None:
        """Note that a file was removed or truncated to zero."""
        self._losses.pop(path, None)

    def move(self, source: bytes, target: bytes) -> None:
        """Note that a file or directory was renamed, replacing what was at the target."""
        self.forget(target)
        for path in list(self._losses):
            moved = moved_path(path, source, target)
            if moved is not None:
                self._losses[moved] = self._losses.pop(path)

    def listed(self) -> list[tuple[bytes, Loss]]:
        """Return the recorded files and their losses, sorted."""
        found = dict([self._further] if self._further is not None else []) | self._losses
        return sorted(found.items(), key=lambda each: each[0])


class QuotaMeter:
    """Lets files grow within the quota, and records what it refuses.

    Attributes:
        room: The remaining room.
        losses: What was refused.
        temporary: Whether the files are in memory.
    """

    def __init__(self, room: Room, *, temporary: bool = False) -> None:
        self.room = room
        self.temporary: Final = temporary
        self.losses = Losses()

    def begin_again(self, room: Room) -> None:
        """Start counting for another execution, without losses."""
        self.room = room
        self.losses = Losses()

    def allow(self, account: Account, end: int) -> None:
        """Allow a file to grow to this end.

        Raises:
            OSError: The file would be too large (EFBIG), or there is no room for it (ENOSPC).
        """
        grown = end - account.size
        if grown <= 0:
            return
        try:
            self.room.allow_size(end)
            self.room.afford(grown * max(1, account.names), 0, temporary=self.temporary)
        except OSError as error:
            self.losses.refuse(account.path, error.errno or errno.EIO, end)
            raise

    def resized(self, account: Account, size: int) -> None:
        """Note a file's new size."""
        grown = size - account.size
        if grown:
            account.size = size
            if account.names:
                self.room.spend(grown * account.names, 0, temporary=self.temporary)
            else:
                self.room.promise(grown, temporary=self.temporary)
        self.losses.reached(account.path, size)

    def unnamed(self, account: Account) -> None:
        """Note that an open file lost a name; without names it takes up room until closed."""
        self.room.spend(-account.size, -1, temporary=self.temporary)
        account.names = max(0, account.names - 1)
        if account.names == 0:
            self.room.promise(account.size, temporary=self.temporary)

    def released(self, account: Account) -> None:
        """Note that the last handle of a file without a name was closed."""
        self.room.promise(-account.size, temporary=self.temporary)

    def allow_entry(self) -> None:
        """Allow one more name.

        Raises:
            OSError: There are too many (ENOSPC).
        """
        self.room.afford(0, 1, temporary=self.temporary)

    def count_entries(self, entries: int, size: int = 0) -> None:
        """Count names created or removed, and bytes with them."""
        self.room.spend(size, entries, temporary=self.temporary)

    def allow_link(self, size: int) -> None:
        """Allow another name of a file of this size.

        Raises:
            OSError: There is no room for it (ENOSPC).
        """
        self.room.afford(size, 1, temporary=self.temporary)


def moved_path(path: bytes, source: bytes, target: bytes) -> bytes | None:
    """Return a path after a move of a file or directory; None if it did not change."""
    if path == source:
        return target
    if path.startswith(source + b"/"):
        return target + path[len(source) :]
    return None
