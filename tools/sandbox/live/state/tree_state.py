"""The files that a guest has in memory, as values: `/tmp`, and open files without a name."""

from __future__ import annotations

from typing import Final, NamedTuple

from ...host.files.files import NodeKind
from ...host.files.memory_files import MemoryDirectory, MemoryFile, MemoryLink, MemoryTree
from ...host.files.memory_nodes import OF_A_NAME, OF_A_NODE, MemoryNode


class NodeState(NamedTuple):
    """A file, directory or link in memory.

    Attributes:
        kind: What it is.
        inode: Its inode number.
        accessed: When it was last read, in nanoseconds; modified and changed likewise.
        modified: When its content last changed.
        changed: When its status last changed.
        counted: Whether it counts against the quota, as everything does that the guest made.
        content: A file's bytes, a link's target; else empty.
    """

    kind: NodeKind
    inode: int
    accessed: int
    modified: int
    changed: int
    counted: bool
    content: bytes = b""


class NameState(NamedTuple):
    """A name: the directory that it is in, the name there, and its node; nodes by index."""

    directory: int
    name: bytes
    node: int


class TreeState(NamedTuple):
    """A tree in memory.

    Attributes:
        nodes: Its nodes; the first is the root.
        names: Their names, each after that of its directory.
        inodes: The last inode number given out.
    """

    nodes: tuple[NodeState, ...]
    names: tuple[NameState, ...]
    inodes: int


EMPTY: Final = TreeState((NodeState(NodeKind.DIRECTORY, 1, 0, 0, 0, False),), (), 1)


class TreeCapture:
    """Collects the state of a tree.

    Args:
        tree: The tree; nodes without a name are added by `index_of`.
    """

    def __init__(self, tree: MemoryTree) -> None:
        self._tree = tree
        self._nodes: list[NodeState] = []
        self._names: list[NameState] = []
        self._indexes: dict[int, int] = {}
        here = [tree.root]
        self.index_of(tree.root)
        while here:
            directory = here.pop()
            for name, node in directory.names.items():
                self._names.append(NameState(self.index_of(directory), name, self.index_of(node)))
                if isinstance(node, MemoryDirectory):
                    here.append(node)

    def index_of(self, node: MemoryNode) -> int:
        """Return a node's index; a new one is added."""
        found = self._indexes.get(id(node))
        if found is None:
            found = self._indexes[id(node)] = self.add(_state_of(node))
        return found

    def add(self, state: NodeState) -> int:
        """Add a node without a name; return its index."""
        self._nodes.append(state)
        return len(self._nodes) - 1

    def add_file(self, content: bytes) -> int:
        """Add a file without a name that is not of the tree; return its index."""
        now = self._tree.now_ns()
        inode = self._tree.next_inode()
        return self.add(NodeState(NodeKind.REGULAR, inode, now, now, now, True, content))

    def state(self) -> TreeState:
        """Return all of it."""
        return TreeState(tuple(self._nodes), tuple(self._names), self._tree.last_inode)


def _state_of(node: MemoryNode) -> NodeState:
    content = b""
    if isinstance(node, MemoryFile):
        content = node.content
    elif isinstance(node, MemoryLink):
        content = node.target
    return NodeState(
        node.kind,
        node.inode,
        node.accessed,
        node.modified,
        node.changed,
        node.held > 0,
        content,
    )


def fill(tree: MemoryTree, state: TreeState) -> list[MemoryNode]:
    """Replace a tree's content by a state; return its nodes in order.

    The files count against the tree's quota, whatever its limits.
    """
    tree.root.clear()
    nodes = [_resumed(tree.root, state.nodes[0])]
    nodes += [_resumed(_made(tree, each), each) for each in state.nodes[1:]]
    for directory, name, index in state.names:
        node, above = nodes[index], nodes[directory]
        assert isinstance(above, MemoryDirectory)  # noqa: S101 (checked with the description)
        above.names[name] = node
        node.links += 1
        path = above.path(name)
        if isinstance(node, MemoryDirectory):
            node.above, node.name = above, name
        elif isinstance(node, MemoryFile):
            node.account.names += 1
            node.account.path = node.account.path or path
        if state.nodes[index].counted:
            _hold(node, path)
    for each in nodes:
        if isinstance(each, MemoryFile) and each.links == 0:  # a descriptor refers to it
            _hold(each, b"")
            tree.unnamed.add(each)
    tree.last_inode = state.inodes
    tree.count()
    return nodes


def _made(tree: MemoryTree, state: NodeState) -> MemoryNode:
    """Return a new node without a name."""
    node: MemoryNode
    if state.kind is NodeKind.DIRECTORY:
        node = MemoryDirectory(tree, None, b"")
    elif state.kind is NodeKind.LINK:
        node = MemoryLink(tree, state.content)
    else:
        node = file = MemoryFile(tree, b"")
        file.content = state.content
        file.account.path, file.account.names = None, 0
    node.links = 0
    return node


def _resumed(node: MemoryNode, state: NodeState) -> MemoryNode:
    node.inode = state.inode
    node.accessed, node.modified, node.changed = state.accessed, state.modified, state.changed
    return node


def _hold(node: MemoryNode, path: bytes) -> None:
    """Reserve the memory for a name of a node, whatever the limits."""
    if node.held and isinstance(node, MemoryFile):
        count = OF_A_NAME
    else:
        count = OF_A_NODE + (len(path) if isinstance(node, MemoryFile) else 0)
    node.held += count
    node.tree.upkeep.held += count
