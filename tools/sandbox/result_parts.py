"""Parts of a result that most executions do not have; loaded only when needed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

from attrs import frozen

RequestKind = Literal["ask", "call", "sleep", "input"]
"""What a program may wait for: a person, a tool elsewhere, a moment, a line of its input."""


@frozen(kw_only=True)
class ToolCallRecord:
    """One guest call of a host function.

    Attributes:
        name: The function's name, as sent by the guest, cut to 64 characters.
        arguments: A summary of the arguments, at most 200 characters; empty when they were refused.
        outcome: "ok", "denied" by the gate, or "failed".
        detail: Why a call failed, as a fixed word such as "invalid_arguments", "tool_error" or
            "timeout"; None after an "ok".
        duration_s: Seconds the function ran; 0.0 if it did not.
    """

    name: str
    arguments: str
    outcome: Literal["ok", "denied", "failed"]
    detail: str | None
    duration_s: float


@frozen(kw_only=True)
class LostWrite:
    """A file that differs from what the code wrote, because a write was refused.

    Attributes:
        path: The file: relative to the workspace, or absolute if it is in `/tmp`.
        method: What was refused, "write".
        errno: The reason by name: "ENOSPC" if a quota or the disk was full, "EFBIG" if the file, or
            all open files together, became too large.
        at: When it was refused: "write", when the code wrote; "close", "sync" or "exit", when
            earlier writes were to be stored.
    """

    path: str
    method: str
    errno: str
    at: str


class ProgramRequest(NamedTuple):
    """One thing a suspended program waits for.

    Attributes:
        id: Its number; a program never uses one twice.
        kind: "ask" for a person's answer, "call" for the result of a tool elsewhere, "sleep" for a
            moment, "input" for a line that a script reads with `input()`.
        question: The question of an "ask", the prompt of an "input"; else None.
        options: The answers offered with a question.
        title: A short name of the question, or None.
        multi_select: Whether several options may be chosen.
        tool: The tool of a "call", else None.
        arguments: Its arguments.
        until: When a "sleep" ends, else None.
    """

    id: int
    kind: RequestKind
    question: str | None = None
    options: tuple[str, ...] = ()
    title: str | None = None
    multi_select: bool = False
    tool: str | None = None
    arguments: Mapping[str, Any] = {}
    until: datetime | None = None


class RequestFailed(NamedTuple):
    """The answer to a request that has no value: the program gets an exception.

    Attributes:
        message: The exception's text.
    """

    message: str


class ProgramFrame(NamedTuple):
    """One function a suspended program is in.

    Attributes:
        file: Its file, as the guest names it.
        line: The line that waits.
        function: Its name.
        names: Its local variables, each with a short form.
    """

    file: str
    line: int
    function: str
    names: Mapping[str, str]


class Suspension(NamedTuple):
    """Where a program waits, and for what; chosen by the guest, so show it as untrusted text.

    Attributes:
        requests: What it waits for; any number of them may be answered at once, in any order.
        wake_at: When it wants to go on without an answer, or None.
        where: The functions it is in, the innermost last.
    """

    requests: tuple[ProgramRequest, ...]
    wake_at: datetime | None
    where: tuple[ProgramFrame, ...] = ()

    def unknown(self, answered: Mapping[int, object]) -> tuple[int, ...]:
        """Return which of the answered ids are of no open request."""
        return tuple(sorted(set(answered) - {request.id for request in self.requests}))
