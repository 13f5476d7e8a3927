"""The results of steps as bytes: JSON that a person can read, or bytes as they are.

    null, true, 1, 1.5, "text", [..], {..}       as in JSON, of exactly these types
    {"$": "tuple", "v": [..]}                    also set, frozenset; and dict, with pairs
    {"$": "datetime", "v": "2026-11-27T.."}      also bytes, date, time, decimal, uuid, float, ...
    {"$": "artifact", "v": "out/report.md"}      a path in the session's workspace; else a "path"
    {"$": "class Outline", "v": {"title": ..}}   an instance, by its fields; an enum's name

A class is never looked up by its name: it is the one of that name in the annotation. So a value of
a class needs an annotation that has the class, and one that could not be read back is refused when
it is recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ..stream_port import MAX_ENTRY_BYTES
from . import result_kinds
from .errors import ResultNotKept, ResultUnreadable
from .result_kinds import Unfit, require_recordable, shown
from .result_values import Dumping, Loading, checked, text_of

JSON: Final = "json"
BYTES: Final = "bytes"
MAX_BODY_BYTES: Final = MAX_ENTRY_BYTES - (1 << 16)
"""Most bytes of a result; the rest of an entry is for its head."""
_DEFECTS: Final = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError)


def result_kind(function: Callable[..., object], *, step: str = "") -> object | None:
    """Return the annotation of a function's result, resolved; None if it has none.

    Raises:
        ResultNotKept: It names what can't be found; the function was not run.
    """
    try:
        return result_kinds.result_kind(function)
    except Unfit as error:
        raise ResultNotKept(step, str(error)) from error


def check_kind(kind: object | None, *, step: str = "") -> None:
    """Raise if no value of an annotation can be recorded, before the function runs.

    Raises:
        ResultNotKept: As said; the function was not run.
    """
    try:
        require_recordable(_wanted(kind))
    except Unfit as error:
        raise ResultNotKept(step, str(error)) from error


def encode(
    value: object, kind: object | None, *, workspace: Path | None, step: str = ""
) -> tuple[str, bytes]:
    """Return the name of the codec, and the body of a result.

    What is returned can be decoded with the same annotation, and is then equal to the value.

    Args:
        value: The result.
        kind: Its annotation; None for one that has no classes.
        workspace: The session's workspace, whose paths are recorded relative to it.
        step: The step, for messages.

    Raises:
        ResultNotKept: It can't be recorded.
    """
    try:
        codec, body = _encoded(value, _wanted(kind), workspace)
    except _DEFECTS as error:
        raise ResultNotKept(step, _reason(error), has_run=True) from error
    if len(body) > MAX_BODY_BYTES:
        reason = f"it has {len(body):,} bytes, more than {MAX_BODY_BYTES:,}; write a file instead"
        raise ResultNotKept(step, reason, has_run=True)
    return codec, body


def decode(
    codec: str, body: bytes, kind: object | None, *, workspace: Path | None, step: str = ""
) -> object:
    """Return a recorded result.

    Args:
        codec: The name of the codec.
        body: What is recorded.
        kind: The annotation of the result.
        workspace: The session's workspace.
        step: The step, for messages.

    Raises:
        ResultUnreadable: It is not a value of this annotation.
    """
    try:
        if codec == BYTES:
            return checked(body, _wanted(kind))
        if codec != JSON:
            raise Unfit(f"its codec {codec[:40]!r} is unknown")
        node = json.loads(body.decode("utf-8", "surrogatepass"), parse_constant=_refuse_constant)
        if b'"$"' not in body and _is_all_of(_wanted(kind), node):
            return node
        return Loading(workspace).value(node, _wanted(kind), 0)
    except _DEFECTS as error:
        raise ResultUnreadable(step, _reason(error)) from error


def _wanted(kind: object | None) -> object:
    return object if kind is None else kind


def _is_all_of(kind: object, node: object) -> bool:
    """Return whether a node of JSON is of an annotation that says nothing of its parts."""
    return kind is object or kind is type(node)


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    text = " ".join(str(error).split())[:500]
    return text if isinstance(error, Unfit) else f"{type(error).__name__}: {text}"


def _encoded(value: object, kind: object, workspace: Path | None) -> tuple[str, bytes]:
    if type(value) is bytes:
        return BYTES, checked(value, kind)
    dumping = Dumping(workspace)
    node = dumping.value(value, 0)
    if dumping.tagged or not _is_all_of(kind, node):
        found = Loading(workspace).value(node, kind, 0)
        if dumping.tagged and (
            text_of(Dumping(workspace).value(found, 0)) != text_of(node)
            or not (dumping.unequal or found == value)
        ):
            raise Unfit(
                f"what is read back is not equal to it: a class in {shown(type(value))} has data "
                "that are not fields, or compares by identity"
            )
    return JSON, text_of(node).encode("utf-8", "surrogatepass")


def _refuse_constant(name: str) -> object:
    raise Unfit(f"{name} is no JSON value")
