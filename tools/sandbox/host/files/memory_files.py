"""Directories in host memory: resolve paths from them and change names.

They do not use the host's file system. Links stay inside their tree. The module is long because all
operations on names share the same few parts.
"""

from __future__ import annotations

import errno
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final

from ...guest_paths import MAX_DEPTH
from ...workspaces.quota import Room
from .files import Directory, DirectoryEntry, FileStatus, NodeKind, Opening, Times, refusal
from .memory_nodes import (
    OF_A_NAME,
    OF_A_NODE,
    MemoryFile,
    MemoryLink,
    MemoryNode,
    MemoryTreeState,
    ReadOnlyFile,
)
from .path_resolution import names_directory_itself
from .quota import QuotaMeter
from .upkeep import Upkeep

__all__ = ["MemoryDirectory", "MemoryFile", "MemoryLink", "MemoryTree", "ReadOnlyFile"]

_MAX_LINKS: Final = 40

_OF_A_TABLE: Final = 256
_OF_A_PLACE: Final = 200
"""Bytes a table of names may have in all, and per name: a new table takes at most half."""


class MemoryTree(MemoryTreeState):
    """A directory in memory and everything below it.

    Args:
        meter: Counts against the quota; None for a read-only tree.
        now_ns: Returns the time, in nanoseconds.
        filled: Adds the initial files, by `add`, on the first lookup of a name.
        upkeep: Charges the guest for work and reserves memory for the nodes it creates.

    Attributes:
        root: The root, where the guest's paths begin.
    """

    def __init__(
        self,
        meter: QuotaMeter | None,
        *,
        now_ns: Callable[[], int] = time.time_ns,
        filled: Callable[[], None] | None = None,
        upkeep: Upkeep | None = None,
    ) -> None:
        super().__init__(meter, now_ns, upkeep)
        self.root: Final = MemoryDirectory(self, None, b"", filled)

    def add(self, path: bytes, node: MemoryFile | MemoryLink | ReadOnlyFile | None) -> None:
        """Add an initial file, uncounted, with its parents.

        Args:
            path: Its path from the root.
            node: The node; None for a directory.
        """
        here = self.root
        *above, name = path.split(b"/")
        for part in above:
            below = here.names.setdefault(part, MemoryDirectory(self, here, part))
            assert isinstance(below, MemoryDirectory)  # noqa: S101 (the host's own tree)
            here = below
        here.names[name] = MemoryDirectory(self, here, name) if node is None else node

    def begin_again(self, room: Room) -> None:
        """Empty the tree for another execution; open files live on, and count."""
        self.root.clear()
        self.meter.begin_again(room)
        for file in self.unnamed:
            room.promise(file.length, temporary=self.meter.temporary)

    def serve_again(self, room: Room) -> None:
        """Serve another execution, with all that is in the tree, which counts."""
        self.meter.begin_again(room)
        self.count()

    def count(self) -> None:
        """Count all that the guest has in the tree, where nothing of it is counted yet."""
        meter, here = self.meter, [self.root]
        while here:
            for node in here.pop().names.values():
                if node.held > 0:  # the host's own directories hold nothing
                    meter.count_entries(1, node.length)
                if isinstance(node, MemoryDirectory):
                    here.append(node)
        for file in self.unnamed:
            meter.room.promise(file.length, temporary=meter.temporary)


