"""A directory of the host as the guest sees it: the workspace, or a folder that is only read.

Every handle of a file is a descriptor of the same file, so what one writes the others read. What is
neither a regular file, a directory nor a link that stays inside does not exist. A file that has
another name outside (a hard link of the host's) is never changed: who writes to it gets a copy.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from typing import Final

from ..guest_paths import MAX_DEPTH
from ..quota import Room
from ..workspace import ChangeLedger
from ..workspace_tree import list_files, take_snapshot
from . import native
from .files import (
    MOST_ENTRIES,
    Buffers,
    Directory,
    Entry,
    FileStatus,
    Kind,
    Opening,
    Times,
    refusal,
)
from .path_resolution import PathResolver, Place, Start
from .quota import Account, Meter, moved_path

MOST_MOVED: Final = 100_000
"""The most files of a directory that is renamed whose new names are noted."""

_OPEN_FILE: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_COPIED_AT_ONCE: Final = 1 << 20

_Key = tuple[int, int]


class HostTree:
    """One directory of the host and all below it, served to one guest.

    Args:
        root: A descriptor of the directory; it is duplicated.
        meter: What may be filled.
        changes: Takes note of what changes.
        hides: Whether the host's own file at the root is hidden.
        writable: Whether anything may be changed.
        has_openat2: Whether the kernel may be asked to walk paths.
    """

    def __init__(
        self,
        root: int,
        meter: Meter,
        changes: ChangeLedger,
        *,
        hides: bool = False,
        writable: bool = True,
        has_openat2: Callable[[], bool] = native.has_openat2,
    ) -> None:
        self.meter: Final = meter
        self.changes = changes
        self.writable: Final = writable
        self._fd = os.dup(root)
        self.resolver: Final = PathResolver(self._fd, hides=hides, has_openat2=has_openat2)
        self._accounts: dict[_Key, Account] = {}
        self._linked: set[_Key] = set()
        self.directories: Final[set[HostDirectory]] = set()
        self.root: Final = HostDirectory(self, self._fd, b"", owned=False)

    def serve_again(self, room: Room, changes: ChangeLedger) -> None:
        """Serve another execution of the same guest, with what it still has open."""
        self.meter.begin_again(room)
        self.changes = changes
        for account in self._accounts.values():
            account.noted = None
            if account.names == 0:
                room.promise(account.size)

    def close(self) -> None:
        """Close the root; nothing of the tree may be used any more."""
        os.close(self._fd)

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
        seen = place.look()
        if seen is None or not stat.S_ISLNK(seen.st_mode):
            return place
        with place:
            return self.resolver.locate(start, path, follow=True, making=making)

    def require_writable(self) -> None:
        """Refuse a change of what is only read (EROFS)."""
        if not self.writable:
            raise refusal(errno.EROFS)

    # ---------------------------------------------------------- accounts

    def account(self, fd: int, path: bytes) -> Account:
        """The account of an open file; all handles have the same."""
        seen = os.fstat(fd)
        key = seen.st_dev, seen.st_ino
        found = self._accounts.get(key)
        if found is None:
            found = self._accounts[key] = Account(seen.st_size, seen.st_nlink, path)
        found.handles += 1
        return found

    def leave(self, account: Account, fd: int) -> None:
        """A handle is being closed; a file without a name is gone with its last."""
        account.handles -= 1
        if account.handles == 0:
            seen = os.fstat(fd)
            self._accounts.pop((seen.st_dev, seen.st_ino), None)
            if account.names == 0:
                self.meter.released(account)

    def noted(self, account: Account) -> None:
        """A file's content changes."""
        if account.path is not None and account.noted != account.path:
            account.noted = account.path
            self.changes.wrote(_told(account.path), existed=True)

    def unnamed(self, seen: os.stat_result, path: bytes) -> None:
        """A name was removed."""
        account = self._accounts.get((seen.st_dev, seen.st_ino))
        self.meter.losses.forget(path)
        if not stat.S_ISREG(seen.st_mode):
            self.meter.count_entries(-1)
            return
        if account is None:
            self.meter.count_entries(-1, -seen.st_size)
            return
        if account.path == path:
            account.path = None
        self.meter.unnamed(account)

    def moved(self, source: bytes, target: bytes) -> None:
        """A file or directory has another name; what is open of it goes along."""
        self.meter.losses.move(source, target)
        for account in self._accounts.values():
            if account.path is not None:
                account.path = moved_path(account.path, source, target) or account.path
        for directory in self.directories:
            directory.path = moved_path(directory.path, source, target) or directory.path

    def linked(self, seen: os.stat_result) -> None:
        """The guest gave a file another name, so all its names are inside."""
        key = seen.st_dev, seen.st_ino
        self._linked.add(key)
        if (account := self._accounts.get(key)) is not None:
            account.names += 1

    def has_names_elsewhere(self, seen: os.stat_result) -> bool:
        """Whether a file may have a name outside the tree."""
        return seen.st_nlink > 1 and (seen.st_dev, seen.st_ino) not in self._linked


