"""Opening workspaces, looking at them, reading from them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import WorkspaceError, create_sandbox
from agentforge_sessions.sandbox.workspaces.workspace import (
    ChangeLedger,
    ensure_workspace,
    open_workspace,
    open_workspace_file,
)
from agentforge_sessions.sandbox.workspaces.workspace_tree import (
    TreeSnapshot,
    list_files,
    measure_tree,
    take_snapshot,
)
from tests.support.descriptors import held_below


def look(root: Path, **limits: int) -> TreeSnapshot:
    fd = open_workspace(root)
    try:
        return take_snapshot(fd, **limits)
    finally:
        os.close(fd)


def test_a_missing_workspace_is_made_for_this_user_alone(tmp_path: Path) -> None:
    made = ensure_workspace(tmp_path / "a" / "b")
    assert made == tmp_path / "a" / "b"
    for directory in (made, made.parent):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_an_existing_workspace_is_taken_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "keep").write_text("x")
    assert ensure_workspace(tmp_path) == tmp_path
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    assert (tmp_path / "keep").read_text() == "x"


def test_a_relative_workspace_stays_where_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sandbox = create_sandbox()
    monkeypatch.chdir("/")
    assert sandbox.workspace == tmp_path / "workspace"
    assert sandbox.workspace.is_dir()


def test_a_link_above_the_workspace_is_resolved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert ensure_workspace(tmp_path / "link" / "w") == tmp_path / "real" / "w"


@pytest.mark.parametrize(
    ("kind", "word"), [("link", "symbolic link"), ("dangling", "symbolic link"), ("file", "not a")]
)
def test_a_workspace_that_is_no_directory_is_refused(tmp_path: Path, kind: str, word: str) -> None:
    path = tmp_path / "w"
    match kind:
        case "link":
            path.symlink_to(tmp_path)
        case "dangling":
            path.symlink_to("nowhere")
        case _:
            path.write_text("mine")
    with pytest.raises(WorkspaceError) as caught:
        ensure_workspace(path)
    assert caught.value.path == path
    assert word in caught.value.reason
    assert caught.value.remedy in str(caught.value)
    assert os.listdir(tmp_path) == ["w"]


def test_a_workspace_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WorkspaceError) as caught:
        ensure_workspace(tmp_path / "file" / "w")
    assert caught.value.path == tmp_path / "file" / "w"


@pytest.mark.parametrize("name", ["nul\0", "sur\ud800", "x" * 300])
def test_a_workspace_no_file_system_can_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(WorkspaceError):
        ensure_workspace(tmp_path / name)


def test_a_missing_workspace_is_not_made_by_opening_it(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="does not exist"):
        open_workspace(tmp_path / "gone")
    assert os.listdir(tmp_path) == []


def test_a_look_tells_files_from_what_is_none(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file").write_text("four")
    (tmp_path / "link").symlink_to("sub")
    os.mkfifo(tmp_path / "pipe")
    os.close(os.open(os.fsencode(tmp_path) + b"/\xff", os.O_CREAT | os.O_WRONLY))
    seen = look(tmp_path)
    assert seen.files.keys() == {b"sub/file", b"link", b"pipe", b"\xff"}
    assert seen.special == {b"link", b"pipe"}
    assert (seen.entries, seen.depth, seen.complete) == (5, 2, True)
    assert list_files(seen) == ["sub/file"]
    fd = open_workspace(tmp_path)
    try:
        assert measure_tree(fd, max_entries=100) == (4, 5)
        assert measure_tree(fd, max_entries=3)[1] == 4
    finally:
        os.close(fd)


@pytest.fixture
def deep_tree(tmp_path: Path) -> Iterator[Path]:
    """A tree far deeper than one path may be long, with a file at its end."""
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d" * 100, dir_fd=here)
        below = os.open("d" * 100, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    yield tmp_path
    import shutil

    shutil.rmtree(tmp_path / ("d" * 100))


def test_a_tree_deeper_than_a_path_is_looked_at_with_two_descriptors(deep_tree: Path) -> None:
    (deep_tree / "beside").touch()
    cut = look(deep_tree)
    assert cut.files.keys() == {b"beside"}
    assert not cut.complete
    whole = look(deep_tree, max_path_bytes=10**6)
    assert b"/".join([b"d" * 100] * 300 + [b"bottom"]) in whole.files
    assert whole.complete
    assert held_below(deep_tree) == []


def test_a_file_of_the_workspace_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.txt").write_bytes(b"content")
    with open_workspace_file(tmp_path, "a/b.txt") as file:
        assert file.read() == b"content"


@pytest.mark.parametrize(
    "relative",
    [
        "",
        "/etc/passwd",
        "../outside.txt",
        "a/../../outside.txt",
        "link",
        "dir/outside.txt",
        "pipe",
        "gone",
        "sub",
        "nul\0",
        "\ud800",
    ],
)
def test_a_file_that_is_not_plainly_inside_is_not_read(tmp_path: Path, relative: str) -> None:
    (tmp_path / "outside.txt").write_text("outside")
    root = tmp_path / "w"
    (root / "sub").mkdir(parents=True)
    (root / "link").symlink_to("../outside.txt")
    (root / "dir").symlink_to("..")
    os.mkfifo(root / "pipe")
    with pytest.raises(WorkspaceError) as caught:
        open_workspace_file(root, relative)
    assert caught.value.path == root / relative
    assert held_below(tmp_path) == []


def test_changes_of_one_path_come_down_to_one_word() -> None:
    ledger = ChangeLedger()
    ledger.wrote("/new", existed=False)
    ledger.wrote("/new", existed=True)
    ledger.removed("/old")
    ledger.wrote("/old", existed=False)
    ledger.removed("/gone")
    ledger.wrote("/brief", existed=False)
    ledger.removed("/brief")
    assert ledger.lists() == (("new",), ("old",), ("gone",))
    assert ledger.complete
