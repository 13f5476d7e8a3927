"""The host's hand in an agent session's workspace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge_sessions.durable import OsFileSystem, WriteError
from agentforge_sessions.workflows.component_files import (
    MAX_FILES,
    WorkspaceTooLarge,
    apply_files,
    read_workspace,
)

FS = OsFileSystem()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    made.mkdir()
    return made


@pytest.fixture
def fd(root: Path) -> Iterator[int]:
    opened = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    yield opened
    os.close(opened)


def test_regular_files_are_read_and_nothing_else(root: Path, fd: int, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (root / "pkg").mkdir()
    (root / "pkg" / "a.py").write_text("a")
    (root / "b.bin").write_bytes(b"\xff")
    (root / "link").symlink_to(secret)
    (root / "away").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    (root / ".hidden").write_text("x")
    (root / "__pycache__").mkdir()
    (root / "__pycache__" / "a.pyc").write_text("x")
    assert read_workspace(FS, fd, root=root) == {"b.bin": b"\xff", "pkg/a.py": b"a"}


def test_too_much_is_refused(root: Path, fd: int) -> None:
    for number in range(MAX_FILES + 1):
        (root / str(number)).touch()
    with pytest.raises(WorkspaceTooLarge, match="more than 2,000 files"):
        read_workspace(FS, fd, root=root)


def test_applying_twice_gives_the_same_and_writes_once(root: Path, fd: int) -> None:
    (root / "old.py").write_text("old")
    written = {"pkg/a.py": b"a", "b.py": b"b"}
    times = []
    for _ in range(2):
        there = read_workspace(FS, fd, root=root)
        apply_files(FS, fd, written, ["old.py", "never.py"], there=there, root=root)
        assert read_workspace(FS, fd, root=root) == written
        times.append([(root / path).stat().st_ino for path in written])
    assert times[0] == times[1]
    assert (root / "b.py").stat().st_mode & 0o777 == 0o600


def test_links_in_the_way_are_not_followed(root: Path, fd: int, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "pkg").symlink_to(outside)
    with pytest.raises(WriteError):
        apply_files(FS, fd, {"pkg/a.py": b"a"}, (), there={}, root=root)
    target = tmp_path / "target"
    target.write_text("kept")
    (root / "b.py").symlink_to(target)
    apply_files(FS, fd, {"b.py": b"b"}, (), there={}, root=root)
    assert target.read_text() == "kept"
    assert (root / "b.py").read_text() == "b"
    assert list(outside.iterdir()) == []
    (outside / "c.py").write_text("kept")
    with pytest.raises(WriteError):
        apply_files(FS, fd, {}, ["pkg/c.py"], there={"pkg/c.py": b""}, root=root)
    assert (outside / "c.py").exists(), "a deletion does not go through a link either"
