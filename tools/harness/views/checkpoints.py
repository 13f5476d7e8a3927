"""The checkpoints of a session, and the entries in force after it went back; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from attrs import frozen

from ...base.errors import shown
from ..domain.history_events import (
    BackAtCheckpoint,
    Checkpoint,
    InputsPlaced,
    PhaseAdvanced,
    PhaseEnded,
    PhaseFailed,
    PhaseRetried,
    PhaseSucceeded,
    SessionForked,
    SessionRewound,
    WorkspacePrepared,
)
from ..domain.session_entries import SessionHistory, newest_events
from ..errors import HarnessError
from ..session_domain import SessionContext
from ..snapshot_port import SnapshotTaken

_NUMBER: Final = re.compile(r"#?([1-9][0-9]{0,6})")
_SNAPSHOT: Final = re.compile(r"[0-9a-f]{4,64}")
_ATTEMPT: Final = re.compile(r"(.+)-([1-9][0-9]{0,6})", re.DOTALL)
_BACK: Final = (SessionRewound, SessionForked)
_BEGINNINGS: Final = (PhaseAdvanced, PhaseRetried, *_BACK)
_RESULTS: Final = {PhaseSucceeded: True, PhaseFailed: False}


class CheckpointNotFound(HarnessError):
    """A session has no such checkpoint; nothing was changed."""

    message = """{problem}; nothing was changed. Name a checkpoint by its number, by the beginning
    of its snapshot's id, the last one of a phase by the phase's name, or the last one of an attempt
    by its name, as green-2; `agentforge session checkpoints {session_id}` lists them."""
    session_id: str
    checkpoint: str
    known: int
    """How many checkpoints it has."""
    problem: str


@frozen
class CheckpointEntry:
    """A checkpoint of a session.

    Attributes:
        number: Its number in the session, from 1; it never changes.
        position: The position of its entry in the history, from 0.
        at: When it was taken.
        action: What happened ("phase_succeeded", "checkpoint", …).
        phase: The phase that the session was in, or None.
        attempt: The attempt at it since the phase was entered.
        turn: The attempt at it in the whole session.
        succeeded: Whether the attempt had succeeded; None if it had no result.
        snapshot: The snapshot of the workspace, or None.
        unkept: Why there is no snapshot, or None.
        in_force: Whether the session has not gone back to an earlier one since.
    """

    number: int
    position: int
    at: datetime
    action: str
    phase: str | None
    attempt: int
    turn: int
    succeeded: bool | None
    snapshot: str | None
    unkept: str | None
    in_force: bool = True

    @property
    def name(self) -> str | None:
        """The name of its attempt, such as `green-2`; None outside of phases."""
        return None if self.phase is None else f"{self.phase}-{self.turn}"


@frozen
class PhaseBeginning:
    """Where a phase last started, of what is in force.

    Attributes:
        checkpoint: The number of the checkpoint with its files; 0 if there were none yet.
        position: The last history entry before it, from 0.
        snapshot: The files, or None if there is no snapshot; checkpoint 0 has no files.
    """

    checkpoint: int
    position: int
    snapshot: str | None


def checkpoints(session: SessionContext) -> list[CheckpointEntry]:
    """Return a session's checkpoints, oldest first."""
    in_force = set(_positions(session.history))
    found: list[CheckpointEntry] = []
    attempt = 1
    succeeded: bool | None = None
    turns: dict[str | None, int] = {}
    turn_at: list[int] = []  # the attempt at its phase after each entry
    turn = 0
    for position, entry in enumerate(session.history):
        event = entry.event
        if isinstance(event, PhaseAdvanced):
            attempt, succeeded = 1, None
        elif isinstance(event, PhaseRetried):
            attempt, succeeded = event.attempt or attempt + 1, None
        elif isinstance(event, BackAtCheckpoint):
            attempt, succeeded = event.attempt, event.succeeded
        if isinstance(event, BackAtCheckpoint) and succeeded is not None:
            turn = turn_at[min(event.position, position - 1)]
        elif position == 0 or isinstance(event, _BEGINNINGS):
            turn = turns[entry.phase] = turns.get(entry.phase, 0) + 1
        turn_at.append(turn)
        if isinstance(event, PhaseEnded):
            succeeded = _RESULTS.get(type(event))
        if isinstance(event, Checkpoint) and _counts(event):
            found.append(
                CheckpointEntry(
                    number=len(found) + 1,
                    position=position,
                    at=entry.timestamp,
                    action=entry.action,
                    phase=entry.phase,
                    attempt=attempt,
                    turn=turn,
                    succeeded=succeeded,
                    snapshot=event.snapshot,
                    unkept=event.unkept,
                    in_force=position in in_force,
                )
            )
    return found


