"""What a snapshot's texts say, between values and JSON: everything in them is checked.

There are two: the description, with where the pages are, and the index of descriptors and files.
Ranges of pages are written as gaps and lengths, in units of `UNIT` bytes, so they ascend and never
overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from ....base.errors import shown
from ...guest_paths import MAX_DEPTH
from ...host.files.files import NodeKind
from ...host.preview1 import rights
from . import checks
from .descriptor_state import FIRST_NUMBER, DescriptorsState, OpenState, PreopenedState
from .tree_state import NameState, NodeState, TreeState

MOST_DESCRIPTION: Final = 1 << 20
MOST_INDEX: Final = 4 << 20
UNIT: Final = 4096
MEMORY_UNIT: Final = 1 << 16

_MOST_INODE: Final = (1 << 64) - 1
_MOST_NS: Final = 1 << 62
_MOST_FLAGS: Final = 0x1F
_MORE_NUMBERS: Final = 64
"""How many more numbers of descriptors there may be than the guest may open: the preopened ones."""


class StateLimits(Protocol):
    """What a restored guest may have; an `ExecutionPolicy` says it."""

    @property
    def memory_bytes(self) -> int:
        """The most memory."""

    @property
    def open_files(self) -> int:
        """The most open files and directories."""

    @property
    def temporary_bytes(self) -> int:
        """The most bytes of files in memory."""

    @property
    def workspace_files(self) -> int:
        """The most files and directories in `/tmp`."""

    @property
    def host_bytes(self) -> int:
        """The most host memory for listings."""


class SnapshotDescription(NamedTuple):
    """What a snapshot says of itself.

    Attributes:
        module: The digest of the interpreter's module.
        library: The digest of its standard library.
        template: The digest of the template.
        memory_size: The size of the memory.
        ranges: Where it differs from the template: offsets and sizes.
        monotonic_ns: The guest's monotonic time.
        wall_ns: The wall clock at that moment.
        index_bytes: The size of the index.
        content_bytes: The size of what follows it: the content of files and listings.
        attached_bytes: The size of what the program's host attached.
        said: What the program's host says of it; checked by its reader.
    """

    module: str
    library: str
    template: str
    memory_size: int
    ranges: tuple[tuple[int, int], ...]
    monotonic_ns: int
    wall_ns: int
    index_bytes: int
    content_bytes: int
    attached_bytes: int
    said: Mapping[str, Any]

    @property
    def page_bytes(self) -> int:
        """How many bytes of memory it carries."""
        return sum(length for _, length in self.ranges)

    def encoded(self) -> bytes:
        """Return it as JSON."""
        gaps, end = [], 0
        for at, length in self.ranges:
            gaps += [(at - end) // UNIT, length // UNIT]
            end = at + length
        return checks.dump({**self._asdict(), "ranges": gaps})

    @classmethod
    def decoded(cls, data: bytes) -> SnapshotDescription:
        """Return what it says.

        Raises:
            ProgramSnapshotDamaged: It is no valid description.
        """
        given = checks.parse(data, "its description")
        checks.require(
            set(given) == set(cls._fields), f"its description has the keys {shown(set(given))}"
        )
        memory = checks.whole(given["memory_size"], "the size of its memory", MEMORY_UNIT, 1 << 32)
        checks.require(memory % MEMORY_UNIT == 0, f"the size of its memory is {memory}")
        checks.require(isinstance(given["said"], dict), "what it says of its program is no object")
        return cls(
            module=checks.digest(given["module"]),
            library=checks.digest(given["library"]),
            template=checks.digest(given["template"]),
            memory_size=memory,
            ranges=tuple(_ranges(given["ranges"], memory)),
            monotonic_ns=checks.whole(given["monotonic_ns"], "its monotonic time", 0, _MOST_NS),
            wall_ns=checks.whole(given["wall_ns"], "its time", 0, _MOST_NS),
            index_bytes=checks.whole(given["index_bytes"], "the size of its index", 2, MOST_INDEX),
            content_bytes=checks.whole(given["content_bytes"], "the size of its files", 0, 1 << 40),
            attached_bytes=checks.whole(given["attached_bytes"], "what is attached", 0, 1 << 40),
            said=given["said"],
        )


def _ranges(given: object, memory: int) -> Iterator[tuple[int, int]]:
    numbers = checks.rows(given, "its ranges of memory", memory // UNIT + 1)
    checks.require(len(numbers) % 2 == 0, "its last range of memory has no length")
    end = 0
    for i in range(0, len(numbers), 2):
        gap = checks.whole(numbers[i], "a gap between ranges", 1 if i else 0, memory // UNIT)
        length = checks.whole(numbers[i + 1], "the length of a range", 1, memory // UNIT)
        at = end + gap * UNIT
        end = at + length * UNIT
        checks.require(end <= memory, "a range of memory ends after its memory")
        yield at, length * UNIT


# ---------------------------------------------------------------- the index


def encode_index(descriptors: DescriptorsState, tree: TreeState) -> tuple[bytes, list[bytes]]:
    """Return the index of descriptors and files in memory, and the content that it describes."""
    listings = [each.listing for each in descriptors.opened]
    listings += [each.listing for each in descriptors.preopened]
    files = [each.content for each in tree.nodes if each.kind is NodeKind.REGULAR]
    said = {
        "opened": [_of_opened(each) for each in descriptors.opened],
        "preopened": [[*each[:-1], _length(each.listing)] for each in descriptors.preopened],
        "free": descriptors.free,
        "following": descriptors.following,
        "nodes": [_of_node(each) for each in tree.nodes],
        "names": [[above, checks.text_of(name), node] for above, name, node in tree.names],
        "inodes": tree.inodes,
    }
    return checks.dump(said), [*files, *(each for each in listings if each is not None)]


def _of_opened(each: OpenState) -> list[Any]:
    path = None if each.path is None else checks.text_of(each.path)
    sample = None if each.sample is None else each.sample.hex()
    return [
        each.number,
        each.kind,
        path,
        each.node,
        each.size,
        sample,
        *each[6:-1],
        _length(each.listing),
    ]


def _of_node(each: NodeState) -> list[Any]:
    is_file = each.kind is NodeKind.REGULAR
    return [*each[:-1], len(each.content) if is_file else checks.text_of(each.content)]


def _length(listing: bytes | None) -> int | None:
    return None if listing is None else len(listing)


def decode_index(
    data: bytes, content: bytes, limits: StateLimits
) -> tuple[DescriptorsState, TreeState]:
    """Return the descriptors and the files in memory.

    Args:
        data: The index.
        content: The content of files and listings.
        limits: What the guest may have.

    Raises:
        ProgramSnapshotDamaged: It is no valid index, or describes more than the limits allow.
    """
    given = checks.parse(data, "its index")
    keys = {"opened", "preopened", "free", "following", "nodes", "names", "inodes"}
    checks.require(set(given) == keys, f"its index has the keys {shown(set(given))}")
    taken = _Content(content)
    tree = _tree(given, taken, limits)
    descriptors = _descriptors(given, taken, limits, tree)
    checks.require(taken.at == len(content), "it has more content than files")
    named = {each.node for each in tree.names}
    held = {each.node for each in descriptors.opened}
    for number in range(1, len(tree.nodes)):
        checks.require(
            number in named or number in held, "a file has neither a name nor a descriptor"
        )
    return descriptors, tree


class _Content:
    """Gives out content piece by piece."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def take(self, length: object, what: str) -> bytes:
        count = checks.whole(length, f"the size of {what}", 0, len(self._data) - self.at)
        self.at += count
        return self._data[self.at - count : self.at]


