"""A log is read as its format says, however it was damaged; a simple reader is the measure."""

from __future__ import annotations

import struct
from zlib import crc32

from hypothesis import given, settings
from hypothesis import strategies as st

from agentforge_sessions.base.files.log_frames import (
    LogMark,
    LogScan,
    Rest,
    encode_frame,
    scan_log,
)
from agentforge_sessions.base.stream_entry import StreamEntry

Entries = list[tuple[bytes, bytes]]


def frame_at(data: bytes, at: int, previous: int) -> tuple[list[StreamEntry], LogMark] | None:
    """Return the frame at an offset, in the plainest way, or None."""
    header = data[at : at + 36]
    if len(header) < 36 or header[:4] != b"AFL1":
        return None
    checksum, place, before, count, index_bytes, size = struct.unpack("<IQIIIQ", header[4:])
    end = at + 36 + size
    index = data[at + 36 : at + 36 + index_bytes]
    if count * 16 > index_bytes or index_bytes > size or end + 12 > len(data) or place != at:
        return None
    if crc32(header[8:] + index) != checksum or before != previous:
        return None
    if data[end : end + 12] != struct.pack("<Q", end + 12 - at) + b"AFLE":
        return None
    rows = [struct.unpack_from("<IQI", index, 16 * row) for row in range(count)]
    head, body, entries = 16 * count, at + 36 + index_bytes, []
    for head_bytes, body_bytes, check in rows:
        entries.append(StreamEntry(body, body_bytes, check, index[head : head + head_bytes]))
        head, body = head + head_bytes, body + body_bytes
    return entries, LogMark(end + 12, checksum, at)


def plain_scan(data: bytes, mark: LogMark) -> LogScan:
    entries: list[StreamEntry] = []
    before, last = mark, []
    while mark.end < len(data):
        frame = frame_at(data, mark.end, mark.checksum)
        if frame is None:
            places = [at for at in range(mark.end, len(data)) if data[at : at + 4] == b"AFL1"]
            whole = [
                at
                for at in places
                for one in [struct.unpack_from("<I", data[at + 16 :] + bytes(4))]
                if frame_at(data, at, one[0])
            ]
            return LogScan(entries, mark, Rest.DAMAGED if whole else Rest.TORN)
        before, last, mark = mark, frame[0], frame[1]
        entries += last
    for entry in last:
        if crc32(data[entry.position : entry.position + entry.size]) != entry.check:
            return LogScan(entries[: len(entries) - len(last)], before, Rest.TORN)
    return LogScan(entries, mark, Rest.NOTHING)


ENTRIES = st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9)), min_size=1, max_size=3)
APPENDS = st.lists(ENTRIES.map(lambda some: some[:1]) | ENTRIES, max_size=8)
SMALL: list[Entries] = [
    [(b"head", b"body")],
    [(b"", b"")],
    [(b"one", b"1"), (b"two", b"22")],
    [(b"head", b"AFL1")],
    [(b"x" * 20, b"y" * 20)],
]


def log_of(appends: list[Entries]) -> tuple[list[bytes], list[LogMark]]:
    frames, marks = [], [LogMark()]
    for entries in appends:
        pieces, mark = encode_frame(entries, marks[-1])
        frames.append(b"".join(pieces))
        marks.append(mark)
    return frames, marks


def require_same(data: bytes, mark: LogMark = LogMark()) -> LogScan:  # noqa: B008 (it is frozen)
    def read(offset: int, length: int) -> bytes:
        return data[offset : offset + length]

    found = scan_log(read, len(data), mark)
    assert found == plain_scan(data, mark)
    return found


def test_a_log_with_any_bit_changed_or_cut_at_any_byte_is_read_as_by_the_plain_reader() -> None:
    frames, marks = log_of(SMALL)
    data = b"".join(frames)
    assert len(require_same(data).entries) == 6
    for place in range(len(data)):
        require_same(data[:place])
        require_same(data[:place] + bytes(len(data) - place))
        for bit in range(8):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            require_same(bytes(changed))
            if place >= marks[1].end:
                require_same(bytes(changed), marks[1])


def test_frames_at_other_places_or_of_other_logs_are_read_as_by_the_plain_reader() -> None:
    frames, _ = log_of(SMALL)
    others, _ = log_of([[(head.upper(), bytes(len(body))) for head, body in one] for one in SMALL])
    for first in range(len(frames)):
        require_same(b"".join([*frames[:first], *frames[first + 1 :]]))
        require_same(b"".join([*frames[: first + 1], *frames[first:]]))
        require_same(b"".join([*frames[:first], others[first], *frames[first + 1 :]]))
        require_same(b"".join([*frames[:first], *others[first:]]))
        for second in range(len(frames)):
            swapped = list(frames)
            swapped[first], swapped[second] = frames[second], frames[first]
            require_same(b"".join(swapped))
            require_same(b"".join([*frames, frames[first][: second * 9]]))


@settings(max_examples=100, deadline=None)
@given(APPENDS, st.data())
def test_a_log_with_changes_is_read_as_by_the_plain_reader(
    appends: list[Entries], choices: st.DataObject
) -> None:
    frames, marks = log_of(appends)
    changed = bytearray(b"".join(frames))
    for _ in range(choices.draw(st.integers(0, 3))):
        if changed:
            changed[choices.draw(st.integers(0, len(changed) - 1))] = choices.draw(
                st.integers(0, 255)
            )
    data = bytes(changed[: choices.draw(st.integers(0, len(changed)))])
    require_same(data)
    mark = choices.draw(st.sampled_from(marks))
    if mark.end <= len(data):
        require_same(data, mark)


def test_thousands_of_small_frames_are_read_with_large_ones_between() -> None:
    appends: list[Entries] = [
        [(b"head %d" % number, bytes(70_000 if number % 700 == 0 else number % 90))]
        for number in range(3_000)
    ]
    frames, marks = log_of(appends)
    data = b"".join(frames)
    assert len(require_same(data).entries) == 3_000

    def read(offset: int, length: int) -> bytes:
        return data[offset : offset + length]

    assert scan_log(read, marks[-2].end, LogMark()).mark == marks[-2]  # later appends are ignored
