"""The byte format of an append-only log: what a frame is, and which frames a file holds; pure.

    frame   magic, checksum of what follows up to the bodies; the frame's offset, checksum of the
            frame before, number of entries, bytes of the index, bytes of index and bodies; then
            the index (a row for each entry, then their heads), then the bodies; then the bytes of
            the whole frame and the magic of its end, by which a log is read from its end

All numbers are little-endian. One append is one frame, so it is there in full or not at all. A
frame's checksum covers its place in the file, the checksum of the frame before it, the heads and
the checksums of the bodies: a frame is invalid at another place, or after another frame. So a
prefix that was read once can be verified by its last frame alone, and the heads of a log are read
without its bodies. What a checksum covers is in one piece, so that many small frames are verified
quickly.
"""

# Annotations are evaluated here: as strings, each field's would have to be compiled.

import gc
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from typing import Final, NamedTuple
from zlib import crc32

from ..stream_entry import StreamEntry

MAGIC: Final = b"AFL1"
END: Final = b"AFLE"
_LEAD: Final = struct.Struct("<4sI")
_FIELDS: Final = struct.Struct("<QIIIQ")
_HEADER: Final = struct.Struct("<4sIQIIIQ")
"""Both together."""
_ROW: Final = struct.Struct("<IQI")
HEADER_BYTES: Final = _HEADER.size
_TRAILER: Final = struct.Struct("<Q4s")
TRAILER_BYTES: Final = _TRAILER.size
_SINGLE: Final = struct.Struct("<4sIQIIIQIQI")
"""The header of a frame, and the row of its only entry."""
_NEXT: Final = struct.Struct("<Q8sIQIIIQIQI")
"""The end of a frame, and of the next one what `_SINGLE` reads."""
_BETWEEN: Final = END + MAGIC
_LONG_BYTES: Final = 1 << 20
_WINDOW_BYTES: Final = (1 << 16) - TRAILER_BYTES
"""How much of dense frames is read at once; after a large frame, its end is in memory, too."""

Read = Callable[[int, int], bytes]
"""Returns `length` bytes from an offset on; fewer at the end."""


class LogMark(NamedTuple):
    """A place between two frames, with a check of what precedes it.

    Attributes:
        end: The offset.
        checksum: That of the frame before it; 0 at the beginning.
        last: The offset of that frame; -1 at the beginning.
    """

    end: int = 0
    checksum: int = 0
    last: int = -1


class Rest(Enum):
    """What follows the last complete frame."""

    NOTHING = auto()
    TORN = auto()
    """The beginning of an append that was never acknowledged."""
    DAMAGED = auto()
    """Damaged data that was once complete: other frames follow it."""


class LogScan(NamedTuple):
    """The frames that were found.

    Attributes:
        entries: Their entries.
        mark: Their end.
        rest: What follows them.
    """

    entries: list[StreamEntry]
    mark: LogMark
    rest: Rest


class LogTail(NamedTuple):
    """The last entries of a log.

    Attributes:
        entries: The entries, in order; of the first one's append possibly only the last ones.
        mark: Their end.
        whole: Whether no other entry precedes them.
    """

    entries: list[StreamEntry]
    mark: LogMark
    whole: bool


class _Frame(NamedTuple):
    entries: list[StreamEntry]
    mark: LogMark
    previous: int
    whole: bool


def encode_frame(
    entries: Sequence[tuple[bytes, bytes]], after: LogMark
) -> tuple[list[bytes], LogMark]:
    """Return a frame of entries (head, body) as pieces, and the mark after it.

    Args:
        entries: One or more.
        after: The frame's place.
    """
    rows = b"".join(_ROW.pack(len(head), len(body), crc32(body)) for head, body in entries)
    index = rows + b"".join(head for head, _ in entries)
    size = len(index) + sum(len(body) for _, body in entries)
    covered = _FIELDS.pack(after.end, after.checksum, len(entries), len(index), size) + index
    checksum = crc32(covered)
    begin = _LEAD.pack(MAGIC, checksum) + covered
    whole = HEADER_BYTES + size + TRAILER_BYTES
    mark = LogMark(after.end + whole, checksum, after.end)
    return [begin, *(body for _, body in entries), _TRAILER.pack(whole, END)], mark


