"""The files of a workspace, as they are served to a guest."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentforge_sessions.sandbox import guest_entries, guest_files
from agentforge_sessions.sandbox.guest_files import (
    MAX_DEPTH,
    WorkspaceProvider,
    is_hidden,
    place_files,
)
from agentforge_sessions.sandbox.guest_mounts import ProviderSwitch
from agentforge_sessions.sandbox.quota import Quota
from agentforge_sessions.sandbox.workspace import open_workspace
from agentforge_sessions.sandbox.workspace_usage import Usage, UsageCounter
from tests.support.descriptors import held_below

LARGE = Quota(workspace_bytes=1 << 30, workspace_files=10_000, file_bytes=1 << 20)


class ServedDirectory:
    """A provider over a directory, its descriptor closed at the end."""

    def __init__(self, root: Path, quota: Quota = LARGE) -> None:
        self.root = root
        self.quota = quota
        self.fd = open_workspace(root)
        self.counter = UsageCounter()
        self.counter.begin(self.fd)
        self.files = WorkspaceProvider(self.fd, quota, self.counter)

    def lists(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        assert self.files.changes.complete
        return self.files.changes.lists()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedDirectory]:
    (tmp_path / "keep.txt").write_text("keep")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "inner.txt").write_text("inner")
    made = ServedDirectory(tmp_path)
    before = held_below(tmp_path)
    yield made
    assert held_below(tmp_path) == before
    os.close(made.fd)


def refused(number: int, call: Callable[..., object], *args: object) -> None:
    with pytest.raises(OSError) as caught:
        call(*args)
    assert errno.errorcode[caught.value.errno or 0] == errno.errorcode[number]


# ---------------------------------------------------------------- reading


def test_a_file_is_described_and_read(served: ServedDirectory) -> None:
    seen = served.files.stat("/sub/inner.txt")
    assert (seen.kind, seen.size) == ("file", 5)
    assert seen.mtime_ns == (served.root / "sub" / "inner.txt").stat().st_mtime_ns
    assert served.files.read("/sub/inner.txt") == b"inner"
    assert (served.files.stat("/sub").kind, served.files.stat("/").kind) == ("dir", "dir")
    assert sorted(served.files.list("/")) == [("keep.txt", "file"), ("sub", "dir")]
    assert served.files.list("/sub") == [("inner.txt", "file")]


def test_a_time_before_the_epoch_is_the_epoch(served: ServedDirectory) -> None:
    os.utime(served.root / "keep.txt", (-100, -100))
    assert served.files.stat("/keep.txt").mtime_ns == 0


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("/gone", errno.ENOENT),
        ("/gone/below", errno.ENOENT),
        ("/keep.txt/below", errno.ENOTDIR),
        ("/sub", errno.EISDIR),
        ("/", errno.EISDIR),
        ("/" + "x" * 300, errno.ENAMETOOLONG),
        ("/a" * 2100, errno.ENAMETOOLONG),
    ],
)
def test_what_cannot_be_read_is_refused(served: ServedDirectory, path: str, number: int) -> None:
    refused(number, served.files.read, path)


def test_a_file_beyond_the_limit_is_refused_unread(served: ServedDirectory) -> None:
    os.truncate(served.root / "keep.txt", 1 << 40)
    refused(errno.EFBIG, served.files.read, "/keep.txt")
    refused(errno.EFBIG, served.files.write, "/keep.txt", bytes((1 << 20) + 1))
    assert served.files.room.exceeded == ("file_bytes",)
    assert (served.root / "keep.txt").stat().st_size == 1 << 40


def test_names_that_are_no_utf_8_are_not_listed(served: ServedDirectory) -> None:
    os.close(os.open(os.fsencode(served.root) + b"/\xff", os.O_CREAT | os.O_WRONLY))
    assert len(served.files.list("/")) == 2


# ---------------------------------------------------------------- links and what is no file


@pytest.fixture
def odd(served: ServedDirectory) -> Iterator[ServedDirectory]:
    outside = served.root.parent / f"{served.root.name}-outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    for name, target in {
        "file_link": outside / "secret.txt",
        "dir_link": outside,
        "own_link": "keep.txt",
        "dangling": "nowhere",
        "loop": "loop",
    }.items():
        (served.root / name).symlink_to(target)
    os.mkfifo(served.root / "pipe")
    before = os.getcwd()
    os.chdir(served.root)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    os.chdir(before)
    yield served
    assert (outside / "secret.txt").read_text() == "secret"
    assert os.listdir(outside) == ["secret.txt"]


ODD = ["file_link", "dir_link", "own_link", "dangling", "loop", "pipe", "socket"]


def test_links_and_special_files_are_not_there(odd: ServedDirectory) -> None:
    assert sorted(odd.files.list("/")) == [("keep.txt", "file"), ("sub", "dir")]
    for name in ODD:
        for call in (odd.files.stat, odd.files.read, odd.files.remove, odd.files.rmdir):
            refused(errno.ENOENT, call, f"/{name}")
        refused(errno.ENOENT, odd.files.list, f"/{name}")
        refused(errno.ENOENT, odd.files.read, f"/{name}/secret.txt")
        refused(errno.ENOENT, odd.files.write, f"/{name}/new.txt", b"x")
        refused(errno.ENOENT, odd.files.mkdir, f"/{name}/new")
        refused(errno.ENOENT, odd.files.rename, f"/{name}", "/mine")
        refused(errno.EPERM, odd.files.write, f"/{name}", b"x")
        refused(errno.EEXIST, odd.files.mkdir, f"/{name}")
        refused(errno.EPERM, odd.files.rename, "/keep.txt", f"/{name}")
    assert odd.lists() == ((), (), ())


def test_a_directory_holding_only_what_is_not_there_is_not_empty(odd: ServedDirectory) -> None:
    (odd.root / "holder").mkdir()
    (odd.root / "holder" / "link").symlink_to("..")
    assert odd.files.list("/holder") == []
    refused(errno.ENOTEMPTY, odd.files.rmdir, "/holder")


def test_a_directory_swapped_for_a_link_under_way_is_never_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for directory in (root / "real", outside):
        directory.mkdir(parents=True)
        (directory / "file").write_text(directory.name)
    served = ServedDirectory(root)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(root / "real", root / "aside")
            os.symlink(outside, root / "real")
            os.unlink(root / "real")
            os.rename(root / "aside", root / "real")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(2000):
            try:
                assert served.files.read("/real/file") != b"outside"
                served.files.write("/real/file", b"mine")
            except OSError:
                continue
    finally:
        stop.set()
        thread.join()
        os.close(served.fd)
    assert (outside / "file").read_text() == "outside"


def test_a_file_with_another_name_outside_is_rewritten_apart(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").write_text("outside")
    os.link(tmp_path / "outside", tmp_path / "root" / "inside")
    served = ServedDirectory(tmp_path / "root")
    served.files.write("/inside", b"new")
    os.close(served.fd)
    assert (tmp_path / "outside").read_text() == "outside"
    assert (tmp_path / "root" / "inside").read_text() == "new"


@pytest.mark.parametrize("swap", ["link", "file", "pipe"])
def test_a_file_swapped_between_the_look_and_the_opening_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swap: str
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside").write_text("outside")
    (root / "file").write_text("mine")
    served = ServedDirectory(root)
    real = guest_entries.look_at

    def look_then_swap(name: str, parent: int) -> os.stat_result | None:
        seen = real(name, parent)
        (root / "file").rename(root / "aside")
        match swap:
            case "link":
                (root / "file").symlink_to(tmp_path / "outside")
            case "pipe":
                os.mkfifo(root / "file")
            case _:
                os.link(tmp_path / "outside", root / "file")
        return seen

    for call in (lambda: served.files.read("/file"), lambda: served.files.write("/file", b"x")):
        with monkeypatch.context() as patched:
            for module in (guest_entries, guest_files):
                patched.setattr(module, "look_at", look_then_swap)
            with pytest.raises(OSError) as caught:
                call()
        expected = (errno.ENOENT,) if swap == "link" else (errno.ESTALE, errno.ENXIO)
        assert caught.value.errno in expected
        (root / "file").unlink()
        (root / "aside").rename(root / "file")
    assert (tmp_path / "outside").read_text() == "outside"
    os.close(served.fd)


# ---------------------------------------------------------------- the host's own file

SPELLINGS = [
    ".metadata.json",
    ".METADATA.JSON",
    ".Metadata.json",
    ".metadata.json.",
    ".metadata.json ",
    "\uff0emetadata.json",
    ".metad\u0430ta.json".replace("\u0430", "a"),
    ".metadata\u200b.json",
    ".metadata.j\u017fon",
]


@pytest.mark.parametrize("name", SPELLINGS)
def test_the_hosts_own_file_is_hidden_in_every_spelling(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{}")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / name).write_text("the guest's")
    (tmp_path / "other").touch()
    served = ServedDirectory(tmp_path)
    assert is_hidden(name)
    assert sorted(served.files.list("/")) == [("other", "file"), ("sub", "dir")]
    for call in (served.files.stat, served.files.read, served.files.remove, served.files.rmdir):
        refused(errno.ENOENT, call, f"/{name}")
    refused(errno.ENOENT, served.files.read, f"/{name}/x")
    refused(errno.ENOENT, served.files.rename, f"/{name}", "/mine")
    refused(errno.EPERM, served.files.write, f"/{name}", b"")
    refused(errno.EPERM, served.files.mkdir, f"/{name}")
    refused(errno.EPERM, served.files.rename, "/other", f"/{name}")
    refused(errno.EPERM, served.files.rename, "/sub", f"/{name}")
    assert served.files.read(f"/sub/{name}") == b"the guest's"
    assert (tmp_path / name).read_text() == "{}"
    os.close(served.fd)


@pytest.mark.parametrize("name", ["metadata.json", ".metadata.jso", ".metadata.json5", "a", ""])
def test_other_names_are_not_hidden(name: str) -> None:
    assert not is_hidden(name)


# ---------------------------------------------------------------- changes


def test_each_kind_of_change_is_noted(served: ServedDirectory) -> None:
    served.files.write("/new.txt", b"")
    served.files.write("/new.txt", b"content")
    served.files.write("/keep.txt", b"keep")
    served.files.remove("/sub/inner.txt")
    assert served.lists() == (("new.txt",), ("keep.txt",), ("sub/inner.txt",))
    assert (served.root / "new.txt").read_bytes() == b"content"


def test_what_a_guest_makes_is_not_executable(served: ServedDirectory) -> None:
    served.files.write("/new.txt", b"#!/bin/sh")
    os.link(served.root / "keep.txt", served.root / "other.txt")
    served.files.write("/keep.txt", b"#!/bin/sh")
    for name in ("new.txt", "keep.txt"):
        assert not (served.root / name).stat().st_mode & 0o111


def test_what_is_only_read_is_not_changed(served: ServedDirectory) -> None:
    served.files.read("/keep.txt")
    served.files.mkdir("/empty")
    assert served.lists() == ((), (), ())


def test_what_came_and_went_is_in_no_list(served: ServedDirectory) -> None:
    served.files.write("/brief", b"x")
    served.files.rename("/brief", "/moved")
    served.files.remove("/moved")
    assert served.lists() == ((), (), ())


def test_what_went_and_came_again_is_modified(served: ServedDirectory) -> None:
    served.files.remove("/keep.txt")
    served.files.write("/keep.txt", b"again")
    assert served.lists() == ((), ("keep.txt",), ())


def test_a_renamed_directory_carries_its_files(served: ServedDirectory) -> None:
    served.files.mkdir("/sub/deep")
    served.files.write("/sub/deep/x", b"x")
    (served.root / "sub" / "link").symlink_to("inner.txt")
    served.files.rename("/sub", "/bus")
    assert served.lists() == (("bus/deep/x", "bus/inner.txt"), (), ("sub/inner.txt",))
    served.files.rename("/bus", "/sub")
    assert served.lists() == (("sub/deep/x",), ("sub/inner.txt",), ())


def test_a_rename_over_a_file_modifies_it(served: ServedDirectory) -> None:
    served.files.write("/new", b"x")
    served.files.rename("/new", "/keep.txt")
    assert served.lists() == ((), ("keep.txt",), ())


def test_a_tree_does_not_grow_deeper_than_hosts_can_remove(served: ServedDirectory) -> None:
    path = ""
    for _ in range(MAX_DEPTH):
        path += "/d"
        served.files.mkdir(path)
    refused(errno.ENAMETOOLONG, served.files.mkdir, path + "/d")
    served.files.mkdir("/e")
    served.files.mkdir("/e/f")
    refused(errno.ENAMETOOLONG, served.files.rename, "/d", "/e/d")
    refused(errno.ENAMETOOLONG, served.files.rename, "/e", "/d" * (MAX_DEPTH - 1) + "/e")
    served.files.rename("/d", "/g")


def test_a_rename_between_two_names_of_one_file_moves_nothing(served: ServedDirectory) -> None:
    os.link(served.root / "keep.txt", served.root / "same.txt")
    served.files.rename("/keep.txt", "/same.txt")
    assert served.lists() == ((), (), ())
    assert sorted(os.listdir(served.root)) == ["keep.txt", "same.txt", "sub"]


def test_a_rename_over_a_file_frees_what_it_held(tmp_path: Path) -> None:
    served = ServedDirectory(
        tmp_path, Quota(workspace_bytes=100, workspace_files=2, file_bytes=100)
    )
    served.files.write("/a", bytes(60))
    served.files.write("/b", bytes(40))
    served.files.rename("/b", "/a")
    assert served.counter.known(served.fd, _limit()) == Usage(bytes=40, entries=1)
    served.files.write("/b", bytes(60))
    assert served.counter.counts == 1
    os.close(served.fd)


def test_renames_keep_to_posix(served: ServedDirectory) -> None:
    served.files.mkdir("/empty")
    refused(errno.ENOTEMPTY, served.files.rename, "/empty", "/sub")
    refused(errno.ENOTDIR, served.files.rename, "/empty", "/keep.txt")
    refused(errno.EISDIR, served.files.rename, "/keep.txt", "/empty")
    refused(errno.ENOENT, served.files.rename, "/gone", "/x")
    served.files.rename("/sub", "/empty")
    assert sorted(os.listdir(served.root)) == ["empty", "keep.txt"]


def test_namespace_calls_on_the_wrong_kind_are_refused(served: ServedDirectory) -> None:
    refused(errno.EISDIR, served.files.remove, "/sub")
    refused(errno.ENOTDIR, served.files.rmdir, "/keep.txt")
    refused(errno.ENOTEMPTY, served.files.rmdir, "/sub")
    refused(errno.EEXIST, served.files.mkdir, "/sub")
    refused(errno.EISDIR, served.files.write, "/sub", b"")
    refused(errno.EISDIR, served.files.write, "/", b"")
    refused(errno.ENOTDIR, served.files.list, "/keep.txt")


NAMES = st.sampled_from(["/a", "/b", "/d", "/d/a", "/d/b", "/e", "/e/a", "/d/e", "/d/e/a"])
STEP = st.one_of(
    st.tuples(st.just("write"), NAMES, st.binary(max_size=3)),
    st.tuples(st.just("mkdir"), NAMES),
    st.tuples(st.just("remove"), NAMES),
    st.tuples(st.just("rmdir"), NAMES),
    st.tuples(st.just("rename"), NAMES, NAMES),
)


@settings(max_examples=150, deadline=None)
@given(before=st.lists(STEP, max_size=12), steps=st.lists(STEP, max_size=25))
def test_the_lists_and_the_count_are_what_a_look_at_the_files_gives(
    tmp_path_factory: pytest.TempPathFactory, before: list[tuple], steps: list[tuple]
) -> None:
    root = tmp_path_factory.mktemp("model")
    served = ServedDirectory(root)

    def apply(step: tuple) -> None:
        name, *args = step
        if name == "rename" and (args[1] + "/").startswith(args[0] + "/"):
            return  # the runner answers these itself
        with contextlib.suppress(OSError):
            getattr(served.files, name)(*args)

    def look() -> dict[str, tuple[int, bytes]]:
        return {
            str(path.relative_to(root)): (path.stat().st_ino, path.read_bytes())
            for path in root.rglob("*")
            if path.is_file()
        }

    for step in before:
        apply(step)
    was = look()
    served.files = WorkspaceProvider(served.fd, served.quota, served.counter)
    for step in steps:
        apply(step)
    now = look()
    created, modified, deleted = served.lists()
    assert set(created) == now.keys() - was.keys()
    assert set(deleted) == was.keys() - now.keys()
    changed = {path for path in now.keys() & was.keys() if now[path] != was[path]}
    assert changed <= set(modified) <= now.keys() & was.keys()
    if served.counter.counts:
        known = served.counter.known(served.fd, _limit())
        assert known.bytes == sum(len(content) for _, content in now.values())
        assert known.entries == sum(1 for _ in root.rglob("*"))
    os.close(served.fd)


def _limit() -> Usage:
    return Usage(bytes=1 << 30, entries=10_000)


# ---------------------------------------------------------------- quotas


def test_bytes_past_the_quota_are_refused_and_what_fits_is_kept(tmp_path: Path) -> None:
    served = ServedDirectory(
        tmp_path, Quota(workspace_bytes=100, workspace_files=10, file_bytes=1000)
    )
    served.files.write("/a", bytes(60))
    refused(errno.ENOSPC, served.files.write, "/b", bytes(41))
    served.files.write("/b", bytes(40))
    refused(errno.ENOSPC, served.files.write, "/a", bytes(61))
    served.files.write("/a", bytes(10))
    served.files.write("/b", bytes(90))
    assert served.files.room.exceeded == ("workspace_bytes",)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 100
    served.files.remove("/b")
    served.files.write("/c", bytes(90))
    os.close(served.fd)


def test_files_past_the_quota_are_refused_directories_too(tmp_path: Path) -> None:
    served = ServedDirectory(
        tmp_path, Quota(workspace_bytes=100, workspace_files=3, file_bytes=100)
    )
    served.files.mkdir("/d")
    served.files.write("/d/a", b"")
    served.files.write("/b", b"")
    refused(errno.ENOSPC, served.files.write, "/c", b"")
    refused(errno.ENOSPC, served.files.mkdir, "/e")
    assert served.files.room.exceeded == ("workspace_files",)
    served.files.rename("/d/a", "/b")
    served.files.write("/c", b"")
    served.files.remove("/c")
    served.files.rmdir("/d")
    assert served.files.room.exceeded == ("workspace_files",)
    os.close(served.fd)


def test_a_workspace_over_its_quota_may_be_emptied_but_not_filled(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / str(number)).write_bytes(bytes(20))
    served = ServedDirectory(
        tmp_path, Quota(workspace_bytes=100, workspace_files=5, file_bytes=100)
    )
    refused(errno.ENOSPC, served.files.write, "/new", b"")
    for number in range(6):
        served.files.remove(f"/{number}")
    served.files.write("/new", bytes(20))
    refused(errno.ENOSPC, served.files.write, "/newer", b"")
    refused(errno.ENOSPC, served.files.write, "/new", bytes(21))
    os.close(served.fd)


def test_room_made_by_others_is_found_before_a_refusal(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(bytes(90))
    served = ServedDirectory(
        tmp_path, Quota(workspace_bytes=100, workspace_files=5, file_bytes=100)
    )
    served.files.write("/a", bytes(10))
    (tmp_path / "big").unlink()
    served.files.write("/a", bytes(50))
    assert served.files.room.exceeded == ()
    os.close(served.fd)


def test_the_workspace_is_counted_once_and_only_when_something_grows(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / str(number)).write_bytes(b"x")
    served = ServedDirectory(tmp_path)
    served.files.list("/")
    served.files.read("/1")
    served.files.remove("/1")
    assert served.counter.counts == 0
    for number in range(20):
        served.files.write(f"/new{number}", b"x")
    assert served.counter.counts == 1
    os.close(served.fd)


# ---------------------------------------------------------------- placing and switching


def test_files_are_placed_and_are_no_change(served: ServedDirectory) -> None:
    place_files(served.files, {"a/b/c.txt": b"x", "keep.txt": b"new", "sub/d": b""})
    assert (served.root / "a" / "b" / "c.txt").read_bytes() == b"x"
    assert served.lists() == ((), (), ())
    served.files.write("/a/b/c.txt", b"y")
    assert served.lists() == ((), ("a/b/c.txt",), ())


def test_a_file_is_not_placed_through_a_link(odd: ServedDirectory) -> None:
    for path in ("file_link", "dir_link/x", "keep.txt/x"):
        with pytest.raises(OSError) as caught:
            place_files(odd.files, {"fine": b"", path: b"x"})
        assert caught.value.filename == path


def test_a_switch_serves_what_is_bound(served: ServedDirectory) -> None:
    switch = ProviderSwitch()
    assert (switch.stat("/").kind, switch.list("/")) == ("dir", [])
    refused(errno.ENOENT, switch.read, "/keep.txt")
    refused(errno.ENOENT, switch.write, "/x", b"")
    switch.target = served.files
    assert switch.read("/keep.txt") == b"keep"
    switch.write("/x", b"1")
    switch.mkdir("/m")
    switch.rename("/x", "/m/x")
    switch.remove("/m/x")
    switch.rmdir("/m")
    assert sorted(switch.list("/")) == [("keep.txt", "file"), ("sub", "dir")]
    assert switch.stat("/sub").kind == "dir"
    switch.target = None
    refused(errno.ENOENT, switch.read, "/keep.txt")


def test_many_random_files_are_served_as_they_are(served: ServedDirectory) -> None:
    source = random.Random(7)
    made = {}
    for _ in range(200):
        name = "".join(chr(source.choice(range(33, 0x2FF))) for _ in range(20)).replace("/", "_")
        made[name] = source.randbytes(source.randrange(2000))
        served.files.write(f"/{name}", made[name])
    assert {name for name, _ in served.files.list("/")} == made.keys() | {"keep.txt", "sub"}
    assert all(served.files.read(f"/{name}") == data for name, data in made.items())
