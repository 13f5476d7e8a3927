"""A durable program between two turns, as its sandbox holds it in memory and on disk."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, Self

from ...base.event_log import get_logger
from ..errors import ProgramElsewhere, ProgramSuspended, UnknownRequest
from ..guest.tool_frames import BadRequest, from_json
from ..host.machine import TurnOutcome
from ..policy import ExecutionPolicy
from ..request import Request
from ..result_parts import Suspension
from .capture import MachineState
from .errors import ProgramSnapshotDamaged, TurnJournalDamaged
from .journal.journal_file import JournalFile
from .program_directory import ProgramDirectory
from .progress import ProgramProgress
from .requests import decode_suspension, encode_suspension
from .snapshot_file import ProgramSnapshot

_CUT: Final = Suspension((), None)
"""What a program waits for whose process was killed within a turn: to go on."""

_log = get_logger("agentforge.sandbox")

_MOST_TURN: Final = 512 << 20
"""The most bytes of a turn: its journal has at most 64 MiB, its code 256 MiB."""


class PendingTurn(NamedTuple):
    """A turn that waits in a plain function: it runs again, with what it was answered so far.

    Attributes:
        message: The interpreter's input.
        notes: Its journal.
        stdout_bytes: How much of its standard output was returned.
        stderr_bytes: Likewise.
        before: What the program waited for before it, or None.
    """

    message: str
    notes: bytes
    stdout_bytes: int
    stderr_bytes: int
    before: Suspension | None

    def own_part(self, outcome: TurnOutcome) -> TurnOutcome:
        """Return the outcome of its next run without what was returned before."""
        return outcome._replace(
            stdout=outcome.stdout[self.stdout_bytes :], stderr=outcome.stderr[self.stderr_bytes :]
        )

    def encoded(self) -> bytes:
        """Return it as a snapshot holds it; `decoded` returns it again."""
        before = None if self.before is None else encode_suspension(self.before)
        message = self.message.encode()
        lengths = len(message), self.stdout_bytes, self.stderr_bytes
        return _headed({"lengths": lengths, "before": before}, message + self.notes)

    @classmethod
    def decoded(cls, data: bytes) -> Self | None:
        """Return the turn that a snapshot holds; None if there is nothing.

        Raises:
            BadRequest: It is not a valid one.
        """
        if not data:
            return None
        said, content = _head_of(data)
        lengths, before = said.get("lengths"), from_json(said.get("before"), lambda: None)
        if not isinstance(lengths, list) or len(lengths) != 3:
            raise BadRequest("its turn lacks its lengths")
        if any(type(length) is not int or not 0 <= length <= 1 << 30 for length in lengths):
            raise BadRequest("its turn's lengths are invalid")
        if before is not None and not isinstance(before, dict):
            raise BadRequest("what it waited for before its turn is invalid")
        return cls(
            message=content[: lengths[0]].decode("utf-8", "replace"),
            notes=content[lengths[0] :],
            stdout_bytes=lengths[1],
            stderr_bytes=lengths[2],
            before=None if before is None else decode_suspension(before),
        )


class WayBack(NamedTuple):
    """What a turn starts from.

    Attributes:
        machine: The state of its machine; None before the first turn.
        progress: How far it is.
        turn: The turn that it is in, if it waits in a plain function.
    """

    machine: MachineState | None = None
    progress: ProgramProgress = ProgramProgress()
    turn: PendingTurn | None = None

    def undone(self) -> WayBack:
        """Return the program before the turn that it is in."""
        if self.turn is None:
            return self
        progress = self.progress._replace(suspension=self.turn.before)
        return self._replace(progress=progress, turn=None)


class ProgramCodec(Protocol):
    """Turns a program into a snapshot and back, for the interpreter that runs it."""

    def encode(self, way_back: WayBack) -> ProgramSnapshot:
        """Return a program that had a turn as a snapshot.

        Raises:
            ProgramSnapshotRefused: It would exceed a limit.
        """

    def decode(self, snapshot: ProgramSnapshot) -> WayBack:
        """Return the program of a snapshot.

        Raises:
            ProgramSnapshotRefused: It cannot go on in this interpreter.
        """


class DurableState:
    """The program of one durable sandbox.

    Args:
        policy: What it may use.
        directory: Where it is on disk, too; None for memory only.
        start: What it starts from; None for the directory's snapshot, or for nothing.

    Attributes:
        is_moved: Whether its workspace may be a copy of the one that it began in.
        session: Names the program to host functions (`current_call`).
    """

    def __init__(
        self,
        policy: ExecutionPolicy,
        directory: Path | None = None,
        start: ProgramSnapshot | WayBack | None = None,
    ) -> None:
        self.policy: Final = policy
        self.is_moved: Final = start is not None
        self.session = ""
        self._place = None if directory is None else ProgramDirectory(directory)
        self._restored = start if isinstance(start, ProgramSnapshot) else None
        self._way_back = start if isinstance(start, WayBack) else None
        self._file: JournalFile | None = None
        self._lock = threading.RLock()
        self._is_saved = True

    @property
    def way_back(self) -> WayBack:
        """The program as the last good turn left it; it was loaded."""
        assert self._way_back is not None  # noqa: S101 (every turn loads it)
        return self._way_back

    @property
    def progress(self) -> ProgramProgress:
        """How far the program is.

        Raises:
            ProgramSnapshotRefused: The snapshot on disk is damaged.
            ReadError: It cannot be read.
        """
        if self._way_back is not None:
            return self._way_back.progress
        snapshot = self._restored
        if snapshot is None and self._place is not None:
            snapshot = self._place.peek()
        found = ProgramProgress() if snapshot is None else progress_of(snapshot)
        is_cut = self._place is not None and self._place.has_journal()
        return found._replace(suspension=_CUT) if is_cut else found

    def begin(self, request: Request, codec: ProgramCodec) -> None:
        """Take the program for a turn, and check that the request fits it; nothing runs.

        Raises:
            ProgramSuspended: The request has code, and the program waits for answers.
            UnknownRequest: It has answers, and the program does not wait for all of them.
            ProgramElsewhere: Another sandbox has the program.
            ProgramSnapshotRefused: The program cannot go on in this interpreter.
            DurableError: Its directory cannot be read or created.
        """
        self._load(codec)
        try:
            _check(request, self.progress.suspension)
        except BaseException:
            self.rest()
            raise

    def begin_turn(
        self, message: str, progress: ProgramProgress, codec: ProgramCodec
    ) -> JournalFile | None:
        """Return the file for a turn's journal, from which another process can go on; or None.

        Args:
            message: The interpreter's input.
            progress: How far the program is before the turn.
            codec: Writes the state before it to disk, unless it is there.

        Raises:
            ProgramSnapshotRefused: It would exceed a limit.
            DurableError: It cannot be written.
            TurnJournalNotWritten: The file cannot be written.
        """
        if self._place is None or self._file is not None:
            return self._file
        with self._lock:
            self._place.hold()
            self._write(codec)
            self._file = self._place.create_journal()
        said = {"message": message, "progress": progress.encoded()}
        self._file.append(_headed(said, b""))
        return self._file

    def end_turn(self, *, is_over: bool) -> None:
        """Close the turn's journal; if the turn is over, nothing goes on from it any more."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
        if is_over and self._place is not None:
            self._place.remove_journal()

    def advance(self, way_back: WayBack) -> None:
        """Go on from a turn that ended well."""
        self._way_back, self._is_saved = way_back, self._place is None

    def save(self, codec: ProgramCodec) -> None:
        """Write the program to disk, unless it is there, and let others go on with it.

        Raises:
            ProgramSnapshotRefused: It would exceed a limit; the former snapshot is unchanged.
            WriteError: Likewise.
        """
        with self._lock:
            self._write(codec)
            self.rest()

    def _write(self, codec: ProgramCodec) -> None:
        if not self._is_saved and self._place is not None:
            self._place.write(codec.encode(self.way_back))
            self._is_saved = True
            if self._file is None:
                self._place.remove_journal()

    def rest(self) -> None:
        """Let others go on with the program, if it is on disk as it is here and in no turn."""
        with self._lock:
            if self._is_saved and self._file is None and self._place is not None:
                self._place.leave()

    def fuel_of(self, request: Request) -> int:
        """Return the fuel that the program may use, of which a resumed one has used some."""
        progress = self.progress
        return request.fuel if progress.suspension is None else progress.fuel

    def fork(self, codec: ProgramCodec) -> Self:
        """Return another program, in memory only, that goes on as this one could.

        Raises:
            SandboxError: As `begin`.
        """
        self._load(codec)
        self.rest()
        progress = self.way_back.progress._replace(is_fork=True)
        return type(self)(self.policy, None, self.way_back._replace(progress=progress))

    def snapshot(self, codec: ProgramCodec) -> ProgramSnapshot:
        """Return the program as a snapshot, which is written to its directory, too.

        Raises:
            ProgramSnapshotRefused: No code has run in it, or it would exceed a limit.
            SandboxError: As `begin`.
        """
        self._load(codec)
        try:
            with self._lock:
                self._write(codec)
                return codec.encode(self.way_back)
        finally:
            self.rest()

    def _load(self, codec: ProgramCodec) -> None:
        with self._lock:
            place = self._place
            if place is not None:
                place.hold()
            if self._way_back is not None:
                return
            try:
                snapshot = self._restored
                stored = None if place is None else place.read()
                if place is not None and snapshot is not None and stored is not None:
                    raise ProgramElsewhere(place.path, "is another one than the snapshot's")
                snapshot = snapshot or stored
                found = WayBack() if snapshot is None else codec.decode(snapshot)
                self._way_back = self._cut_turn(found)
                self._is_saved = place is None or stored is not None or snapshot is None
            finally:
                if self._way_back is None:
                    self.rest()

    def _cut_turn(self, found: WayBack) -> WayBack:
        """Return a program in the turn that a killed process was in, if there is its journal."""
        if self._place is None:
            return found
        try:
            self._file = self._place.open_journal()
            if self._file is None:
                return found
            said, notes = _head_of(self._file.entries if self._file.is_of_this_boot else b"")
            progress = ProgramProgress.decoded(said["progress"])
            turn = found.turn or PendingTurn("", b"", 0, 0, progress.suspension)
            turn = turn._replace(message=str(said["message"]), notes=turn.notes + notes)
        except (BadRequest, TurnJournalDamaged, AttributeError, KeyError, TypeError) as error:
            _log.warning("program.turn_dropped", reason=str(error))
            self.end_turn(is_over=True)
            return found
        return found._replace(progress=progress._replace(suspension=_CUT), turn=turn)


