"""How far a durable program is: what it waits for and what it has used, besides its machine."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from ..guest.tool_frames import BadRequest, from_json
from ..host.machine import TurnLimits, TurnOutcome
from ..policy import MAX_FUEL
from ..result_parts import Suspension
from .requests import MAX_REQUEST_ID, decode_suspension, encode_suspension

_COUNTED = ("fuel_used", "file_calls", "stdout_bytes", "stderr_bytes", "sequence")


def _no_step() -> None:
    """Interrupt nothing: a description is short."""


class ProgramProgress(NamedTuple):
    """A program's state between two turns; limits hold for the whole program.

    A program begins with an `execute`. It ends with the turn after which it is not suspended; the
    next one begins with nothing used, and with the variables.

    Attributes:
        suspension: What it waits for, or None.
        fuel: The fuel it may use.
        fuel_used: How much of it is used, as far as the engine counts.
        file_calls: Its calls on names of files.
        stdout_bytes: The length of its standard output.
        stderr_bytes: Likewise.
        sequence: How many turns there were in all, of this and of earlier programs.
        is_fork: Whether it draws other chance than its origin before it goes on.
    """

    suspension: Suspension | None = None
    fuel: int = MAX_FUEL
    fuel_used: int = 0
    file_calls: int = 0
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    sequence: int = 0
    is_fork: bool = False

    def begun(self, fuel: int) -> Self:
        """Return the progress of a new program."""
        return type(self)(fuel=fuel, sequence=self.sequence, is_fork=self.is_fork)

    def limits(self, seconds: float, output_bytes: int, cancel: threading.Event) -> TurnLimits:
        """Return the limits of its next turn: what is left of the whole program's."""
        return TurnLimits(
            fuel=max(1, self.fuel - self.fuel_used),
            seconds=seconds,
            output_bytes=max(0, output_bytes - min(self.stdout_bytes, self.stderr_bytes)),
            cancel=cancel,
            file_calls=self.file_calls,
        )

    def after(self, outcome: TurnOutcome, suspension: Suspension | None) -> Self:
        """Return the progress after a turn that ended well."""
        return self._replace(
            suspension=suspension,
            fuel_used=self.fuel_used + (outcome.fuel_used or 0),
            file_calls=outcome.file_calls,
            stdout_bytes=self.stdout_bytes + len(outcome.stdout),
            stderr_bytes=self.stderr_bytes + len(outcome.stderr),
            sequence=self.sequence + 1,
            is_fork=False,
        )

    def own_part(self, outcome: TurnOutcome, output_bytes: int) -> TurnOutcome:
        """Return a turn's outcome without what earlier turns of the program used."""
        stdout = outcome.stdout[: max(0, output_bytes - self.stdout_bytes)]
        stderr = outcome.stderr[: max(0, output_bytes - self.stderr_bytes)]
        cut = {
            name
            for name, seen, shown in (
                ("stdout", outcome.stdout, stdout),
                ("stderr", outcome.stderr, stderr),
            )
            if len(shown) < len(seen)
        }
        return outcome._replace(
            stdout=stdout,
            stderr=stderr,
            truncated=tuple(sorted(cut.union(outcome.truncated), reverse=True)),
            file_calls=outcome.file_calls - self.file_calls,
        )

    def encoded(self) -> dict[str, Any]:
        """Return it as JSON holds it; `decoded` returns it again."""
        waiting = None if self.suspension is None else encode_suspension(self.suspension)
        return {**self._asdict(), "suspension": waiting}

    @classmethod
    def decoded(cls, said: Mapping[str, Any]) -> Self:
        """Return the progress that a snapshot's description holds.

        Raises:
            BadRequest: It is not a valid one.
        """
        counted: dict[str, Any] = {name: said.get(name) for name in (*_COUNTED, "fuel")}
        for name, value in counted.items():
            if type(value) is not int or not 0 <= value <= (
                MAX_FUEL if name.startswith("fuel") else MAX_REQUEST_ID
            ):
                raise BadRequest(f"{name} is no count")
        counted["is_fork"] = said.get("is_fork") is True
        waiting = from_json(said.get("suspension"), _no_step)
        if waiting is None:
            return cls(**counted)
        if not isinstance(waiting, dict):
            raise BadRequest("the suspension is no object")
        return cls(suspension=decode_suspension(waiting), **counted)
