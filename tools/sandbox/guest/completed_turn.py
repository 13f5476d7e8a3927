"""How a turn of an interpreter ended."""

# Annotations are evaluated here: each field's would be compiled if it were a text.

from typing import NamedTuple


class ToolOutcome(NamedTuple):
    """How one request of a guest to the host ended.

    Attributes:
        seq: Its number in the turn, from one.
        op: Its operation, "list" or "call"; None if that could not be read.
        tool: The function it named.
        outcome: "ok", or why it was not answered.
    """

    seq: int
    op: str | None
    tool: str | None
    outcome: str


class Completed(NamedTuple):
    """How a turn ended.

    Attributes:
        exit_code: The code it ended with; None if it was stopped.
        stdout: The recorded part of its output.
        stderr: The recorded part of its errors.
        trapped: Why it was stopped, in the words of the host, or None.
        fuel_used: WebAssembly instructions; None where that is not known.
        truncated: The streams of which only a part was recorded.
        file_calls: Calls on names of files.
        refused_writes: Writes that a quota or the disk refused.
        outcomes: Its requests to the host's functions, in order; of very many the first. None
            where it was offered none.
    """

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    trapped: str | None
    fuel_used: int | None
    truncated: tuple[str, ...]
    file_calls: int
    refused_writes: int
    outcomes: tuple[ToolOutcome, ...] | None
