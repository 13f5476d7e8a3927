"""The errors of snapshots and journals."""

from __future__ import annotations

from pathlib import Path

from ...base.errors import ErrorKind
from ..errors import SandboxError


class ProgramSnapshotRefused(SandboxError, ValueError, kind=ErrorKind.INVALID_FILE):
    """A program's state cannot be saved or restored; nothing was changed."""

    message = "the program's snapshot was refused: {reason}. Nothing was changed; {remedy}"
    reason: str
    remedy: str


class ProgramSnapshotDamaged(ProgramSnapshotRefused):
    """A snapshot is not what a release of this program wrote."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            reason, "restore an earlier snapshot, or start the program again from its beginning"
        )


class TurnJournalDamaged(SandboxError, kind=ErrorKind.INVALID_FILE):
    """A turn's journal holds something else than notes; the turn cannot go on from it."""

    message = """the journal of the turn cannot be used: {reason}. No call of it was made again; go
    on from the state before the turn"""
    reason: str


class TurnJournalNotWritten(SandboxError):
    """A turn's journal cannot be read or written; the turn was stopped before its next effect."""

    message = """journal {path!r}: {reason}. A running turn was stopped before its next effect; make
    room for the file, then go on from the journal, or from the state before the turn"""
    path: Path
    reason: str


class TurnDiverged(SandboxError):
    """A turn that ran again did something else than its journal says; it was stopped there."""

    message = """the turn did not repeat itself at call {call} ({function}): {reason}. What it did
    to files the first time is in the workspace, nothing was done again; go on from the state before
    the turn, or with the release and the interpreter that wrote the journal"""
    call: int
    function: str
    reason: str
