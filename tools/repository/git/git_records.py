"""Git's lists as values: entries of trees and of the index, and differences between trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from attrs import frozen

GITLINK: Final = "160000"
LINK: Final = "120000"
EXECUTABLE: Final = "100755"
_NONE: Final = "000000"


@frozen
class Leaf:
    """The entry of a tree or an index at a path.

    Attributes:
        mode: The mode, in six octal digits.
        oid: The object's id.
    """

    mode: str
    oid: str

    @property
    def is_submodule(self) -> bool:
        """Whether it is a commit of another repository."""
        return self.mode == GITLINK


@frozen
class Difference:
    """A path that differs between two trees.

    Attributes:
        path: The path, as git has it.
        old: Its entry in the first tree, or None.
        new: Its entry in the second, or None.
    """

    path: bytes
    old: Leaf | None
    new: Leaf | None


@frozen
class IndexEntry:
    """A path of an index.

    Attributes:
        leaf: Its mode and object.
        skipped: Whether it is marked skip-worktree, as paths outside a sparse checkout are.
        stage: 0, or the side of a conflict.
    """

    leaf: Leaf
    skipped: bool = False
    stage: int = 0


def parse_differences(output: bytes) -> list[Difference]:
    """Parse the output of `diff-tree -r -z --no-renames`."""
    fields = iter(output.split(b"\0"))
    return list(_differences(fields))


def _differences(fields: Iterator[bytes]) -> Iterator[Difference]:
    for head in fields:
        if head.startswith(b":"):
            old_mode, new_mode, old, new, _ = head[1:].decode("ascii").split(" ")
            yield Difference(next(fields), _leaf(old_mode, old), _leaf(new_mode, new))


def _leaf(mode: str, oid: str) -> Leaf | None:
    return None if mode == _NONE else Leaf(mode, oid)


def parse_index(output: bytes) -> Iterator[tuple[bytes, IndexEntry]]:
    """Parse the output of `ls-files -s -v -z`."""
    for line in output.split(b"\0")[:-1]:
        head, path = line.split(b"\t", 1)
        tag, mode, oid, stage = head.decode("ascii").split(" ")
        yield path, IndexEntry(Leaf(mode, oid), tag in {"S", "s"}, int(stage))


def parse_attributes(output: bytes) -> dict[bytes, dict[str, str]]:
    """Parse the output of `check-attr -z`: for each path, its attributes."""
    found: dict[bytes, dict[str, str]] = {}
    fields = output.split(b"\0")[:-1]
    for path, name, value in zip(fields[::3], fields[1::3], fields[2::3], strict=True):
        found.setdefault(path, {})[name.decode()] = value.decode("utf-8", "surrogateescape")
    return found


def index_lines(changes: Mapping[bytes, Leaf | None], id_length: int) -> bytes:
    """Return the input of `update-index -z --index-info`, removals before additions.

    Args:
        changes: The paths, and their new entries.
        id_length: The number of digits of an object's id.
    """
    gone = [path for path, leaf in changes.items() if leaf is None]
    kept = [(path, leaf) for path, leaf in changes.items() if leaf is not None]
    lines = [b"0 " + b"0" * id_length + b"\t" + path for path in gone]
    lines += [f"{leaf.mode} {leaf.oid}\t".encode() + path for path, leaf in kept]
    return joined(lines)


def joined(names: Sequence[bytes]) -> bytes:
    """Return names as git's `-z` options read them."""
    return b"".join(one + b"\0" for one in names)
