"""Checks of single values in a snapshot's texts; each raises `ProgramSnapshotDamaged`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ....base.errors import shown
from ....base.reading.nodes import NoJsonObject, parse_json
from ...guest_paths import MAX_GUEST_PATH_BYTES
from ...host.files.files import NodeKind
from ..errors import ProgramSnapshotDamaged
from .descriptor_state import FIRST_NUMBER

MOST_POSITION: Final = (1 << 63) - 1

_MOST_NAME: Final = 255
_SAMPLE: Final = re.compile(r"[0-9a-f]{16}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def dump(value: Mapping[str, Any]) -> bytes:
    """Return an object as JSON."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def parse(data: bytes, what: str) -> dict[str, Any]:
    """Return the object of a JSON text."""
    try:
        return parse_json(data)
    except NoJsonObject as error:
        raise ProgramSnapshotDamaged(f"{what} cannot be read: {error}") from error


def require(condition: bool, fault: str) -> None:
    """Refuse a fault."""
    if not condition:
        raise ProgramSnapshotDamaged(fault)


def whole(value: object, what: str, least: int, most: int) -> int:
    """Return a whole number within bounds."""
    if type(value) is not int or not least <= value <= most:
        raise ProgramSnapshotDamaged(f"{what} is {shown(value)}")
    return value


def number(value: object, following: int) -> int:
    """Return a descriptor's number."""
    return whole(value, "a descriptor's number", FIRST_NUMBER, following - 1)


def position(value: object) -> int:
    """Return a descriptor's position."""
    return whole(value, "a descriptor's position", 0, MOST_POSITION)


def flag(value: object, what: str) -> bool:
    """Return a boolean."""
    require(isinstance(value, bool), f"{what} is {shown(value)}")
    return bool(value)


def kind(value: object, allowed: Sequence[NodeKind]) -> NodeKind:
    """Return a node's kind, one of those allowed."""
    require(type(value) is int and value in allowed, f"the kind of a file is {shown(value)}")
    return NodeKind(value)  # type: ignore[arg-type]


def rows(value: object, what: str, most: int, *, exactly: bool = False) -> list[Any]:
    """Return a list of at most, or exactly, this many values."""
    if not isinstance(value, list):
        raise ProgramSnapshotDamaged(f"{what} is {shown(value)}")
    require(len(value) <= most, f"{what}: {len(value)}, at most {most} are allowed")
    require(not exactly or len(value) == most, f"{what} has {len(value)} fields, not {most}")
    return value


def sample(value: object) -> bytes:
    """Return the digest of a file's start and end."""
    if not isinstance(value, str) or not _SAMPLE.fullmatch(value):
        raise ProgramSnapshotDamaged(f"a file's sample is {shown(value)}")
    return bytes.fromhex(value)


def digest(value: object) -> str:
    """Return a SHA-256 in hexadecimal digits."""
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise ProgramSnapshotDamaged(f"a digest is {shown(value)}")
    return value


def text_of(path: bytes) -> str:
    """Return a path as text; `path` returns it again."""
    return path.decode("utf-8", "surrogateescape")


def path(value: object, what: str) -> bytes:
    """Return a path of the length that a guest may use."""
    found = b""
    if isinstance(value, str):
        try:
            found = value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            value = None
    if not isinstance(value, str) or len(found) > MAX_GUEST_PATH_BYTES or b"\0" in found:
        raise ProgramSnapshotDamaged(f"{what} is {shown(value)}")
    return found


def name(value: object) -> bytes:
    """Return one name of a path."""
    found = path(value, "a name")
    wrong = b"/" in found or found in (b"", b".", b"..") or len(found) > _MOST_NAME
    require(not wrong, f"a name is {shown(value)}")
    return found
