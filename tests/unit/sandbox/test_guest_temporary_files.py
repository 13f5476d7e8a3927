"""Files in memory answer as files in a directory do."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentforge_sessions.sandbox.guest_code import HOME_NAME
from agentforge_sessions.sandbox.guest_files import MAX_DEPTH, WorkspaceProvider
from agentforge_sessions.sandbox.guest_mounts import FileService
from agentforge_sessions.sandbox.guest_temporary_files import RootDirectory, TemporaryFiles
from agentforge_sessions.sandbox.quota import Quota, Room
from agentforge_sessions.sandbox.workspace_usage import UsageCounter

QUOTA = Quota(workspace_bytes=1000, workspace_files=12, file_bytes=400, temporary_bytes=600)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield Room(fd, QUOTA, UsageCounter())
    os.close(fd)


@pytest.fixture
def files(room: Room) -> TemporaryFiles:
    return TemporaryFiles(room, now_ns=lambda: 7)


def answer(call: Callable[..., Any], *args: Any) -> object:
    """What a call answers, or the number of its refusal."""
    try:
        return call(*args)
    except OSError as error:
        return error.errno


def test_there_is_an_empty_home(files: TemporaryFiles) -> None:
    assert files.list("/") == [(HOME_NAME, "dir")]
    assert files.list(f"/{HOME_NAME}") == []


def test_a_file_is_what_was_written(files: TemporaryFiles) -> None:
    files.mkdir("/d")
    files.write("/d/f", b"abc")
    assert (files.read("/d/f"), files.list("/d")) == (b"abc", [("f", "file")])
    seen = files.stat("/d/f")
    assert (seen.kind, seen.size, seen.mtime_ns) == ("file", 3, 7)
    files.set_times("/d/f", 1, 99)
    files.set_times("/d/f", 2, None)
    assert files.stat("/d/f").mtime_ns == 99
    files.set_times("/", None, 5)
    assert files.stat("/").mtime_ns == 5
    assert answer(files.set_times, "/d/g", 1, 1) == errno.ENOENT


def test_both_sides_share_the_room(room: Room, files: TemporaryFiles) -> None:
    files.write("/a", bytes(400))
    files.write("/b", bytes(200))
    assert answer(files.write, "/c", b"x") == errno.ENOSPC
    assert room.exceeded == ("temporary_bytes",)
    room.afford(400, 0)
    room.promise(300)
    assert answer(room.afford, 101, 0) == errno.ENOSPC
    assert room.exceeded == ("temporary_bytes", "workspace_bytes")
    room.promise(-300)
    files.remove("/a")
    room.afford(800, 0)
    assert answer(files.write, "/a", bytes(401)) == errno.EFBIG
    room.promise(350, temporary=True)
    assert answer(files.write, "/a", bytes(51)) == errno.ENOSPC
    files.write("/a", bytes(50))


def test_entries_are_counted_and_given_back(files: TemporaryFiles) -> None:
    for number in range(12):
        files.mkdir(f"/{number}")
    assert answer(files.mkdir, "/x") == errno.ENOSPC
    assert answer(files.write, "/x", b"") == errno.ENOSPC
    files.rmdir("/3")
    files.write("/x", b"")
    files.write("/x", b"1")
    files.rename("/4", "/5")
    files.mkdir("/4")
    assert answer(files.mkdir, "/3") == errno.ENOSPC


def test_a_tree_is_not_made_too_deep(files: TemporaryFiles) -> None:
    path = "/" + "/".join("d" for _ in range(MAX_DEPTH + 1))
    assert answer(files.mkdir, path) == errno.ENAMETOOLONG
    assert answer(files.stat, "/" + "x" * 5000) == errno.ENAMETOOLONG


def test_the_top_lists_what_is_mounted_and_holds_no_files() -> None:
    top = RootDirectory(["/app", "/run/agentforge", "/run/other"])
    assert top.list("/") == [("app", "dir"), ("run", "dir")]
    assert top.list("/run") == [("agentforge", "dir"), ("other", "dir")]
    assert top.stat("/run").kind == "dir"
    assert answer(top.list, "/etc") == errno.ENOENT
    assert answer(top.stat, "/etc") == errno.ENOENT
    assert answer(top.read, "/etc") == errno.ENOENT
    assert answer(top.read, "/run") == errno.EISDIR


PATHS = st.sampled_from(["/a", "/b", "/a/b", "/a/c", "/b/a", "/b/a/c", "/a/b/c"])
DATA = st.integers(0, 300).map(bytes)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PATHS, DATA),
        st.tuples(st.sampled_from(["mkdir", "remove", "rmdir", "read", "list"]), PATHS),
        st.tuples(st.just("rename"), PATHS, PATHS),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_memory_and_a_directory_answer_alike(steps: list[tuple[Any, ...]]) -> None:
    """Whatever is done, with the same quota: the same answers, errors included."""
    quota = Quota(workspace_bytes=700, workspace_files=6, file_bytes=250)
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as empty:
        fd, other = (os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (directory, empty))
        try:
            disk = WorkspaceProvider(fd, quota, UsageCounter(), hide=False)
            memory = TemporaryFiles(Room(other, quota, UsageCounter()))
            memory.rmdir(f"/{HOME_NAME}")
            memory.room.spend(0, 1, temporary=True)  # it was not counted
            for name, *args in steps:
                assert did(disk, name, *args) == did(memory, name, *args), (name, args)
            assert disk.room.exceeded == memory.room.exceeded
        finally:
            os.close(fd)
            os.close(other)


def did(files: FileService, name: str, *args: Any) -> object:
    if name == "rename" and args[1].startswith(args[0] + "/"):
        return None  # the runner answers that itself
    found = answer(getattr(files, name), *args)
    return sorted(found) if isinstance(found, list) else found
