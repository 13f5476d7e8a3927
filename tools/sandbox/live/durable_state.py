"""A durable program between two turns, as its sandbox holds it in memory and on disk."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final, NamedTuple, Protocol, Self

from ..errors import ProgramElsewhere, ProgramSuspended, UnknownRequest
from ..guest.tool_frames import BadRequest
from ..policy import ExecutionPolicy
from ..request import Request
from ..result_parts import Suspension
from .capture import MachineState
from .errors import SnapshotDamaged
from .program_directory import ProgramDirectory
from .progress import Progress
from .snapshot_file import Snapshot


class WayBack(NamedTuple):
    """What a turn starts from.

    Attributes:
        machine: The state of its machine; None before the first turn.
        progress: How far it is.
    """

    machine: MachineState | None = None
    progress: Progress = Progress()


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
    """

    def __init__(
        self,
        policy: ExecutionPolicy,
        directory: Path | None = None,
        start: Snapshot | WayBack | None = None,
    ) -> None:
        self.policy: Final = policy
        self._place = None if directory is None else ProgramDirectory(directory)
        self._restored = start if isinstance(start, Snapshot) else None
        self._way_back = start if isinstance(start, WayBack) else None
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
        return Progress() if snapshot is None else progress_of(snapshot)

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
            if not self._is_saved and self._place is not None:
                self._place.write(codec.encode(self.way_back))
                self._is_saved = True
            self.rest()

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
            found = codec.encode(self.way_back)
            with self._lock:
                if not self._is_saved and self._place is not None:
                    self._place.write(found)
                    self._is_saved = True
        finally:
            self.rest()
        return found

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
                self._way_back = WayBack() if snapshot is None else codec.decode(snapshot)
                self._is_saved = place is None or stored is not None or snapshot is None
            finally:
                if self._way_back is None:
                    self.rest()


def progress_of(snapshot: Snapshot) -> Progress:
    """Return how far a snapshot's program is.

    Raises:
        SnapshotDamaged: The snapshot does not say it.
    """
    try:
        return Progress.decoded(snapshot.description.said)
    except BadRequest as error:
        raise SnapshotDamaged(f"what it says of its program is invalid ({error})") from error


def _check(request: Request, waiting: Suspension | None) -> None:
    requests = () if waiting is None else tuple(one.id for one in waiting.requests)
    if request.answers is None:
        if waiting is not None:
            raise ProgramSuspended(requests)
    elif waiting is None or waiting.unknown(request.answers):
        raise UnknownRequest(tuple(request.answers), requests)
