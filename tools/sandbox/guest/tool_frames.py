"""The messages between a guest and host functions: JSON frames, protocol version 1.

The guest's package requests the list of functions or one call; each request has one answer. Bytes
are objects of one key, `{"$bytes": "<base64>"}`. Requests are untrusted: their content is bounded,
and quotes from them are short.
"""

from __future__ import annotations

import binascii
import itertools
import json
import math
import re
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Final

PROTOCOL: Final = 1
MAX_REQUEST_BYTES: Final = 1 << 20
MAX_ANSWER_BYTES: Final = 16 << 20

_MAX_DEPTH: Final = 64
_ENVELOPE_DEPTH: Final = 2
_MAX_DIGITS: Final = 64
_LOOKED_AFTER: Final = 512
_MAX_ARRAYS: Final = 100_000
_TEXT: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_MAX_MESSAGE: Final = 4096
_MAX_ID: Final = 1 << 53
_QUOTED: Final = 64
_SIZED: Final = {list: "an array", dict: "an object", bytes: "bytes"}
_BYTES: Final = "$bytes"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class BadRequest(Exception):
    """A request violates the protocol; the guest may see the message."""


class NoJson(Exception):
    """A host value has no form in JSON."""


def quoted(value: object) -> str:
    """Return a guest's value for a message: text cut short, anything else as kind and size."""
    if isinstance(value, str):
        return f"'{value[:_QUOTED]}'" + ("..." if len(value) > _QUOTED else "")
    if isinstance(value, (list, dict, bytes)):
        return f"{_SIZED[type(value)]} of {len(value)}"
    text = json.dumps(value)
    return text if len(text) <= _QUOTED else "a long number"


# ---------------------------------------------------------------- requests


def decoded_request(frame: bytes, look: Callable[[], object]) -> dict[str, Any]:
    """Decode a request.

    Args:
        frame: Its bytes.
        look: Called repeatedly; an exception from it ends the decoding.

    Raises:
        BadRequest: The frame is not a request.
    """
    _refuse_many_arrays(frame)
    step = stepping(look)

    def finite(text: str) -> float:
        step()
        return _finite(text)

    def short_integer(text: str) -> int:
        step()
        return _short_integer(text)

    def without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        step()
        return _without_repetition(pairs)

    try:
        value = json.loads(
            frame.decode("utf-8"),
            parse_constant=_no_constant,
            parse_float=finite,
            parse_int=short_integer,
            object_pairs_hook=without_repetition,
        )
    except UnicodeDecodeError:
        raise BadRequest("the frame is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the frame is not JSON ({str(error)[:200]})") from None
    look()
    value = from_json(value, step)
    if not isinstance(value, dict):
        raise BadRequest("the frame is not a JSON object")
    return value


def request_id(request: dict[str, Any]) -> int | None:
    """Return the number that the answer repeats, or None if the request has none."""
    number = request.get("id")
    return number if type(number) is int and 0 <= number < _MAX_ID else None


def _refuse_many_arrays(frame: bytes) -> None:
    """Refuse more arrays than a check allows: parsing them cannot be interrupted."""
    if frame.count(b"[") > _MAX_ARRAYS and _TEXT.sub(b"", frame).count(b"[") > _MAX_ARRAYS:
        raise BadRequest(f"the frame holds more than {_MAX_ARRAYS} arrays")


def _no_constant(name: str) -> float:
    raise BadRequest(f"the frame holds {name}, which JSON does not allow")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise BadRequest(f"the number {quoted(text)} is out of range")
    return number


def _short_integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise BadRequest(f"an integer of {len(text)} characters; at most {_MAX_DIGITS}")
    return int(text)


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise BadRequest(f"the frame repeats the key {quoted(name)}")
        found[name] = value
    return found


def stepping(look: Callable[[], object]) -> Callable[[], None]:
    """Return a function to call for each value; every `_LOOKED_AFTER`th call runs `look`."""
    steps = itertools.count(1)

    def step() -> None:
        if not next(steps) % _LOOKED_AFTER:
            look()

    return step


def from_json(value: Any, step: Callable[[], None]) -> Any:
    """Check a parsed value's texts and depth and decode its bytes, in place.

    Raises:
        BadRequest: It holds what no frame may hold.
    """
    return _decoded(value, 1, step)


def _decoded(value: Any, depth: int, step: Callable[[], None]) -> Any:
    """Check a value's texts and decode its bytes, in place, without a copy."""
    step()
    if isinstance(value, str):
        return _checked_text(value)
    if not isinstance(value, (list, dict)):
        return value
    if depth > _MAX_DEPTH:
        raise BadRequest(f"the frame nests deeper than {_MAX_DEPTH} levels")
    if isinstance(value, list):
        for i, each in enumerate(value):
            value[i] = _decoded(each, depth + 1, step)
        return value
    if _BYTES in value:
        return _decoded_bytes(value)
    for name, each in value.items():
        value[_checked_text(name)] = _decoded(each, depth + 1, step)
    return value


def _checked_text(text: str) -> str:
    if _SURROGATE.search(text):
        raise BadRequest("a text holds a lone surrogate")
    return text


def _decoded_bytes(value: dict[str, Any]) -> bytes:
    data = value[_BYTES]
    if len(value) != 1 or not isinstance(data, str):
        raise BadRequest(f'a "{_BYTES}" object must have that one key, holding a string')
    try:
        return binascii.a2b_base64(data.encode("ascii"), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        raise BadRequest(f'a "{_BYTES}" value is not strict base64') from None


# ----------------------------------------------------------------- answers


def encoded_value(number: int | None, value: object) -> bytes:
    """Encode the answer of a call that returned a value.

    Raises:
        NoJson: The value has no form in JSON.
    """
    return _encoded({"v": PROTOCOL, "id": number, "ok": True, "value": to_json(value)})


def encoded_list(number: int | None, descriptors: object) -> bytes:
    """Encode the answer that lists the callable functions."""
    return _encoded({"v": PROTOCOL, "id": number, "ok": True, "tools": descriptors})


def encoded_failure(number: int | None, kind: str, message: str) -> bytes:
    """Encode the answer for a failure."""
    error = {"kind": kind, "message": message[:_MAX_MESSAGE]}
    return _encoded({"v": PROTOCOL, "id": number, "ok": False, "error": error})


def _encoded(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, allow_nan=False, separators=(",", ":")).encode("ascii")


def to_json(value: object, depth: int = 0) -> Any:
    """Encode bytes as the guest reads them; reduce subclasses to their JSON base types.

    Raises:
        NoJson: The value has no form in JSON.
    """
    if depth > _MAX_DEPTH - _ENVELOPE_DEPTH:
        raise NoJson("the value nests too deep")
    found: Any
    match value:
        case None | bool():
            found = value
        case str():
            found = str.__str__(value)
        case Integral():
            found = int(value)
        case Real():
            found = float(value)
            if not math.isfinite(found):
                raise NoJson(f"{found!r} is not a finite number")
        case bytes() | bytearray() | memoryview():
            data = binascii.b2a_base64(bytes(value), newline=False)
            found = {_BYTES: data.decode("ascii")}
        case list() | tuple():
            found = [to_json(each, depth + 1) for each in value]
        case dict():
            if not all(isinstance(name, str) for name in value) or set(value) == {_BYTES}:
                raise NoJson("a dict's keys must be texts, and not what stands for bytes")
            found = {str.__str__(name): to_json(each, depth + 1) for name, each in value.items()}
        case _:
            raise NoJson(f"a {type(value).__name__} has no JSON form")
    return found
