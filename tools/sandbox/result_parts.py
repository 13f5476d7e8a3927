"""What a result lists of what an execution did: most have none of these, and do not load them."""

from __future__ import annotations

from typing import Literal

from attrs import frozen


@frozen(kw_only=True)
class ToolCallRecord:
    """One call a guest made to a function of the host.

    Attributes:
        name: The function's name, as the guest gave it, cut to 64 characters.
        arguments: The arguments in short, at most 200 characters; empty when they were refused.
        outcome: "ok", "denied" by the gate, or "failed".
        detail: Why a call failed, in one of the host's words, such as "invalid_arguments",
            "tool_error" or "timeout"; None after an "ok".
        duration_s: Seconds the function ran; 0.0 when it did not.
    """

    name: str
    arguments: str
    outcome: Literal["ok", "denied", "failed"]
    detail: str | None
    duration_s: float


@frozen(kw_only=True)
class LostWrite:
    """A file that is not what the code wrote, because a write was refused.

    Attributes:
        path: The file: relative to the workspace, or absolute where it is in `/tmp`.
        method: What was refused, "write".
        errno: Why, by its name: "ENOSPC" where a quota or the disk was full, "EFBIG" where the
            file, or all open files together, became too large.
        at: When it was refused: "write", when the code wrote; "close", "sync" or "exit", when what
            it had written was to be kept.
    """

    path: str
    method: str
    errno: str
    at: str