def _counts(event: Checkpoint) -> bool:
    """Return whether an event is a checkpoint; entering a phase is one only with a snapshot."""
    return not isinstance(event, PhaseAdvanced) or bool(event.snapshot or event.unkept)


def find_checkpoint(session: SessionContext, named: str | int) -> CheckpointEntry:
    """Return the named checkpoint.

    Args:
        session: The session.
        named: Its number, the beginning of its snapshot's id (4 digits or more), the name of a
            phase, for its last checkpoint in force, or of an attempt, such as `green-2`.

    Raises:
        CheckpointNotFound: There is none, or several snapshots begin so.
    """
    known = checkpoints(session)
    text = str(named).strip()
    number = _NUMBER.fullmatch(text)
    problem = f"session {session.session_id} has no checkpoint {shown(text)}"
    if number is not None and int(number[1]) <= len(known):
        return known[int(number[1]) - 1]
    of_phase = [one for one in known if one.phase == text and one.in_force]
    if of_phase:
        return of_phase[-1]
    of_attempt = _ATTEMPT.fullmatch(text)
    if of_attempt is not None:
        meant = (of_attempt[1], int(of_attempt[2]))
        found = [one for one in known if (one.phase, one.turn) == meant]
        if found:
            return found[-1]
    if _SNAPSHOT.fullmatch(text):
        fitting = [one for one in known if one.snapshot and one.snapshot.startswith(text)]
        if len({one.snapshot for one in fitting}) == 1:
            return fitting[-1]
        if fitting:
            problem = f"several snapshots of session {session.session_id} begin with {text}"
    raise CheckpointNotFound(session.session_id, text, known=len(known), problem=problem)


def phase_beginning(session: SessionContext, phase: str) -> PhaseBeginning | None:
    """Return where a phase last started; None if the history does not show it."""
    positions = _positions(session.history)
    begun = None
    for position in positions:
        entry = session.history[position]
        entered = position == 0 or isinstance(entry.event, PhaseAdvanced)
        if entered and entry.phase == phase:
            begun = position
    if begun is None:
        return None
    known = [one for one in checkpoints(session) if one.position in set(positions)]
    before = [one for one in known if one.position <= begun]
    if not before and begun == 0:  # a repository's base is the first checkpoint of such a session
        before = [one for one in known[:1] if one.action == WorkspacePrepared.action]
    if not before:
        return PhaseBeginning(0, begun, None) if begun == 0 else None
    last = before[-1]
    return PhaseBeginning(last.number, max(begun, last.position), last.snapshot)


def base_snapshot(session: SessionContext) -> str | None:
    """Return the snapshot that the work started from, or None if it started from nothing."""
    found = [one.snapshot for _, one in newest_events(session.history, WorkspacePrepared)]
    return found[-1] if found else None


def first_snapshot(session: SessionContext) -> str | None:
    """Return the session's first snapshot, or None."""
    return next((one.snapshot for one in checkpoints(session) if one.snapshot), None)


def last_kept(session: SessionContext) -> SnapshotTaken:
    """Return the result of the last snapshot, taken or failed."""
    for position in reversed(range(len(session.history))):
        event = session.history[position].event
        if isinstance(event, Checkpoint) and (event.snapshot or event.unkept):
            return SnapshotTaken(event.snapshot, event.unkept)
        if isinstance(event, BackAtCheckpoint | InputsPlaced) and event.snapshot:
            return SnapshotTaken(event.snapshot)
    return SnapshotTaken()


def last_return(session: SessionContext) -> tuple[int, BackAtCheckpoint] | None:
    """Return the last return to a checkpoint, with its position in the history."""
    return next(newest_events(session.history, SessionRewound, SessionForked), None)


def in_force(history: Sequence[SessionHistory]) -> list[SessionHistory]:
    """Return the entries in force: without those that a return to a checkpoint undid."""
    if not any(entry.event_type in _BACK for entry in history):
        return list(history)
    return [history[position] for position in _positions(history)]


def _positions(history: Sequence[SessionHistory]) -> list[int]:
    kept: list[int] = []
    for position, entry in enumerate(history):
        if entry.event_type is SessionRewound and isinstance(
            event := entry.event, BackAtCheckpoint
        ):
            kept = [one for one in kept if one <= event.position]
        kept.append(position)
    return kept


def snapshots_of(session: SessionContext) -> set[str]:
    """Return the ids of all snapshots that the history refers to."""
    found = set()
    for entry in session.history:
        event = entry.event
        if isinstance(event, Checkpoint | BackAtCheckpoint | InputsPlaced) and event.snapshot:
            found.add(event.snapshot)
    return found