class HostFile:
    """One handle of a regular file."""

    kind = Kind.REGULAR

    def __init__(self, tree: HostTree, fd: int, path: bytes) -> None:
        self._tree = tree
        self._fd = fd
        self._account = tree.account(fd, path)

    def status(self) -> FileStatus:
        """What is known of it."""
        return status_of(os.fstat(self._fd))

    def read(self, buffers: Buffers, at: int) -> int:
        """Read from a position."""
        return os.preadv(self._fd, buffers, at)

    def write(self, buffers: Buffers, at: int | None) -> tuple[int, int]:
        """Write at a position, or at the end."""
        start = os.fstat(self._fd).st_size if at is None else at
        end = start + sum(map(len, buffers))
        if end == start:
            return 0, start
        tree, account = self._tree, self._account
        tree.meter.allow(account, end)
        try:
            count = os.pwritev(self._fd, buffers, start)
        except OSError as error:
            tree.meter.losses.refuse(account.path, error.errno or errno.EIO, end)
            raise
        tree.meter.resized(account, max(account.size, start + count))
        tree.noted(account)
        return count, start + count

    def truncate(self, size: int) -> None:
        """Give it another size; what is added holds zeros and counts."""
        tree, account = self._tree, self._account
        tree.meter.allow(account, size)
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            tree.meter.losses.refuse(account.path, error.errno or errno.EIO, size)
            raise
        tree.meter.resized(account, size)
        tree.noted(account)

    def begin_anew(self) -> None:
        """Make it empty; what was lost of it no longer matters."""
        if self._account.path is not None:
            self._tree.meter.losses.forget(self._account.path)
        self.truncate(0)

    def set_times(self, times: Times) -> None:
        """Set its times."""
        seen = os.fstat(self._fd)
        self._tree.require_writable()
        if self._tree.has_names_elsewhere(seen):
            raise refusal(errno.EPERM)
        os.utime(self._fd, ns=times(seen.st_atime_ns, seen.st_mtime_ns))

    def close(self) -> None:
        """Close this handle."""
        try:
            self._tree.leave(self._account, self._fd)
        finally:
            os.close(self._fd)


