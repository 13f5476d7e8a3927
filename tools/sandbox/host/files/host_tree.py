"""State of a host directory while it is served: what is visible, and what counts.

Anything but a regular file, a directory or a link that stays inside does not exist. All handles of
a file share one account, so the count equals what a walk of the directory would count.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from typing import Final, Protocol, Self

from ....base.files.filesystem import close_reader
from ...workspaces.quota import Room
from ...workspaces.workspace import ChangeLedger, ServedDirectory
from .files import FileStatus, NodeKind, refusal
from .path_resolution import PathResolver, ResolvedPath, Start
from .quota import Account, QuotaMeter, moved_path
from .system_calls import LINUX, SystemCalls
from .upkeep import Upkeep

OPEN_FILE: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""Flags for opening a file or directory whose status was just read."""

_Key = tuple[int, int]


class Located(Protocol):
    """A directory handle that knows its path."""

    path: bytes


class ServedTree:
    """A host directory and everything below it, as it is served to one guest.

    Args:
        root: A descriptor of the directory; it is duplicated.
        meter: Counts against the quota.
        changes: Records changes.
        hides: Whether the host's own file at the root is hidden.
        writable: Whether anything may be changed.
        syncs: Whether a sync returns only once the data is on disk.
        calls: The system calls to use.

    Raises:
        OSError: The descriptor cannot be duplicated.
    """

    def __init__(
        self,
        root: int,
        meter: QuotaMeter,
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
        """Create the tree of an execution's directory."""
        return cls(
            served.root,
            QuotaMeter(served.room),
            served.changes,
            hides=served.hides,
            writable=writable,
            syncs=syncs,
            calls=calls,
        )

    @property
    def upkeep(self) -> Upkeep:
        """Charges the guest for work and reserves memory for records."""
        return self.resolver.upkeep

    def serve_for(self, upkeep: Upkeep) -> None:
        """Serve a guest that has this upkeep."""
        self.resolver.upkeep = self.changes.keeper = upkeep
        self.meter.room.look, self.meter.room.judge = upkeep.look, self.calls.judge

    def serve_again(self, room: Room, changes: ChangeLedger) -> None:
        """Serve another execution of the same guest; its open handles remain valid."""
        self.upkeep.release(self.changes.held)
        self.meter.begin_again(room)
        self.changes = changes
        self.serve_for(self.upkeep)
        self._names_inside, self._has_counted = {}, False  # the host may have added links
        for account in self._accounts.values():
            account.noted = None
            if account.names == 0:
                room.promise(account.size)

    def close(self) -> None:
        """Close the root; nothing of the tree may be used afterwards."""
        self.upkeep.release(self.changes.held)
        close_reader(self.calls, self.fd)

    # ---------------------------------------------------------- what is there

    def visible(self, place: ResolvedPath) -> os.stat_result:
        """Return the status of a place that the guest can see.

        Raises:
            OSError: The guest cannot see it (ENOENT), or it must be a directory and is not
                (ENOTDIR).
        """
        seen = self.look(place)
        if seen is None:
            raise refusal(errno.ENOENT)
        if place.must_be_directory and not stat.S_ISDIR(seen.st_mode):
            raise refusal(errno.ENOTDIR)
        return seen

    def look(self, place: ResolvedPath, number: int = errno.ENOENT) -> os.stat_result | None:
        """Return the status of a place; None if nothing is there.

        Args:
            place: The place.
            number: The errno for what the guest cannot see.
        """
        seen = place.look()
        if seen is not None and not self._can_see(place, seen):
            raise refusal(number)
        return seen

    def _can_see(self, place: ResolvedPath, seen: os.stat_result) -> bool:
        if stat.S_ISLNK(seen.st_mode):
            return not self.resolver.leads_out(place)
        if stat.S_ISREG(seen.st_mode):
            return seen.st_nlink <= 1 or not self._is_hidden(seen)
        return stat.S_ISDIR(seen.st_mode)

    def _is_hidden(self, seen: os.stat_result) -> bool:
        hidden = self.resolver.hidden_file()
        return hidden is not None and os.path.samestat(hidden, seen)

    def locate_followed(self, start: Start, path: bytes, *, making: bool = False) -> ResolvedPath:
        """Return where a path leads, following a link at its end."""
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
        """Refuse a change of a read-only tree (EROFS)."""
        if not self.writable:
            raise refusal(errno.EROFS)

    # ---------------------------------------------------------- accounts

    def account(self, seen: os.stat_result, path: bytes) -> Account:
        """Return the account of an open file; all its handles share it."""
        key = seen.st_dev, seen.st_ino
        found = self._accounts.get(key)
        if found is None:
            found = self._accounts[key] = Account(seen.st_size, seen.st_nlink, path, key=key)
        found.handles += 1
        return found

    def leave(self, account: Account) -> None:
        """Note that a handle is being closed; a file without a name ends with its last handle."""
        account.handles -= 1
        if account.handles == 0 and account.key is not None:
            self._accounts.pop(account.key, None)
            if account.names == 0:
                self.meter.released(account)

    def noted(self, account: Account) -> None:
        """Note that a file's content changes."""
        if account.path is not None and account.noted != account.path:
            account.noted = account.path
            self.changes.wrote(told(account.path), existed=True)

    def unnamed(self, seen: os.stat_result, path: bytes) -> None:
        """Note that a name was removed."""
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
        """Charge for the scan of all open handles, before something is moved."""
        self.upkeep.work(len(self._accounts) + len(self.directories))

    def moved(self, source: bytes, target: bytes) -> None:
        """Note that a file or directory was renamed; update the paths of its open handles."""
        self.meter.losses.move(source, target)
        for account in self._accounts.values():
            if account.path is not None:
                account.path = moved_path(account.path, source, target) or account.path
        for directory in self.directories:
            directory.path = moved_path(directory.path, source, target) or directory.path

    def linked(self, seen: os.stat_result) -> None:
        """Note that the guest gave another name to a file whose names are all inside."""
        key = seen.st_dev, seen.st_ino
        self._names_inside[key] = seen.st_nlink + 1
        if (account := self._accounts.get(key)) is not None:
            account.names += 1

    def has_names_elsewhere(self, seen: os.stat_result) -> bool:
        """Return whether a file may have a name outside the tree.

        The names inside are counted once, on the first call for a file with several names.
        """
        if seen.st_nlink <= 1:
            return False
        key = seen.st_dev, seen.st_ino
        if key not in self._names_inside and not self._has_counted:
            self._has_counted = True
            self._names_inside = {
                **self.calls.count_names(self.fd, self.upkeep.look),
                **self._names_inside,
            }
        return self._names_inside.get(key) != seen.st_nlink

    def one_name_less(self, seen: os.stat_result) -> None:
        """Note that a file lost a name inside the tree; `seen` is its status before."""
        key = seen.st_dev, seen.st_ino
        if key in self._names_inside:
            self._names_inside[key] -= 1
        if seen.st_nlink <= 1:
            self._names_inside.pop(key, None)  # the inode number may be reused from now on


def open_as_seen(
    place: ResolvedPath, flags: int, expected: Callable[[int], bool]
) -> tuple[int, os.stat_result]:
    """Open what was just looked at; refuse anything put in its place since.

    Returns:
        A descriptor, and the status of what it refers to.
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
    """Convert the host's status to the guest's."""
    if stat.S_ISREG(seen.st_mode):
        kind = NodeKind.REGULAR
    elif stat.S_ISDIR(seen.st_mode):
        kind = NodeKind.DIRECTORY
    else:
        kind = NodeKind.LINK if stat.S_ISLNK(seen.st_mode) else NodeKind.UNKNOWN
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
    """Return a path in the form used by a result's lists."""
    return os.fsdecode(path)
