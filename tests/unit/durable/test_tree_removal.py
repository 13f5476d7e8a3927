"""Removing a tree: all of it, nothing else, whatever is in it."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge_sessions.base.files import (
    OsFileSystem,
    RemovalError,
    WriteError,
    discard_tree,
    empty_directory,
    sweep_discarded,
)
from agentforge_sessions.base.files.filesystem import FileSystem
from agentforge_sessions.base.files.tree_removal import MAX_REFILLS, RemovalCancelled
from tests.support.filesystem import FaultyFileSystem
from tests.support.mounts import bound, immutable, mounted_tmpfs


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    made = tmp_path / "parent"
    made.mkdir()
    return made


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Path]:
    """Files outside of the tree that must survive whatever links to them."""
    outside = tmp_path / "outside"
    (outside / "deeper").mkdir(parents=True)
    (outside / "deeper" / "canary").write_text("alive")
    yield outside
    assert (outside / "deeper" / "canary").read_text() == "alive"
    assert sorted(p.name for p in outside.rglob("*")) == ["canary", "deeper"]


def discard(parent: Path, name: str, fs: FileSystem | None = None) -> None:
    fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        discard_tree(fs or OsFileSystem(), fd, name, parent=parent, token=lambda: "0001")
    finally:
        os.close(fd)


def sweep(parent: Path) -> list[RemovalError]:
    fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return sweep_discarded(OsFileSystem(), fd, parent=parent)
    finally:
        os.close(fd)


def test_a_tree_goes_with_all_that_is_in_it(parent: Path) -> None:
    tree = parent / "tree"
    for number in range(30):
        deep = tree / f"a{number % 3}" / f"b{number % 5}" / "c"
        deep.mkdir(parents=True, exist_ok=True)
        (deep / f"file{number}").write_text("x")
    (parent / "other").mkdir()

    discard(parent, "tree")

    assert os.listdir(parent) == ["other"]


def test_a_tree_of_1_500_levels_goes_with_few_descriptors(parent: Path) -> None:
    fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    for name in ["tree"] + ["d"] * 1_500:
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    most = 0
    fs = FaultyFileSystem()

    def count(_: object) -> None:
        nonlocal most
        most = max(most, len(fs.open_descriptors))

    fs.before = count
    discard(parent, "tree", fs)

    assert os.listdir(parent) == []
    assert most <= 3
    assert fs.open_descriptors == {}


class Refilled(FaultyFileSystem):
    """Somebody who is at work in a directory puts a file there just before it is removed."""

    def __init__(self, times: int, name: str) -> None:
        super().__init__()
        self.left = times
        self.name = name
        self.fds: list[int] = []

    def open(self, path: str, flags: int, mode: int = 0o600, *, dir_fd: int | None = None) -> int:
        fd = super().open(path, flags, mode, dir_fd=dir_fd)
        if self.name in os.listdir(fd):
            self.fds.append(os.dup(fd))
        return fd

    def rmdir(self, path: str, *, dir_fd: int | None = None) -> None:
        if self.left and self.fds:
            self.left -= 1
            made = os.open("late", os.O_CREAT | os.O_WRONLY, dir_fd=self.fds[0])
            os.close(made)
        super().rmdir(path, dir_fd=dir_fd)

    def close_all(self) -> None:
        for fd in self.fds:
            os.close(fd)


@pytest.mark.parametrize("where", ["", "deeper"])
@pytest.mark.parametrize("times", [1, MAX_REFILLS])
def test_a_tree_that_is_written_to_while_it_goes_goes_all_the_same(
    parent: Path, where: str, times: int
) -> None:
    (parent / "tree" / where).mkdir(parents=True)
    (parent / "tree" / where / "file").write_text("x")
    fs = Refilled(times, "file")

    discard(parent, "tree", fs)
    fs.close_all()

    assert fs.left == 0
    assert os.listdir(parent) == []


@pytest.mark.parametrize("where", ["", "deeper"])
def test_a_tree_that_is_written_to_without_end_is_given_up_and_goes_with_the_next_sweep(
    parent: Path, where: str
) -> None:
    (parent / "tree" / where).mkdir(parents=True)
    (parent / "tree" / where / "file").write_text("x")
    fs = Refilled(10 * MAX_REFILLS, "file")

    with pytest.raises(RemovalError, match="not empty") as told:
        discard(parent, "tree", fs)
    fs.close_all()

    assert told.value.cause.errno == errno.ENOTEMPTY
    assert os.listdir(parent) == [".discarded-0001"]
    assert sweep(parent) == []
    assert os.listdir(parent) == []


def test_no_link_is_ever_followed(parent: Path, canary: Path) -> None:
    tree = parent / "tree"
    (tree / "below").mkdir(parents=True)
    for place in (tree, tree / "below"):
        (place / "absolute").symlink_to(canary)
        (place / "relative").symlink_to(os.path.relpath(canary, place))
        (place / "to a file").symlink_to(canary / "deeper" / "canary")
        (place / "dangling").symlink_to("nowhere")
        (place / "loop").symlink_to("loop")
        (place / "up").symlink_to("..")
    os.link(canary / "deeper" / "canary", tree / "hard link")

    discard(parent, "tree")

    assert os.listdir(parent) == []


def test_a_link_in_the_trees_place_goes_and_not_what_it_links_to(
    parent: Path, canary: Path
) -> None:
    (parent / "tree").symlink_to(canary)
    discard(parent, "tree")
    assert os.listdir(parent) == []


def test_a_directory_swapped_for_a_link_while_it_is_emptied_leads_nowhere(
    parent: Path, canary: Path
) -> None:
    below = parent / "tree" / "below"
    below.mkdir(parents=True)
    fs = FaultyFileSystem()

    swapped = []

    def swap(call: object) -> None:
        path = getattr(call, "path", "")
        if getattr(call, "operation", "") == "open" and ".discarded-0001/.discarded-" in path:
            hidden = parent / ".discarded-0001" / os.path.basename(path)
            hidden.rmdir()
            hidden.symlink_to(canary)
            swapped.append(path)

    fs.before = swap
    discard(parent, "tree", fs)

    assert swapped
    assert os.listdir(parent) == []


@pytest.mark.parametrize("place", ["mounted", "below/mounted", "below/deeper/mounted"])
def test_what_is_mounted_in_the_tree_by_a_bind_is_not_entered(
    parent: Path, canary: Path, place: str
) -> None:
    tree = parent / "tree"
    (tree / "file").parent.mkdir()
    (tree / "file").write_text("x")
    point = tree / place
    with bound(canary, point) as where:
        with pytest.raises(RemovalError) as caught:
            discard(parent, "tree")
        assert caught.value.cause.errno == errno.EBUSY
        assert (canary / "deeper" / "canary").read_text() == "alive"
        assert not list(parent.rglob("file"))
        where.unmount()

    assert sweep(parent) == []
    assert os.listdir(parent) == []


def test_what_is_mounted_at_a_discarded_name_is_not_swept(parent: Path, canary: Path) -> None:
    (parent / ".discarded-01").mkdir()
    with bound(canary, parent / ".discarded-b0") as where:
        (left,) = sweep(parent)
        assert left.path.name == ".discarded-b0"
        assert left.cause.errno == errno.EBUSY
        assert (canary / "deeper" / "canary").read_text() == "alive"
        assert os.listdir(parent) == [".discarded-b0"]
        where.unmount()
    assert sweep(parent) == []
    assert os.listdir(parent) == []


def test_fifos_sockets_and_odd_names_go_too(parent: Path) -> None:
    tree = parent / "tree"
    tree.mkdir()
    os.mkfifo(tree / "fifo")
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(tree)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("socket")
    finally:
        os.fchdir(here)
        os.close(here)
    for name in (b"\xff\xfe", b"new\nline", b"-rf", b" ", b"*", b"x" * 255):
        os.close(os.open(os.fsencode(tree) + b"/" + name, os.O_CREAT | os.O_WRONLY))
    (tree / "closed").mkdir(mode=0)
    (tree / "closed" / "file").touch()
    assert stat.S_ISFIFO((tree / "fifo").stat().st_mode)

    discard(parent, "tree")

    assert os.listdir(parent) == []


def test_a_name_that_is_not_there_is_a_write_error(parent: Path) -> None:
    with pytest.raises(WriteError) as caught:
        discard(parent, "nothing")
    assert caught.value.errno == errno.ENOENT
    assert caught.value.path == parent / "nothing"


def test_what_resists_is_out_of_sight_and_goes_with_the_next_sweep(parent: Path) -> None:
    tree = parent / "tree"
    tree.mkdir()
    (tree / "stubborn").write_text("x")
    (tree / "other").write_text("x")
    with immutable(tree / "stubborn"):
        with pytest.raises(RemovalError) as caught:
            discard(parent, "tree")
        assert caught.value.path == parent / ".discarded-0001"
        assert not tree.exists()
        [left] = sweep(parent)
        assert [left.path.name] == os.listdir(parent)
        assert left.path.name.startswith(".discarded-")

    assert sweep(parent) == []
    assert os.listdir(parent) == []


def test_another_file_system_that_is_mounted_inside_is_left_alone(parent: Path) -> None:
    inside = parent / "tree" / "below" / "mounted"
    with mounted_tmpfs(inside, options="size=64k"):
        (inside / "canary").write_text("alive")
        with pytest.raises(RemovalError):
            discard(parent, "tree")
        [canary] = parent.rglob("canary")
        assert canary.read_text() == "alive"
        mounted = canary.parent
        # The fixture unmounts by path; the tree was renamed, so unmount where it is now.
        subprocess.run(["umount", str(mounted)], check=True, timeout=30)
    assert sweep(parent) == []
    assert os.listdir(parent) == []


def test_a_sweep_takes_only_what_was_discarded(parent: Path) -> None:
    for name in (".discarded-1", ".discarded-new-2", "tree", ".hidden", ".gitkeep"):
        (parent / name).mkdir()
        (parent / name / "file").write_text("x")
    (parent / ".discarded-f1").write_text("x")
    (parent / ".discarded-11").symlink_to("tree")

    assert sweep(parent) == []

    assert sorted(os.listdir(parent)) == [".gitkeep", ".hidden", "tree"]
    assert (parent / "tree" / "file").exists()


def test_emptying_stops_where_it_is_cancelled_and_goes_on_later(parent: Path) -> None:
    tree = parent / "tree"
    for number in range(10):
        (tree / f"d{number}").mkdir(parents=True)
        (tree / f"d{number}" / "file").write_text("x")
    fd = os.open(tree, os.O_RDONLY | os.O_DIRECTORY)
    fs = FaultyFileSystem()
    try:
        with pytest.raises(RemovalCancelled):
            empty_directory(fs, fd, cancelled=lambda: len(list(tree.rglob("file"))) < 6)
        assert len(list(tree.rglob("file"))) == 5
        assert fs.open_descriptors == {}
        assert empty_directory(fs, fd) == []
    finally:
        os.close(fd)
    assert os.listdir(tree) == []


def test_a_sweep_leaves_what_others_gave_a_like_name(tmp_path: Path) -> None:
    fs = OsFileSystem()
    for name in (".discarded-notes", ".discarded-0123456789abcdef", ".discarded-", "other"):
        (tmp_path / name).mkdir()
    parent_fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert sweep_discarded(fs, parent_fd, parent=tmp_path) == []
    finally:
        os.close(parent_fd)
    assert sorted(os.listdir(tmp_path)) == [".discarded-", ".discarded-notes", "other"]
