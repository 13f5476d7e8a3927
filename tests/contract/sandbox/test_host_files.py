"""The files of the own host: those of a workspace and those in memory keep the same promises."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentforge_sessions.sandbox.host.files.files import (
    Directory,
    FileStatus,
    Node,
    NodeKind,
    Opening,
)
from agentforge_sessions.sandbox.workspaces.quota import Quota
from tests.support.host_trees import AMPLE, in_memory, served

Serve = Callable[..., "contextmanager[Directory]"]

READ = Opening(read=True, follow=True)
WRITE = Opening(read=True, write=True, follow=True)
CREATE = Opening(read=True, write=True, create=True, follow=True)
ANEW = Opening(read=True, write=True, create=True, truncate=True, follow=True)
EXCLUSIVE = Opening(write=True, create=True, exclusive=True)


@contextmanager
def _workspace(path: Path, quota: Quota = AMPLE, *, openat2: bool = True) -> Iterator[Directory]:
    with served(path, quota, openat2=openat2) as tree:
        yield tree.root


@contextmanager
def _memory(path: Path, quota: Quota = AMPLE) -> Iterator[Directory]:
    with in_memory(path, quota) as tree:
        yield tree.root


@contextmanager
def _components(path: Path, quota: Quota = AMPLE) -> Iterator[Directory]:
    with _workspace(path, quota, openat2=False) as root:
        yield root


@pytest.fixture(params=[_workspace, _components, _memory], ids=["host", "components", "memory"])
def serve(request: pytest.FixtureRequest) -> Serve:
    return request.param


@pytest.fixture
def root(serve: Serve, tmp_path: Path) -> Iterator[Directory]:
    with serve(tmp_path) as found:
        yield found


def write(node: Node, data: bytes, at: int | None = 0) -> int:
    return node.write([memoryview(data)], at)[0]


def read(node: Node, count: int = 1000, at: int = 0) -> bytes:
    buffer = bytearray(count)
    return bytes(buffer[: node.read([memoryview(buffer)], at)])


def make(root: Directory, path: bytes, data: bytes = b"") -> None:
    node = root.open(path, ANEW)
    try:
        write(node, data)
    finally:
        node.close()


def content(root: Directory, path: bytes) -> bytes:
    node = root.open(path, READ)
    try:
        return read(node)
    finally:
        node.close()


def number_of(call: Callable[..., object], *args: object, **kwargs: object) -> str:
    """The name of the errno a call is refused with, or "none"."""
    try:
        call(*args, **kwargs)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "none"


def names(root: Directory) -> list[bytes]:
    return sorted(entry.name for entry in root.entries())


# ---------------------------------------------------------------- handles


def test_what_one_handle_writes_the_others_read_at_once(root: Directory) -> None:
    one, other = root.open(b"f", CREATE), root.open(b"f", WRITE)
    write(one, b"first")
    assert read(other) == b"first"
    write(other, b"F", 0)
    assert read(one) == b"First"
    other.truncate(2)
    assert (read(one), one.status().size) == (b"Fi", 2)
    one.close()
    other.close()


def test_two_handles_that_append_lose_nothing(root: Directory) -> None:
    one, other = root.open(b"f", CREATE), root.open(b"f", WRITE)
    for i in range(20):
        write((one, other)[i % 2], b"%d," % i, None)
    assert read(one) == b"".join(b"%d," % i for i in range(20))
    one.close()
    other.close()


def test_a_file_without_a_name_lives_until_its_last_handle_is_closed(root: Directory) -> None:
    one, other = root.open(b"f", CREATE), root.open(b"f", WRITE)
    write(one, b"kept")
    root.unlink(b"f")
    assert (names(root), one.status().links) == ([], 0)
    one.close()
    write(other, b" on", 4)
    assert read(other) == b"kept on"
    make(root, b"f", b"another")
    assert (content(root, b"f"), read(other)) == (b"another", b"kept on")
    other.close()


def test_a_rename_over_an_open_file_leaves_its_handles_what_they_had(root: Directory) -> None:
    make(root, b"new", b"new")
    old = root.open(b"f", CREATE)
    write(old, b"old")
    root.rename(b"new", root, b"f")
    assert (read(old), content(root, b"f"), names(root)) == (b"old", b"new", [b"f"])
    old.close()


def test_what_lies_between_is_zeros_and_counts(serve: Serve, tmp_path: Path) -> None:
    quota = Quota(workspace_bytes=10_000, workspace_files=10, file_bytes=1 << 20)
    with serve(tmp_path, quota) as root:
        file = root.open(b"sparse", CREATE)
        assert write(file, b"x", 5000) == 1
        assert read(file, 10_000) == bytes(5000) + b"x"
        assert number_of(write, file, b"x", 20_000) == "ENOSPC"
        assert number_of(file.truncate, 1 << 19) == "ENOSPC"
        assert number_of(file.truncate, 1 << 40) == "EFBIG"
        assert file.status().size == 5001
        file.close()


# ---------------------------------------------------------------- quota


QUOTA = Quota(workspace_bytes=1000, workspace_files=3, file_bytes=800)


def test_a_write_past_the_quota_is_refused_and_the_rest_is_as_it_was(
    serve: Serve, tmp_path: Path
) -> None:
    with serve(tmp_path, QUOTA) as root:
        file = root.open(b"f", CREATE)
        write(file, b"a" * 700)
        other = root.open(b"g", CREATE)
        assert number_of(write, other, b"b" * 301) == "ENOSPC"
        assert number_of(write, file, b"a" * 101, 700) == "EFBIG"
        assert (read(file), read(other)) == (b"a" * 700, b"")
        assert write(other, b"b" * 300) == 300
        assert write(file, b"c" * 700) == 700  # what is there may be overwritten
        file.close()
        other.close()


def test_names_are_counted_of_every_kind(serve: Serve, tmp_path: Path) -> None:
    with serve(tmp_path, QUOTA) as root:
        make(root, b"f")
        root.make_directory(b"d")
        root.symlink(b"f", b"l")
        refused = {
            number_of(root.open, b"g", CREATE),
            number_of(root.make_directory, b"e"),
            number_of(root.symlink, b"f", b"m"),
            number_of(root.link, b"f", root, b"h", follow=False),
        }
        assert refused == {"ENOSPC"}
        root.unlink(b"l")
        make(root, b"g")


def test_room_comes_back_when_a_file_is_really_gone(serve: Serve, tmp_path: Path) -> None:
    with serve(tmp_path, QUOTA) as root:
        for _ in range(5):
            file = root.open(b"f", CREATE)
            write(file, b"a" * 700)
            root.unlink(b"f")
            assert number_of(make, root, b"g", b"b" * 400) == "ENOSPC"  # it is still held
            file.close()
            make(root, b"g", b"b" * 400)
            root.unlink(b"g")


def test_each_name_of_a_file_counts(serve: Serve, tmp_path: Path) -> None:
    with serve(tmp_path, QUOTA) as root:
        make(root, b"f", b"a" * 400)
        root.link(b"f", root, b"g", follow=False)
        assert number_of(make, root, b"h", b"b" * 201) == "ENOSPC"
        root.unlink(b"h")
        file = root.open(b"g", WRITE)
        assert number_of(write, file, b"a" * 101, 400) == "ENOSPC"
        assert write(file, b"a" * 100, 400) == 100
        file.close()
        assert content(root, b"f") == b"a" * 500
        root.unlink(b"f")
        make(root, b"h", b"b" * 500)


# ---------------------------------------------------------------- links


def test_links_of_both_kinds_stay_inside(root: Directory) -> None:
    root.make_directory(b"d")
    make(root, b"d/f", b"x")
    root.symlink(b"d/f", b"l")
    root.symlink(b"../d", b"d/up")
    assert (content(root, b"l"), content(root, b"d/up/up/f")) == (b"x", b"x")
    assert (root.read_link(b"l"), root.status_of(b"l", follow=False).kind) == (
        b"d/f",
        NodeKind.LINK,
    )
    assert root.status_of(b"l", follow=True).kind is NodeKind.REGULAR
    root.link(b"l", root, b"h", follow=True)
    make(root, b"h", b"shared")
    assert (content(root, b"d/f"), root.status_of(b"h", follow=False).links) == (b"shared", 2)
    assert number_of(root.open, b"l", Opening(read=True)) == "ELOOP"


def test_links_that_lead_out_are_not_made(root: Directory) -> None:
    assert number_of(root.symlink, b"/etc/passwd", b"l") == "EPERM"
    root.make_directory(b"d")
    for target in (b"../../x", b"../..", b"./../../x"):
        number_of(root.symlink, target, b"d/l")
        assert number_of(root.open, b"d/l", READ) in ("ENOENT", "ELOOP")


def test_a_circle_of_links_ends(root: Directory) -> None:
    root.symlink(b"b", b"a")
    root.symlink(b"a", b"b")
    assert number_of(root.open, b"a", READ) == "ELOOP"
    assert number_of(root.status_of, b"a/x", follow=False) == "ELOOP"
    assert root.status_of(b"a", follow=False).kind is NodeKind.LINK


def test_a_file_is_made_through_a_link_that_leads_nowhere_yet(root: Directory) -> None:
    root.symlink(b"later", b"l")
    assert number_of(root.open, b"l", EXCLUSIVE) == "EEXIST"
    make(root, b"l", b"x")
    assert content(root, b"later") == b"x"


# ---------------------------------------------------------------- paths and names


REFUSED = {
    b"": "ENOENT",
    b"..": "EPERM",
    b"../x": "EPERM",
    b"d/../../x": "EPERM",
    b"/etc/passwd": "EPERM",
    b"missing/x": "ENOENT",
    b"f/x": "ENOTDIR",
    b"f/": "ENOTDIR",
    b"f/.": "ENOTDIR",
    b"f/..": "ENOTDIR",
    b"x" * 300: "ENAMETOOLONG",
    b"d/" * 200 + b"f": "ENAMETOOLONG",
}


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.decode()[:12])
def test_paths_that_lead_nowhere(root: Directory, path: bytes) -> None:
    root.make_directory(b"d")
    make(root, b"f")
    assert number_of(root.status_of, path, follow=True) == REFUSED[path]
    assert number_of(root.open, path, READ) == REFUSED[path]


def test_paths_that_lead_to_the_same_file(root: Directory) -> None:
    root.make_directory(b"d")
    make(root, b"d/f", b"x")
    for path in (b"d/f", b"./d/f", b"d//f", b"d/./f", b"d/../d/f", b"d/../d/../d/f"):
        assert content(root, path) == b"x", path
    below = root.open(b"d", Opening(directory=True))
    assert content(below, b"f") == b"x"  # type: ignore[arg-type]
    assert number_of(below.status_of, b"../d/f", follow=True) == "EPERM"  # type: ignore[attr-defined]
    below.close()


def test_operations_that_do_not_fit_what_is_there(root: Directory) -> None:
    root.make_directory(b"d")
    root.make_directory(b"e")
    make(root, b"d/f")
    make(root, b"f")
    assert {
        "mkdir over": number_of(root.make_directory, b"d"),
        "mkdir below nothing": number_of(root.make_directory, b"x/y"),
        "rmdir of a file": number_of(root.remove_directory, b"f"),
        "rmdir of a full one": number_of(root.remove_directory, b"d"),
        "unlink of a directory": number_of(root.unlink, b"d"),
        "unlink of nothing": number_of(root.unlink, b"x"),
        "write to a directory": number_of(root.open, b"d", WRITE),
        "make over": number_of(root.open, b"f", EXCLUSIVE),
        "file as directory": number_of(root.open, b"f", Opening(directory=True)),
        "directory over file": number_of(root.rename, b"d", root, b"f"),
        "file over directory": number_of(root.rename, b"f", root, b"e"),
        "into itself": number_of(root.rename, b"d", root, b"d/x"),
        "over a full one": number_of(root.rename, b"e", root, b"d"),
        "file with a slash": number_of(root.rename, b"f", root, b"g/"),
        "nothing to the directory itself": number_of(root.rename, b"d/x", root, b"."),
        "nothing to nowhere": number_of(root.rename, b"x", root, b"f/y"),
        "no link": number_of(root.read_link, b"f"),
        "link to a directory": number_of(root.link, b"d", root, b"h", follow=False),
        "link over": number_of(root.link, b"f", root, b"d/f", follow=False),
        "link with a slash": number_of(root.link, b"f", root, b"g/", follow=False),
        "link over with a slash": number_of(root.link, b"f", root, b"e/", follow=False),
    } == {
        "mkdir over": "EEXIST",
        "mkdir below nothing": "ENOENT",
        "rmdir of a file": "ENOTDIR",
        "rmdir of a full one": "ENOTEMPTY",
        "unlink of a directory": "EISDIR",
        "unlink of nothing": "ENOENT",
        "write to a directory": "EISDIR",
        "make over": "EEXIST",
        "file as directory": "ENOTDIR",
        "directory over file": "ENOTDIR",
        "file over directory": "EISDIR",
        "into itself": "EINVAL",
        "over a full one": "ENOTEMPTY",
        "file with a slash": "ENOTDIR",
        "nothing to the directory itself": "EBUSY",
        "nothing to nowhere": "ENOTDIR",
        "no link": "EINVAL",
        "link to a directory": "EPERM",
        "link over": "EEXIST",
        "link with a slash": "ENOENT",
        "link over with a slash": "EEXIST",
    }


def test_an_open_directory_is_the_same_after_it_was_moved(root: Directory) -> None:
    root.make_directory(b"d")
    held = root.open(b"d", Opening(directory=True))
    root.rename(b"d", root, b"e")
    make(held, b"f", b"x")  # type: ignore[arg-type]
    assert content(root, b"e/f") == b"x"
    held.close()


def test_a_directory_may_change_while_it_is_listed(root: Directory) -> None:
    for i in range(20):
        make(root, b"%d" % i)
    for entry in root.entries():
        root.unlink(entry.name)
    assert names(root) == []


def test_times_are_set_and_kept(root: Directory) -> None:
    make(root, b"f")
    root.make_directory(b"d")
    for path in (b"f", b"d"):
        root.set_times_of(path, lambda *_: (1_000, 2_000_000_000), follow=True)
        seen: FileStatus = root.status_of(path, follow=True)
        assert (seen.accessed, seen.modified) == (1_000, 2_000_000_000)
    file = root.open(b"f", READ)
    file.set_times(lambda accessed, _: (accessed, 7))
    assert file.status().modified == 7
    file.close()


# ---------------------------------------------------------------- the workspace alone


@pytest.fixture(params=[True, False], ids=["openat2", "components"])
def openat2(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


WAYS = [
    b".metadata.json", b"./.metadata.json", b".METADATA.json", b"d/../.metadata.json",
    b".metadata.json/", b".metadata.json/child", b".metadata.json/..", b"to_root/.metadata.json",
    b"to_it", b"d/to_it", b"second", b"d/../to_root/../.metadata.json", b".metadata.json ",
]  # fmt: skip


@pytest.mark.parametrize("path", WAYS, ids=bytes.decode)
def test_the_hidden_file_is_reached_by_no_name_no_link_and_no_handle(
    tmp_path: Path, path: bytes, openat2: bool
) -> None:
    (tmp_path / ".metadata.json").write_text("own")
    (tmp_path / "d").mkdir()
    (tmp_path / "f").write_text("f")
    os.symlink(".metadata.json", tmp_path / "to_it")
    os.symlink("../.metadata.json", tmp_path / "d/to_it")
    os.symlink(".", tmp_path / "to_root")
    os.link(tmp_path / ".metadata.json", tmp_path / "second")
    with served(tmp_path, openat2=openat2) as tree:
        starts = [tree.root, tree.root.open(b".", Opening(directory=True, follow=True)),
                  tree.root.open(b"to_root", Opening(directory=True, follow=True)),
                  tree.root.open(b"d/..", Opening(directory=True, follow=True))]  # fmt: skip
        for root in starts:
            assert number_of(root.status_of, path, follow=True) == "ENOENT"
            assert number_of(root.open, path, READ) == "ENOENT"
            assert number_of(root.open, path, ANEW) in ("ENOENT", "EPERM")
            assert number_of(root.unlink, path) in ("ENOENT", "EPERM", "ENOTDIR", "EBUSY")
            assert number_of(root.rename, b"f", root, path) in ("ENOENT", "EPERM", "EISDIR")
            assert number_of(root.link, path, root, b"stolen", follow=True) == "ENOENT"
            assert not {b".metadata.json", b"second", b"to_it"} & set(names(root))
        for root in starts[1:]:
            root.close()
    assert (tmp_path / ".metadata.json").read_text() == "own"


def test_what_the_host_planted_does_not_exist(tmp_path: Path, openat2: bool) -> None:
    inside, outside = tmp_path / "w", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("secret")
    for name, target in {
        "abs": str(outside), "rel": "../outside", "file": "../outside/secret",
        "new": "../outside/new", "passwd": "/etc/passwd",
    }.items():  # fmt: skip
        os.symlink(target, inside / name)
    os.mkfifo(inside / "pipe")
    (inside / os.fsdecode(b"\xff\xfe")).write_text("no text")
    with served(inside, openat2=openat2) as tree:
        root = tree.root
        for path in (b"abs", b"rel", b"file", b"passwd", b"pipe", b"abs/secret", b"rel/secret"):
            for follow in (True, False):
                assert number_of(root.status_of, path, follow=follow) == "ENOENT"
            assert number_of(root.open, path, READ) == "ENOENT"
            assert number_of(root.read_link, path) == "ENOENT"
            assert number_of(root.unlink, path) == "ENOENT"
        assert number_of(root.open, b"new", ANEW) in ("ENOENT", "EPERM")
        assert names(root) == []
    assert sorted(os.listdir(outside)) == ["secret"]


def test_a_file_with_a_name_outside_gets_one_of_its_own_when_written(
    tmp_path: Path, openat2: bool
) -> None:
    inside = tmp_path / "w"
    inside.mkdir()
    (tmp_path / "outside").write_text("outside")
    os.link(tmp_path / "outside", inside / "linked")
    with served(inside, openat2=openat2) as tree:
        file = tree.root.open(b"linked", WRITE)
        write(file, b"IN", 0)
        file.close()
        assert content(tree.root, b"linked") == b"INtside"
    assert (tmp_path / "outside").read_text() == "outside"


def test_what_is_only_read_is_not_changed(tmp_path: Path, openat2: bool) -> None:
    (tmp_path / "f").write_text("x")
    with served(tmp_path, writable=False, openat2=openat2) as tree:
        root = tree.root
        assert content(root, b"f") == b"x"
        assert {
            number_of(root.open, b"f", WRITE),
            number_of(root.open, b"g", CREATE),
            number_of(root.make_directory, b"d"),
            number_of(root.unlink, b"f"),
            number_of(root.rename, b"f", root, b"g"),
            number_of(root.symlink, b"f", b"l"),
            number_of(root.link, b"f", root, b"g", follow=False),
            number_of(root.set_times_of, b"f", lambda *_: (1, 1), follow=True),
        } == {"EROFS"}


def test_changes_are_noted_under_the_names_that_files_have_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    for name in ("old/a", "kept", "gone", "edited"):
        (tmp_path / name).write_text("x")
    with served(tmp_path) as tree:
        root = tree.root
        held = root.open(b"old/a", WRITE)
        root.rename(b"old", root, b"new")
        write(held, b"y")
        held.close()
        root.unlink(b"gone")
        make(root, b"made", b"x")
        make(root, b"passing")
        root.unlink(b"passing")
        root.link(b"kept", root, b"twin", follow=False)
        edited = root.open(b"edited", WRITE)
        root.rename(b"edited", root, b"renamed")
        edited.truncate(0)
        edited.close()
        created, modified, deleted = tree.changes.lists()
    assert created == ("made", "new/a", "renamed", "twin")
    assert modified == ()
    assert deleted == ("edited", "gone", "old/a")


def test_a_refused_write_is_a_loss_until_it_is_made_good(serve: Serve, tmp_path: Path) -> None:
    with serve(tmp_path, QUOTA) as root:
        meter = root.tree.meter  # type: ignore[attr-defined]
        file = root.open(b"f", CREATE)
        assert number_of(write, file, b"x" * 2000) == "EFBIG"
        root.rename(b"f", root, b"g")
        assert [path for path, _ in meter.losses.listed()] == [b"g"]
        file.close()
        make(root, b"g", b"short")
        assert meter.losses.listed() == []
        assert meter.losses.refused == 1
