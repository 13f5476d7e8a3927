"""Opening workspaces, and what two looks at one tell."""

from __future__ import annotations

import os
import random
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.sandbox import WorkspaceError, create_sandbox, open_workspace_file
from tools.sandbox.workspace import (
    Changes,
    Snapshot,
    compare,
    ensure_workspace,
    open_workspace,
    take_snapshot,
)


def look(root: Path, **limits: int) -> Snapshot:
    fd = open_workspace(root)
    try:
        return take_snapshot(fd, **limits)
    finally:
        os.close(fd)


class Diary:
    """Looks at a directory before and after a block."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.before = look(root)

    def changes(self) -> Changes:
        return compare(self.before, look(self.root))


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    (tmp_path / "keep.txt").write_text("keep")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "inner.txt").write_text("inner")
    return Diary(tmp_path)


def assert_changes(
    found: Changes,
    *,
    created: tuple[str, ...] = (),
    modified: tuple[str, ...] = (),
    deleted: tuple[str, ...] = (),
) -> None:
    assert (found.created, found.modified, found.deleted) == (created, modified, deleted)
    assert found.complete


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


def test_nothing_done_is_no_change(diary: Diary) -> None:
    (diary.root / "keep.txt").read_text()
    assert_changes(diary.changes())


def test_a_new_file_is_created_wherever_it_is(diary: Diary) -> None:
    (diary.root / "new.txt").touch()
    (diary.root / "sub" / "deep" / "er").mkdir(parents=True)
    (diary.root / "sub" / "deep" / "er" / "x").touch()
    assert_changes(diary.changes(), created=("new.txt", "sub/deep/er/x"))


def test_an_empty_directory_is_no_change(diary: Diary) -> None:
    (diary.root / "empty").mkdir()
    assert_changes(diary.changes())


def test_a_rewrite_with_the_same_bytes_is_a_modification(diary: Diary) -> None:
    (diary.root / "keep.txt").write_text("keep")
    assert_changes(diary.changes(), modified=("keep.txt",))


def test_a_rewrite_that_restores_size_and_time_is_a_modification(diary: Diary) -> None:
    path = diary.root / "keep.txt"
    was = path.stat()
    path.write_text("peek")
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert path.stat().st_mtime_ns == was.st_mtime_ns
    assert_changes(diary.changes(), modified=("keep.txt",))


def test_a_replaced_file_is_a_modification(diary: Diary) -> None:
    (diary.root / "other").write_text("keep")
    os.replace(diary.root / "other", diary.root / "keep.txt")
    assert_changes(diary.changes(), modified=("keep.txt",))


def test_a_deleted_file_is_deleted(diary: Diary) -> None:
    (diary.root / "keep.txt").unlink()
    assert_changes(diary.changes(), deleted=("keep.txt",))


def test_a_rename_is_a_deletion_and_a_creation(diary: Diary) -> None:
    (diary.root / "keep.txt").rename(diary.root / "kept.txt")
    assert_changes(diary.changes(), created=("kept.txt",), deleted=("keep.txt",))


def test_a_renamed_directory_takes_its_files_along(diary: Diary) -> None:
    (diary.root / "sub").rename(diary.root / "bus")
    assert_changes(diary.changes(), created=("bus/inner.txt",), deleted=("sub/inner.txt",))


def test_a_file_that_came_and_went_is_in_no_list(diary: Diary) -> None:
    (diary.root / "brief").write_text("x")
    (diary.root / "brief").unlink()
    assert_changes(diary.changes())


def test_a_directory_in_place_of_a_file_deletes_the_file(diary: Diary) -> None:
    (diary.root / "keep.txt").unlink()
    (diary.root / "keep.txt").mkdir()
    (diary.root / "keep.txt" / "x").touch()
    assert_changes(diary.changes(), created=("keep.txt/x",), deleted=("keep.txt",))


def test_a_link_is_an_entry_of_its_own_and_never_followed(diary: Diary, tmp_path: Path) -> None:
    (diary.root / "up").symlink_to("..")
    (diary.root / "loop").symlink_to("loop")
    (diary.root / "gone").symlink_to("nowhere")
    assert_changes(diary.changes(), created=("gone", "loop", "up"))


def test_paths_are_sorted(diary: Diary) -> None:
    names = [f"{i}" for i in range(30)]
    random.Random(1).shuffle(names)
    for name in names:
        (diary.root / name).touch()
    assert diary.changes().created == tuple(sorted(names))


def test_names_no_encoder_takes_are_escaped(diary: Diary) -> None:
    os.close(os.open(os.fsencode(diary.root) + b"/\xff\xfe", os.O_CREAT | os.O_WRONLY))
    (diary.root / "line\nbreak").touch()
    found = diary.changes()
    assert found.created == ("\\xff\\xfe", "line\nbreak")
    assert "".join(found.created).encode("utf-8")


def test_a_blocking_entry_is_named(tmp_path: Path) -> None:
    assert look(tmp_path).blocking is None
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        assert look(tmp_path).blocking is None
    os.mkfifo(tmp_path / "pipe")
    assert look(tmp_path).blocking == b"pipe"


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
    count = len(os.listdir("/proc/self/fd"))
    cut = look(deep_tree)
    assert cut.files.keys() == {b"beside"}
    assert not cut.complete
    whole = look(deep_tree, max_path_bytes=10**6)
    assert b"/".join([b"d" * 100] * 300 + [b"bottom"]) in whole.files
    assert whole.complete
    assert len(os.listdir("/proc/self/fd")) == count


def test_what_an_incomplete_look_may_have_missed_is_not_told(tmp_path: Path) -> None:
    whole = Snapshot(files={b"a": (1, 1, 1, 1), b"b": (2, 1, 1, 1)}, complete=True, blocking=None)
    part = Snapshot(files={b"b": (2, 2, 2, 2), b"c": (3, 1, 1, 1)}, complete=False, blocking=None)
    forth = compare(whole, part)
    assert (forth.created, forth.modified, forth.deleted) == (("c",), ("b",), ())
    back = compare(part, whole)
    assert (back.created, back.modified, back.deleted) == ((), ("b",), ("c",))
    assert not forth.complete
    assert not back.complete


def test_a_look_at_a_few_thousand_files_is_cheap(tmp_path: Path) -> None:
    import time

    for directory in range(30):
        (tmp_path / str(directory)).mkdir()
        for number in range(100):
            (tmp_path / str(directory) / str(number)).touch()
    started = time.perf_counter()
    assert len(look(tmp_path).files) == 3000
    assert time.perf_counter() - started < 0.5


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
    count = len(os.listdir("/proc/self/fd"))
    with pytest.raises(WorkspaceError) as caught:
        open_workspace_file(root, relative)
    assert caught.value.path == root / relative
    assert len(os.listdir("/proc/self/fd")) == count
