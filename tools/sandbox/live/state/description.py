"""What a snapshot's texts say, between values and JSON: everything in them is checked.

There are two: the description, with where the pages are, and the index of descriptors and files.
Ranges of pages are written as gaps and lengths, in units of `UNIT` bytes, so they ascend and never
overlap.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from ....base.errors import shown
from ....base.reading.nodes import NoJsonObject, parse_json
from ...guest_paths import MAX_DEPTH, MAX_GUEST_PATH_BYTES
from ...host.files.files import NodeKind
from ...host.preview1 import rights
from ..errors import SnapshotDamaged
from .descriptor_state import FIRST_NUMBER, DescriptorsState, OpenState, PreopenedState
from .tree_state import NameState, NodeState, TreeState

MOST_DESCRIPTION: Final = 1 << 20
MOST_INDEX: Final = 4 << 20
UNIT: Final = 4096
MEMORY_UNIT: Final = 1 << 16

_MOST_POSITION: Final = (1 << 63) - 1
_MOST_INODE: Final = (1 << 64) - 1
_MOST_NS: Final = 1 << 62
_MOST_FLAGS: Final = 0x1F
_MOST_NAME: Final = 255
_MORE_NUMBERS: Final = 64
"""How many more numbers of descriptors there may be than the guest may open: the preopened ones."""

_SAMPLE: Final = re.compile(r"[0-9a-f]{16}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


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
        return _dumped({**self._asdict(), "ranges": gaps})

    @classmethod
    def decoded(cls, data: bytes) -> SnapshotDescription:
        """Return what it says.

        Raises:
            SnapshotDamaged: It is no valid description.
        """
        given = _parsed(data, "its description")
        _require(
            set(given) == set(cls._fields), f"its description has the keys {shown(set(given))}"
        )
        memory = _whole(given["memory_size"], "the size of its memory", MEMORY_UNIT, 1 << 32)
        _require(memory % MEMORY_UNIT == 0, f"the size of its memory is {memory}")
        _require(isinstance(given["said"], dict), "what it says of its program is no object")
        return cls(
            module=_digest(given["module"]),
            library=_digest(given["library"]),
            template=_digest(given["template"]),
            memory_size=memory,
            ranges=tuple(_ranges(given["ranges"], memory)),
            monotonic_ns=_whole(given["monotonic_ns"], "its monotonic time", 0, _MOST_NS),
            wall_ns=_whole(given["wall_ns"], "its time", 0, _MOST_NS),
            index_bytes=_whole(given["index_bytes"], "the size of its index", 2, MOST_INDEX),
            content_bytes=_whole(given["content_bytes"], "the size of its files", 0, 1 << 40),
            attached_bytes=_whole(given["attached_bytes"], "what is attached", 0, 1 << 40),
            said=given["said"],
        )


def _ranges(given: object, memory: int) -> Iterator[tuple[int, int]]:
    numbers = _list(given, "its ranges of memory", memory // UNIT + 1)
    _require(len(numbers) % 2 == 0, "its last range of memory has no length")
    end = 0
    for i in range(0, len(numbers), 2):
        gap = _whole(numbers[i], "a gap between ranges", 1 if i else 0, memory // UNIT)
        length = _whole(numbers[i + 1], "the length of a range", 1, memory // UNIT)
        at = end + gap * UNIT
        end = at + length * UNIT
        _require(end <= memory, "a range of memory ends after its memory")
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
        "names": [[above, _text(name), node] for above, name, node in tree.names],
        "inodes": tree.inodes,
    }
    return _dumped(said), [*files, *(each for each in listings if each is not None)]


def _of_opened(each: OpenState) -> list[Any]:
    path = None if each.path is None else _text(each.path)
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
    return [*each[:-1], len(each.content) if is_file else _text(each.content)]


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
        SnapshotDamaged: It is no valid index, or describes more than the limits allow.
    """
    given = _parsed(data, "its index")
    keys = {"opened", "preopened", "free", "following", "nodes", "names", "inodes"}
    _require(set(given) == keys, f"its index has the keys {shown(set(given))}")
    taken = _Content(content)
    tree = _tree(given, taken, limits)
    descriptors = _descriptors(given, taken, limits, tree)
    _require(taken.at == len(content), "it has more content than files")
    named = {each.node for each in tree.names}
    held = {each.node for each in descriptors.opened}
    for number in range(1, len(tree.nodes)):
        _require(number in named or number in held, "a file has neither a name nor a descriptor")
    return descriptors, tree


