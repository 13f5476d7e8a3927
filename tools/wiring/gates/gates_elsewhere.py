"""Gates of sessions that are begun here and run elsewhere: what they need is there, not here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from ...workflows.gate_port import (
    CommandExecution,
    CommandRequest,
    GateExecution,
    GatePlaces,
    GateUnavailable,
)


class GatesElsewhere:
    """A gate sandbox for what only begins sessions. A `GateSandbox`."""

    @property
    def places(self) -> GatePlaces:
        """Where the code would find its files."""
        return GatePlaces()

    def prepare(self, *, kit: bool) -> None:
        """Have nothing ready: the worker does, and pauses the session where it can't."""
        del kit

    def with_packages(self, packages: Sequence[str]) -> GatesElsewhere:
        """Return the same; the worker has the packages."""
        del packages
        return self

    def run(
        self,
        code: str,
        *,
        files: Mapping[str, bytes],
        report: str,
        deadline_s: float | None = None,
        kit: bool = False,
    ) -> GateExecution:
        """Refuse: nothing is run here."""
        del code, files, report, deadline_s, kit
        raise GateUnavailable("this runner only begins sessions")


class CommandsElsewhere:
    """The same for gates that run a command. A `GateCommands`."""

    def prepare(self, requests: Iterable[CommandRequest]) -> None:
        """Have nothing ready: the worker does."""
        del requests

    def run(
        self,
        request: CommandRequest,
        *,
        files: Mapping[str, bytes],
        folder: Path | None = None,
        left_out: Collection[str] = (),
    ) -> CommandExecution:
        """Refuse: nothing is run here."""
        del request, files, folder, left_out
        raise GateUnavailable("this runner only begins sessions")
