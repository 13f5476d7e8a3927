"""A log keeps what was acknowledged, through kills, torn writes and failing disks."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentforge_sessions.base.files import FileSystem, OsFileSystem, ReadError, WriteError
from agentforge_sessions.base.files.append_log import APPEND_FLAGS, AppendLog
from agentforge_sessions.base.files.log_frames import LogMark, decode_log, encode_frame, encode_log
from tests.support.filesystem import FaultyFileSystem, nth_call, nth_of
from tests.support.mortal_filesystem import Killed, MortalFileSystem

Entries = Sequence[tuple[bytes, bytes]]
FIRST: Entries = [(b"a", b"first"), (b"b", b"x" * 100)]
SECOND: Entries = [(b"c", b""), (b"", b"second")]
THIRD: Entries = [(b"d", b"third")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


@contextmanager
def opened(path: Path, fs: FileSystem | None = None) -> Iterator[AppendLog]:
    fs = fs or OsFileSystem()
    fd = os.open(path, APPEND_FLAGS | os.O_CREAT, 0o600)
    try:
        yield AppendLog(fs, fd, path)
    finally:
        os.close(fd)


def append(
    path: Path, *appends: Entries, fs: FileSystem | None = None, since: LogMark | None = None
) -> list[LogMark]:
    marks = []
    for entries in appends:
        with opened(path, fs) as log:
            mark, _ = log.append(entries, since=since)
        marks.append(mark)
    return marks


def contents(path: Path) -> list[tuple[bytes, bytes]]:
    with opened(path) as log:
        entries, mark, _ = log.read()
        bodies = log.bodies(entries, mark)
    assert bodies is not None
    return [(entry.head, body) for entry, body in zip(entries, bodies, strict=True)]


def test_appends_are_read_in_order(path: Path) -> None:
    append(path, FIRST, SECOND, THIRD)
    assert contents(path) == [*FIRST, *SECOND, *THIRD]


def test_a_mark_saves_looking_at_what_stands_before_it(path: Path) -> None:
    large = [(b"head", os.urandom(300_000))]
    marks = append(path, large, large, THIRD)
    fs = FaultyFileSystem()
    with opened(path, fs) as log:
        part = log.read(marks[1])
    assert [entry.head for entry in part.entries] == [b"d"]
    assert not part.anew
    assert fs.bytes_read < 70_000


def test_the_last_entries_are_read_without_what_stands_before_them(path: Path) -> None:
    append(path, *[[(b"%d" % n, os.urandom(3000))] * 4 for n in range(100)], THIRD)
    fs = FaultyFileSystem()
    with opened(path, fs) as log:
        tail = log.read_last(6)
        bodies = log.bodies(tail.entries, tail.mark)
    assert [entry.head for entry in tail.entries] == [b"98", *[b"99"] * 4, b"d"]
    assert bodies is not None
    assert bodies[-1] == b"third"
    assert not tail.whole
    assert fs.bytes_read < 250_000


def test_the_last_entries_are_those_of_a_reading_of_all(path: Path) -> None:
    append(path, FIRST, SECOND, THIRD, [(b"", b"")] * 3)
    with opened(path) as log:
        entries, mark, _ = log.read()
        for count in range(1, 12):
            tail = log.read_last(count)
            assert tail.entries == entries[-len(tail.entries) :]
            assert len(tail.entries) == max(3, min(count, len(entries)))
            assert tail.mark == mark
            assert tail.whole == (tail.entries == entries)


def test_the_last_entries_are_found_behind_which_an_append_was_cut_at_any_byte(path: Path) -> None:
    append(path, FIRST, SECOND)
    whole = len(path.read_bytes())
    append(path, [(b"d", encode_log([*FIRST, *THIRD]))])
    data = path.read_bytes()
    for end in range(whole, len(data)):
        for filled in (b"", b"\0", b"\xff"):
            path.write_bytes(data[:end] + filled * (len(data) - end))
            with opened(path) as log:
                assert [entry.head for entry in log.read_last(1).entries][-1] == b""
                assert log.read_last(1).mark.end == whole


def test_damage_in_the_last_entries_is_an_error_or_an_append_that_never_was(path: Path) -> None:
    append(path, FIRST, SECOND, THIRD)
    data = path.read_bytes()
    expected = [*FIRST, *SECOND, *THIRD]
    outcomes = set()
    for place in range(len(data)):
        spoilt = bytearray(data)
        spoilt[place] ^= 0x10
        path.write_bytes(spoilt)
        with opened(path) as log:
            try:
                tail = log.read_last(100)
                bodies = log.bodies(tail.entries, tail.mark) or []
            except ReadError:
                outcomes.add("error")
                continue
        heads = (entry.head for entry in tail.entries)
        assert list(zip(heads, bodies, strict=True)) == expected[:4]
        outcomes.add("torn")
    assert outcomes == {"error", "torn"}


def test_heads_are_read_without_large_bodies(path: Path) -> None:
    append(path, *[[(b"%d" % n, os.urandom(1_000_000))] for n in range(4)], THIRD)
    fs = FaultyFileSystem()
    with opened(path, fs) as log:
        entries = log.read().entries
    assert [entry.head for entry in entries] == [b"0", b"1", b"2", b"3", b"d"]
    assert fs.bytes_read < 400_000


def test_an_append_that_was_cut_at_any_byte_is_not_there_and_the_next_one_is(path: Path) -> None:
    append(path, FIRST)
    whole = len(path.read_bytes())
    append(path, SECOND)
    data = path.read_bytes()
    for end in range(whole, len(data)):
        path.write_bytes(data[:end])
        assert contents(path) == list(FIRST)
        with opened(path) as log:
            _, torn = log.append(THIRD)
        assert torn == end - whole
        assert contents(path) == [*FIRST, *THIRD]


@pytest.mark.parametrize("filled", [b"\0", b"\xff"])
def test_an_append_whose_end_the_disk_never_got_is_not_there(path: Path, filled: bytes) -> None:
    append(path, FIRST)
    whole = len(path.read_bytes())
    append(path, SECOND)
    data = path.read_bytes()
    for end in range(whole, len(data)):
        path.write_bytes(data[:end] + filled * (len(data) - end))
        if path.read_bytes() != data:
            assert contents(path) == list(FIRST)
    append(path, THIRD)
    assert contents(path) == [*FIRST, *THIRD]


def test_damage_before_the_end_is_an_error_and_nothing_is_cut_off(path: Path) -> None:
    append(path, FIRST, SECOND)
    first = len(encode_log([])) + append(path, THIRD)[0].last
    data = path.read_bytes()
    for place in range(first - 60):
        spoilt = bytearray(data)
        spoilt[place] ^= 0x10
        path.write_bytes(spoilt)
        with pytest.raises(ReadError, match="damaged"):
            contents(path)
        path_before = path.read_bytes()
        if any(spoilt[:40]) and place < 40:
            with pytest.raises(ReadError, match="damaged"), opened(path) as log:
                log.append(SECOND)
        assert path.read_bytes() == path_before


def test_a_frame_taken_out_of_the_middle_is_noticed(path: Path) -> None:
    marks = append(path, FIRST, SECOND, THIRD)
    data = path.read_bytes()
    path.write_bytes(data[: marks[0].end] + data[marks[1].end :])
    assert contents(path) == list(FIRST)  # what follows says that it stands elsewhere
    path.write_bytes(data[marks[0].end :])
    assert contents(path) == []


def test_a_torn_append_that_holds_a_log_is_still_torn(path: Path) -> None:
    append(path, FIRST)
    end = path.stat().st_size
    pieces, _ = encode_frame([(b"", encode_log([*FIRST, *THIRD]) * 2)], LogMark(end))
    path.write_bytes(path.read_bytes() + b"".join(pieces)[:-1])
    assert contents(path) == list(FIRST)
    append(path, THIRD)
    assert contents(path) == [*FIRST, *THIRD]


def test_what_followed_a_failed_append_is_read_anew_by_who_saw_it(path: Path) -> None:
    append(path, FIRST)
    end = path.stat().st_size
    (seen,) = append(path, SECOND)  # and its writer was told that it failed
    os.truncate(path, end)
    with opened(path) as log:
        assert log.read(seen).anew
    append(path, THIRD, THIRD, THIRD)
    with opened(path) as log:
        part = log.read(seen)
        assert part.anew
        assert [entry.head for entry in part.entries] == [b"a", b"b", b"d", b"d", b"d"]
        assert log.bodies(part.entries, seen) is None


def test_a_log_that_ends_at_the_same_place_in_another_way_is_read_anew(path: Path) -> None:
    append(path, FIRST)
    end = path.stat().st_size
    (seen,) = append(path, [(b"d", b"third")])
    os.truncate(path, end)
    assert append(path, [(b"e", b"other")])[0].end == seen.end
    with opened(path) as log:
        part = log.read(seen)
    assert part.anew
    assert [entry.head for entry in part.entries] == [b"a", b"b", b"e"]


def test_an_append_whose_every_call_fails_leaves_the_log_as_it_was(path: Path) -> None:
    append(path, FIRST)
    before = path.read_bytes()
    failed = 0
    for number in range(20):
        path.write_bytes(before + b"AFL1 torn")
        fs = FaultyFileSystem(plan=nth_call(number, errno.ENOSPC), largest_write=30)
        try:
            append(path, SECOND, fs=fs)
        except (ReadError, WriteError):
            failed += 1
            assert contents(path) == list(FIRST)
        else:
            assert contents(path) == [*FIRST, *SECOND]
    assert failed > 5


def test_an_append_that_can_neither_be_synced_nor_taken_back_says_that_it_is_visible(
    path: Path,
) -> None:
    append(path, FIRST)
    sync, truncate = nth_of("fsync", 0, errno.EIO), nth_of("ftruncate", 0, errno.EIO)
    fs = FaultyFileSystem(plan=lambda index, call: sync(index, call) or truncate(index, call))
    with pytest.raises(WriteError) as refused:
        append(path, SECOND, fs=fs)
    assert refused.value.visible
    assert refused.value.operation == "fsync"


def test_a_writer_that_dies_at_any_call_leaves_all_of_its_append_or_nothing(path: Path) -> None:
    outcomes = set()
    for death in range(12):
        path.unlink(missing_ok=True)
        append(path, FIRST)
        path.write_bytes(path.read_bytes() + b"torn")
        fs = MortalFileSystem(death)
        fs.largest_write = 50
        acknowledged = False
        try:
            append(path, SECOND, fs=fs)
            acknowledged = True
        except Killed:
            pass
        found = contents(path)
        assert found in ([*FIRST, *SECOND], list(FIRST))
        assert not acknowledged or found == [*FIRST, *SECOND]
        outcomes.add((acknowledged, len(found)))
        append(path, THIRD)
        assert contents(path) == [*found, *THIRD]
    assert outcomes == {(False, 2), (False, 4), (True, 4)}


def test_a_log_has_to_be_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ReadError, match="regular"), opened(tmp_path / "fifo"):
        pass


def test_a_log_in_one_piece_is_read_again_and_anything_else_is_refused() -> None:
    entries = [*FIRST, *SECOND]
    data = encode_log(entries)
    assert decode_log(data) == entries
    assert decode_log(b"") == []
    for spoilt in (data[:-1], data + b"x", b"x" + data, data.replace(b"first", b"fir5t")):
        with pytest.raises(ValueError, match="no whole entry"):
            decode_log(spoilt)


@pytest.mark.parametrize("entries", [1, 2])
def test_a_long_log_is_read_alike_whatever_its_frames_hold(path: Path, entries: int) -> None:
    bodies = [b"x" * (size % 97) for size in range(3_000)]
    bodies[1_500] = b"y" * 100_000
    frames = [[(b"%d" % n, body)] * entries for n, body in enumerate(bodies)]
    pieces: list[bytes] = []
    marks = [LogMark()]
    for frame in frames:
        encoded, mark = encode_frame(frame, marks[-1])
        marks.append(mark)
        pieces += encoded
    path.write_bytes(b"".join(pieces))
    with opened(path) as log:
        part = log.read()
        assert [entry.head for entry in part.entries] == [h for frame in frames for h, _ in frame]
        assert log.bodies(part.entries, part.mark) == [b for frame in frames for _, b in frame]
    assert part.mark == marks[-1]
    damaged = bytearray(path.read_bytes())
    damaged[marks[2_000].end + 9] ^= 1
    path.write_bytes(damaged)
    with opened(path) as log, pytest.raises(ReadError, match=f"{marks[2_000].end:,} is damaged"):
        log.read()
