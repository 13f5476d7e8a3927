"""`..` from where a directory is mounted leads to what it is mounted in, as in any file system."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge_sessions.sandbox.host.files.mount_points import MountPoints
from tests.support.host_trees import in_memory, served
from tests.support.wasm_probe import Probe

SUCCESS, NAMETOOLONG, NOENT, PERM, ROFS = 0, 37, 44, 63, 69
ROOT, APP = 3, 4


@pytest.fixture(params=[True, False], ids=["openat2", "by component"])
def probe(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Probe]:
    workspace = tmp_path / "w"
    (workspace / "a" / "b").mkdir(parents=True)
    (workspace / "file").write_bytes(b"content")
    (workspace / "deep").symlink_to("a/b")
    (tmp_path / "secret").write_text("secret")
    with served(workspace, openat2=request.param) as tree, in_memory(tmp_path) as memory:
        root = MountPoints({b"app": tree.root, b"tmp": memory.root, b"usr/lib": memory.root})
        found = Probe([("/", root), ("/app", tree.root), ("/tmp", memory.root)])
        yield found
        found.close()


def inode(probe: Probe, number: int, path: bytes, *, lookup: int = 1) -> int:
    """What is at a path; the errno as a negative number where nothing is."""
    answer = probe.call("path_filestat_get", number, lookup, *probe.put(path), 512)
    return -answer if answer else int.from_bytes(probe.instance.memory.view(520, 8), "little")


@pytest.mark.parametrize(
    ("number", "path", "same"),
    [
        (ROOT, b"..", b"."),
        (ROOT, b"../../..", b"."),
        (ROOT, b"usr/../..", b"."),
        (ROOT, b"app/..", b"."),
        (ROOT, b"app/../app/file", b"app/file"),
        (ROOT, b"../app/./../app/a/../../app/a", b"app/a"),
        (APP, b"..", b"."),
        (APP, b"../..", b"."),
        (APP, b"../app", b"app"),
        (APP, b"../tmp", b"tmp"),
        (APP, b"../usr/lib/../..", b"."),
        (APP, b"a/../../app/file", b"app/file"),
        (APP, b"a/b/../../../app/a/b", b"app/a/b"),
    ],
)
def test_a_path_leads_above_a_mounted_directory(
    probe: Probe, number: int, path: bytes, same: bytes
) -> None:
    there = inode(probe, ROOT, same)
    assert there > 0
    assert inode(probe, number, path) == there


@pytest.mark.parametrize("path", [b"deep/../b", b"deep/../../file", b"deep/../../a/../file"])
def test_a_link_on_the_way_is_left_where_it_leads(probe: Probe, path: bytes) -> None:
    """`deep` leads to `a/b`, so `deep/..` is `a`, and `deep/../..` no higher than the directory."""
    assert inode(probe, APP, path) == inode(probe, ROOT, b"app/" + path) > 0
    assert inode(probe, APP, b"deep/../../../app/file") == inode(probe, APP, b"file")


@pytest.mark.parametrize("path", [b"nothing/../../app", b"../nothing/../app", b"../secret"])
def test_what_is_not_there_has_no_parent(probe: Probe, path: bytes) -> None:
    assert inode(probe, APP, path) == -NOENT


def test_nothing_outside_is_reached(probe: Probe, tmp_path: Path) -> None:
    _, directory = probe.open(b"a", how=2, at=APP)
    assert inode(probe, directory, b"../file") == -PERM
    assert inode(probe, APP, b"/../app") == -PERM
    assert inode(probe, APP, b"../w/file") == -NOENT
    assert probe.open(b"../new", how=1, write=True, at=APP)[0] == NOENT
    assert probe.call("path_create_directory", APP, *probe.put(b"../new")) == ROFS
    assert probe.call("path_remove_directory", APP, *probe.put(b"../tmp")) == ROFS
    assert {each.name for each in tmp_path.iterdir()} == {"w", "secret"}


def test_names_are_changed_through_it(probe: Probe, tmp_path: Path) -> None:
    there, new = probe.put(b"../app/file"), probe.put(b"a/../../app/a/new", 4200)
    assert probe.call("path_rename", APP, *there, APP, *new) == SUCCESS
    assert (tmp_path / "w" / "a" / "new").read_bytes() == b"content"
    assert probe.call("path_unlink_file", APP, *probe.put(b"../app/a/new")) == SUCCESS
    assert not (tmp_path / "w" / "a" / "new").exists()


def test_a_path_of_too_many_names_is_refused(probe: Probe) -> None:
    assert inode(probe, ROOT, b"app/../" * 64 + b"app") == -NAMETOOLONG
    assert inode(probe, ROOT, b"app/../" * 63 + b"app") > 0
