"""The messages between the host and a worker process: length-prefixed frames.

The host's messages are trusted and pickled. The worker may have been taken over by what it runs, so
it answers in JSON, of which only known fields of known types are read.
"""

# No deferred annotations here: as strings, each field's would have to be compiled.

import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from attrs import asdict, fields

from ..executor import SandboxSettings
from ..policy import ExecutionPolicy
from ..result import TRAPS, SandboxResult
from ..result_parts import LostWrite

HEADER: Final = struct.Struct(">Q")

_TUPLES: Final = ("truncated_streams", "quota_exceeded")


class ServedSandbox(NamedTuple):
    """The arguments of a sandbox's executor; see `executor.Executor`."""

    workspace: Path
    policy: ExecutionPolicy
    settings: SandboxSettings


class BadMessage(Exception):
    """The worker violated the protocol."""


def frame(data: bytes) -> bytes:
    """Return a message in the form in which it is sent."""
    return HEADER.pack(len(data)) + data


class FrameReader:
    """Assembles received bytes into messages."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """Add received bytes.

        Raises:
            BadMessage: A frame announces more than the limit.
        """
        self._data += data
        if len(self._data) >= HEADER.size and self._length() > self._limit:
            raise BadMessage("a message is longer than any answer")

    def next(self) -> bytes | None:
        """Return the next complete message, or None until more is received."""
        if len(self._data) < HEADER.size or len(self._data) < HEADER.size + self._length():
            return None
        end = HEADER.size + self._length()
        message = bytes(self._data[HEADER.size : end])
        del self._data[:end]
        return message

    def _length(self) -> int:
        (length,) = HEADER.unpack_from(self._data)
        return int(length)


def decode_answer(data: bytes) -> dict[str, Any]:
    """Decode a worker's message.

    Raises:
        BadMessage: The data is not a message.
    """
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadMessage("a message is no JSON") from error
    if not isinstance(answer, dict) or not isinstance(answer.get("kind"), str):
        raise BadMessage("a message has no kind")
    return answer


def encode_result(result: SandboxResult) -> dict[str, Any]:
    """Convert a result for JSON, without what the host knows itself."""
    said = {name: getattr(result, name) for name in _CHECKS}
    return {**said, "lost_writes": [asdict(lost) for lost in result.lost_writes]}


def decode_result(said: object, workspace: Path) -> SandboxResult:
    """Convert a result from JSON; its execution called no host functions.

    Raises:
        BadMessage: A field is missing or of another type.
    """
    if not isinstance(said, dict):
        raise BadMessage("a result is no object")
    found: dict[str, Any] = {name: said.get(name) for name in _CHECKS}
    for name, is_right in _CHECKS.items():
        if not is_right(found[name]):
            raise BadMessage(f"a result's {name} is missing or of another kind")
        if type(found[name]) is list:
            found[name] = tuple(found[name])
    found["lost_writes"] = tuple(LostWrite(**lost) for lost in found["lost_writes"])
    found["metadata"] = {
        name: tuple(value) if name in _TUPLES and isinstance(value, list) else value
        for name, value in found["metadata"].items()
    }
    return SandboxResult(
        success=found["exit_code"] == 0 and not found["lost_writes"],
        workspace_path=workspace,
        **found,
    )


def _is_optional_integer(value: object) -> bool:
    return value is None or type(value) is int


def _are_texts(value: object) -> bool:
    return type(value) is list and all(type(text) is str for text in value)


def _are_lost_writes(value: object) -> bool:
    names = {attribute.name for attribute in fields(LostWrite)}
    return type(value) is list and all(
        isinstance(lost, dict)
        and set(lost) == names
        and all(type(text) is str for text in lost.values())
        for lost in value
    )


_CHECKS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "stdout": lambda value: type(value) is str,
    "stderr": lambda value: type(value) is str,
    "exit_code": _is_optional_integer,
    "trapped": lambda value: value is None or value in TRAPS,
    "fuel_consumed": _is_optional_integer,
    "memory_peak": _is_optional_integer,
    "duration_s": lambda value: type(value) is float,
    "files_created": _are_texts,
    "files_modified": _are_texts,
    "files_deleted": _are_texts,
    "truncated": lambda value: type(value) is bool,
    "lost_writes": _are_lost_writes,
    "metadata": lambda value: type(value) is dict,
}
"""The fields that are sent, each with a check of its value."""
