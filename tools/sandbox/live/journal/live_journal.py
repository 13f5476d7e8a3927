"""A turn's journal: what the world answered its guest, so that the turn can be run again.

A guest is a function of its memory and of what its imports answer. When a turn runs again from the
memory that it started from, everything in this process happens for real once more: the table of
descriptors, `/tmp`, the streams, the library's archive, quotas and fuel. Only what lies outside is
noted and then answered from the notes: system calls on served directories, time, chance, waits,
calls of host functions and requests. So a turn that runs again changes no file, and its memory ends
as the same bytes.

Before a change of names and before a call of a host function, everything noted is handed to the
sink together with an intent: what is about to be done. A process that is killed loses what was
noted since: the end of that one effect, and the answers of calls that are simply made again, as
they change nothing, or change the same: a write has a position. The turn that runs again reaches
the same effect, and learns from the intent that it may be done already.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ...guest.tool_frames import encoded_failure
from ...host.engine.clock import TurnClock, TurnEnded
from ...host.machine import SUSPENDED
from ...host.preview1.guest import TimeAndChance
from ...host.preview1.streams import InputFile
from ..errors import TurnJournalDamaged
from .note_log import NoteLog, nothing
from .notes import NoteReader
from .ops import EffectState, Op

if TYPE_CHECKING:
    from ...host.files.files import Buffers
    from ...host.preview1.guest import Door, Guest

INPUT_REQUEST: Final = b'{"v":1,"id":0,"op":"request","kind":"input"}'
"""The request of a guest that reads its input at the end; its answer is the bytes to be read."""

_SEED: Final = 32


class HostCall(NamedTuple):
    """The call of a host function that is being made.

    Attributes:
        session: The session.
        sequence: The number of its turn.
        call: The number of the call in its turn; the three are the same when it is made again.
        uncertain: Whether it was made before, and its end is unknown.
    """

    session: str
    sequence: int
    call: int
    uncertain: bool


class NotedFiles(Protocol):
    """The system calls of a guest's files, which go through a journal while they have one."""

    journal: LiveJournal | None

    def catch_up(self) -> None:
        """Open for real what is open in a turn that runs again."""