def _tree(given: Mapping[str, Any], taken: _Content, limits: StateLimits) -> TreeState:
    most = limits.workspace_files + limits.open_files + 2
    inodes = checks.whole(given["inodes"], "its last inode", 1, checks.MOST_POSITION)
    nodes = tuple(
        _node(checks.rows(row, "a file", 7, exactly=True), inodes, taken)
        for row in checks.rows(given["nodes"], "its files in memory", most)
    )
    checks.require(
        bool(nodes) and nodes[0].kind is NodeKind.DIRECTORY, "it has no root of its files"
    )
    checks.require(len({each.inode for each in nodes}) == len(nodes), "two files have one inode")
    names, depths, known = [], {0: 0}, set()
    for row in checks.rows(given["names"], "its names", most):
        above, text, index = checks.rows(row, "a name", 3, exactly=True)
        above = checks.whole(above, "a name's directory", 0, len(nodes) - 1)
        index = checks.whole(index, "a name's file", 1, len(nodes) - 1)
        name = checks.name(text)
        checks.require(above in depths, "a name is in no directory that has one")
        checks.require((above, name) not in known, f"the name {shown(text)} occurs twice")
        known.add((above, name))
        if nodes[index].kind is NodeKind.DIRECTORY:
            checks.require(index not in depths, "a directory has two names")
            depths[index] = depths[above] + 1
        checks.require(depths[above] < MAX_DEPTH, "its directories are nested too deeply")
        names.append(NameState(above, name, index))
    return TreeState(nodes, tuple(names), inodes)


