"""A guest's open descriptors as values, and opening them again.

A file or directory with a name is opened again by its path from `/`, by the resolver that the guest
itself uses, and is neither created nor truncated. A file is what it was if it has the same inode,
or if its size and a sample of its content are the same, as in a copy of the workspace. If something
else is there now, or nothing, the descriptor refers to a node that answers ESTALE. Files without a
name are carried with their bytes. The standard streams are no part of it: each turn has its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ...host.files.files import (
    Descriptor,
    Descriptors,
    Directory,
    DirectoryListing,
    Node,
    NodeKind,
    Opening,
    StaleNode,
)
from ...host.files.host_directory import HostDirectory
from ...host.files.host_file import HostFile
from ...host.files.memory_files import MemoryDirectory, MemoryFile
from ...host.files.memory_nodes import MemoryNode, ReadOnlyFile
from ...host.files.mount_points import MountPoints
from .tree_state import TreeCapture

_SAMPLED: Final = 1 << 16

FIRST_NUMBER: Final = 3
"""The lowest number that is no standard stream's."""


class OpenState(NamedTuple):
    """An open descriptor.

    Attributes:
        number: Its number.
        kind: What it refers to: a file or a directory.
        path: Where that is, from `/`; None if it has no name, or is stale.
        node: The index of a node in memory that it refers to; None without one.
        size: The size of what is at the path.
        sample: A digest of the start and the end of a file there; None if they cannot be read.
        inode: Its inode.
        position: The current offset.
        flags: The flags as the guest set them.
        readable: Whether it may be read from.
        writable: Whether it may be written to.
        given_up: The rights that the guest gave up.
        given_up_below: Those that it gave up for what it opens from here.
        listing: The records of a directory that the guest is reading; None without.
    """

    number: int
    kind: NodeKind
    path: bytes | None
    node: int | None
    size: int
    sample: bytes | None
    inode: int
    position: int
    flags: int
    readable: bool
    writable: bool
    given_up: int
    given_up_below: int
    listing: bytes | None = None


class PreopenedState(NamedTuple):
    """A preopened descriptor that is still open: what the guest changed of it."""

    number: int
    position: int
    flags: int
    given_up: int
    given_up_below: int
    listing: bytes | None = None


class DescriptorsState(NamedTuple):
    """A guest's descriptors.

    Attributes:
        opened: Those that the guest opened.
        preopened: Those that it began with and has not closed.
        free: The freed numbers, the last of which is used first.
        following: The next unused number.
    """

    opened: tuple[OpenState, ...]
    preopened: tuple[PreopenedState, ...]
    free: tuple[int, ...]
    following: int


class _Place(NamedTuple):
    """Where a descriptor's node is: the fields of `OpenState` from path to inode."""

    path: bytes | None = None
    node: int | None = None
    size: int = 0
    sample: bytes | None = None
    inode: int = 0


class DescriptorCapture:
    """Takes the state of descriptors.

    Args:
        mounted: The mounted directories, by path from `/`.
        tree: Collects the nodes in memory.
    """

    def __init__(self, mounted: Mapping[bytes, Directory], tree: TreeCapture) -> None:
        self._mounted = mounted
        self._tree = tree
        self._places = {id(getattr(node, "tree", node)): at for at, node in mounted.items()}
        self._carried: dict[tuple[int, int] | None, int] = {}

    def state_of(self, descriptors: Descriptors) -> DescriptorsState:
        """Return the state of all.

        Raises:
            OSError: An open file of the host cannot be read.
        """
        opened, preopened = [], []
        for number, each in sorted(descriptors.opened().items()):
            if number < FIRST_NUMBER:
                continue
            listing = None if each.listing is None else each.listing.records
            if each.counted:
                opened.append(self._state_of(number, each, listing))
            elif each.preopened is not None:
                rights = each.given_up, each.given_up_below
                state = PreopenedState(number, each.position, each.flags, *rights, listing)
                preopened.append(state)
        free, following = descriptors.numbering
        free = tuple(number for number in free if number >= FIRST_NUMBER)
        return DescriptorsState(tuple(opened), tuple(preopened), free, following)

    def _state_of(self, number: int, found: Descriptor, listing: bytes | None) -> OpenState:
        path, node, size, sample, inode = self._where(found.node)
        return OpenState(
            number=number,
            kind=found.node.kind,
            path=path,
            node=node,
            size=size,
            sample=sample,
            inode=inode,
            position=found.position,
            flags=found.flags,
            readable=found.readable,
            writable=found.writable,
            given_up=found.given_up,
            given_up_below=found.given_up_below,
            listing=listing,
        )

    def _where(self, node: Node) -> _Place:
        """Return what of a descriptor's state depends on its node."""
        if isinstance(node, HostDirectory):
            return _Place(self._at(node.tree, node.path), inode=node.status().inode)
        if isinstance(node, HostFile):
            seen = node.status()
            path = node.path if node.path is not None or seen.links == 0 else _name_of(node)
            if path is None:
                return _Place(node=self._carried_file(node))
            return _Place(self._at(node.tree, path), None, seen.size, _sample(node), seen.inode)
        if isinstance(node, MemoryNode) and node.tree.is_writable:
            return _Place(node=self._tree.index_of(node))
        size = node.length if isinstance(node, MemoryNode) else 0
        return _Place(self._read_only(node), size=size)

    def _read_only(self, node: Node) -> bytes | None:
        """Return the path of what the guest cannot change; None if it is stale already."""
        if isinstance(node, MountPoints):
            return node.path
        if isinstance(node, MemoryDirectory):
            return self._at(node.tree, node.path(b"").rstrip(b"/"))
        return self._library_file(node) if isinstance(node, ReadOnlyFile) else None

    def _carried_file(self, node: HostFile) -> int:
        """Return the index of a host's file without a name, carried with its bytes."""
        if node.key not in self._carried:
            with node.reading() as fd:
                content = _read(fd, 0, node.status().size)
            self._carried[node.key] = self._tree.add_file(content)
        return self._carried[node.key]

    def _at(self, tree: object, path: bytes) -> bytes | None:
        place = self._places.get(id(tree))
        return None if place is None else (place + b"/" + path).strip(b"/")

    def _library_file(self, node: ReadOnlyFile) -> bytes | None:
        """Return the path of a file of the library: it does not know its own."""
        for root in self._mounted.values():
            if isinstance(root, MemoryDirectory) and root.tree is node.tree:
                here = [root]
                while here:
                    directory = here.pop()
                    for name, below in directory.names.items():
                        if below is node:
                            return self._at(node.tree, directory.path(name))
                        if isinstance(below, MemoryDirectory):
                            here.append(below)
        return None


