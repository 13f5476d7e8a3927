"""Parts of a result that most executions do not have; loaded only when needed."""

from __future__ import annotations

from typing import Literal

from attrs import frozen


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
