"""A copy of a folder: what is in it, what is not, and where it ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge_sessions.base.files import OsFileSystem
from agentforge_sessions.base.files.filesystem import DIRECTORY_FLAGS
from agentforge_sessions.base.files.trees import CopyLimits, Entry, TreeTooLarge, copy_tree


def copied(
    tmp_path: Path,
    *,
    left_out: Callable[[Entry], bool] = lambda _: False,
    limits: CopyLimits | None = None,
) -> Path:
    target = tmp_path / "target"
    target.mkdir()
    source_fd = os.open(tmp_path / "source", DIRECTORY_FLAGS)
    target_fd = os.open(target, DIRECTORY_FLAGS)
    before = len(os.listdir("/proc/self/fd"))
    try:
        copy_tree(OsFileSystem(), source_fd, target_fd, left_out=left_out, limits=limits)
    finally:
        assert len(os.listdir("/proc/self/fd")) == before
        os.close(source_fd)
        os.close(target_fd)
    return target


@pytest.fixture
def source(tmp_path: Path) -> Path:
    made = tmp_path / "source"
    (made / "a" / "b").mkdir(parents=True)
    (made / "empty").mkdir(mode=0o500)
    (made / "a" / "b" / "deep.bin").write_bytes(b"\0" * 3_000_000 + b"end")
    (made / "a" / "run.sh").write_text("#!/bin/sh\n")
    (made / "a" / "run.sh").chmod(0o4755)
    (made / "a" / "read").write_text("r")
    (made / "a" / "read").chmod(0o444)
    (made / "out").symlink_to("/etc/passwd")
    (made / "a" / "up").symlink_to("..")
    os.mkfifo(made / "pipe")
    (made / "z").write_text("z")
    return made


def test_all_is_copied_over_no_link(source: Path, tmp_path: Path) -> None:
    target = copied(tmp_path)
    names = sorted(str(path.relative_to(target)) for path in target.rglob("*"))
    assert names == ["a", "a/b", "a/b/deep.bin", "a/read", "a/run.sh", "a/up", "empty", "out", "z"]
    assert (target / "a" / "b" / "deep.bin").read_bytes()[-4:] == b"\0end"
    assert os.readlink(target / "out") == "/etc/passwd"
    assert (target / "a" / "run.sh").stat().st_mode & 0o7777 == 0o755
    assert (target / "a" / "read").stat().st_mode & 0o7777 == 0o444
    assert (target / "empty").stat().st_mode & 0o700 == 0o700
    (target / "z").write_text("changed")
    assert (source / "z").read_text() == "z"


def test_what_is_left_out_is_not_entered(source: Path, tmp_path: Path) -> None:
    target = copied(tmp_path, left_out=lambda one: one.names[0] == "a" or one.name == "z")
    assert sorted(path.name for path in target.rglob("*")) == ["empty", "out"]


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (CopyLimits(max_entries=4), "more than 4 files"),
        (CopyLimits(max_bytes=1000), "more than 1,000 bytes"),
        (CopyLimits(max_depth=2), "nested deeper than 2"),
    ],
)
def test_more_than_the_limits_is_refused(
    source: Path, tmp_path: Path, limits: CopyLimits, words: str
) -> None:
    with pytest.raises(TreeTooLarge, match=words):
        copied(tmp_path, limits=limits)