class LiveJournal(NoteLog):
    """The notes of one turn.

    Args:
        entries: The notes of an earlier run of the turn; empty for its first.
        files: The system calls of the guest's files; None if it has no served directory.
        sink: Called with new notes, in order; they count once it returns.
        sync: Called when what the sink has must outlast a power cut: before and after a call of a
            host function, and after the answer of a request.
        answer: Answers a request of the guest by a frame; None: there is no answer yet, which
            suspends the turn. Without it, requests go to the turn's door.
        asks_for_input: Whether a read of the input at its end is a request, `INPUT_REQUEST`.
        session: The session, for the keys of calls.
        sequence: The turn's number, for the keys of calls.

    Attributes:
        call: The call of a host function being made.
    """

    def __init__(
        self,
        entries: bytes = b"",
        *,
        files: NotedFiles | None = None,
        sink: Callable[[bytes], object] = nothing,
        sync: Callable[[], object] = nothing,
        answer: Callable[[bytes], bytes | None] | None = None,
        asks_for_input: bool = False,
        session: str = "",
        sequence: int = 0,
    ) -> None:
        super().__init__(entries, sink, self._catch_up)
        self.call: HostCall | None = None
        self._files = files
        self._sync = sync
        self._answer = answer
        self._asks_for_input = asks_for_input
        self._session, self._sequence = session, sequence
        self._host_calls = 0
        self._real = TimeAndChance()
        self._guest: Guest | None = None
        self._times = {Op.WALL: 0, Op.MONOTONIC: 0}
        self._ahead_ns = 0
        self._seed: bytes | None = None
        self._drawn = 0

    # ---------------------------------------------------------- the turn

    @contextmanager
    def following(self, guest: Guest) -> Iterator[None]:
        """Follow a guest within the block; see `TurnJournal`."""
        moment, door = guest.moment, guest.door
        self._real, self._guest = moment, guest
        guest.moment = TimeAndChance(
            wall_ns=self._wall_ns,
            monotonic_ns=self._monotonic_ns,
            chance=self._chance,
            wait=self._wait,
        )
        if door is not None or self._answer is not None:
            guest.door = _JournaledDoor(self._asked, door)
        guest.machine.journal = self
        if self._files is not None:
            self._files.journal = self
        try:
            yield
        finally:
            guest.moment, guest.door, guest.machine.journal = moment, door, None
            if self._files is not None:
                self._files.journal = None

    def input(self, data: bytes) -> InputFile:
        """Return the turn's input; at its end it may be a request."""
        if not self._asks_for_input:
            return InputFile(data)
        return _AskedInput(data, lambda: self._request(INPUT_REQUEST))

    def only_new(self, hand_on: Callable[[bytes], object]) -> Callable[[bytes], object]:
        """Return a callback that leaves out what an earlier run handed on and noted."""

        def call(data: bytes) -> None:
            if self.take(Op.HANDED_ON, len(data)) is None:
                hand_on(data)
                self.note(Op.HANDED_ON)

        return call

    def _catch_up(self, _: NoteReader) -> None:
        """Go on with the world as it is: its time, new chance, real files."""
        self._seed = None
        self._ahead_ns = max(0, self._times[Op.MONOTONIC] - self._since_start())
        if self._files is not None:
            self._files.catch_up()
        if self._guest is not None:
            self._guest.machine.clock.begin_again()

    # ---------------------------------------------------------- time and chance

    def _since_start(self) -> int:
        assert self._guest is not None  # noqa: S101 (a guest asks)
        return self._real.monotonic_ns() - self._guest.started_ns + self._ahead_ns

    def _time(self, op: Op, now: Callable[[], int]) -> int:
        reader = self.take(op)
        before = self._times[op]
        if reader is None:
            found = now()
            self.note(op).signed(found - before)
        else:
            found = before + reader.signed()
            if not 0 <= found < 1 << 63:
                raise TurnJournalDamaged(reason="a time is out of range")
        self._times[op] = found
        return found

    def _wall_ns(self) -> int:
        return self._time(Op.WALL, self._real.wall_ns)

    def _monotonic_ns(self) -> int:
        assert self._guest is not None  # noqa: S101 (a guest asks)
        return self._guest.started_ns + self._time(Op.MONOTONIC, self._since_start)

    def _chance(self, count: int) -> bytes:
        """Return random bytes, drawn from a seed that is noted once in each run."""
        if self._seed is None or self.next_is(Op.CHANCE):
            reader = self.take(Op.CHANCE)
            self._seed = self._real.chance(_SEED) if reader is None else reader.bytes(_SEED)
            if reader is None:
                self.note(Op.CHANCE).bytes(self._seed)
        self._drawn += 1
        drawn = self._seed + self._drawn.to_bytes(8, "little")
        return hashlib.shake_256(drawn).digest(count)

    def _wait(self, clock: TurnClock, seconds: float) -> None:
        """Wait; a wait that has ended is not repeated, one that was cut off is."""
        if self.take(Op.WAIT) is None:
            self.flush()
            self._real.wait(clock, seconds)
            self.note(Op.WAIT)

    # ---------------------------------------------------------- requests

    def _asked(self, request: bytes, door: Door | None) -> bytes:
        """Answer a frame of the guest."""
        operation = _operation(request)
        if operation == "suspended" and door is not None:
            return door(request)  # changes nothing but what the door knows, which it has to learn
        if operation == "request" and self._answer is not None:
            return self._request(request)
        if door is None:
            return encoded_failure(None, "unknown_tool", "this host offers no functions")
        return self._host_call(request, door)

    def _request(self, request: bytes) -> bytes:
        reader = self.take(Op.REQUEST, zlib.crc32(request))
        if reader is not None:
            return reader.bytes()
        self.flush()
        answer = None if self._answer is None else self._answer(request)
        if answer is None:
            raise TurnEnded(SUSPENDED)
        self.note(Op.REQUEST).bytes(answer)
        self.flush()
        self._sync()
        return answer

    def _host_call(self, request: bytes, door: Door) -> bytes:
        self._host_calls += 1
        state = self.begin(Op.CALL, zlib.crc32(request))
        if state is EffectState.NOTED:
            return self.reader.bytes()
        self._sync()
        uncertain = state is EffectState.PERHAPS
        self.call = HostCall(self._session, self._sequence, self._host_calls, uncertain)
        try:
            answer = door(request)
        finally:
            self.call = None
        self.note(Op.CALL).bytes(answer)
        self.flush()
        self._sync()
        return answer


class _JournaledDoor:
    """A turn's door whose answers are noted; what it refuses by length, it refuses again."""

    def __init__(self, asked: Callable[[bytes, Door | None], bytes], door: Door | None) -> None:
        self._asked = asked
        self._door = door

    def admit(self, length: int) -> bytes | None:
        """Refuse a request as the door does."""
        return None if self._door is None else self._door.admit(length)

    def __call__(self, request: bytes) -> bytes:
        """Answer a request."""
        return self._asked(request, self._door)


class _AskedInput(InputFile):
    """Input that asks for more at its end, until it is answered with nothing."""

    def __init__(self, data: bytes, ask: Callable[[], bytes]) -> None:
        super().__init__(data)
        self._ask = ask
        self._has_ended = False

    def read(self, buffers: Buffers, at: int) -> int:
        """Read from a position; ask for more at the end."""
        if at >= self.status().size and not self._has_ended and any(map(len, buffers)):
            more = self._ask()
            self._has_ended = not more
            self._data = memoryview(bytes(self._data) + more)
        return super().read(buffers, at)


def _operation(request: bytes) -> str | None:
    """Return what a frame asks for, as far as it matters here; its form is checked elsewhere."""
    if b'"request"' not in request and b'"suspended"' not in request:
        return None
    try:
        said = json.loads(request)
    except (ValueError, RecursionError):
        return None
    found = said.get("op") if isinstance(said, dict) else None
    return found if isinstance(found, str) else None
