"""What is counted of the files that are open or were written, by file and not by handle."""

# Annotations are evaluated here: each field's would be compiled if it were a text.

import errno
from typing import Final, Literal, NamedTuple

from ...workspaces.quota import Room

_MOST_NOTED: Final = 1000


class Account:
    """One file in use; all its handles share it.

    Attributes:
        size: Its size, as counted.
        names: How many names it has; each counts, as one that walks the tree would count it.
        path: Where it is, from the root of its tree; None once it has no name.
        handles: How many handles are open.
        noted: The path under which a change of it was last noted.
        key: Which file of the host it is; None for one in memory.
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
    """A write that was refused and not made good.

    Attributes:
        errno: With which number of the host.
        size: How large the file has to become for it to be made good.
        at: When: "write", "close", or "sync".
    """

    errno: int
    size: int
    at: LostAt


class Losses:
    """Which files are not what the guest wrote, because a write of it was refused.

    A thousand are noted; one more stands for all others, and is not made good.
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
        """A write that would have made a file this large was refused, or not kept."""
        self.refused += 1
        if path is not None:
            before = self._losses.get(path)
            if before is None and len(self._losses) >= _MOST_NOTED:
                self._further = self._further or (path, Loss(number, size, at))
                return
            size = size if before is None else max(size, before.size)
            self._losses[path] = Loss(number, size, at)

    def reached(self, path: bytes | None, size: int) -> None:
        """A file has become this large."""
        if path is not None and self._losses:
            loss = self._losses.get(path)
            if loss is not None and size >= loss.size:
                del self._losses[path]

    def forget(self, path: bytes) -> None:
        """A file was removed, or begun anew."""
        self._losses.pop(path, None)

    def move(self, source: bytes, target: bytes) -> None:
        """A file or directory has another name now, and what was there is gone."""
        self.forget(target)
        for path in list(self._losses):
            moved = moved_path(path, source, target)
            if moved is not None:
                self._losses[moved] = self._losses.pop(path)

    def listed(self) -> list[tuple[bytes, Loss]]:
        """The files that are noted and what they lost, sorted."""
        found = dict([self._further] if self._further is not None else []) | self._losses
        return sorted(found.items(), key=lambda each: each[0])


class Meter:
    """Lets a file grow as far as the quota goes, and notes what it refuses.

    Attributes:
        room: What is left.
        losses: What was refused.
        temporary: Whether what is counted lies in memory.
    """

    def __init__(self, room: Room, *, temporary: bool = False) -> None:
        self.room = room
        self.temporary: Final = temporary
        self.losses = Losses()

    def begin_again(self, room: Room) -> None:
        """Count for another execution, which has lost nothing yet."""
        self.room = room
        self.losses = Losses()

    def allow(self, account: Account, end: int) -> None:
        """Allow a file to reach so far.

        Raises:
            OSError: It is too large (EFBIG), or there is no room for it (ENOSPC).
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
        """A file has another size now."""
        grown = size - account.size
        if grown:
            account.size = size
            if account.names:
                self.room.spend(grown * account.names, 0, temporary=self.temporary)
            else:
                self.room.promise(grown, temporary=self.temporary)
        self.losses.reached(account.path, size)

    def unnamed(self, account: Account) -> None:
        """A file that is open lost a name; with the last it keeps its room until it is closed."""
        self.room.spend(-account.size, -1, temporary=self.temporary)
        account.names = max(0, account.names - 1)
        if account.names == 0:
            self.room.promise(account.size, temporary=self.temporary)

    def released(self, account: Account) -> None:
        """The last handle of a file without a name was closed."""
        self.room.promise(-account.size, temporary=self.temporary)

    def allow_entry(self) -> None:
        """Allow one more name.

        Raises:
            OSError: There are too many (ENOSPC).
        """
        self.room.afford(0, 1, temporary=self.temporary)

    def count_entries(self, entries: int, size: int = 0) -> None:
        """Names were made or removed, and bytes with them."""
        self.room.spend(size, entries, temporary=self.temporary)

    def allow_link(self, size: int) -> None:
        """Allow another name of a file of this size.

        Raises:
            OSError: There is no room for it (ENOSPC).
        """
        self.room.afford(size, 1, temporary=self.temporary)


def moved_path(path: bytes, source: bytes, target: bytes) -> bytes | None:
    """Where a path is once a file or directory was moved; None where it is what it was."""
    if path == source:
        return target
    if path.startswith(source + b"/"):
        return target + path[len(source) :]
    return None