def encode_log(entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return entries as a log of one frame each: the canonical form in which logs are compared."""
    pieces: list[bytes] = []
    mark = LogMark()
    for entry in entries:
        frame, mark = encode_frame([entry], mark)
        pieces += frame
    return b"".join(pieces)


def decode_log(data: bytes) -> list[tuple[bytes, bytes]]:
    """Return the entries of a complete log.

    Raises:
        ValueError: It is not a valid log.
    """

    def read(offset: int, length: int) -> bytes:
        return data[offset : offset + length]

    scan = scan_log(read, len(data), LogMark())
    bodies = [read(entry.position, entry.size) for entry in scan.entries]
    damaged = any(
        crc32(body) != entry.check for body, entry in zip(bodies, scan.entries, strict=True)
    )
    if scan.rest is not Rest.NOTHING or damaged:
        raise ValueError(f"what stands at byte {scan.mark.end} of a log is no whole entry")
    return [(entry.head, body) for entry, body in zip(scan.entries, bodies, strict=True)]


def stands(read: Read, mark: LogMark) -> bool:
    """Return whether a log is unchanged up to a mark since the mark was made."""
    if mark.last < 0:
        return True
    header = read(mark.last, HEADER_BYTES)
    return len(header) == HEADER_BYTES and (_HEADER.unpack(header)[1] == mark.checksum)


@contextmanager
def _uncollected(size: int) -> Iterator[None]:
    """Suspend the collection of cycles while many entries are made, which are in none.

    Else each full collection visits all of them, which takes a quarter of the time of a long log.
    """
    suspended = size > _LONG_BYTES and gc.isenabled()
    if suspended:
        gc.disable()
    try:
        yield
    finally:
        if suspended:
            gc.enable()


def scan_log(read: Read, size: int, after: LogMark) -> LogScan:
    """Return the frames after a valid mark; only the bodies of the last frame are read.

    Args:
        read: Reads the file.
        size: The file's size; later appends are ignored.
        after: Where to begin.
    """
    with _uncollected(size - after.end):
        return _scan(read, size, after)


def _scan(read: Read, size: int, after: LogMark) -> LogScan:
    entries: list[StreamEntry] = []
    before = mark = after
    last: list[StreamEntry] = []
    while mark.end < size:
        found = _add_small(read(mark.end, min(_WINDOW_BYTES, size - mark.end)), mark, entries)
        if found is not mark:
            mark = found
            continue
        frame = _frame_at(read, mark.end, size)
        if frame is None or frame.previous != mark.checksum:
            return LogScan(entries, mark, _rest(read, mark.end, size))
        before, mark, last = mark, frame.mark, frame.entries
        entries += last
    # Only the last append can be incomplete: the one before it was synced before it started.
    if any(crc32(read(entry.position, entry.size)) != entry.check for entry in last):
        del entries[len(entries) - len(last) :]
        return LogScan(entries, before, Rest.TORN)
    return LogScan(entries, mark, Rest.NOTHING)


def _add_small(window: bytes, mark: LogMark, entries: list[StreamEntry]) -> LogMark:
    """Add the frames of one entry that begin a window, while there is more after them.

    Where a frame is not of this simple form, `_frame_at` decides what it is. The last frame of a
    log never is: nothing follows it.

    Args:
        window: What follows the mark.
        mark: A valid mark.
        entries: Takes the entries.

    Returns:
        The mark after them; the same object if there are none.
    """
    if len(window) < _SINGLE.size:
        return mark
    # Names of this function alone are the quickest, and a log may have 100,000 frames.
    add, new, kind, crc = entries.append, tuple.__new__, StreamEntry, crc32
    of_next, row, lead = _NEXT.unpack_from, _ROW.size, _LEAD.size
    header, around = HEADER_BYTES, HEADER_BYTES + TRAILER_BYTES
    begin, before, last, at = mark.end, mark.checksum, -1, 0
    most = len(window) - _NEXT.size
    magic, check, place, previous, count, index, size, head, body, sum_ = _SINGLE.unpack_from(
        window
    )
    between = END + magic
    while (
        between == _BETWEEN
        and place == begin + at
        and previous == before
        and count == 1
        and index == row + head
        and size == index + body
        and at + header + size <= most
    ):
        end = at + header + index
        if check != crc(window[at + lead : end]):
            break
        entry = new(kind, (begin + end, body, sum_, window[end - head : end]))
        here, whole = check, around + size
        length, between, check, place, previous, count, index, size, head, body, sum_ = of_next(
            window, end + body
        )
        if length != whole or between != _BETWEEN:
            break
        add(entry)
        before, last, at = here, at, at + whole
    return mark if last < 0 else LogMark(begin + at, before, begin + last)


def last_frames(read: Read, size: int, count: int) -> LogTail | None:
    """Return the last entries; None if a torn frame is the last.

    Earlier frames are not checked.

    Args:
        read: Reads the file.
        size: The file's size.
        count: The minimum of entries, if there are as many; 1 or more.
    """
    frames: list[_Frame] = []
    begin, found = size, 0
    while begin > 0 and found < count:
        if begin < HEADER_BYTES + TRAILER_BYTES:
            return None
        trailer = read(begin - TRAILER_BYTES, TRAILER_BYTES)
        start = begin - _TRAILER.unpack(trailer)[0] if len(trailer) == TRAILER_BYTES else -1
        # All of the last frame, which may be incomplete, as in a scan.
        most = count - found if frames else None
        frame = _frame_at(read, start, begin, most) if start >= 0 else None
        if frame is None or frame.mark.end != begin:
            return None
        if frames and frames[-1].previous != frame.mark.checksum:
            return None
        frames.append(frame)
        begin, found = start, found + len(frame.entries)
    if begin == 0 and frames and frames[-1].previous != 0:
        return None
    for entry in frames[0].entries if frames else ():
        if crc32(read(entry.position, entry.size)) != entry.check:
            return None
    entries = [entry for frame in reversed(frames) for entry in frame.entries]
    whole = begin == 0 and all(frame.whole for frame in frames)
    return LogTail(entries, frames[0].mark if frames else LogMark(), whole)


def _frame_at(read: Read, offset: int, size: int, most: int | None = None) -> _Frame | None:
    """Return the frame that begins at an offset, or None if there is no complete one.

    Args:
        read: Reads the file.
        offset: The offset.
        size: The file's size.
        most: How many of its last entries to return; all if None.
    """
    header = read(offset, HEADER_BYTES)
    if len(header) < HEADER_BYTES:
        return None
    magic, checksum, place, previous, count, index_bytes, payload = _HEADER.unpack(header)
    if (
        magic != MAGIC
        or place != offset
        or not count * _ROW.size <= index_bytes <= payload
        or offset + HEADER_BYTES + payload + TRAILER_BYTES > size
    ):
        return None
    index = read(offset + HEADER_BYTES, index_bytes)
    if checksum != crc32(index, crc32(header[_LEAD.size :])):
        return None
    end = offset + HEADER_BYTES + payload
    if read(end, TRAILER_BYTES) != _TRAILER.pack(end + TRAILER_BYTES - offset, END):
        return None
    wanted = count if most is None else min(most, count)
    entries = _last_entries(index, count, end, wanted)
    return _Frame(
        entries, LogMark(end + TRAILER_BYTES, checksum, offset), previous, wanted == count
    )


def _last_entries(index: bytes, count: int, end: int, wanted: int) -> list[StreamEntry]:
    """Return the last entries of a frame, given the ends of its index and bodies."""
    entries = []
    head_end, body_end = len(index), end
    for row in range(count - 1, count - 1 - wanted, -1):
        head_bytes, body_bytes, checksum = _ROW.unpack_from(index, row * _ROW.size)
        head = index[head_end - head_bytes : head_end]
        head_end -= head_bytes
        body_end -= body_bytes
        entries.append(StreamEntry(body_end, body_bytes, checksum, head))
    entries.reverse()
    return entries


def _rest(read: Read, offset: int, size: int) -> Rest:
    """Classify what follows an offset at which no frame begins."""
    rest = read(offset, size - offset)
    found = rest.find(MAGIC)
    while found >= 0:
        # A torn append may contain a copy of a log; no frame in that copy names this place.
        if _frame_at(read, offset + found, size) is not None:
            return Rest.DAMAGED
        found = rest.find(MAGIC, found + 1)
    return Rest.TORN