class MemoryDirectory(MemoryNode):
    """A directory."""

    kind = NodeKind.DIRECTORY

    def __init__(
        self,
        tree: MemoryTreeState,
        above: MemoryDirectory | None,
        name: bytes,
        filled: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(tree)
        self.above = above
        self.name = name
        self._names: dict[bytes, MemoryNode] = {}
        self._filled = filled

    @property
    def names(self) -> dict[bytes, MemoryNode]:
        """Its nodes by name; some trees fill their root on the first access."""
        if self._filled is not None:
            filled, self._filled = self._filled, None
            filled()
        return self._names

    def path(self, name: bytes) -> bytes:
        """Return the path of a name in it, from the root of the tree."""
        here, parts = self, [name]
        while here.above is not None:
            parts.append(here.name)
            here = here.above
        return b"/".join(reversed(parts))

    # ---------------------------------------------------------- opening

    def open(self, path: bytes, opening: Opening) -> MemoryNode:
        """Open a path; create a file if `opening` asks for it."""
        parent, name = self._resolve(path, follow=opening.follow and not opening.exclusive)
        node = parent.names.get(name) if name else parent
        if node is None:
            if not opening.create or opening.directory:
                raise refusal(errno.ENOENT)
            if path.endswith(b"/"):
                raise refusal(errno.EISDIR)
            where = parent.path(name)
            made = MemoryFile(self.tree, where)
            parent.put(name, made, len(where))
            self.tree.meter.losses.forget(where)
            node = made
        elif opening.create and opening.exclusive:
            raise refusal(errno.EEXIST)
        if isinstance(node, MemoryLink):
            raise refusal(errno.ELOOP)
        if isinstance(node, MemoryDirectory):
            if opening.write or opening.truncate or opening.create:
                raise refusal(errno.EISDIR)
            return node
        if opening.directory or path.endswith(b"/"):
            raise refusal(errno.ENOTDIR)
        if opening.write or opening.truncate:
            _ = self.tree.meter
        if isinstance(node, MemoryFile):
            if opening.truncate:
                self.tree.meter.losses.forget(node.account.path or b"")
                node.truncate(0)
            node.account.handles += 1
        return node

    # ---------------------------------------------------------- names

    def status_of(self, path: bytes, *, follow: bool) -> FileStatus:
        """Return the status of a path."""
        return self._find(path, follow=follow).status()

    def set_times_of(self, path: bytes, times: Times, *, follow: bool) -> None:
        """Set the times of a path."""
        self._find(path, follow=follow).set_times(times)

    def make_directory(self, path: bytes) -> None:
        """Create a directory."""
        parent, name = self._new(path, directory=True)
        parent.put(name, MemoryDirectory(self.tree, parent, name))

    def remove_directory(self, path: bytes) -> None:
        """Remove an empty directory."""
        parent, name, node = self._existing(path, errno.EINVAL)
        if not isinstance(node, MemoryDirectory):
            raise refusal(errno.ENOTDIR)
        if node.names:
            raise refusal(errno.ENOTEMPTY)
        parent.remove(name)

    def unlink(self, path: bytes) -> None:
        """Remove one name of a file, or a link."""
        parent, name, node = self._existing(path, errno.EISDIR)
        if isinstance(node, MemoryDirectory):
            raise refusal(errno.EISDIR)
        parent.remove(name)

    def symlink(self, target: bytes, path: bytes) -> None:
        """Create a link; refuse an absolute target."""
        if target.startswith(b"/"):
            raise refusal(errno.EPERM)
        parent, name = self._new(path)
        self.tree.meter.allow_link(len(target))
        parent.put(name, MemoryLink(self.tree, target))

    def read_link(self, path: bytes) -> bytes:
        """Return a link's target."""
        node = self._find(path, follow=False)
        if not isinstance(node, MemoryLink):
            raise refusal(errno.EINVAL)
        return node.target

    def link(self, path: bytes, other: Directory, new_path: bytes, *, follow: bool) -> None:
        """Give a file another name in the same tree."""
        target = self._same_tree(other)
        node = self._find(path, follow=follow)
        if not isinstance(node, MemoryFile | MemoryLink):
            raise refusal(errno.EPERM)
        parent, name = target._new(new_path)
        meter = self.tree.meter
        meter.allow_link(node.length)
        if isinstance(node, MemoryLink):
            parent.put(name, node)
        else:
            node.hold(OF_A_NAME)
            parent.names[name] = node
            meter.count_entries(1, node.length)
            node.account.names += 1
            parent.touch()
        node.links += 1

    def rename(self, path: bytes, other: Directory, new_path: bytes) -> None:
        """Move what is at a path, replacing what is at the new one."""
        target = self._same_tree(other)
        _ = self.tree.meter
        old_name = self._resolve(path, follow=False)[1]
        parent, new_name = target._resolve(new_path, follow=False)
        # Before anything is looked up, as in the kernel.
        if not old_name or not new_name:
            raise refusal(errno.EBUSY)
        parent.require_in_place()
        source, name, moving = self._existing(path)
        if new_path.endswith(b"/") and not isinstance(moving, MemoryDirectory):
            raise refusal(errno.ENOTDIR)
        replaced = parent.names.get(new_name)
        if replaced is moving:
            return
        if isinstance(moving, MemoryDirectory):
            _refuse_into_itself(moving, parent)
            if parent.depth() + 1 + moving.height() > MAX_DEPTH:
                raise refusal(errno.ENAMETOOLONG)
        _refuse_replacing(moving, replaced)
        was, new = source.path(name), parent.path(new_name)
        if isinstance(moving, MemoryFile) and moving.account.path == was:
            moving.hold(len(new) - len(was))
            moving.account.path = new
        if replaced is not None:
            parent.remove(new_name)
        source.take(name)
        parent.names[new_name] = moving
        if isinstance(moving, MemoryDirectory):
            moving.above, moving.name = parent, new_name
        self.tree.meter.losses.move(was, new)
        source.touch()
        parent.touch()

    def entries(self) -> Iterator[DirectoryEntry]:
        """Yield its entries; each is looked up as it is taken."""
        return (
            DirectoryEntry(name, node.inode, node.kind) for name, node in list(self.names.items())
        )

    def put(self, name: bytes, node: MemoryNode, more: int = 0) -> None:
        """Add a new node; `more` bytes are reserved beyond its name and kind."""
        self.require_in_place()
        if self.depth() >= MAX_DEPTH:
            raise refusal(errno.ENAMETOOLONG)
        meter = self.tree.meter
        meter.allow_entry()
        node.hold(OF_A_NODE + more)
        meter.count_entries(1, node.length)
        self.names[name] = node
        self.touch()

    def require_in_place(self) -> None:
        """Refuse to add to a removed directory (ENOENT)."""
        if self.links == 0:
            raise refusal(errno.ENOENT)

    def clear(self) -> None:
        """Remove all names, recursively."""
        for name, node in list(self.names.items()):
            if isinstance(node, MemoryDirectory):
                node.clear()
            self.remove(name)

    def take(self, name: bytes) -> MemoryNode:
        """Remove a name from the table, which is rebuilt when too large: a dict never shrinks."""
        node = self.names.pop(name)
        if sys.getsizeof(self.names) > _OF_A_TABLE + _OF_A_PLACE * len(self.names):
            self._names = dict(self.names)
        return node

    def remove(self, name: bytes) -> None:
        """Remove a name; a file without a name takes up room until it is closed."""
        meter = self.tree.meter
        path = self.path(name)
        node = self.take(name)
        node.links -= 1
        self.touch()
        meter.losses.forget(path)
        if not isinstance(node, MemoryFile):
            if node.held > 0:  # the host's own directories do not count
                meter.count_entries(-1, -node.length)
            node.release(min(node.held, OF_A_NODE))  # every name of a link reserves that much
            return
        if node.account.path == path:
            node.account.path = None
        meter.unnamed(node.account)
        if node.account.names > 0:
            node.release(OF_A_NAME)
        elif node.account.handles > 0:
            self.tree.unnamed.add(node)
        else:
            meter.released(node.account)
            node.release()

    def depth(self) -> int:
        """Return how many directories lie above it."""
        count, here = 0, self.above
        while here is not None:
            count, here = count + 1, here.above
        return count

    def height(self) -> int:
        """Return how many levels of names lie below it."""
        levels, here = 0, [self]
        while here:
            self.tree.upkeep.work(sum(len(each.names) for each in here))
            below = [node for each in here for node in each.names.values()]
            levels += 1 if below else 0
            here = [node for node in below if isinstance(node, MemoryDirectory)]
        return levels

    # ---------------------------------------------------------- paths

    def _same_tree(self, other: Directory) -> MemoryDirectory:
        if not isinstance(other, MemoryDirectory) or other.tree is not self.tree:
            raise refusal(errno.EXDEV)
        return other

    def _new(self, path: bytes, *, directory: bool = False) -> tuple[MemoryDirectory, bytes]:
        """Return the place of a new entry; only a directory's path may end with a slash."""
        _ = self.tree.meter
        parent, name = self._resolve(path, follow=False)
        if not name or name in parent.names:
            raise refusal(errno.EEXIST)
        if path.endswith(b"/") and not directory:
            raise refusal(errno.ENOENT)
        parent.require_in_place()
        return parent, name

    def _existing(
        self, path: bytes, itself: int = errno.EBUSY
    ) -> tuple[MemoryDirectory, bytes, MemoryNode]:
        _ = self.tree.meter
        parent, name = self._resolve(path, follow=False)
        if not name:
            raise refusal(itself)
        return parent, name, parent._named(name, path)

    def _find(self, path: bytes, *, follow: bool) -> MemoryNode:
        parent, name = self._resolve(path, follow=follow)
        return parent._named(name, path) if name else parent

    def _named(self, name: bytes, path: bytes) -> MemoryNode:
        """Return the node with a name; only a directory's path may end with a slash."""
        node = self.names.get(name)
        if node is None:
            raise refusal(errno.ENOENT)
        if path.endswith(b"/") and not isinstance(node, MemoryDirectory):
            raise refusal(errno.ENOTDIR)
        return node

    def _climb(self, here: MemoryDirectory, number: int) -> MemoryDirectory:
        """Return a directory's parent; only a link may climb above `self`, none above the root."""
        if here.above is None or (here is self and number == errno.EPERM):
            raise refusal(number)
        return here.above

    def _resolve(self, path: bytes, *, follow: bool) -> tuple[MemoryDirectory, bytes]:
        """Return the directory of a path's last name, and that name; b"" for a directory itself."""
        if not path:
            raise refusal(errno.ENOENT)
        if path.startswith(b"/"):
            raise refusal(errno.EPERM)
        left = _parts(path)[::-1]
        if len(left) > MAX_DEPTH or any(len(part) > _MAX_NAME_BYTES for part in left):
            raise refusal(errno.ENAMETOOLONG)
        if names_directory_itself(path):
            left.insert(0, b".")
        here, links = self, 0
        while left:
            part = left.pop()
            if part in (b".", b".."):
                number = errno.ENOENT if links else errno.EPERM
                here = here if part == b"." else self._climb(here, number)
                continue
            node = here.names.get(part)
            if isinstance(node, MemoryLink) and (left or follow):
                links += 1
                if links > _MAX_LINKS:
                    raise refusal(errno.ELOOP)
                parts = _parts(node.target)
                self.tree.upkeep.work(len(parts))
                left += parts[::-1]
            elif not left:
                return here, part
            elif node is None:
                raise refusal(errno.ENOENT)
            elif isinstance(node, MemoryDirectory):
                here = node
            else:
                raise refusal(errno.ENOTDIR)
        return here, b""


_MAX_NAME_BYTES: Final = 255


def _parts(path: bytes) -> list[bytes]:
    return [part for part in path.split(b"/") if part not in (b"", b".")]


def _refuse_into_itself(moving: MemoryDirectory, parent: MemoryDirectory) -> None:
    here: MemoryDirectory | None = parent
    while here is not None:
        if here is moving:
            raise refusal(errno.EINVAL)
        here = here.above


def _refuse_replacing(moving: MemoryNode, replaced: MemoryNode | None) -> None:
    if isinstance(replaced, MemoryDirectory):
        if not isinstance(moving, MemoryDirectory):
            raise refusal(errno.EISDIR)
        if replaced.names:
            raise refusal(errno.ENOTEMPTY)
    elif replaced is not None and isinstance(moving, MemoryDirectory):
        raise refusal(errno.ENOTDIR)
