"""What is known of a directory of the host while it is served: what of it may be seen, and counted.

What is neither a regular file, a directory nor a link that stays inside does not exist. All handles
of a file share one account, so what is counted is what a walk of the directory would count.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from typing import Final, Protocol, Self

from ....base.files.filesystem import close_reader
from ...workspaces.quota import Room
from ...workspaces.served_directory import ServedDirectory
from ...workspaces.workspace import ChangeLedger
from .files import FileStatus, Kind, refusal
from .path_resolution import PathResolver, Place, Start
from .quota import Account, Meter, moved_path
from .system_calls import LINUX, SystemCalls
from .upkeep import Upkeep

OPEN_FILE: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""How a file or directory is opened that was just looked at."""

_Key = tuple[int, int]


class Located(Protocol):
    """A handle of a directory, which knows where that is."""

    path: bytes


class ServedTree:
    """One directory of the host and all below it, as one guest is served it.

    Args:
        root: A descriptor of the directory; it is duplicated.
        meter: What may be filled.
        changes: Takes note of what changes.
        hides: Whether the host's own file at the root is hidden.
        writable: Whether anything may be changed.
        syncs: Whether what is synced is kept by the disk before that is answered.
        calls: The system calls that it stands on.

    Raises:
        OSError: The directory cannot be held.
    """

    def __init__(
        self,
        root: int,
        meter: Meter,
        changes: ChangeLedger,
        *,
        hides: bool = False,
        writable: bool = True,
        syncs: bool = False,
        calls: SystemCalls = LINUX,
    ) -> None:
        self.meter: Final = meter
        self.changes = changes
        self.writable: Final = writable
        self.syncs: Final = syncs
        self.calls: Final = calls
        self.fd: Final = calls.dup(root)
        try:
            self.resolver: Final = PathResolver(self.fd, hides=hides, calls=calls)
        except BaseException:
            close_reader(calls, self.fd)
            raise
        self._accounts: dict[_Key, Account] = {}
        self._names_inside: dict[_Key, int] = {}
        self._has_counted = False
        self.directories: Final[set[Located]] = set()

    @classmethod
    def of(
        cls,
        served: ServedDirectory,
        *,
        writable: bool = True,
        syncs: bool = False,
        calls: SystemCalls = LINUX,
    ) -> Self:
        """The tree of a directory that an execution is given."""
        return cls(
            served.root,
            Meter(served.room),
            served.changes,
            hides=served.hides,
            writable=writable,
            syncs=syncs,
            calls=calls,
        )

    @property
    def upkeep(self) -> Upkeep:
        """Has work for the guest paid, and holds what is noted for it."""
        return self.resolver.upkeep

    def serve_for(self, upkeep: Upkeep) -> None:
        """Serve a guest that has this upkeep."""
        self.resolver.upkeep = self.changes.keeper = upkeep
        self.meter.room.look = upkeep.look

    def serve_again(self, room: Room, changes: ChangeLedger) -> None:
        """Serve another execution of the same guest, with what it still has open."""
        self.upkeep.release(self.changes.held)
        self.meter.begin_again(room)
        self.changes = changes
        self.serve_for(self.upkeep)
        self._names_inside, self._has_counted = {}, False  # the host may have made links meanwhile
        for account in self._accounts.values():
            account.noted = None
            if account.names == 0:
                room.promise(account.size)

    def close(self) -> None:
        """Close the root; nothing of the tree may be used any more."""
        self.upkeep.release(self.changes.held)
        close_reader(self.calls, self.fd)

    # ---------------------------------------------------------- what is there

    def visible(self, place: Place) -> os.stat_result:
        """What is at a place, if the guest can see it.

        Raises:
            OSError: It cannot (ENOENT), or it is no directory though it has to be (ENOTDIR).
        """
        seen = self.look(place)
        if seen is None:
            raise refusal(errno.ENOENT)
        if place.must_be_directory and not stat.S_ISDIR(seen.st_mode):
            raise refusal(errno.ENOTDIR)
        return seen

    def look(self, place: Place, number: int = errno.ENOENT) -> os.stat_result | None:
        """What is at a place; None for nothing.

        Args:
            place: The place.
            number: How what the guest cannot see is refused.
        """
        seen = place.look()
        if seen is not None and not self._can_see(place, seen):
            raise refusal(number)
        return seen

    def _can_see(self, place: Place, seen: os.stat_result) -> bool:
        if stat.S_ISLNK(seen.st_mode):
            return not self.resolver.leads_out(place)
        if stat.S_ISREG(seen.st_mode):
            return seen.st_nlink <= 1 or not self._is_hidden(seen)
        return stat.S_ISDIR(seen.st_mode)

    def _is_hidden(self, seen: os.stat_result) -> bool:
        hidden = self.resolver.hidden_file()
        return hidden is not None and os.path.samestat(hidden, seen)

    def locate_followed(self, start: Start, path: bytes, *, making: bool = False) -> Place:
        """Where a path leads, a link at its end followed."""
        place = self.resolver.locate(start, path, making=making)
        try:
            seen = place.look()
            if seen is None or not stat.S_ISLNK(seen.st_mode):
                return place
        except BaseException:
            place.__exit__()
            raise
        with place:
            return self.resolver.locate(start, path, follow=True, making=making)

    def require_writable(self) -> None:
        """Refuse a change of what is only read (EROFS)."""
        if not self.writable:
            raise refusal(errno.EROFS)

    # ---------------------------------------------------------- accounts

    def account(self, seen: os.stat_result, path: bytes) -> Account:
        """The account of an open file; all handles have the same."""
        key = seen.st_dev, seen.st_ino
        found = self._accounts.get(key)
        if found is None:
            found = self._accounts[key] = Account(seen.st_size, seen.st_nlink, path, key=key)
        found.handles += 1
        return found

    def leave(self, account: Account) -> None:
        """A handle is being closed; a file without a name is gone with its last."""
        account.handles -= 1
        if account.handles == 0 and account.key is not None:
            self._accounts.pop(account.key, None)
            if account.names == 0:
                self.meter.released(account)

    def noted(self, account: Account) -> None:
        """A file's content changes."""
        if account.path is not None and account.noted != account.path:
            account.noted = account.path
            self.changes.wrote(told(account.path), existed=True)

    def unnamed(self, seen: os.stat_result, path: bytes) -> None:
        """A name was removed."""
        key = seen.st_dev, seen.st_ino
        account = self._accounts.get(key)
        self.meter.losses.forget(path)
        self.one_name_less(seen)
        if not stat.S_ISREG(seen.st_mode):
            self.meter.count_entries(-1)
            return
        if account is None:
            self.meter.count_entries(-1, -seen.st_size)
            return
        if account.path == path:
            account.path = None
        self.meter.unnamed(account)

    def pay_for_move(self) -> None:
        """Have it paid that all that is open is looked through, before something is moved."""
        self.upkeep.work(len(self._accounts) + len(self.directories))

    def moved(self, source: bytes, target: bytes) -> None:
        """A file or directory has another name; what is open of it goes along."""
        self.meter.losses.move(source, target)
        for account in self._accounts.values():
            if account.path is not None:
                account.path = moved_path(account.path, source, target) or account.path
        for directory in self.directories:
            directory.path = moved_path(directory.path, source, target) or directory.path

    def linked(self, seen: os.stat_result) -> None:
        """The guest gave a file another name, whose names were all inside."""
        key = seen.st_dev, seen.st_ino
        self._names_inside[key] = seen.st_nlink + 1
        if (account := self._accounts.get(key)) is not None:
            account.names += 1

    def has_names_elsewhere(self, seen: os.stat_result) -> bool:
        """Whether a file may have a name outside the tree.

        The names inside are counted once, when a file with several is first asked for.
        """
        if seen.st_nlink <= 1:
            return False
        key = seen.st_dev, seen.st_ino
        if key not in self._names_inside and not self._has_counted:
            from ...workspaces.workspace_tree import count_names  # not loaded for anything else

            self._has_counted = True
            self._names_inside = {
                **count_names(self.fd, tick=self.upkeep.look),
                **self._names_inside,
            }
        return self._names_inside.get(key) != seen.st_nlink

    def one_name_less(self, seen: os.stat_result) -> None:
        """A file lost a name of its own inside the tree, which it had when it was seen."""
        key = seen.st_dev, seen.st_ino
        if key in self._names_inside:
            self._names_inside[key] -= 1
        if seen.st_nlink <= 1:
            self._names_inside.pop(key, None)  # another file may have this number from now on


