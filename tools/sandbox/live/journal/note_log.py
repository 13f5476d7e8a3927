"""Notes in the order of a turn's calls: read where an earlier run has been, then written.

A note has a check of all the turn's calls so far, so that a turn that does something else than
before is stopped at its first note.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from typing import Final, NoReturn

from ..errors import TurnDiverged, TurnJournalDamaged
from .notes import NoteReader, NoteWriter
from .ops import REPEATABLE, EffectState, Op

MOST_NOTED: Final = 64 << 20
"""The most bytes of a journal; a turn that needs more goes on, but cannot be run again."""

_BATCH: Final = 1 << 14
_INTENT: Final = 0x80
_CHECKED: Final = 0xFFFF


def nothing(_: object = None) -> None:
    """Add, read or do nothing."""


class NoteLog:
    """The notes of one turn.

    Args:
        entries: The notes of an earlier run; empty for the first.
        sink: Called with new notes, in order.
        caught_up: Called with the reader of the notes where they end.
    """

    def __init__(
        self,
        entries: bytes,
        sink: Callable[[bytes], object],
        caught_up: Callable[[NoteReader], object],
    ) -> None:
        self._sink = sink
        self._caught_up = caught_up
        self._reader: NoteReader | None = NoteReader(entries) if entries else None
        self._writer = NoteWriter()
        self._noted = bytearray(entries)
        self._is_too_long = self._is_long = self._varies = False
        self._failed: TurnDiverged | None = None
        self._check = 0
        self._calls = 0
        self._function = "start"

    @property
    def entries(self) -> bytes:
        """All that was noted and handed to the sink, the earlier runs included."""
        return bytes(self._noted)

    @property
    def replays(self) -> bool:
        """Whether the turn is where an earlier run has been."""
        return self._reader is not None and self._reader.left

    def called(self, name: str, numbers: tuple[int, ...]) -> None:
        """Note that the guest calls a function with these numbers."""
        self._calls += 1
        self._function = name
        self._check = hash((self._check, _key(name), numbers))
        if self._is_long:
            self.flush()

    def finish(self) -> None:
        """Note that the turn has ended by itself.

        Raises:
            TurnDiverged: Its journal says that it went on.
        """
        if self.replays:
            self.diverge("it ended, and its journal goes on")
        self.go_on()
        self.flush()

    def take(self, op: Op, *said: int) -> NoteReader | None:
        """Return where a call's answer is noted; None if it is to be made.

        Raises:
            TurnDiverged: Another call is noted there.
        """
        self._note_check(op, said)
        if not self.replays:
            self.go_on()
            return None
        self._match(op)
        return self.reader

    def repeat(self, op: Op, *said: int) -> NoteReader | None:
        """Return where the answer of an effect is noted that may be made twice; None if it is not.

        It needs no intent. Only what it may depend on is handed on before it: a killed turn makes
        all such effects since then again, in their order.

        Raises:
            TurnDiverged: Another call is noted there.
        """
        reader = self.take(op, *said)
        if reader is None and self._varies:
            self.flush()
        return reader

    def begin(
        self,
        op: Op,
        *said: int,
        before: Callable[[NoteWriter], object] = nothing,
        was: Callable[[NoteReader], object] = nothing,
    ) -> EffectState:
        """Begin an effect; unless it was announced before, its intent is handed to the sink first.

        Args:
            op: What it is.
            said: Its arguments.
            before: Adds to the intent what has to be known before the effect.
            was: Reads that again.

        Raises:
            TurnDiverged: Another call is noted there.
        """
        self._note_check(op, said)
        if not self.replays:
            self.go_on()
            before(self._head(op | _INTENT))
            self.flush()
            return EffectState.NOT
        self._match(op | _INTENT)
        reader = self.reader
        was(reader)
        if reader.left:
            self._match(op)
            return EffectState.NOTED
        self.go_on()
        return EffectState.PERHAPS

    @property
    def reader(self) -> NoteReader:
        """Where the notes of an earlier run are read."""
        if self._reader is None:
            raise TurnJournalDamaged(reason="there are no notes to read")
        return self._reader

    def next_is(self, op: Op) -> bool:
        """Return whether the next note of an earlier run is of this kind."""
        return self._reader is not None and self._reader.peek() == op

    def note(self, op: Op) -> NoteWriter:
        """Begin the note of a call's answer; return what the answer is added to."""
        return self._head(op)

    def flush(self) -> None:
        """Hand everything noted to the sink."""
        if not self._writer.data:
            return
        data, self._varies, self._is_long = self._writer.take(), False, False
        if self._is_too_long:
            return
        if len(self._noted) + len(data) > MOST_NOTED:
            self._is_too_long = True
            data = bytes((Op.TOO_LONG,))
        self._noted += data
        self._sink(data)

    def _head(self, op: int) -> NoteWriter:
        writer = self._writer
        self._varies = self._varies or op not in REPEATABLE
        self._is_long = len(writer.data) > _BATCH
        writer.data += bytes((op,)) + (self._check & _CHECKED).to_bytes(2, "little")
        return writer

    def _note_check(self, op: Op, said: tuple[int, ...]) -> None:
        if self._failed is not None:
            raise self._failed
        self._check = hash((self._check, int(op), said))

    def _match(self, op: int) -> None:
        """Take the head of a note, which must be of this call."""
        reader = self.reader
        found = reader.byte()
        if found == Op.TOO_LONG:
            raise TurnJournalDamaged(reason="the turn noted more than a journal may hold")
        check = reader.byte() | reader.byte() << 8
        if found != op:
            self.diverge(f"it does {_named(op)}, its journal says {_named(found)}")
        if check != self._check & _CHECKED:
            self.diverge("what it has done so far differs")

    def diverge(self, reason: str) -> NoReturn:
        """Stop a turn that does something else."""
        self._failed = TurnDiverged(call=self._calls, function=self._function, reason=reason)
        raise self._failed

    def go_on(self) -> None:
        """Go on for real, where an earlier run's notes end."""
        reader, self._reader = self._reader, None
        if reader is not None:
            self._writer.seen = reader.seen
            self._caught_up(reader)


@functools.cache
def _key(name: str) -> int:
    return zlib.crc32(name.encode())


def _named(op: int) -> str:
    try:
        return Op(op & ~_INTENT).name
    except ValueError:
        return f"note {op}"
