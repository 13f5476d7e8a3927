"""An open directory of the host: resolves paths from it and changes names.

A file that has another name outside (a host's hard link) is never changed: a write goes to a copy.
The module is long because all operations on names share the same few parts.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
from collections.abc import Iterator
from typing import Final

from ....base.files.filesystem import close_reader
from ...guest_paths import MAX_DEPTH
from .files import (
    Directory,
    DirectoryEntry,
    FileStatus,
    NodeKind,
    Opening,
    Times,
    WithoutContent,
    refusal,
)
from .host_file import HostFile, separate
from .host_tree import OPEN_FILE, ServedTree, open_as_seen, status_of, told
from .path_resolution import ResolvedPath, Start

MOST_MOVED: Final = 100_000
"""The most files of a renamed directory whose new paths are recorded."""

_OF_A_MOVED_FILE: Final = 1 << 10
_COPIES_OF_A_PATH: Final = 10
"""Bytes held per path byte while it is recorded; a character may take four."""


class HostDirectory(WithoutContent):
    """One handle of a directory."""

    kind = NodeKind.DIRECTORY

    def __init__(self, tree: ServedTree, fd: int, path: bytes, *, owned: bool = True) -> None:
        self.tree: Final = tree
        self._calls: Final = tree.calls
        self.path = path
        self._fd = fd
        self._owned = owned
        tree.directories.add(self)

    @property
    def start(self) -> Start:
        """The start of its paths."""
        return Start(self._fd, self.path)

    def status(self) -> FileStatus:
        """Return its status."""
        return status_of(self._calls.fstat(self._fd))

    def set_times(self, times: Times) -> None:
        """Set its times."""
        self.set_times_of(b".", times, follow=False)

    def sync(self) -> bool:
        """Flush its names to disk if syncing is on; return whether they were."""
        if self.tree.syncs:
            self._calls.fsync(self._fd)
        return self.tree.syncs

    def close(self) -> None:
        """Close this handle."""
        self.tree.directories.discard(self)
        if self._owned:
            close_reader(self._calls, self._fd)

    # ---------------------------------------------------------- opening

    def open(self, path: bytes, opening: Opening) -> HostFile | HostDirectory:
        """Open a path; create a file if `opening` asks for it."""
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

    def _place_to_open(self, path: bytes, opening: Opening) -> ResolvedPath:
        if opening.follow and not (opening.create and opening.exclusive):
            return self.tree.locate_followed(self.start, path, making=opening.create)
        return self.tree.resolver.locate(self.start, path, making=opening.create)

    def _make_file(self, place: ResolvedPath, opening: Opening) -> HostFile:
        """Create a file that did not exist; its mode is never executable."""
        tree = self.tree
        tree.meter.allow_entry()
        flags = _mode(opening) | os.O_CREAT | os.O_EXCL | OPEN_FILE
        fd = self._calls.open(place.name, flags, 0o666, dir_fd=place.directory)
        tree.meter.count_entries(1)
        tree.changes.wrote(told(place.path), existed=False)
        tree.meter.losses.forget(place.path)
        return HostFile(tree, fd, place.path)

    def _open_directory(self, place: ResolvedPath, opening: Opening) -> HostDirectory:
        if opening.write or opening.truncate or opening.create:
            raise refusal(errno.EISDIR)
        fd, _ = open_as_seen(place, os.O_RDONLY | os.O_DIRECTORY, stat.S_ISDIR)
        return HostDirectory(self.tree, fd, place.path)

    def _open_file(self, place: ResolvedPath, seen: os.stat_result, opening: Opening) -> HostFile:
        tree = self.tree
        tree.meter.room.allow_size(0 if opening.truncate else seen.st_size)
        if opening.write and tree.has_names_elsewhere(seen):
            separate(tree, place)
        fd, now = open_as_seen(place, _mode(opening), stat.S_ISREG)
        file = HostFile(tree, fd, place.path, now)
        if opening.truncate:
            try:
                file.begin_anew()
            except BaseException:
                file.close()
                raise
        return file

    # ---------------------------------------------------------- names

    def status_of(self, path: bytes, *, follow: bool) -> FileStatus:
        """Return the status of a path."""
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
            self._calls.utimensat(place.name, new, dir_fd=place.directory)

    def make_directory(self, path: bytes) -> None:
        """Create a directory."""
        with self._making(path, directory=True) as place:
            self._calls.mkdir(place.name, 0o777, dir_fd=place.directory)
            self.tree.meter.count_entries(1)

    def remove_directory(self, path: bytes) -> None:
        """Remove an empty directory; hidden or invisible entries make it non-empty."""
        with self._changing(path, errno.EINVAL) as (place, seen):
            if not stat.S_ISDIR(seen.st_mode):
                raise refusal(errno.ENOTDIR)
            self._calls.rmdir(place.name, dir_fd=place.directory)
            self.tree.meter.count_entries(-1)

    def unlink(self, path: bytes) -> None:
        """Remove one name of a file, or a link."""
        with self._changing(path, errno.EISDIR) as (place, seen):
            if stat.S_ISDIR(seen.st_mode):
                raise refusal(errno.EISDIR)
            self._calls.unlink(place.name, dir_fd=place.directory)
            self.tree.unnamed(seen, place.path)
            if stat.S_ISREG(seen.st_mode):
                self.tree.changes.removed(told(place.path))

    def symlink(self, target: bytes, path: bytes) -> None:
        """Create a link; refuse one that would lead out."""
        if target.startswith(b"/"):
            raise refusal(errno.EPERM)
        with self._making(path) as place:
            if self.tree.resolver.would_lead_out(place, target):
                raise refusal(errno.EPERM)
            self._calls.symlink(target, place.name, dir_fd=place.directory)
            self.tree.meter.count_entries(1)

    def read_link(self, path: bytes) -> bytes:
        """Return a link's target."""
        with self._find(path, follow=False) as place:
            if not stat.S_ISLNK(self.tree.visible(place).st_mode):
                raise refusal(errno.EINVAL)
            return self._calls.readlink(place.name, dir_fd=place.directory)

    def link(self, path: bytes, other: Directory, new_path: bytes, *, follow: bool) -> None:
        """Give a file another name in the same tree."""
        target = self._same_tree(other)
        with self._find(path, follow=follow) as place:
            seen = self.tree.visible(place)
            if stat.S_ISDIR(seen.st_mode):
                raise refusal(errno.EPERM)
            with target._making(new_path) as new:
                if stat.S_ISLNK(seen.st_mode):
                    self._link_a_link(place, new)
                else:
                    self._link_a_file(place, seen, new)

    def _link_a_file(self, place: ResolvedPath, seen: os.stat_result, new: ResolvedPath) -> None:
        inside = not self.tree.has_names_elsewhere(seen)
        self.tree.meter.allow_link(seen.st_size)
        self._give_name(place, new)
        self.tree.meter.count_entries(1, seen.st_size)
        if inside:
            self.tree.linked(seen)
        self.tree.changes.wrote(told(new.path), existed=False)

    def _link_a_link(self, place: ResolvedPath, new: ResolvedPath) -> None:
        """Link a link; refuse it, like a new link, if it would lead out from the new place."""
        target = self._calls.readlink(place.name, dir_fd=place.directory)
        if self.tree.resolver.would_lead_out(new, target):
            raise refusal(errno.EPERM)
        self._give_name(place, new)
        self.tree.meter.count_entries(1)

    def _give_name(self, place: ResolvedPath, new: ResolvedPath) -> None:
        self._calls.link(place.name, new.name, src_dir_fd=place.directory, dst_dir_fd=new.directory)

    def rename(self, path: bytes, other: Directory, new_path: bytes) -> None:
        """Move what is at a path; a directory's files move to their new paths with it."""
        target, tree = self._same_tree(other), self.tree
        tree.require_writable()
        with (
            tree.resolver.locate(self.start, path) as place,
            tree.resolver.locate(target.start, new_path, making=True) as new,
        ):
            # Before anything is looked up, as in the kernel.
            if place.is_directory_itself or new.is_directory_itself:
                raise refusal(errno.EBUSY)
            moving = tree.visible(place)
            replaced = tree.look(new, errno.EPERM)
            if new.must_be_directory and not stat.S_ISDIR(moving.st_mode):
                raise refusal(errno.ENOTDIR)
            if replaced is not None and os.path.samestat(moving, replaced):
                return  # two names of one file: POSIX moves nothing
            tree.pay_for_move()
            files, complete = self._carried(place, moving, new)
            self._calls.rename(
                place.name, new.name, src_dir_fd=place.directory, dst_dir_fd=new.directory
            )
            if replaced is not None:
                tree.unnamed(replaced, new.path)
            tree.moved(place.path, new.path)
            noted = False
            try:
                self._note_moved(place, moving, new, replaced, files)
                noted = complete
            finally:
                if not noted:
                    tree.changes.complete = False

    def entries(self) -> Iterator[DirectoryEntry]:
        """Yield the entries that the guest can see; each is looked up as it is taken."""
        resolver, work = self.tree.resolver, self.tree.upkeep.work
        at_root = resolver.is_root(self._fd)
        seen = resolver.hidden_file()
        hidden = None if seen is None else seen.st_ino
        with self._calls.scandir(self._fd) as listing:
            for each in listing:
                name = os.fsencode(each.name)
                kind, inode = self._kind_of(each, name), each.inode()
                shown = kind is not NodeKind.REGULAR or inode != hidden
                if kind is None or not shown or (at_root and resolver.is_hidden_name(name)):
                    work()
                else:
                    yield DirectoryEntry(name, inode, kind)

    def _kind_of(self, entry: os.DirEntry[str], name: bytes) -> NodeKind | None:
        """Return an entry's kind; None if the guest cannot see it."""
        try:
            entry.name.encode("utf-8")
        except UnicodeEncodeError:
            return None
        if entry.is_file(follow_symlinks=False):
            return NodeKind.REGULAR
        if entry.is_dir(follow_symlinks=False):
            return NodeKind.DIRECTORY
        if not entry.is_symlink():
            return None
        path = name if not self.path else self.path + b"/" + name
        place = ResolvedPath(
            self._fd, name, path, must_be_directory=False, owned=False, calls=self._calls
        )
        return None if self.tree.resolver.leads_out(place) else NodeKind.LINK

    # ---------------------------------------------------------- parts

    def _find(self, path: bytes, *, follow: bool) -> ResolvedPath:
        if follow:
            return self.tree.locate_followed(self.start, path)
        return self.tree.resolver.locate(self.start, path)

    @contextlib.contextmanager
    def _making(self, path: bytes, *, directory: bool = False) -> Iterator[ResolvedPath]:
        """Yield the place of a new entry, if there is room; only directories may end in a slash."""
        self.tree.require_writable()
        with self.tree.resolver.locate(self.start, path, making=True) as place:
            if place.is_directory_itself or place.look() is not None:
                raise refusal(errno.EEXIST)
            if place.must_be_directory and not directory:
                raise refusal(errno.ENOENT)
            self.tree.meter.allow_entry()
            yield place

    @contextlib.contextmanager
    def _changing(
        self, path: bytes, itself: int = errno.EBUSY
    ) -> Iterator[tuple[ResolvedPath, os.stat_result]]:
        """Yield the place of an existing entry, and its status.

        Args:
            path: The path.
            itself: The errno for a path that means the directory itself.
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

    def _carried(
        self, place: ResolvedPath, moving: os.stat_result, new: ResolvedPath
    ) -> tuple[list[str], bool]:
        """Return the files in a directory to be moved, and whether the list is complete."""
        if not stat.S_ISDIR(moving.st_mode):
            return [], True
        fd, _ = open_as_seen(place, os.O_RDONLY | os.O_DIRECTORY, stat.S_ISDIR)
        try:
            files, depth, complete = self._calls.files_below(
                fd, self.tree.upkeep.work, self._most_moved()
            )
        finally:
            close_reader(self._calls, fd)
        if new.path.count(b"/") + 1 + depth > MAX_DEPTH:
            raise refusal(errno.ENAMETOOLONG)
        return files, complete

    def _most_moved(self) -> dict[str, int]:
        """Return limits for the files recorded of a moved directory, so that memory suffices."""
        left = self.tree.upkeep.left
        if left is None:
            return {"max_entries": MOST_MOVED}
        return {
            "max_entries": min(MOST_MOVED, left // _OF_A_MOVED_FILE),
            "max_listed_bytes": left // _COPIES_OF_A_PATH,
        }

    def _note_moved(
        self,
        place: ResolvedPath,
        moving: os.stat_result,
        new: ResolvedPath,
        replaced: os.stat_result | None,
        files: list[str],
    ) -> None:
        changes, work = self.tree.changes, self.tree.upkeep.work
        source, target = told(place.path), told(new.path)
        if stat.S_ISREG(moving.st_mode):
            changes.removed(source)
        existed = replaced is not None and stat.S_ISREG(replaced.st_mode)
        if stat.S_ISREG(moving.st_mode):
            changes.wrote(target, existed=existed)
        elif existed:
            changes.removed(target)
        for below in files:
            work()
            changes.removed(f"{source}/{below}")
            changes.wrote(f"{target}/{below}", existed=False)


def _mode(opening: Opening) -> int:
    if opening.write:
        return os.O_RDWR if opening.read else os.O_WRONLY
    return os.O_RDWR if opening.truncate else os.O_RDONLY


class HostTree(ServedTree):
    """A host directory and everything below it, served to one guest."""

    @functools.cached_property
    def root(self) -> HostDirectory:
        """The root, where the guest's paths begin."""
        return HostDirectory(self, self.fd, b"", owned=False)