def open_as_seen(
    place: Place, flags: int, expected: Callable[[int], bool]
) -> tuple[int, os.stat_result]:
    """Open what was just looked at, and nothing else that was put in its place since.

    Returns:
        A descriptor, and what is open there.
    """
    calls = place.calls
    try:
        fd = calls.open(place.name, flags | OPEN_FILE, dir_fd=place.directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise refusal(errno.ENOENT) from error
        raise
    is_expected = False
    try:
        seen = calls.fstat(fd)
        is_expected = expected(seen.st_mode)
    finally:
        if not is_expected:
            close_reader(calls, fd)
    if not is_expected:
        raise refusal(errno.ESTALE)
    return fd, seen


def status_of(seen: os.stat_result) -> FileStatus:
    """What the guest is told of what the host has."""
    if stat.S_ISREG(seen.st_mode):
        kind = Kind.REGULAR
    elif stat.S_ISDIR(seen.st_mode):
        kind = Kind.DIRECTORY
    else:
        kind = Kind.LINK if stat.S_ISLNK(seen.st_mode) else Kind.UNKNOWN
    return FileStatus(
        seen.st_dev,
        seen.st_ino,
        kind,
        seen.st_nlink,
        seen.st_size,
        max(0, seen.st_atime_ns),
        max(0, seen.st_mtime_ns),
        max(0, seen.st_ctime_ns),
    )


def told(path: bytes) -> str:
    """A path as the lists of a result have it."""
    return os.fsdecode(path)
