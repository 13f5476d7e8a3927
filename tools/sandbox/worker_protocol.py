"""What the host and a worker process say to each other: frames of a length and a text.

The host sends what it trusts itself; the worker, which may have been taken over by what it runs,
answers in JSON, of which only known fields of known kinds are read.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attrs import asdict, fields

from .result import TRAPS, LostWrite, SandboxResult, ToolCallRecord

HEADER: Final = struct.Struct(">Q")

_TUPLES: Final = ("truncated_streams", "quota_exceeded", "file_faults")


class BadMessage(Exception):
    """The worker said something outside the protocol."""


def frame(data: bytes) -> bytes:
    """One message as it is sent."""
    return HEADER.pack(len(data)) + data


class FrameReader:
    """Puts received bytes together to messages."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """Take received bytes.

        Raises:
            BadMessage: A message is announced that is longer than the limit.
        """
        self._data += data
        if len(self._data) >= HEADER.size and self._length() > self._limit:
            raise BadMessage("a message is longer than any answer")

    def next(self) -> bytes | None:
        """The next whole message, or None until more is received."""
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
    """A worker's message.

    Raises:
        BadMessage: It is none.
    """
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadMessage("a message is no JSON") from error
    if not isinstance(answer, dict) or not isinstance(answer.get("kind"), str):
        raise BadMessage("a message has no kind")
    return answer


def encode_result(result: SandboxResult) -> dict[str, Any]:
    """A result for JSON, without what the host knows itself."""
    return {
        "stdout": result.stdout,
        "stderr": result.stderr,
        "exit_code": result.exit_code,
        "trapped": result.trapped,
        "fuel_consumed": result.fuel_consumed,
        "memory_peak": result.memory_peak,
        "duration_s": result.duration_s,
        "files_created": result.files_created,
        "files_modified": result.files_modified,
        "files_deleted": result.files_deleted,
        "truncated": result.truncated,
        "lost_writes": [asdict(lost) for lost in result.lost_writes],
        "metadata": dict(result.metadata),
    }


def decode_result(
    said: object, workspace: Path, tool_calls: tuple[ToolCallRecord, ...] = ()
) -> SandboxResult:
    """A result from JSON.

    Raises:
        BadMessage: A field is missing or of another kind.
    """
    if not isinstance(said, dict):
        raise BadMessage("a result is no object")
    exit_code = _optional(said, "exit_code", int)
    trapped = said.get("trapped")
    if trapped is not None and trapped not in TRAPS:
        raise BadMessage("a result has an unknown trap")
    metadata = _field(said, "metadata", dict)
    lost = _lost_writes(said)
    return SandboxResult(
        success=exit_code == 0 and not lost,
        stdout=_field(said, "stdout", str),
        stderr=_field(said, "stderr", str),
        exit_code=exit_code,
        trapped=trapped,
        fuel_consumed=_optional(said, "fuel_consumed", int),
        memory_peak=_optional(said, "memory_peak", int),
        duration_s=float(_field(said, "duration_s", float)),
        files_created=_paths(said, "files_created"),
        files_modified=_paths(said, "files_modified"),
        files_deleted=_paths(said, "files_deleted"),
        truncated=_field(said, "truncated", bool),
        workspace_path=workspace,
        metadata={
            name: tuple(value) if name in _TUPLES and isinstance(value, list) else value
            for name, value in metadata.items()
        },
        tool_calls=tool_calls,
        lost_writes=lost,
    )


def _field(said: Mapping[str, Any], name: str, kind: type) -> Any:
    value = said.get(name)
    if type(value) is not kind:
        raise BadMessage(f"a result's {name} is no {kind.__name__}")
    return value


def _optional(said: Mapping[str, Any], name: str, kind: type) -> Any:
    return None if said.get(name) is None else _field(said, name, kind)


def _lost_writes(said: Mapping[str, Any]) -> tuple[LostWrite, ...]:
    names = {attribute.name for attribute in fields(LostWrite)}
    value = _field(said, "lost_writes", list)
    for lost in value:
        texts = isinstance(lost, dict) and all(type(text) is str for text in lost.values())
        if not texts or set(lost) != names:
            raise BadMessage("a result's lost_writes holds something else than lost writes")
    return tuple(LostWrite(**lost) for lost in value)


def _paths(said: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = _field(said, name, list)
    if not all(type(path) is str for path in value):
        raise BadMessage(f"a result's {name} holds something else than text")
    return tuple(value)
