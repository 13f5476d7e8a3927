"""Durable programs as snapshots, for the prepared interpreter of this process."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Self

from ..host.template import Template
from ..installed.interpreter_files import LIBRARY_ARCHIVE, MODULE
from ..live.durable_state import WayBack, progress_of, turn_of
from ..live.errors import ProgramSnapshotRefused
from ..live.snapshot_file import Interpreter, ProgramSnapshot, snapshot_of
from ..policy import ExecutionPolicy
from .guest_interpreter import unavailable
from .live_template import template_of
from .prepared_runtime import PreparedRuntime, prepared_runtime


class RuntimeCodec(NamedTuple):
    """Implements `durable_state.ProgramCodec`.

    Attributes:
        runtime: What interpreters start from.
        policy: What a restored program may have.
    """

    runtime: PreparedRuntime
    policy: ExecutionPolicy

    @classmethod
    def of(cls, cache: Path | None, policy: ExecutionPolicy) -> Self:
        """Return the codec of this process's runtime.

        Raises:
            SandboxUnavailable: This process cannot run guests.
        """
        with unavailable():
            return cls(prepared_runtime(cache), policy)

    def encode(self, way_back: WayBack) -> ProgramSnapshot:
        """Return a program that had a turn as a snapshot."""
        state = way_back.machine
        if state is None:
            raise ProgramSnapshotRefused("no code has run in the sandbox", "run code in it first")
        return snapshot_of(
            state,
            interpreter=self._interpreter(),
            template=self.template(state.template),
            limits=self.policy,
            said=way_back.progress.encoded(),
            attached=b"" if way_back.turn is None else way_back.turn.encoded(),
        )

    def decode(self, snapshot: ProgramSnapshot) -> WayBack:
        """Return the program of a snapshot."""
        state = snapshot.state(
            interpreter=self._interpreter(), template_of=self._found, limits=self.policy
        )
        progress = progress_of(snapshot)
        fuel = min(progress.fuel, self.policy.fuel_budget)
        return WayBack(state, progress._replace(fuel=fuel), turn=turn_of(snapshot))

    def template(self, digest: str) -> Template:
        """Return the template that a program's state is relative to.

        Raises:
            ProgramSnapshotRefused: It is not in the cache any more.
        """
        found = self._found(digest)
        if found is None:
            raise ProgramSnapshotRefused(
                f"its prepared interpreter ({digest[:12]}) is not here any more",
                "restore an earlier snapshot with the release that saved it",
            )
        return found

    def _found(self, digest: str) -> Template | None:
        return template_of(self.runtime, digest)

    def _interpreter(self) -> Interpreter:
        digests = self.runtime.files.digests
        return Interpreter(digests[MODULE], digests[LIBRARY_ARCHIVE])
