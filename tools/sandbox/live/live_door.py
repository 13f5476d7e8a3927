"""Answers a durable program's requests: what it waits for is noted, the rest goes to the tools."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final, Protocol

from ...base.clock import utc_now
from ..guest.tool_frames import (
    MAX_REQUEST_BYTES,
    BadRequest,
    decoded_request,
    encoded_failure,
    encoded_list,
    encoded_value,
    from_json,
    quoted,
    request_id,
)
from ..host.preview1.guest import Door
from ..result_parts import Suspension, ToolCallRecord
from .journal.live_journal import HostCall, LiveJournal
from .requests import decode_request, decode_suspension

_SUSPENDED: Final = b'"suspended"'
_OWN: Final = (_SUSPENDED, b'"request"')
"""One of them is in every frame that is not for the tools."""


_call: ContextVar[HostCall | None] = ContextVar("agentforge_host_call", default=None)


def current_call() -> HostCall | None:
    """Return the key of the call that a host function answers; None outside of durable programs.

    A call whose process was killed is made again, with the same session, sequence and number, and
    with `uncertain`: whether it took effect is unknown.
    """
    return _call.get()


class Tools(Door, Protocol):
    """Answers the calls of a turn, and lists them."""

    @property
    def calls(self) -> tuple[ToolCallRecord, ...]:
        """The calls, in order."""

    def close(self) -> None:
        """End the turn."""


class LiveDoor:
    """Answers the requests of one turn.

    Args:
        tools: Answers calls of host functions, or None without any.
        deadline_s: How long the turn may take.
        cancel: Ends the turn early once set.

    Attributes:
        journal: The turn's journal; None without.
        suspension: What the program waits for, as it said last in this turn; or None.
        fault: Why what it said cannot be understood, or None.
    """

    def __init__(self, tools: Tools | None, deadline_s: float, cancel: threading.Event) -> None:
        self._tools = tools
        self._until = time.monotonic() + deadline_s
        self._cancel = cancel
        self.journal: LiveJournal | None = None
        self.suspension: Suspension | None = None
        self.fault: str | None = None

    @property
    def calls(self) -> tuple[ToolCallRecord, ...]:
        """The calls of host functions, in order."""
        return () if self._tools is None else self._tools.calls

    def close(self) -> None:
        """End the turn; ask calls that still run to end."""
        if self._tools is not None:
            self._tools.close()

    def admit(self, length: int) -> bytes | None:
        """Return an answer that refuses a request by its length; None to accept it."""
        if length <= MAX_REQUEST_BYTES:
            return None
        if self._tools is not None:
            return self._tools.admit(length)
        text = f"a request may have {MAX_REQUEST_BYTES} bytes, not {length}"
        return encoded_failure(None, "too_large", text)

    def __call__(self, request: bytes) -> bytes:
        """Answer an admitted request."""
        if self._tools is None or any(mark in request for mark in _OWN):
            answer = self._own_answer(request)
            if answer is not None:
                return answer
        tools = self._tools
        assert tools is not None  # noqa: S101 (else the answer is its own)
        made = _call.set(None if self.journal is None else self.journal.call)
        try:
            return tools.admit(len(request)) or tools(request)
        finally:
            _call.reset(made)

    def _own_answer(self, request: bytes) -> bytes | None:
        """Answer a request that is not for the tools; None if it is."""
        number = None
        try:
            said = decoded_request(request, self._look)
            number = request_id(said)
            if said.get("op") == "suspended":
                self.suspension = self.fault = None
                self.suspension = _waiting(decode_suspension(said))
                return encoded_value(number, None)
        except BadRequest as error:
            if _SUSPENDED in request:
                self.fault = str(error)
            return encoded_failure(number, "protocol", str(error))
        match said.get("op"):
            case "request" if said.get("kind") == "checkpoint":
                return encoded_value(number, None)
            case "request":
                text = "a plain function cannot wait for an answer here; await it in a coroutine"
                return encoded_failure(number, "not_now", text)
            case op if self._tools is None:
                text = f"no host function serves {quoted(op)}"
                failed = encoded_failure(number, "unknown_tool", text)
                return encoded_list(number, []) if op == "list" else failed
        return None

    def _look(self) -> None:
        if self._cancel.is_set() or time.monotonic() >= self._until:
            raise BadRequest("the turn is about to end")


def _waiting(suspension: Suspension) -> Suspension:
    if not suspension.requests and suspension.wake_at is None:
        raise BadRequest("the program waits for nothing")
    return suspension


class RequestAnswerer:
    """Answers the requests of plain functions in one turn: `journal.LiveJournal`'s `answer`.

    Args:
        answers: What is known, by the request's id.

    Attributes:
        asked: The request that has no answer, which stops the turn; or None.
        saved: Stores what the turn's journal has.
    """

    def __init__(self, answers: Mapping[int, Mapping[str, Any]]) -> None:
        self._answers = answers
        self.asked: Suspension | None = None
        self.saved: Callable[[], object] = nothing

    def __call__(self, frame: bytes) -> bytes | None:
        """Answer a request by a frame; None stops the turn."""
        number = None
        try:
            said = decoded_request(frame, nothing)
            number = request_id(said)
            if said.get("kind") == "checkpoint":
                self.saved()
                return encoded_value(number, None)
            request = decode_request(said)
            answer = self._answers.get(request.id)
            if answer is None and request.until is not None and request.until <= utc_now():
                answer = {"value": None}
            if answer is None:
                asked = {
                    "requests": [said],
                    "wake_at": said.get("until"),
                    "where": said.get("where"),
                }
                self.asked = decode_suspension(asked)
                return None
        except BadRequest as error:
            return encoded_failure(number, "protocol", str(error))
        if "error" in answer:
            return encoded_failure(number, "failed", str(answer["error"]))
        return encoded_value(number, from_json(answer["value"], nothing))


def nothing(_: object = None) -> None:
    """Do nothing."""
