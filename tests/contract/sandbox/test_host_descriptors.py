"""The guest's descriptors: numbers are moved and given anew, rights are given up for good."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from wasmtime import wat2wasm

from agentforge_sessions.sandbox.host.engine.engine import Program
from agentforge_sessions.sandbox.host.engine.loaded_engine import EngineUnavailable, the_engine
from agentforge_sessions.sandbox.host.files.files import (
    Descriptor,
    Descriptors,
    NodeKind,
    WithoutContent,
)
from agentforge_sessions.sandbox.host.preview1 import rights
from agentforge_sessions.sandbox.host.preview1.guest import errno_of
from agentforge_sessions.sandbox.host.preview1.preview1 import FUNCTIONS
from tests.support.host_trees import served
from tests.support.wasm_probe import SIGNATURES, Probe

SUCCESS, BADF, EXIST, INVAL, ISDIR, NOTDIR, PERM, NOTCAPABLE = 0, 8, 20, 28, 31, 54, 63, 76
CREATE = 1


class Node(WithoutContent):
    """Something open that counts how often it was closed."""

    kind = NodeKind.REGULAR

    def __init__(self, refuses: bool = False) -> None:
        self.closed = 0
        self.refuses = refuses

    def close(self) -> None:
        self.closed += 1
        if self.refuses:
            raise OSError(errno.EIO, "the disk is gone")


def opened(table: Descriptors, node: Node) -> int:
    table.require_room()
    return table.add(Descriptor(node))  # type: ignore[arg-type]


def with_streams(limit: int = 2) -> Descriptors:
    table = Descriptors(limit)
    table.start_with([Descriptor(Node()) for _ in range(3)])  # type: ignore[arg-type]
    return table


# -------------------------------------------------------------- numbers


def test_closing_a_stream_makes_no_room_for_another_file() -> None:
    table = with_streams(limit=2)
    for number in range(3):
        table.close(number)
    opened(table, Node())
    opened(table, Node())
    with pytest.raises(OSError, match="Too many open files"):
        table.require_room()


def test_a_stream_of_the_next_turn_closes_what_has_its_number_and_keeps_it() -> None:
    table, left, stream = with_streams(limit=1), Node(refuses=True), Node()
    table.close(1)
    assert opened(table, left) == 1
    table.put(1, Descriptor(stream))  # type: ignore[arg-type]
    assert left.closed == 1
    assert opened(table, Node()) == 3
    assert table.get(1).node is stream


def test_a_number_that_was_given_anew_to_a_stream_leads_to_no_file() -> None:
    table, stream = with_streams(), Node()
    table.close(0)
    table.put(0, Descriptor(stream))  # type: ignore[arg-type]
    assert opened(table, Node()) == 3
    assert table.get(0).node is stream


def test_a_moved_descriptor_closes_the_one_in_whose_place_it_is() -> None:
    table, moved, replaced = with_streams(), Node(), Node()
    number, other = opened(table, moved), opened(table, replaced)
    table.renumber(number, other)
    assert (moved.closed, replaced.closed) == (0, 1)
    assert table.get(other).node is moved
    assert number not in table
    assert opened(table, Node()) == number


def test_a_descriptor_moved_to_its_own_number_stays_open() -> None:
    table, node = with_streams(), Node()
    number = opened(table, node)
    table.renumber(number, number)
    assert (node.closed, table.get(number).node) == (0, node)


def test_a_move_stands_though_the_other_one_cannot_be_closed_well() -> None:
    table, moved = with_streams(), Node()
    number, other = opened(table, moved), opened(table, Node(refuses=True))
    with pytest.raises(OSError, match="the disk is gone"):
        table.renumber(number, other)
    assert table.get(other).node is moved
    assert number not in table


@pytest.mark.parametrize(("number", "other"), [(9, 0), (0, 9)])
def test_only_what_is_open_is_moved_or_replaced(number: int, other: int) -> None:
    table = with_streams()
    with pytest.raises(OSError, match="Bad file descriptor"):
        table.renumber(number, other)
    assert all(each in table for each in range(3))


# -------------------------------------------------------------- rights


@pytest.fixture
def probe(tmp_path: Path) -> Iterator[Probe]:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    with served(tmp_path) as tree:
        found = Probe([("/app", tree.root)])
        yield found
        found.close()


def rights_of(probe: Probe, number: int) -> tuple[int, int]:
    assert probe.call("fd_fdstat_get", number, 64) == SUCCESS
    return struct.unpack("<QQ", probe.instance.memory.view(72, 16))


def give_up(probe: Probe, number: int, own: int, below: int = 0) -> None:
    had, had_below = rights_of(probe, number)
    assert probe.call("fd_fdstat_set_rights", number, had & ~own, had_below & ~below) == SUCCESS


# What each function needs, and a call of it that succeeds as long as that is there: `F` stands for
# a file that is open for reading and writing, `D` for the directory that it is in.
NAME, OTHER, LINK = (4096, 4), (4200, 3), (4300, 4)
NEEDS: dict[str, tuple[int, tuple[object, ...]]] = {
    "fd_advise": (rights.ADVISE, ("F", 0, 1, 0)),
    "fd_allocate": (rights.ALLOCATE, ("F", 0, 1)),
    "fd_datasync": (rights.DATASYNC, ("F",)),
    "fd_fdstat_set_flags": (rights.SET_FLAGS, ("F", 0)),
    "fd_filestat_get": (rights.STATUS, ("F", 512)),
    "fd_filestat_set_size": (rights.SET_SIZE, ("F", 1)),
    "fd_filestat_set_times": (rights.SET_TIMES, ("F", 0, 0, 10)),
    "fd_pread": (rights.READ, ("F", 600, 1, 0, 512)),
    "fd_pwrite": (rights.WRITE, ("F", 600, 1, 0, 512)),
    "fd_read": (rights.READ, ("F", 600, 1, 512)),
    "fd_write": (rights.WRITE, ("F", 600, 1, 512)),
    "fd_readdir": (rights.READ_DIRECTORY, ("D", 8192, 100, 0, 512)),
    "fd_seek": (rights.SEEK, ("F", 0, 0, 512)),
    "fd_sync": (rights.SYNC, ("F",)),
    "fd_tell": (rights.TELL, ("F", 512)),
    "path_create_directory": (rights.CREATE_DIRECTORY, ("D", *OTHER)),
    "path_filestat_get": (rights.STATUS_OF, ("D", 0, *NAME, 512)),
    "path_filestat_set_times": (rights.SET_TIMES_OF, ("D", 0, *NAME, 0, 0, 10)),
    "path_link": (rights.LINK_SOURCE, ("D", 0, *NAME, "D", *OTHER)),
    "path_open": (rights.OPEN, ("D", 0, *NAME, 0, 0, 0, 0, 512)),
    "path_readlink": (rights.READ_LINK, ("D", *LINK, 8192, 100, 512)),
    "path_remove_directory": (rights.REMOVE_DIRECTORY, ("D", 4400, 3)),
    "path_rename": (rights.RENAME_SOURCE, ("D", *NAME, "D", *OTHER)),
    "path_symlink": (rights.SYMLINK, (*NAME, "D", *OTHER)),
    "path_unlink_file": (rights.UNLINK, ("D", *NAME)),
}
FURTHER = [
    ("path_link", rights.LINK_TARGET, NEEDS["path_link"][1]),
    ("path_rename", rights.RENAME_TARGET, NEEDS["path_rename"][1]),
    ("path_open", rights.CREATE_FILE, ("D", 0, *OTHER, CREATE, 0, 0, 0, 512)),
    ("path_open", rights.TRUNCATE_AT_OPENING, ("D", 0, *NAME, 8, 0, 0, 0, 512)),
]
WITHOUT_RIGHTS = {
    "fd_close", "fd_fdstat_get", "fd_fdstat_set_rights", "fd_prestat_get",
    "fd_prestat_dir_name", "fd_renumber",
}  # fmt: skip


def test_of_every_function_it_is_known_which_right_it_needs() -> None:
    on_descriptors = {name for name in SIGNATURES if name.startswith(("fd_", "path_"))}
    assert on_descriptors == NEEDS.keys() | WITHOUT_RIGHTS


@pytest.mark.parametrize(
    ("name", "right", "arguments"),
    [*((name, *needs) for name, needs in NEEDS.items()), *FURTHER],
)
def test_what_a_right_was_for_is_refused_once_it_is_given_up(
    probe: Probe, tmp_path: Path, name: str, right: int, arguments: tuple[object, ...]
) -> None:
    (tmp_path / "dir").mkdir()
    answer, file = probe.open(b"file", write=True)
    assert answer == SUCCESS
    for at, text in ((4096, b"file"), (4200, b"new"), (4300, b"link"), (4400, b"dir")):
        probe.put(text, at)
    probe.instance.memory.write(600, struct.pack("<II", 16384, 1))
    numbers = [{"F": file, "D": 3}.get(each, each) for each in arguments]  # type: ignore[call-overload]
    target = file if "F" in arguments else 3
    give_up(probe, target, right)
    assert probe.call(name, *numbers) == NOTCAPABLE
    assert (tmp_path / "file").read_bytes() == b"content"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        *((name, needs[1]) for name, needs in NEEDS.items()),
        *((each[0], each[2]) for each in FURTHER),
    ],
)
def test_it_is_done_while_the_right_is_there(
    probe: Probe, tmp_path: Path, name: str, arguments: tuple[object, ...]
) -> None:
    (tmp_path / "dir").mkdir()
    _, file = probe.open(b"file", write=True)
    for at, text in ((4096, b"file"), (4200, b"new"), (4300, b"link"), (4400, b"dir")):
        probe.put(text, at)
    probe.instance.memory.write(600, struct.pack("<II", 16384, 1))
    numbers = [{"F": file, "D": 3}.get(each, each) for each in arguments]  # type: ignore[call-overload]
    assert probe.call(name, *numbers) == SUCCESS


def test_a_right_that_was_given_up_is_not_given_back(probe: Probe) -> None:
    _, file = probe.open(b"file", write=True)
    had, below = rights_of(probe, file)
    give_up(probe, file, rights.WRITE)
    assert probe.call("fd_fdstat_set_rights", file, had, below) == NOTCAPABLE
    assert rights_of(probe, file) == (had & ~rights.WRITE, below)


def test_what_is_opened_has_no_right_that_was_given_up_for_it(probe: Probe, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    _, directory = probe.open(b"dir", how=2)
    give_up(probe, directory, 0, rights.WRITE | rights.SET_SIZE)
    assert probe.open(b"new", how=CREATE, write=True, at=directory)[0] == NOTCAPABLE
    answer, file = probe.open(b"new", how=CREATE, at=directory)
    assert answer == SUCCESS
    assert rights_of(probe, file)[0] & (rights.WRITE | rights.SET_SIZE) == 0
    assert probe.call("fd_filestat_set_size", file, 1) == NOTCAPABLE


def test_a_moved_descriptor_keeps_what_it_gave_up(probe: Probe) -> None:
    _, file = probe.open(b"file", write=True)
    _, other = probe.open(b"file")
    give_up(probe, file, rights.WRITE)
    left = rights_of(probe, file)
    assert probe.call("fd_renumber", file, other) == SUCCESS
    assert rights_of(probe, other) == left


# -------------------------------------------------------------- names


def test_a_hard_link_of_a_link_is_made_where_it_does_not_lead_out(
    probe: Probe, tmp_path: Path
) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "up").symlink_to("../file")
    assert link(probe, b"dir/up", b"dir/again") == SUCCESS
    assert (tmp_path / "dir" / "again").readlink() == Path("../file")
    assert link(probe, b"dir/up", b"up") == PERM  # from there it leads out of the workspace
    assert not (tmp_path / "up").is_symlink()


def link(probe: Probe, name: bytes, new: bytes) -> int:
    old, target = probe.put(name), probe.put(new, 4200)
    return probe.call("path_link", 3, 0, *old, 3, *target)


@pytest.mark.parametrize(
    ("name", "answer"), [(b"dir/", ISDIR), (b"dir", ISDIR), (b"file/", NOTDIR), (b"link/", NOTDIR)]
)
def test_what_is_unlinked_is_a_file_or_a_link(
    probe: Probe, tmp_path: Path, name: bytes, answer: int
) -> None:
    (tmp_path / "dir").mkdir()
    assert probe.call("path_unlink_file", 3, *probe.put(name)) == answer
    assert {each.name for each in tmp_path.iterdir()} == {"dir", "file", "link"}


# -------------------------------------------------------------- room


def test_what_is_allocated_counts_and_more_than_there_may_be_is_refused(tmp_path: Path) -> None:
    with served(tmp_path) as tree:
        probe = Probe([("/app", tree.root)])
        _, file = probe.open(b"new", how=CREATE, write=True)
        assert probe.call("fd_allocate", file, 10, 90) == SUCCESS
        assert probe.call("fd_allocate", file, 0, 50) == SUCCESS
        assert (tmp_path / "new").read_bytes() == bytes(100)
        assert probe.call("fd_allocate", file, 0, 1 << 29) == 22  # EFBIG: past the quota of a file
        assert probe.call("fd_allocate", file, (1 << 63) - 1, 2) == 22
        assert probe.call("fd_allocate", file, 0, 0) == INVAL
        assert probe.call("fd_allocate", 3, 0, 1) == ISDIR
        _, reading = probe.open(b"new")
        assert probe.call("fd_allocate", reading, 0, 200) == BADF
        assert (tmp_path / "new").stat().st_size == 100
        probe.close()


# -------------------------------------------------------------- imports


TWICE = """(module
  (import "wasi_snapshot_preview1" "sched_yield" (func {first}))
  (import "wasi_snapshot_preview1" "sched_yield" (func {second}))
  (memory (export "memory") 1))"""


def test_a_module_may_import_a_function_twice() -> None:
    result = "(result i32)"
    engine = the_engine()
    module = engine.compile(bytes(wat2wasm(TWICE.format(first=result, second=result))))
    Program(engine, module, FUNCTIONS, errno_of).instance(memory_bytes=1 << 20).close()


def test_a_module_may_not_import_a_function_in_two_shapes() -> None:
    engine = the_engine()
    module = engine.compile(
        bytes(wat2wasm(TWICE.format(first="(result i32)", second="(param i32) (result i32)")))
    )
    with pytest.raises(EngineUnavailable, match="cannot be linked"):
        Program(engine, module, FUNCTIONS, errno_of)