def progress_of(snapshot: ProgramSnapshot) -> ProgramProgress:
    """Return how far a snapshot's program is.

    Raises:
        ProgramSnapshotDamaged: The snapshot does not say it.
    """
    try:
        return ProgramProgress.decoded(snapshot.description.said)
    except BadRequest as error:
        raise ProgramSnapshotDamaged(f"what it says of its program is invalid ({error})") from error


def turn_of(snapshot: ProgramSnapshot) -> PendingTurn | None:
    """Return the turn that a snapshot's program is in, or None.

    Raises:
        ProgramSnapshotDamaged: It is not a valid one.
    """
    try:
        return PendingTurn.decoded(snapshot.attached(_MOST_TURN))
    except BadRequest as error:
        raise ProgramSnapshotDamaged(f"what it says of its turn is invalid ({error})") from error


def _headed(said: Mapping[str, Any], content: bytes) -> bytes:
    head = json.dumps(said).encode()
    return len(head).to_bytes(8, "little") + head + content


def _head_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    end = 8 + int.from_bytes(data[:8], "little")
    try:
        said = json.loads(data[8:end])
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise BadRequest("its turn has no head")
    return said, data[end:]


def _check(request: Request, waiting: Suspension | None) -> None:
    requests = () if waiting is None else tuple(one.id for one in waiting.requests)
    if request.answers is None:
        if waiting is not None:
            raise ProgramSuspended(requests)
    elif waiting is None or waiting.unknown(request.answers):
        raise UnknownRequest(tuple(request.answers), requests)
