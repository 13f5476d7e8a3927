from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from agentforge_sessions.base.files import OsFileSystem
from agentforge_sessions.base.files.filesystem import DIRECTORY_FLAGS
from agentforge_sessions.repository.errors import SnapshotRefused
from agentforge_sessions.repository.snapshots.folder_look import FIELDS, MODE, MODE_SHIFT, looks_of
from agentforge_sessions.repository.snapshots.snapshots import Snapshots
from agentforge_sessions.repository.snapshots.workspace_scan import ScanLimits, scan_workspace
from tests.support.filesystem import FaultyFileSystem
from tests.support.promptness import wait_until
from tests.support.repositories import write_files


def test_files_asked_for_together_look_as_each_by_itself(tmp_path: Path) -> None:
    write_files(tmp_path, {f"{number}": "x" * number for number in range(600)})
    (tmp_path / "link").symlink_to("/nowhere")
    (tmp_path / "folder").mkdir(0o700)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / os.fsdecode(b"\xff\n")).write_text("x")
    os.utime(tmp_path / "7", ns=(1, 1))
    names = [os.fsencode(name) for name in [*os.listdir(tmp_path), "missing"]]
    fd = os.open(tmp_path, DIRECTORY_FLAGS)
    try:
        together = looks_of(OsFileSystem(), fd, names)
        each = looks_of(FaultyFileSystem(), fd, names)
        assert looks_of(OsFileSystem(), fd, []) == looks_of(FaultyFileSystem(), fd, [])
    finally:
        os.close(fd)
    assert together == each
    assert len(together) == FIELDS * len(names)
    modes = together[MODE * len(names) :]
    assert modes[-1] == 0
    assert modes[names.index(b"pipe")] >> MODE_SHIFT == (tmp_path / "pipe").stat().st_mode


def test_a_folder_that_is_as_it_was_is_not_listed_again(tmp_path: Path) -> None:
    write_files(tmp_path, {f"{folder}/{name}": "x" for folder in "abc" for name in "xyz"})
    fs = FaultyFileSystem()
    fd = os.open(tmp_path, DIRECTORY_FLAGS)
    try:
        known = scan_workspace(fs, fd, workspace=tmp_path).looks
        fs.begin()
        again = scan_workspace(fs, fd, workspace=tmp_path, known=known)
        assert again.same
        assert all(again.looks[path] is look for path, look in known.items())
        assert not any(call.operation == "listdir" for call in fs.trace)
        moment = (tmp_path / "b").stat().st_ctime_ns

        def changed() -> bool:
            (tmp_path / "b" / "new").touch()
            return (tmp_path / "b").stat().st_ctime_ns != moment

        wait_until(changed)
        fs.begin()
        later = scan_workspace(fs, fd, workspace=tmp_path, known=known)
    finally:
        os.close(fd)
    assert not later.same
    assert [call.operation for call in fs.trace].count("listdir") == 1
    assert set(later.looks[b"b"].file_names()) == {b"x", b"y", b"z", b"new"}
    assert later.looks[b"a"] is known[b"a"]


@pytest.mark.parametrize("what", ["a pipe", "a large file", "attributes", "a lower limit"])
def test_what_is_refused_is_refused_in_a_folder_that_was_known_too(
    snapshots: Snapshots, workspace: Path, what: str
) -> None:
    write_files(workspace, {"d/a": "x", "d/.gitattributes": ""})
    assert snapshots.take("x") is not None
    (workspace / "d" / "a").chmod(0o600)
    assert snapshots.take("x") is not None
    file = workspace / "d" / "a"
    limits = ScanLimits()
    match what:
        case "a pipe":
            file.unlink()
            os.mkfifo(file)
        case "a large file":
            os.truncate(file, 2 << 30)
        case "attributes":
            os.truncate(workspace / "d" / ".gitattributes", 2 << 20)
        case _:
            limits = ScanLimits(max_path_bytes=14)
    with pytest.raises(SnapshotRefused):
        replace(snapshots, limits=limits).take("x")
