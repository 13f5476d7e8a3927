"""How a turn of an interpreter ended, whichever host it ran on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class FileFault(Protocol):
    """What serving a file failed with, through no fault of the guest's."""

    @property
    def method(self) -> str:
        """Which operation."""

    @property
    def error(self) -> str:
        """With what."""


class FileCounts(Protocol):
    """What a turn asked of files."""

    @property
    def calls(self) -> Mapping[str, int]:
        """Calls on names, by what they were counted under."""

    @property
    def faults(self) -> Sequence[FileFault]:
        """What failed on the host's side."""

    @property
    def refused_total(self) -> int:
        """How many writes were refused."""


class ToolOutcome(Protocol):
    """How one request of a guest to the host ended."""

    @property
    def seq(self) -> int:
        """Its number in the turn, from one."""

    @property
    def op(self) -> str | None:
        """Its operation: "list" or "call"; None if that could not be read."""

    @property
    def tool(self) -> str | None:
        """The function that it named."""

    @property
    def outcome(self) -> str:
        """Whether it was answered, "ok", or why not."""


class ToolRecord(Protocol):
    """The requests of a turn to the host."""

    @property
    def outcomes(self) -> Sequence[ToolOutcome]:
        """Each, in order; of very many the first."""


class Completed(Protocol):
    """How a turn ended, whichever host it ran on."""

    @property
    def exit_code(self) -> int | None:
        """The code that it ended with; None if it was stopped."""

    @property
    def stdout(self) -> bytes:
        """What is kept of its output."""

    @property
    def stderr(self) -> bytes:
        """What is kept of its errors."""

    @property
    def trapped(self) -> str | None:
        """Why it was stopped, in the words of its host, or None."""

    @property
    def fuel_used(self) -> int | None:
        """What it used, or None if that is not known."""

    @property
    def truncated(self) -> tuple[str, ...]:
        """The streams of which not all is kept."""

    @property
    def files(self) -> FileCounts | None:
        """What it asked of files."""

    @property
    def tools(self) -> ToolRecord | None:
        """What it asked of the host's functions, if there were any."""
