"""Requests of suspended programs as JSON, from untrusted guests and snapshots.

The bounds of a frame are those of `guest.tool_frames`: at most 1 MiB, 64 levels. Whatever a frame
holds, the outcome is a value or `BadRequest`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, get_args

from ..errors import InvalidExecution
from ..guest.tool_frames import BadRequest, NoJson, quoted, to_json
from ..result_parts import ProgramFrame, ProgramRequest, RequestFailed, RequestKind, Suspension

MOST_OPEN: Final = 1000
"""The most requests a program may have open."""

MAX_REQUEST_ID: Final = (1 << 53) - 1

_KINDS: Final = frozenset(get_args(RequestKind))
_MOST_FRAMES: Final = 64
_MOST_NAMES: Final = 256
_MOST_OPTIONS: Final = 1000
_MAX_ANSWER_BYTES: Final = 16 << 20


def decode_suspension(said: Mapping[str, Any]) -> Suspension:
    """Return the suspension that a decoded frame describes.

    Raises:
        BadRequest: It is not a valid one.
    """
    requests = tuple(map(decode_request, _list(said, "requests", MOST_OPEN)))
    if len({request.id for request in requests}) < len(requests):
        raise BadRequest("two open requests have one id")
    return Suspension(
        requests=requests,
        wake_at=_moment(said, "wake_at"),
        where=tuple(map(_frame, _list(said, "where", _MOST_FRAMES))),
    )


def encode_suspension(suspension: Suspension) -> dict[str, Any]:
    """Return a suspension as JSON holds it; `decode_suspension` returns it again."""
    return {
        "requests": [
            {
                **request._asdict(),
                "options": list(request.options),
                "arguments": to_json(request.arguments),
                "until": _seconds(request.until),
            }
            for request in suspension.requests
        ],
        "wake_at": _seconds(suspension.wake_at),
        "where": [frame._asdict() for frame in suspension.where],
    }


def decode_request(said: object) -> ProgramRequest:
    """Return the request that a decoded object describes.

    Raises:
        BadRequest: It is not a valid one.
    """
    given = _object(said, "a request")
    kind, number = given.get("kind"), given.get("id")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise BadRequest(f"unknown kind of request {quoted(kind)}")
    if type(number) is not int or not 0 < number <= MAX_REQUEST_ID:
        raise BadRequest(f"a request's id must be a number above 0, not {quoted(number)}")
    request = ProgramRequest(
        id=number,
        kind=kind,  # type: ignore[arg-type]  # one of the literal's
        question=_text(given, "question"),
        options=tuple(_as_text(one, "an option") for one in _list(given, "options", _MOST_OPTIONS)),
        title=_text(given, "title"),
        multi_select=_flag(given, "multi_select"),
        tool=_text(given, "tool"),
        arguments=_object(given.get("arguments") or {}, "the arguments of a request"),
        until=_moment(given, "until"),
    )
    needed = {"ask": request.question, "call": request.tool, "sleep": request.until}
    if needed.get(kind, "") is None:
        raise BadRequest(f"a request of the kind {quoted(kind)} lacks what it is about")
    return request


def checked_answers(answers: object) -> dict[int, dict[str, Any]]:
    """Return answers as the guest reads them.

    Raises:
        InvalidExecution: Some are refused; `.faults` names each of them.
    """
    if not isinstance(answers, Mapping):
        raise InvalidExecution([f"answers must be a mapping, not {type(answers).__name__}"])
    found: dict[int, dict[str, Any]] = {}
    faults, size = [], 0
    for number, value in answers.items():
        if type(number) is not int:
            faults.append(f"an answer's key must be a request's id, not {number!r:.80}")
            continue
        failed = isinstance(value, RequestFailed)
        try:
            answer = to_json(str(value.message) if failed else value)
            size += len(json.dumps(answer))
        except NoJson as error:
            faults.append(f"the answer to {number} is no JSON: {error}")
            continue
        found[number] = {"error" if failed else "value": answer}
    if size > _MAX_ANSWER_BYTES:
        faults.append(f"the answers are longer than {_MAX_ANSWER_BYTES} bytes as JSON")
    if faults:
        raise InvalidExecution(faults)
    return found


def _frame(said: object) -> ProgramFrame:
    given = _object(said, "a frame")
    names = _object(given.get("names") or {}, "the names of a frame")
    if len(names) > _MOST_NAMES:
        raise BadRequest(f"a frame shows {len(names)} names; at most {_MOST_NAMES}")
    line = given.get("line")
    if type(line) is not int or not 0 <= line <= MAX_REQUEST_ID:
        raise BadRequest(f"a frame's line is {quoted(line)}")
    return ProgramFrame(
        file=_as_text(given.get("file"), "a frame's file"),
        line=line,
        function=_as_text(given.get("function"), "a frame's function"),
        names={name: _as_text(text, "a short form") for name, text in names.items()},
    )


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadRequest(f"{what} must be an object, not {quoted(value)}")
    return value


def _list(given: Mapping[str, Any], name: str, most: int) -> list[Any]:
    value = given.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadRequest(f"{name} must be an array, not {quoted(value)}")
    if len(value) > most:
        raise BadRequest(f"{name} has {len(value)} entries; at most {most}")
    return value


def _as_text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise BadRequest(f"{what} must be a text, not {quoted(value)}")
    return value


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    return None if value is None else _as_text(value, name)


def _flag(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name)
    if value is not None and not isinstance(value, bool):
        raise BadRequest(f"{name} must be true or false, not {quoted(value)}")
    return bool(value)


def _moment(given: Mapping[str, Any], name: str) -> datetime | None:
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadRequest(f"{name} must be seconds since 1970, not {quoted(value)}")
    try:
        return datetime.fromtimestamp(value, UTC)
    except (OverflowError, OSError, ValueError):
        raise BadRequest(f"{name} is no moment: {quoted(value)}") from None


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