def _node(row: list[Any], inodes: int, taken: _Content) -> NodeState:
    kind = checks.kind(row[0], (NodeKind.DIRECTORY, NodeKind.REGULAR, NodeKind.LINK))
    inode = checks.whole(row[1], "an inode", 1, inodes)
    times = [checks.whole(each, "a file's time", 0, checks.MOST_POSITION) for each in row[2:5]]
    counted = checks.flag(row[5], "whether a file counts")
    checks.require(counted or kind is NodeKind.DIRECTORY, "a file does not count")
    if kind is NodeKind.REGULAR:
        content = taken.take(row[6], "a file")
    else:
        content = checks.path(row[6], "a link's target")
        checks.require(not content.startswith(b"/"), "a link's target is absolute")
        checks.require(bool(content) is (kind is NodeKind.LINK), "a link has no target")
    return NodeState(kind, inode, times[0], times[1], times[2], counted, content)


def _descriptors(
    given: Mapping[str, Any], taken: _Content, limits: StateLimits, tree: TreeState
) -> DescriptorsState:
    most, files_end = limits.open_files + _MORE_NUMBERS, taken.at
    following = checks.whole(given["following"], "the next descriptor", FIRST_NUMBER + 1, most)
    opened = tuple(
        _opened(checks.rows(row, "a descriptor", 14, exactly=True), following, taken, tree)
        for row in checks.rows(given["opened"], "its descriptors", limits.open_files)
    )
    preopened = tuple(
        _preopened(checks.rows(row, "a descriptor", 6, exactly=True), following, taken)
        for row in checks.rows(given["preopened"], "its directories", _MORE_NUMBERS)
    )
    free = tuple(
        checks.number(each, following)
        for each in checks.rows(given["free"], "its free numbers", most)
    )
    checks.require(taken.at - files_end <= limits.host_bytes, "its listings are too long")
    numbers = [*(each.number for each in opened), *(each.number for each in preopened), *free]
    checks.require(len(set(numbers)) == len(numbers), "two descriptors have one number")
    return DescriptorsState(opened, preopened, free, following)


def _opened(row: list[Any], following: int, taken: _Content, tree: TreeState) -> OpenState:
    kind = checks.kind(row[1], (NodeKind.DIRECTORY, NodeKind.REGULAR))
    path = None if row[2] is None else checks.path(row[2], "a descriptor's path")
    node = None
    if row[3] is not None:
        node = checks.whole(row[3], "a descriptor's file", 0, len(tree.nodes) - 1)
        checks.require(path is None, "a descriptor has a path and a file")
        checks.require(
            tree.nodes[node].kind is kind, "a descriptor is of another kind than its file"
        )
    return OpenState(
        number=checks.number(row[0], following),
        kind=kind,
        path=path,
        node=node,
        size=checks.whole(row[4], "a size", 0, checks.MOST_POSITION),
        sample=None if row[5] is None else checks.sample(row[5]),
        inode=checks.whole(row[6], "an inode", 0, _MOST_INODE),
        position=checks.position(row[7]),
        flags=checks.whole(row[8], "a descriptor's flags", 0, _MOST_FLAGS),
        readable=checks.flag(row[9], "whether a descriptor is readable"),
        writable=checks.flag(row[10], "whether a descriptor is writable"),
        given_up=checks.whole(row[11], "given up rights", 0, rights.ALL),
        given_up_below=checks.whole(row[12], "given up rights", 0, rights.ALL),
        listing=None if row[13] is None else taken.take(row[13], "a listing"),
    )


def _preopened(row: list[Any], following: int, taken: _Content) -> PreopenedState:
    return PreopenedState(
        number=checks.number(row[0], following),
        position=checks.position(row[1]),
        flags=checks.whole(row[2], "a descriptor's flags", 0, _MOST_FLAGS),
        given_up=checks.whole(row[3], "given up rights", 0, rights.ALL),
        given_up_below=checks.whole(row[4], "given up rights", 0, rights.ALL),
        listing=None if row[5] is None else taken.take(row[5], "a listing"),
    )
