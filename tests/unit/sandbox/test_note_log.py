"""The notes of a turn, without a guest: their form, their order, their limits."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge_sessions.sandbox.live.errors import TurnDiverged, TurnJournalDamaged
from agentforge_sessions.sandbox.live.journal.note_log import MOST_NOTED, NoteLog
from agentforge_sessions.sandbox.live.journal.notes import NoteReader, NoteWriter
from agentforge_sessions.sandbox.live.journal.ops import EffectState, Op


class Sink:
    """Takes notes, and counts how often."""

    def __init__(self) -> None:
        self.data = b""
        self.pieces = 0

    def __call__(self, more: bytes) -> None:
        self.data += more
        self.pieces += 1


def log_of(entries: bytes = b"", sink: Sink | None = None) -> NoteLog:
    return NoteLog(entries, sink or Sink(), lambda _: None)


@given(st.lists(st.integers(0, (1 << 64) - 1) | st.integers(-(1 << 63), -1) | st.binary()))
def test_what_is_noted_is_read_again(values: list[int | bytes]) -> None:
    writer = NoteWriter()
    for value in values:
        writer.bytes(value) if isinstance(value, bytes) else writer.signed(value)
    reader = NoteReader(writer.take())
    for value in values:
        assert value == (reader.bytes() if isinstance(value, bytes) else reader.signed())
    assert not reader.left


def test_a_status_is_read_again_and_the_same_one_twice_is_a_byte(tmp_path: Path) -> None:
    writer = NoteWriter()
    seen = [os.stat(tmp_path), os.stat(__file__), os.stat(__file__)]
    for each in seen[:2]:
        writer.status(each)
    before = len(writer.data)
    writer.status(seen[2])
    assert len(writer.data) == before + 1
    reader = NoteReader(writer.take())
    for each in seen:
        found = reader.status()
        assert os.path.samestat(found, each)
        assert (found.st_mode, found.st_nlink, found.st_size, found.st_mtime_ns) == (
            each.st_mode,
            each.st_nlink,
            each.st_size,
            each.st_mtime_ns,
        )


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (NoteReader.bytes, NoteReader.signed, NoteReader.status):
        reader = NoteReader(data)
        with suppress(TurnJournalDamaged):
            while reader.left:
                read(reader)


def test_only_what_an_effect_depends_on_is_handed_on_before_it() -> None:
    sink = Sink()
    log = log_of(sink=sink)
    for i in range(3):
        assert log.repeat(Op.WRITE, i) is None
        log.note(Op.WRITE).number(0)
    assert sink.pieces == 0  # a killed turn writes the same again
    log.take(Op.FSTAT)
    log.note(Op.FSTAT).number(0)
    log.repeat(Op.WRITE, 3)
    assert sink.pieces == 1
    assert log.begin(Op.UNLINK) is EffectState.NOT
    assert sink.pieces == 2
    assert sink.data == log.entries


def test_an_effect_whose_end_is_not_noted_is_done_perhaps() -> None:
    log = log_of()
    log.begin(Op.UNLINK)
    again = log_of(log.entries)
    assert again.begin(Op.UNLINK) is EffectState.PERHAPS
    again.note(Op.UNLINK).number(0)
    again.flush()
    last = log_of(again.entries)
    assert last.begin(Op.UNLINK) is EffectState.NOTED
    assert last.reader.number() == 0
    assert not last.replays


def test_a_log_that_diverged_answers_nothing_more() -> None:
    log = log_of()
    log.begin(Op.UNLINK)
    again = log_of(log.entries)
    again.called("path_open", (1, 2))
    for _ in range(2):
        with pytest.raises(TurnDiverged, match=r"call 1 \(path_open\)"):
            again.take(Op.UNLINK)


def test_a_turn_that_notes_too_much_goes_on_and_is_not_run_again() -> None:
    sink = Sink()
    log = log_of(sink=sink)
    for _ in range(3):
        log.take(Op.READ)
        log.note(Op.READ).bytes(bytes(MOST_NOTED // 2))
        log.flush()
    assert len(sink.data) <= MOST_NOTED
    pieces = sink.pieces
    log.begin(Op.UNLINK)
    assert sink.pieces == pieces
    again = log_of(sink.data)
    reader = again.take(Op.READ)
    assert reader is not None
    reader.bytes()
    with pytest.raises(TurnJournalDamaged, match="more than a journal may hold"):
        again.take(Op.READ)