class HostDirectory:
    """One handle of a directory."""

    kind = Kind.DIRECTORY

    def __init__(self, tree: HostTree, fd: int, path: bytes, *, owned: bool = True) -> None:
        self.tree: Final = tree
        self.path = path
        self._fd = fd
        self._owned = owned
        tree.directories.add(self)

    @property
    def start(self) -> Start:
        """Where its paths begin."""
        return Start(self._fd, self.path)

    def status(self) -> FileStatus:
        """What is known of it."""
        return status_of(os.fstat(self._fd))

    def read(self, buffers: Buffers, at: int) -> int:
        """Refused."""
        del buffers, at
        raise refusal(errno.EISDIR)

    def write(self, buffers: Buffers, at: int | None) -> tuple[int, int]:
        """Refused."""
        del buffers, at
        raise refusal(errno.EBADF)

    def truncate(self, size: int) -> None:
        """Refused."""
        del size
        raise refusal(errno.EINVAL)

    def set_times(self, times: Times) -> None:
        """Set its times."""
        self.set_times_of(b".", times, follow=False)

    def close(self) -> None:
        """Close this handle."""
        self.tree.directories.discard(self)
        if self._owned:
            os.close(self._fd)

    # ---------------------------------------------------------- opening

    def open(self, path: bytes, opening: Opening) -> HostFile | HostDirectory:
        """Open a path, making a file there if that is asked for."""
        tree = self.tree
        if opening.write or opening.create or opening.truncate:
            tree.require_writable()
        with self._place_to_open(path, opening) as place:
            seen = tree.look(place, errno.EPERM if opening.create else errno.ENOENT)
            if seen is None:
                if not opening.create or opening.directory:
                    raise refusal(errno.ENOENT)
                if place.must_be_directory:
                    raise refusal(errno.EISDIR)
                return self._make_file(place, opening)
            if opening.create and opening.exclusive:
                raise refusal(errno.EEXIST)
            if stat.S_ISLNK(seen.st_mode):
                raise refusal(errno.ELOOP)
            if stat.S_ISDIR(seen.st_mode):
                return self._open_directory(place, opening)
            if opening.directory or place.must_be_directory:
                raise refusal(errno.ENOTDIR)
            return self._open_file(place, seen, opening)

    def _place_to_open(self, path: bytes, opening: Opening) -> Place:
        if opening.follow and not (opening.create and opening.exclusive):
            return self.tree.locate_followed(self.start, path, making=opening.create)
        return self.tree.resolver.locate(self.start, path, making=opening.create)

    def _make_file(self, place: Place, opening: Opening) -> HostFile:
        """Make a file that was not there; nothing a guest makes can be executed by its mode."""
        tree = self.tree
        tree.meter.allow_entry()
        flags = _mode(opening) | os.O_CREAT | os.O_EXCL | _OPEN_FILE
        fd = os.open(place.name, flags, 0o666, dir_fd=place.directory)
        tree.meter.count_entries(1)
        tree.changes.wrote(_told(place.path), existed=False)
        tree.meter.losses.forget(place.path)
        return HostFile(tree, fd, place.path)

    def _open_directory(self, place: Place, opening: Opening) -> HostDirectory:
        if opening.write or opening.truncate or opening.create:
            raise refusal(errno.EISDIR)
        fd = _open_as_seen(place, os.O_RDONLY | os.O_DIRECTORY, stat.S_ISDIR)
        return HostDirectory(self.tree, fd, place.path)

    def _open_file(self, place: Place, seen: os.stat_result, opening: Opening) -> HostFile:
        tree = self.tree
        tree.meter.room.allow_size(0 if opening.truncate else seen.st_size)
        if opening.write and tree.has_names_elsewhere(seen):
            _separate(place)
        fd = _open_as_seen(place, _mode(opening), stat.S_ISREG)
        file = HostFile(tree, fd, place.path)
        if opening.truncate:
            try:
                file.begin_anew()
            except BaseException:
                file.close()
                raise
        return file

    # ---------------------------------------------------------- names

    def status_of(self, path: bytes, *, follow: bool) -> FileStatus:
        """What is known of a path."""
        with self._find(path, follow=follow) as place:
            return status_of(self.tree.visible(place))

    def set_times_of(self, path: bytes, times: Times, *, follow: bool) -> None:
        """Set the times of a path."""
        self.tree.require_writable()
        with self._find(path, follow=follow) as place:
            seen = self.tree.visible(place)
            if not stat.S_ISDIR(seen.st_mode) and self.tree.has_names_elsewhere(seen):
                raise refusal(errno.EPERM)
            new = times(seen.st_atime_ns, seen.st_mtime_ns)
            os.utime(place.name, ns=new, dir_fd=place.directory, follow_symlinks=False)

    def make_directory(self, path: bytes) -> None:
        """Make a directory."""
        with self._making(path) as place:
            os.mkdir(place.name, 0o777, dir_fd=place.directory)
            self.tree.meter.count_entries(1)

    def remove_directory(self, path: bytes) -> None:
        """Remove an empty directory; one that holds only what is not visible is not empty."""
        with self._changing(path, errno.EINVAL) as (place, seen):
            if not stat.S_ISDIR(seen.st_mode):
                raise refusal(errno.ENOTDIR)
            os.rmdir(place.name, dir_fd=place.directory)
            self.tree.meter.count_entries(-1)

    def unlink(self, path: bytes) -> None:
        """Remove a name of a file, or a link."""
        with self._changing(path, errno.EISDIR) as (place, seen):
            if stat.S_ISDIR(seen.st_mode):
                raise refusal(errno.EISDIR)
            os.unlink(place.name, dir_fd=place.directory)
            self.tree.unnamed(seen, place.path)
            if stat.S_ISREG(seen.st_mode):
                self.tree.changes.removed(_told(place.path))

    def symlink(self, target: bytes, path: bytes) -> None:
        """Make a link; one that would lead out is refused."""
        if target.startswith(b"/"):
            raise refusal(errno.EPERM)
        with self._making(path) as place:
            if place.must_be_directory:
                raise refusal(errno.ENOENT)
            os.symlink(target, place.name, dir_fd=place.directory)
            if self.tree.resolver.leads_out(place):
                os.unlink(place.name, dir_fd=place.directory)
                raise refusal(errno.EPERM)
            self.tree.meter.count_entries(1)

    def read_link(self, path: bytes) -> bytes:
        """What a link leads to."""
        with self._find(path, follow=False) as place:
            if not stat.S_ISLNK(self.tree.visible(place).st_mode):
                raise refusal(errno.EINVAL)
            return os.readlink(place.name, dir_fd=place.directory)

    def link(self, path: bytes, other: Directory, new_path: bytes, *, follow: bool) -> None:
        """Give a file another name in the same tree."""
        target = self._same_tree(other)
        with self._find(path, follow=follow) as place:
            seen = self.tree.visible(place)
            if not stat.S_ISREG(seen.st_mode):
                raise refusal(errno.EPERM)
            with target._making(new_path) as new:
                inside = not self.tree.has_names_elsewhere(seen)
                self.tree.meter.allow_link(seen.st_size)
                os.link(
                    place.name,
                    new.name,
                    src_dir_fd=place.directory,
                    dst_dir_fd=new.directory,
                    follow_symlinks=False,
                )
                self.tree.meter.count_entries(1, seen.st_size)
                if inside:
                    self.tree.linked(seen)
                self.tree.changes.wrote(_told(new.path), existed=False)

    def rename(self, path: bytes, other: Directory, new_path: bytes) -> None:
        """Move what is at a path; a directory carries its files to their new names."""
        target, tree = self._same_tree(other), self.tree
        with (
            self._changing(path) as (place, moving),
            tree.resolver.locate(target.start, new_path, making=True) as new,
        ):
            if new.is_directory_itself:
                raise refusal(errno.EBUSY)
            replaced = tree.look(new, errno.EPERM)
            if new.must_be_directory and not stat.S_ISDIR(moving.st_mode):
                raise refusal(errno.ENOTDIR)
            if replaced is not None and os.path.samestat(moving, replaced):
                return  # two names of one file: nothing moves, as POSIX has it
            files, complete = self._carried(place, moving, new)
            os.rename(place.name, new.name, src_dir_fd=place.directory, dst_dir_fd=new.directory)
            if replaced is not None:
                tree.unnamed(replaced, new.path)
            tree.moved(place.path, new.path)
            if not complete:
                tree.changes.complete = False
            self._note_moved(place, moving, new, replaced, files)

    def entries(self) -> list[Entry]:
        """Its entries that the guest can see."""
        found: list[Entry] = []
        hidden = None
        resolver = self.tree.resolver
        at_root = resolver.is_root(self._fd)
        with os.scandir(self._fd) as listing:
            for each in listing:
                name = os.fsencode(each.name)
                if at_root and resolver.is_hidden_name(name):
                    hidden = each.inode()
                    continue
                kind = self._kind_of(each, name)
                if kind is not None:
                    found.append(Entry(name, each.inode(), kind))
                if len(found) > MOST_ENTRIES:
                    raise refusal(errno.ENOMEM)
        if not at_root:
            seen = resolver.hidden_file()
            hidden = None if seen is None else seen.st_ino
        return [each for each in found if each.inode != hidden or each.kind is not Kind.REGULAR]

    def _kind_of(self, entry: os.DirEntry[str], name: bytes) -> Kind | None:
        """What an entry is; None for what the guest cannot see."""
        try:
            entry.name.encode("utf-8")
        except UnicodeEncodeError:
            return None
        if entry.is_file(follow_symlinks=False):
            return Kind.REGULAR
        if entry.is_dir(follow_symlinks=False):
            return Kind.DIRECTORY
        if not entry.is_symlink():
            return None
        path = name if not self.path else self.path + b"/" + name
        place = Place(self._fd, name, path, must_be_directory=False, owned=False)
        return None if self.tree.resolver.leads_out(place) else Kind.LINK

    # ---------------------------------------------------------- parts

    def _find(self, path: bytes, *, follow: bool) -> Place:
        if follow:
            return self.tree.locate_followed(self.start, path)
        return self.tree.resolver.locate(self.start, path)

    @contextlib.contextmanager
    def _making(self, path: bytes) -> Iterator[Place]:
        """The place of something new, for which there is room."""
        self.tree.require_writable()
        with self.tree.resolver.locate(self.start, path, making=True) as place:
            if place.is_directory_itself or place.look() is not None:
                raise refusal(errno.EEXIST)
            self.tree.meter.allow_entry()
            yield place

    @contextlib.contextmanager
    def _changing(
        self, path: bytes, itself: int = errno.EBUSY
    ) -> Iterator[tuple[Place, os.stat_result]]:
        """The place of something that is there, and what it is.

        Args:
            path: The path.
            itself: How the directory that the path goes through is refused.
        """
        self.tree.require_writable()
        with self.tree.resolver.locate(self.start, path) as place:
            if place.is_directory_itself:
                raise refusal(itself)
            yield place, self.tree.visible(place)

    def _same_tree(self, other: Directory) -> HostDirectory:
        if not isinstance(other, HostDirectory) or other.tree is not self.tree:
            raise refusal(errno.EXDEV)
        return other

    def _carried(self, place: Place, moving: os.stat_result, new: Place) -> tuple[list[str], bool]:
        """The files in a directory that is to be moved, and whether these are all."""
        if not stat.S_ISDIR(moving.st_mode):
            return [], True
        fd = _open_as_seen(place, os.O_RDONLY | os.O_DIRECTORY, stat.S_ISDIR)
        try:
            seen = take_snapshot(fd, max_entries=MOST_MOVED)
        finally:
            os.close(fd)
        if new.path.count(b"/") + 1 + seen.depth > MAX_DEPTH:
            raise refusal(errno.ENAMETOOLONG)
        return list_files(seen), seen.complete

    def _note_moved(
        self,
        place: Place,
        moving: os.stat_result,
        new: Place,
        replaced: os.stat_result | None,
        files: list[str],
    ) -> None:
        changes = self.tree.changes
        source, target = _told(place.path), _told(new.path)
        if stat.S_ISREG(moving.st_mode):
            changes.removed(source)
        existed = replaced is not None and stat.S_ISREG(replaced.st_mode)
        if stat.S_ISREG(moving.st_mode):
            changes.wrote(target, existed=existed)
        elif existed:
            changes.removed(target)
        for below in files:
            changes.removed(f"{source}/{below}")
            changes.wrote(f"{target}/{below}", existed=False)


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


def _mode(opening: Opening) -> int:
    if opening.write:
        return os.O_RDWR if opening.read else os.O_WRONLY
    return os.O_RDWR if opening.truncate else os.O_RDONLY


def _open_as_seen(place: Place, flags: int, expected: Callable[[int], bool]) -> int:
    """Open what was just looked at, and nothing else that was put in its place since."""
    try:
        fd = os.open(place.name, flags | _OPEN_FILE, dir_fd=place.directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise refusal(errno.ENOENT) from error
        raise
    if not expected(os.fstat(fd).st_mode):
        os.close(fd)
        raise refusal(errno.ESTALE)
    return fd


def _separate(place: Place) -> None:
    """Give a name a file of its own with the same content; its other names keep the old one."""
    source = _open_as_seen(place, os.O_RDONLY, stat.S_ISREG)
    try:
        os.unlink(place.name, dir_fd=place.directory)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN_FILE
        target = os.open(place.name, flags, 0o666, dir_fd=place.directory)
        try:
            while os.sendfile(target, source, None, _COPIED_AT_ONCE):
                continue
        finally:
            os.close(target)
    finally:
        os.close(source)


def _told(path: bytes) -> str:
    """A path as the lists of a result have it."""
    return os.fsdecode(path)
