"""A guest's own hard link is one in every later execution; a host's is never written through."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentforge_sessions.sandbox.host.files.files import Opening
from agentforge_sessions.sandbox.host.files.host_directory import HostTree
from tests.support.host_trees import served

WRITE = Opening(read=True, write=True)


def write(tree: HostTree, path: bytes, data: bytes) -> None:
    file = tree.root.open(path, WRITE)
    file.write([memoryview(data)], 0)
    file.close()


@pytest.fixture(params=[True, False], ids=["openat2", "by component"])
def openat2(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def workspace(tmp_path: Path, openat2: bool) -> Path:
    made = tmp_path / "w"
    (made / "dir").mkdir(parents=True)
    (made / "one").write_bytes(b"before")
    with served(made, openat2=openat2) as tree:
        tree.root.link(b"one", tree.root, b"dir/two", follow=False)
    return made


def test_a_link_of_an_earlier_execution_is_written_through(workspace: Path, openat2: bool) -> None:
    for name, data in ((b"dir/two", b"second"), (b"one", b"third!")):
        with served(workspace, openat2=openat2) as tree:
            write(tree, name, data)
        assert (workspace / "one").read_bytes() == (workspace / "dir" / "two").read_bytes() == data
    assert (workspace / "one").stat().st_nlink == 2


def test_its_times_are_set(workspace: Path, openat2: bool) -> None:
    with served(workspace, openat2=openat2) as tree:
        tree.root.set_times_of(b"one", lambda *_: (1, 2), follow=False)
    assert (workspace / "dir" / "two").stat().st_mtime_ns == 2


@pytest.mark.parametrize("moment", ["before", "meanwhile"])
def test_one_more_name_outside_has_it_copied(
    workspace: Path, tmp_path: Path, openat2: bool, moment: str
) -> None:
    if moment == "before":
        os.link(workspace / "one", tmp_path / "outside")
    with served(workspace, openat2=openat2) as tree:
        if moment == "meanwhile":
            write(tree, b"one", b"during")
            os.link(workspace / "one", tmp_path / "outside")
        held = (tmp_path / "outside").read_bytes()
        # Once the first name has a copy, the file has as many names as were counted inside.
        write(tree, b"one", b"after1")
        write(tree, b"dir/two", b"after2")
    assert (tmp_path / "outside").read_bytes() == held
    assert (workspace / "one").read_bytes() == b"after1"
    assert (workspace / "dir" / "two").read_bytes() == b"after2"


@pytest.mark.parametrize("how", ["unlinked", "renamed over"])
def test_a_name_that_is_taken_away_no_longer_counts(
    workspace: Path, tmp_path: Path, openat2: bool, how: str
) -> None:
    (workspace / "other").touch()
    with served(workspace, openat2=openat2) as tree:
        write(tree, b"one", b"during")  # its two names were counted
        os.link(workspace / "one", tmp_path / "outside")
        if how == "unlinked":
            tree.root.unlink(b"dir/two")
        else:
            tree.root.rename(b"other", tree.root, b"dir/two")
        write(tree, b"one", b"after!")
    assert (tmp_path / "outside").read_bytes() == b"during"
    assert (workspace / "one").read_bytes() == b"after!"


def test_a_further_name_is_given_and_counted(workspace: Path, openat2: bool) -> None:
    with served(workspace, openat2=openat2) as tree:
        tree.root.link(b"one", tree.root, b"three", follow=False)
        write(tree, b"three", b"all of")
    assert {each.read_bytes() for each in workspace.rglob("*") if each.is_file()} == {b"all of"}


def test_another_execution_of_the_same_guest_counts_anew(
    workspace: Path, tmp_path: Path, openat2: bool
) -> None:
    with served(workspace, openat2=openat2) as tree:
        write(tree, b"one", b"during")
        (workspace / "dir" / "two").rename(tmp_path / "outside")  # by the host
        tree.serve_again(tree.meter.room, tree.changes)
        write(tree, b"one", b"after!")
    assert (tmp_path / "outside").read_bytes() == b"during"