def _read(fd: int, at: int, size: int) -> bytes:
    """Return this many bytes from a position; less if the file ends before."""
    pieces = []
    while size > 0 and (piece := os.pread(fd, size, at)):
        pieces.append(piece)
        at, size = at + len(piece), size - len(piece)
    return b"".join(pieces)


def _sample(node: HostFile) -> bytes | None:
    """Return a digest of a file's start and end, so that its cost does not grow with the file."""
    try:
        with node.reading() as fd:
            size = os.fstat(fd).st_size
            end = max(_SAMPLED, size - _SAMPLED)
            content = _read(fd, 0, _SAMPLED) + _read(fd, end, size - end)
    except OSError:
        return None  # then only the inode says what it was
    return hashlib.blake2b(content, digest_size=8).digest()


def _name_of(node: HostFile) -> bytes | None:
    """Return another name of a file that lost the one it was opened by, or None."""
    wanted = node.status()
    for top, _, files, fd in os.fwalk(b".", dir_fd=node.tree.fd, follow_symlinks=False):
        for name in files:
            with contextlib.suppress(OSError):
                seen = os.stat(name, dir_fd=fd, follow_symlinks=False)
                if (seen.st_dev, seen.st_ino) == (wanted.device, wanted.inode):
                    return (top + b"/" + name).removeprefix(b"./")
    return None


def reopen(
    descriptors: Descriptors,
    state: DescriptorsState,
    mounted: Mapping[bytes, Directory],
    nodes: Sequence[MemoryNode],
) -> None:
    """Open the descriptors of a state again, after `close_counted`.

    Args:
        descriptors: The machine's.
        state: What to open.
        mounted: The mounted directories, by path from `/`.
        nodes: The nodes in memory.
    """
    root = MountPoints(mounted)
    opened = {}
    for each in state.opened:
        made = Descriptor(
            _node_of(each, root, nodes),
            readable=each.readable,
            writable=each.writable,
            flags=each.flags,
        )
        _resume(made, each, descriptors)
        opened[each.number] = made
    preopened = {each.number: each for each in state.preopened}
    descriptors.go_on_with(opened, preopened, (state.free, state.following))
    for number, found in descriptors.opened().items():
        if found.preopened is not None and number in preopened:
            _resume(found, preopened[number], descriptors)
            found.flags = preopened[number].flags


def _resume(made: Descriptor, state: OpenState | PreopenedState, table: Descriptors) -> None:
    made.position = state.position
    made.given_up, made.given_up_below = state.given_up, state.given_up_below
    made.leave_listing()
    if state.listing is not None:
        made.listing = DirectoryListing.of(state.listing, table.upkeep)


def _node_of(state: OpenState, root: MountPoints, nodes: Sequence[MemoryNode]) -> Node:
    if state.node is not None:
        node = nodes[state.node]
        if isinstance(node, MemoryFile):
            node.account.handles += 1
        return node
    stale: Node = StaleNode(state.kind)
    if state.path is None:
        return stale
    wants_directory = state.kind is NodeKind.DIRECTORY
    opening = Opening(
        read=state.readable, write=state.writable and not wants_directory, directory=wants_directory
    )
    try:
        found = root.open(state.path or b".", opening)
    except OSError:
        return stale
    if _is_what_it_was(found, state):
        return found
    with contextlib.suppress(OSError):
        found.close()
    return stale


def _is_what_it_was(found: Node, state: OpenState) -> bool:
    try:
        seen = found.status()
    except OSError:
        return False
    if seen.kind is not state.kind or state.kind is NodeKind.DIRECTORY:
        return seen.kind is state.kind
    if isinstance(found, HostFile) and seen.inode == state.inode:
        return True
    if seen.size != state.size:
        return False
    return not isinstance(found, HostFile) or _sample(found) == state.sample is not None
