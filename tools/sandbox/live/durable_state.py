"""A durable program between two turns, as its sandbox holds it in memory and on disk."""

from __future__ import annotations

import base64
import json
import threading
import zlib
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
from .errors import SnapshotDamaged, SnapshotRefused, TurnJournalDamaged
from .journal.journal_file import JournalFile
from .program_directory import ProgramDirectory
from .progress import Progress
from .requests import decode_suspension, encode_suspension
from .snapshot_file import Snapshot

_CUT: Final = Suspension((), None)
"""What a program waits for whose process was killed within a turn: to go on."""

_log = get_logger("agentforge.sandbox")

_MOST_PACKED: Final = 640 << 10
_MOST_UNPACKED: Final = 64 << 20


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

    def encoded(self) -> dict[str, Any]:
        """Return it as JSON holds it; `decoded` returns it again.

        Raises:
            SnapshotRefused: It is too long.
        """
        parts = zlib.compress(self.message.encode(), 1), zlib.compress(self.notes, 1)
        packed = sum(map(len, parts))
        if packed > _MOST_PACKED:
            raise SnapshotRefused(
                f"what its turn read and wrote has {packed:,} bytes, and {_MOST_PACKED:,} are "
                "allowed where a plain function waits",
                "have it wait in a coroutine, by await",
            )
        message, notes = (base64.b64encode(part).decode() for part in parts)
        before = None if self.before is None else encode_suspension(self.before)
        return {**self._asdict(), "message": message, "notes": notes, "before": before}

    @classmethod
    def decoded(cls, said: object) -> Self | None:
        """Return the turn that a snapshot's description holds; None without one.

        Raises:
            BadRequest: It is not a valid one.
        """
        if said is None:
            return None
        if not isinstance(said, dict) or set(said) != set(cls._fields):
            raise BadRequest("its turn is incomplete")
        before, lengths = said["before"], (said["stdout_bytes"], said["stderr_bytes"])
        if any(type(length) is not int or not 0 <= length <= 1 << 30 for length in lengths):
            raise BadRequest("its turn's output has no length")
        return cls(
            message=_unpacked(said["message"]).decode("utf-8", "replace"),
            notes=_unpacked(said["notes"]),
            stdout_bytes=lengths[0],
            stderr_bytes=lengths[1],
            before=None if before is None else decode_suspension(from_json(before, lambda: None)),
        )


class WayBack(NamedTuple):
    """What a turn starts from.

    Attributes:
        machine: The state of its machine; None before the first turn.
        progress: How far it is.
        turn: The turn that it is in, if it waits in a plain function.
    """

    machine: MachineState | None = None
    progress: Progress = Progress()
    turn: PendingTurn | None = None

    def undone(self) -> WayBack:
        """Return the program before the turn that it is in."""
        if self.turn is None:
            return self
        progress = self.progress._replace(suspension=self.turn.before)
        return self._replace(progress=progress, turn=None)


class ProgramCodec(Protocol):
    """Turns a program into a snapshot and back, for the interpreter that runs it."""

    def encode(self, way_back: WayBack) -> Snapshot:
        """Return a program that had a turn as a snapshot.

        Raises:
            SnapshotRefused: It would exceed a limit.
        """

    def decode(self, snapshot: Snapshot) -> WayBack:
        """Return the program of a snapshot.

        Raises:
            SnapshotRefused: It cannot go on in this interpreter.
        """


