"""A file written in a block: all of it at the end, or nothing of it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.base.files import AtomicFileWriter, OsFileSystem, WriteError, replace_file
from agentforge_sessions.base.files.atomic_file import LEFTOVER_AGE_S, is_temporary
from tests.support.clock import FakeTokens
from tests.support.filesystem import Call, FaultyFileSystem, nth_call, nth_of

ERRNOS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EDQUOT)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "file"
    made.write_bytes(b"old")
    return made


def write(path: Path, fs: OsFileSystem | FaultyFileSystem | None = None, **how: object) -> None:
    with AtomicFileWriter(path, fs=fs, **how) as file:  # type: ignore[arg-type]
        assert file.write(b"one ") == 4
        assert file.write("zwö") == 4
        file.write_chunks([bytearray(b" three"), memoryview(b"!")])


WRITTEN = "one zwö three!".encode()


def test_the_file_holds_what_was_written_once_the_block_has_ended(path: Path) -> None:
    with AtomicFileWriter(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
        [temporary] = [name for name in os.listdir(path.parent) if name != "file"]
        assert (path.parent / temporary).stat().st_mode & 0o777 == 0o600
    assert path.read_bytes() == b"new"
    assert os.listdir(path.parent) == ["file"]


def test_a_file_that_was_not_there_is_made_even_an_empty_one(tmp_path: Path) -> None:
    with AtomicFileWriter(tmp_path / "made"):
        assert not (tmp_path / "made").exists()
    assert (tmp_path / "made").read_bytes() == b""


def test_the_steps_are_in_the_order_that_survives_a_power_failure(path: Path) -> None:
    fs = FaultyFileSystem()
    write(path, fs, token=FakeTokens())
    temporary = ".file.new-00000001.tmp"
    changing = ("writev", "fsync", "rename")
    assert [step for step in fs.steps(path.parent) if step.split()[0] in changing] == [
        *(f"writev {temporary}", f"writev {temporary}", f"writev {temporary}"),
        *(f"fsync {temporary}", "rename file", "fsync base"),
    ]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, OSError])
def test_an_exception_in_the_block_leaves_the_old_file_and_nothing_else(
    path: Path, error: type[BaseException]
) -> None:
    fs = FaultyFileSystem()

    def interrupted() -> None:
        with AtomicFileWriter(path, fs=fs) as file:
            file.write(b"new")
            raise error

    with pytest.raises(error):
        interrupted()
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == ["file"]
    assert fs.open_descriptors == {}


@pytest.mark.parametrize("number", ERRNOS)
@pytest.mark.parametrize("verify", [False, True])
def test_a_call_that_fails_leaves_the_old_file_and_is_told(
    tmp_path: Path, number: int, verify: bool
) -> None:
    whole = FaultyFileSystem()
    (tmp_path / "whole").mkdir()
    write(tmp_path / "whole" / "file", whole, verify=verify)
    for step in range(len(whole.trace)):
        path = tmp_path / str(step) / "file"
        path.parent.mkdir()
        path.write_bytes(b"old")
        fs = FaultyFileSystem(plan=nth_call(step, number))
        error: WriteError | None = None
        try:
            write(path, fs, verify=verify)
        except WriteError as caught:
            error = caught
        [failed] = fs.failed
        assert os.listdir(path.parent) == ["file"], failed
        assert fs.open_descriptors == {}
        if error is None:
            # What is opened is the old file, for the case that it must be put back.
            assert failed.operation in {"close", "listdir", "open"}
            assert path.read_bytes() == WRITTEN
            continue
        assert (error.path, error.errno, error.visible) == (path, number, False)
        assert path.read_bytes() == b"old", failed


def test_a_sync_that_failed_is_final(path: Path) -> None:
    fs = FaultyFileSystem(plan=nth_of("fsync", 0, errno.EIO))
    with pytest.raises(WriteError, match="the old content is untouched"):
        write(path, fs)
    assert [call.operation for call in fs.trace].count("fsync") == 1
    assert path.read_bytes() == b"old"


def test_a_rename_that_fails_is_a_failed_write_and_nothing_is_copied(path: Path) -> None:
    fs = FaultyFileSystem(plan=nth_of("rename", 0, errno.EXDEV))
    with pytest.raises(WriteError) as caught:
        write(path, fs)
    assert (caught.value.operation, caught.value.errno) == ("rename", errno.EXDEV)
    assert path.read_bytes() == b"old"


def test_a_missing_directory_is_told(tmp_path: Path) -> None:
    with pytest.raises(WriteError) as caught:
        write(tmp_path / "missing" / "file")
    assert caught.value.errno == errno.ENOENT


@pytest.mark.parametrize("plant", [Path.mkdir, Path.touch, lambda path: path.symlink_to("x")])
def test_what_has_the_temporary_name_already_is_left_alone(
    path: Path, plant: Callable[[Path], None]
) -> None:
    taken = path.parent / ".file.new-00000001.tmp"
    plant(taken)
    write(path, token=FakeTokens())
    assert path.read_bytes() == WRITTEN
    assert sorted(os.listdir(path.parent)) == [taken.name, "file"]


def test_what_is_skipped_is_zeros_and_takes_no_room(path: Path) -> None:
    with AtomicFileWriter(path) as file:
        file.write(b"head")
        file.skip(8 << 20)
        file.write(b"tail")
    assert path.read_bytes() == b"head" + bytes(8 << 20) + b"tail"
    assert path.stat().st_blocks * 512 < 1 << 20


def test_a_skip_that_is_refused_leaves_the_old_file(path: Path) -> None:
    path.write_bytes(b"old")

    def write_before_its_start() -> None:
        with AtomicFileWriter(path) as file:
            file.skip(-1)

    with pytest.raises(WriteError):
        write_before_its_start()
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == [path.name]


def test_temporary_names_are_not_foreseeable(path: Path) -> None:
    fs = FaultyFileSystem()
    for _ in range(20):
        write(path, fs)
    opened = {call.path for call in fs.trace if call.operation == "open" and call.writing}
    assert len(opened) == 20
    assert all(is_temporary(os.path.basename(name), "file") for name in opened)


def test_where_the_new_content_is_no_leftover_is_any_more(path: Path) -> None:
    old = path.parent / ".file.new-0011223344556677.tmp"
    old.write_text("half")
    os.utime(old, (0, 0))

    class KilledAfterItsRename(OsFileSystem):
        def rename(self, source: str, target: str, **directories: Any) -> None:
            super().rename(source, target, **directories)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(path, KilledAfterItsRename())
    assert path.read_bytes() == WRITTEN
    assert not old.exists()


def test_leftovers_of_killed_writers_go_by_name_and_age_and_nothing_else(path: Path) -> None:
    directory = path.parent
    old, young = ".file.new-0011223344556677.tmp", ".file.new-8899aabbccddeeff.tmp"
    others = [
        *(".file.tmp", ".file.new-short.tmp", ".other.new-0011223344556677.tmp"),
        *("file.new-0011223344556677.tmp", ".file.new-0011223344556677.tmp.kept"),
    ]
    for name in (old, young, *others):
        (directory / name).write_text("half")
        os.utime(directory / name, (0, 0))
    os.utime(directory / young)
    (directory / ".file.new-directory1.tmp").mkdir()

    fs = FaultyFileSystem(plan=nth_of("fsync", 0, errno.EIO))
    with pytest.raises(WriteError):
        write(path, fs)
    assert (directory / old).exists(), "only a writer whose content is on disk sweeps"

    write(path)
    left = sorted([young, *others, ".file.new-directory1.tmp", "file"])
    assert sorted(os.listdir(directory)) == left
    assert LEFTOVER_AGE_S >= 60


def test_the_longest_names_can_be_replaced_too(tmp_path: Path) -> None:
    for name in ("x" * 255, "é" * 127, "€" * 85):
        for content in (b"first", b"second"):
            with AtomicFileWriter(tmp_path / name) as file:
                file.write(content)
        assert (tmp_path / name).read_bytes() == b"second"
        (tmp_path / name).unlink()
    assert os.listdir(tmp_path) == []


def test_who_lists_the_directory_meanwhile_never_sees_half_a_file(path: Path) -> None:
    seen: list[bytes] = []

    def look(call: Call) -> None:
        seen.append(path.read_bytes())

    write(path, FaultyFileSystem(before=look))
    assert set(seen) == {b"old", WRITTEN}
    assert seen == sorted(seen, key=lambda content: content == WRITTEN)


def test_under_a_lock_all_that_is_older_than_the_new_content_was_left(path: Path) -> None:
    left, later = (path.parent / f".file.new-001122334455667{n}.tmp" for n in range(2))
    left.write_text("half")
    later.write_text("of another clock")
    os.utime(later, (2**32, 2**32))
    fd = os.open(path.parent, os.O_RDONLY)
    try:
        replace_file(OsFileSystem(), fd, "file", [b"new"], path=path)
    finally:
        os.close(fd)
    assert sorted(os.listdir(path.parent)) == [later.name, "file"]
