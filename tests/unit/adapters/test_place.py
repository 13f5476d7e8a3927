"""The name of a directory of sessions."""

from __future__ import annotations

import errno
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from agentforge_sessions.base.files import OsFileSystem, WriteError
from agentforge_sessions.fleet.objects.place import PLACE_FILE, place_of
from tests.support.filesystem import FaultyFileSystem, nth_call


def test_a_directory_keeps_its_name(tmp_path: Path) -> None:
    base = tmp_path / "there" / "base"
    first = place_of(base, OsFileSystem())
    assert place_of(base, OsFileSystem(), token=lambda: "0" * 32) == first
    assert len(first) == 32
    assert place_of(tmp_path / "other", OsFileSystem()) != first
    base.rename(tmp_path / "moved")
    assert place_of(tmp_path / "moved", OsFileSystem()) == first


def test_a_copy_of_a_directory_is_another_place(tmp_path: Path) -> None:
    first = place_of(tmp_path / "base", OsFileSystem())
    shutil.copytree(tmp_path / "base", tmp_path / "copy")
    assert place_of(tmp_path / "copy", OsFileSystem()) != first
    assert place_of(tmp_path / "base", OsFileSystem()) == first


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"[]", b"{}", b'{"place": 1, "inode": 2}', b"x" * 5000]
)
def test_a_name_that_can_not_be_read_is_given_anew(tmp_path: Path, content: bytes) -> None:
    first = place_of(tmp_path, OsFileSystem())
    (tmp_path / PLACE_FILE).write_bytes(content)
    second = place_of(tmp_path, OsFileSystem())
    assert second != first
    assert place_of(tmp_path, OsFileSystem()) == second


def test_all_that_ask_at_once_are_told_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: place_of(tmp_path / "base", OsFileSystem()), range(8)))
    assert len(set(found)) == 1


def test_each_fault_leaves_no_name_or_the_one_that_is_kept(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    place_of(tmp_path / "clean", fs)
    for number in range(len(fs.trace)):
        base = tmp_path / str(number)
        told = []
        with suppress(WriteError):
            told.append(place_of(base, FaultyFileSystem(plan=nth_call(number, errno.EIO))))
        kept = place_of(base, OsFileSystem())
        assert told in ([], [kept])