class DurableState:
    """The program of one durable sandbox.

    Args:
        policy: What it may use.
        directory: Where it is on disk, too; None for memory only.
        start: What it starts from; None for the directory's snapshot, or for nothing.

    Attributes:
        is_moved: Whether its workspace may be a copy of the one that it began in.
    """

    def __init__(
        self,
        policy: ExecutionPolicy,
        directory: Path | None = None,
        start: Snapshot | WayBack | None = None,
    ) -> None:
        self.policy: Final = policy
        self.is_moved: Final = start is not None
        self._place = None if directory is None else ProgramDirectory(directory)
        self._restored = start if isinstance(start, Snapshot) else None
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
    def progress(self) -> Progress:
        """How far the program is.

        Raises:
            SnapshotRefused: The snapshot on disk is damaged.
            ReadError: It cannot be read.
        """
        if self._way_back is not None:
            return self._way_back.progress
        snapshot = self._restored
        if snapshot is None and self._place is not None:
            snapshot = self._place.peek()
        found = Progress() if snapshot is None else progress_of(snapshot)
        is_cut = self._place is not None and self._place.has_journal()
        return found._replace(suspension=_CUT) if is_cut else found

    def begin(self, request: Request, codec: ProgramCodec) -> None:
        """Take the program for a turn, and check that the request fits it; nothing runs.

        Raises:
            ProgramSuspended: The request has code, and the program waits for answers.
            UnknownRequest: It has answers, and the program does not wait for all of them.
            ProgramElsewhere: Another sandbox has the program.
            SnapshotRefused: The program cannot go on in this interpreter.
            DurableError: Its directory cannot be read or created.
        """
        self._load(codec)
        try:
            _check(request, self.progress.suspension)
        except BaseException:
            self.rest()
            raise

    def begin_turn(
        self, message: str, progress: Progress, codec: ProgramCodec
    ) -> JournalFile | None:
        """Return the file for a turn's journal, from which another process can go on; or None.

        Args:
            message: The interpreter's input.
            progress: How far the program is before the turn.
            codec: Writes the state before it to disk, unless it is there.

        Raises:
            SnapshotRefused: It would exceed a limit.
            DurableError: It cannot be written.
            TurnJournalNotWritten: The file cannot be written.
        """
        if self._place is None or self._file is not None:
            return self._file
        with self._lock:
            self._write(codec)
            self._file = self._place.create_journal()
        said = {"message": message, "progress": progress.encoded()}
        head = json.dumps(said).encode()
        self._file.append(len(head).to_bytes(8, "little") + head)
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
            SnapshotRefused: It would exceed a limit; the former snapshot is unchanged.
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
        """Let others go on with the program, if it is on disk as it is here."""
        with self._lock:
            if self._is_saved and self._place is not None:
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

    def snapshot(self, codec: ProgramCodec) -> Snapshot:
        """Return the program as a snapshot, which is written to its directory, too.

        Raises:
            SnapshotRefused: No code has run in it, or it would exceed a limit.
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
            data = self._file.entries if self._file.is_of_this_boot else b""
            end = 8 + int.from_bytes(data[:8], "little")
            said = json.loads(data[8:end])
            progress = Progress.decoded(said["progress"])
            turn = found.turn or PendingTurn("", b"", 0, 0, progress.suspension)
            turn = turn._replace(message=said["message"], notes=turn.notes + data[end:])
        except (BadRequest, TurnJournalDamaged, KeyError, TypeError, ValueError) as error:
            _log.warning("program.turn_dropped", reason=str(error))
            self.end_turn(is_over=True)
            return found
        return found._replace(progress=progress._replace(suspension=_CUT), turn=turn)


def progress_of(snapshot: Snapshot) -> Progress:
    """Return how far a snapshot's program is.

    Raises:
        SnapshotDamaged: The snapshot does not say it.
    """
    try:
        return Progress.decoded(snapshot.description.said)
    except BadRequest as error:
        raise SnapshotDamaged(f"what it says of its program is invalid ({error})") from error


def turn_of(snapshot: Snapshot) -> PendingTurn | None:
    """Return the turn that a snapshot's program is in, or None.

    Raises:
        SnapshotDamaged: It is not a valid one.
    """
    try:
        return PendingTurn.decoded(snapshot.description.said.get("turn"))
    except BadRequest as error:
        raise SnapshotDamaged(f"what it says of its turn is invalid ({error})") from error


def _unpacked(text: object) -> bytes:
    try:
        packed = base64.b64decode(text if isinstance(text, str) else "?", validate=True)
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(packed, _MOST_UNPACKED)
    except (ValueError, zlib.error):
        raise BadRequest("a part of its turn cannot be unpacked") from None
    if not unpacker.eof:
        raise BadRequest("a part of its turn is too long")
    return data


def _check(request: Request, waiting: Suspension | None) -> None:
    requests = () if waiting is None else tuple(one.id for one in waiting.requests)
    if request.answers is None:
        if waiting is not None:
            raise ProgramSuspended(requests)
    elif waiting is None or waiting.unknown(request.answers):
        raise UnknownRequest(tuple(request.answers), requests)