class _Content:
    """Gives out content piece by piece."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def take(self, length: object, what: str) -> bytes:
        count = _whole(length, f"the size of {what}", 0, len(self._data) - self.at)
        self.at += count
        return self._data[self.at - count : self.at]


def _tree(given: Mapping[str, Any], taken: _Content, limits: StateLimits) -> TreeState:
    most = limits.workspace_files + limits.open_files + 2
    inodes = _whole(given["inodes"], "its last inode", 1, _MOST_POSITION)
    nodes = tuple(
        _node(_list(row, "a file", 7, exactly=True), inodes, taken)
        for row in _list(given["nodes"], "its files in memory", most)
    )
    _require(bool(nodes) and nodes[0].kind is NodeKind.DIRECTORY, "it has no root of its files")
    _require(len({each.inode for each in nodes}) == len(nodes), "two files have one inode")
    names, depths, known = [], {0: 0}, set()
    for row in _list(given["names"], "its names", most):
        above, text, index = _list(row, "a name", 3, exactly=True)
        above = _whole(above, "a name's directory", 0, len(nodes) - 1)
        index = _whole(index, "a name's file", 1, len(nodes) - 1)
        name = _name(text)
        _require(above in depths, "a name is in no directory that has one")
        _require((above, name) not in known, f"the name {shown(text)} occurs twice")
        known.add((above, name))
        if nodes[index].kind is NodeKind.DIRECTORY:
            _require(index not in depths, "a directory has two names")
            depths[index] = depths[above] + 1
        _require(depths[above] < MAX_DEPTH, "its directories are nested too deeply")
        names.append(NameState(above, name, index))
    return TreeState(nodes, tuple(names), inodes)


def _node(row: list[Any], inodes: int, taken: _Content) -> NodeState:
    kind = _kind(row[0], (NodeKind.DIRECTORY, NodeKind.REGULAR, NodeKind.LINK))
    inode = _whole(row[1], "an inode", 1, inodes)
    times = [_whole(each, "a file's time", 0, _MOST_POSITION) for each in row[2:5]]
    counted = _flag(row[5], "whether a file counts")
    _require(counted or kind is NodeKind.DIRECTORY, "a file does not count")
    if kind is NodeKind.REGULAR:
        content = taken.take(row[6], "a file")
    else:
        content = _path(row[6], "a link's target")
        _require(not content.startswith(b"/"), "a link's target is absolute")
        _require(bool(content) is (kind is NodeKind.LINK), "a link has no target")
    return NodeState(kind, inode, times[0], times[1], times[2], counted, content)


def _descriptors(
    given: Mapping[str, Any], taken: _Content, limits: StateLimits, tree: TreeState
) -> DescriptorsState:
    most, files_end = limits.open_files + _MORE_NUMBERS, taken.at
    following = _whole(given["following"], "the next descriptor", FIRST_NUMBER + 1, most)
    opened = tuple(
        _opened(_list(row, "a descriptor", 14, exactly=True), following, taken, tree)
        for row in _list(given["opened"], "its descriptors", limits.open_files)
    )
    preopened = tuple(
        _preopened(_list(row, "a descriptor", 6, exactly=True), following, taken)
        for row in _list(given["preopened"], "its directories", _MORE_NUMBERS)
    )
    free = tuple(
        _number(each, following) for each in _list(given["free"], "its free numbers", most)
    )
    _require(taken.at - files_end <= limits.host_bytes, "its listings are too long")
    numbers = [*(each.number for each in opened), *(each.number for each in preopened), *free]
    _require(len(set(numbers)) == len(numbers), "two descriptors have one number")
    return DescriptorsState(opened, preopened, free, following)


def _opened(row: list[Any], following: int, taken: _Content, tree: TreeState) -> OpenState:
    kind = _kind(row[1], (NodeKind.DIRECTORY, NodeKind.REGULAR))
    path = None if row[2] is None else _path(row[2], "a descriptor's path")
    node = None
    if row[3] is not None:
        node = _whole(row[3], "a descriptor's file", 0, len(tree.nodes) - 1)
        _require(path is None, "a descriptor has a path and a file")
        _require(tree.nodes[node].kind is kind, "a descriptor is of another kind than its file")
    return OpenState(
        number=_number(row[0], following),
        kind=kind,
        path=path,
        node=node,
        size=_whole(row[4], "a size", 0, _MOST_POSITION),
        sample=None if row[5] is None else _sample(row[5]),
        inode=_whole(row[6], "an inode", 0, _MOST_INODE),
        position=_position(row[7]),
        flags=_whole(row[8], "a descriptor's flags", 0, _MOST_FLAGS),
        readable=_flag(row[9], "whether a descriptor is readable"),
        writable=_flag(row[10], "whether a descriptor is writable"),
        given_up=_whole(row[11], "given up rights", 0, rights.ALL),
        given_up_below=_whole(row[12], "given up rights", 0, rights.ALL),
        listing=None if row[13] is None else taken.take(row[13], "a listing"),
    )


def _preopened(row: list[Any], following: int, taken: _Content) -> PreopenedState:
    return PreopenedState(
        number=_number(row[0], following),
        position=_position(row[1]),
        flags=_whole(row[2], "a descriptor's flags", 0, _MOST_FLAGS),
        given_up=_whole(row[3], "given up rights", 0, rights.ALL),
        given_up_below=_whole(row[4], "given up rights", 0, rights.ALL),
        listing=None if row[5] is None else taken.take(row[5], "a listing"),
    )


# ---------------------------------------------------------------- single values


def _dumped(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def _parsed(data: bytes, what: str) -> dict[str, Any]:
    try:
        return parse_json(data)
    except NoJsonObject as error:
        raise SnapshotDamaged(f"{what} cannot be read: {error}") from error


def _require(condition: bool, fault: str) -> None:
    if not condition:
        raise SnapshotDamaged(fault)


def _whole(value: object, what: str, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise SnapshotDamaged(f"{what} is {shown(value)}")
    return value


def _number(value: object, following: int) -> int:
    return _whole(value, "a descriptor's number", FIRST_NUMBER, following - 1)


def _position(value: object) -> int:
    return _whole(value, "a descriptor's position", 0, _MOST_POSITION)


def _flag(value: object, what: str) -> bool:
    _require(isinstance(value, bool), f"{what} is {shown(value)}")
    return bool(value)


def _kind(value: object, allowed: Sequence[NodeKind]) -> NodeKind:
    _require(type(value) is int and value in allowed, f"the kind of a file is {shown(value)}")
    return NodeKind(value)  # type: ignore[arg-type]


def _list(value: object, what: str, most: int, *, exactly: bool = False) -> list[Any]:
    if not isinstance(value, list):
        raise SnapshotDamaged(f"{what} is {shown(value)}")
    _require(len(value) <= most, f"{what}: {len(value)}, at most {most} are allowed")
    _require(not exactly or len(value) == most, f"{what} has {len(value)} fields, not {most}")
    return value


def _sample(value: object) -> bytes:
    if not isinstance(value, str) or not _SAMPLE.fullmatch(value):
        raise SnapshotDamaged(f"a file's sample is {shown(value)}")
    return bytes.fromhex(value)


def _digest(value: object) -> str:
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise SnapshotDamaged(f"a digest is {shown(value)}")
    return value


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _path(value: object, what: str) -> bytes:
    found = b""
    if isinstance(value, str):
        try:
            found = value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            value = None
    if not isinstance(value, str) or len(found) > MAX_GUEST_PATH_BYTES or b"\0" in found:
        raise SnapshotDamaged(f"{what} is {shown(value)}")
    return found


def _name(value: object) -> bytes:
    found = _path(value, "a name")
    wrong = b"/" in found or found in (b"", b".", b"..") or len(found) > _MOST_NAME
    _require(not wrong, f"a name is {shown(value)}")
    return found
