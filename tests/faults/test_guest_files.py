"""A system call under the guest's files fails: the guest is told by that call, and all else holds.

Every system call that a script of file operations makes is made to fail in turn, with an errno that
a disk or a busy machine is known for; in the soak with each of them, with and without `openat2`.
The operations are asked for through a WebAssembly module, so whatever was raised would have to pass
the engine.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from attrs import define, field

from agentforge_sessions.sandbox.host.files.host_directory import HostTree
from agentforge_sessions.sandbox.host.files.system_calls import SystemCalls
from agentforge_sessions.sandbox.host.preview1.guest import ERRNOS
from agentforge_sessions.sandbox.workspaces.workspace_tree import measure_tree
from tests.support.descriptors import held_below
from tests.support.filesystem import Call, nth_call
from tests.support.host_calls import FaultyCalls, WithoutOpenat2
from tests.support.host_trees import served
from tests.support.soak import SOAKING
from tests.support.wasm_probe import PAGE, Probe

NUMBERS: Final = (errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EDQUOT)
EACH: Final = [(number,) for number in NUMBERS] if SOAKING else [NUMBERS]
"""The errnos that the calls fail with, one after the other."""

STEP: Final = 1 if SOAKING else 4
"""Of the calls that fail, one in so many."""

ABSORBED: Final = {"close"}
"""What may fail without a word: nothing depends on the answer where nothing was written."""

KEPT = b"what no operation touches\n" * 40
OUTSIDE = b"another name's content\n" * 40
CREATE, DIRECTORY, EXCLUSIVE, ANEW = 1, 2, 4, 8


def named(numbers: tuple[int, ...]) -> str:
    return " ".join(errno.errorcode[number] for number in numbers)


@define
class Script:
    """Does things as a guest does, one call after the other, whatever they answer."""

    probe: Probe
    calls: FaultyCalls
    answers: list[tuple[str, int, int]] = field(factory=list)
    """Of each call of the guest: what it was, what it answered, and how many system calls failed
    in it."""
    trace: list[Call] = field(factory=list)

    def call(self, name: str, *numbers: int) -> int:
        before = len(self.calls.failed)
        answer = self.probe.call(name, *numbers)
        self.answers.append((name, answer, len(self.calls.failed) - before))
        return answer

    def on_path(self, name: str, path: bytes, *numbers: int, lookup: int | None = None) -> int:
        first = (3,) if lookup is None else (3, lookup)
        return self.call(name, *first, *self.probe.put(path), *numbers)

    def open(self, path: bytes, how: int = 0, *, write: bool = False, append: bool = False) -> int:
        """The number of what was opened, or one that is not open."""
        rights = 1 << 1 | (1 << 6 if write else 0)
        failed = self.on_path("path_open", path, how, rights, 0, int(append), 64, lookup=1)
        return 999 if failed else self.probe.u32(64)

    def move(self, name: str, number: int, data: bytes, *at: int) -> int:
        """Read or write as many bytes."""
        where, length = self.probe.put(data, PAGE)
        self.probe.put(struct.pack("<II", where, length), 128)
        return self.call(name, number, 128, 1, *at, 64)

    def two_paths(self, name: str, path: bytes, new: bytes, *, lookup: int | None = None) -> int:
        first = (3,) if lookup is None else (3, lookup)
        return self.call(name, *first, *self.probe.put(path), 3, *self.probe.put(new, 6000))

    def list(self, number: int) -> int:
        return self.call("fd_readdir", number, PAGE, 4000, 0, 64)

    def run(self) -> None:
        """Every operation there is, on files, directories and links, plain and nested."""
        kept = self.open(b"kept")
        self.move("fd_read", kept, bytes(50))
        self.call("fd_close", kept)
        deep = self.open(b"d/e/f", write=True)
        other = self.open(b"d/e/f", write=True, append=True)
        self.move("fd_write", deep, b"x" * 100)
        self.move("fd_write", other, b"y" * 100)
        self.call("fd_sync", deep)
        self.call("fd_datasync", 3)
        self.move("fd_pread", deep, bytes(300), 0)
        self.call("fd_filestat_get", other, 512)
        self.call("fd_seek", deep, 0, 2, 64)
        made = self.open(b"made", CREATE | EXCLUSIVE, write=True)
        self.move("fd_pwrite", made, b"z" * 500, 5000)
        self.call("fd_filestat_set_size", made, 700)
        self.call("fd_filestat_set_times", made, 5, 6, 5)
        self.call("fd_close", made)
        self.call("fd_close", self.open(b"made", CREATE | ANEW, write=True))
        self.on_path("path_create_directory", b"d/new")
        self.list(3)
        directory = self.open(b"d/e", DIRECTORY)
        self.list(directory)
        self.call("fd_filestat_get", directory, 512)
        symlink = self.probe.put(b"../d/e/f", 6000)
        self.call("path_symlink", *symlink, 3, *self.probe.put(b"d/link"))
        self.on_path("path_readlink", b"d/link", PAGE, 100, 64)
        self.on_path("path_filestat_get", b"d/link", 512, lookup=1)
        self.on_path("path_filestat_set_times", b"d/e/f", 5, 6, 5, lookup=0)
        self.two_paths("path_link", b"d/e/f", b"d/hard", lookup=0)
        self.two_paths("path_rename", b"d/e/f", b"made")
        self.two_paths("path_rename", b"d", b"moved")
        self.move("fd_write", deep, b"w" * 1000)
        self.on_path("path_unlink_file", b"moved/hard")
        self.on_path("path_unlink_file", b"made")
        self.move("fd_write", other, b"v" * 1000)
        self.on_path("path_remove_directory", b"moved/new")
        self.on_path("path_filestat_get", b"alias", 512, lookup=0)
        self.call("fd_close", self.open(b"alias"))
        twin = self.open(b"twin", write=True)
        self.move("fd_write", twin, b"own")
        for number in (twin, directory, deep, other):
            self.call("fd_close", number)


@contextmanager
def ground(top: Path, calls: FaultyCalls) -> Iterator[tuple[HostTree, Path]]:
    """A workspace with something of everything in it, served."""
    inside, outside = top / "w", top / "outside"
    (inside / "d" / "e").mkdir(parents=True)
    outside.mkdir()
    (inside / "kept").write_bytes(KEPT)
    (inside / "d" / "e" / "f").write_bytes(b"f" * 300)
    (inside / ".metadata.json").write_text("own")
    os.link(inside / ".metadata.json", inside / "alias")
    (outside / "file").write_bytes(OUTSIDE)
    os.link(outside / "file", inside / "twin")
    with served(inside, syncs=True, calls=calls) as tree:
        tree.meter.room.afford(1, 0)  # counts what is there, from now on kept up to date
        yield tree, inside


def run(top: Path, calls: FaultyCalls, plan: Callable[[int, object], int | None] | None) -> Script:
    """Run the script, and see that what holds after any failure holds."""
    top.mkdir()
    with ground(top, calls) as (tree, inside):
        probe = Probe([("/app", tree.root)])
        before = held_below(top)
        script = Script(probe, calls)
        calls.begin(plan)
        script.run()
        script.trace = list(calls.trace)
        probe.close()
        assert held_below(top) == before
        calls.plan = None

        assert tree._accounts == {}
        room = tree.meter.room
        root = os.open(inside, os.O_RDONLY)
        held = measure_tree(root, max_entries=1000)
        os.close(root)
        usage = room._usage._usage  # type: ignore[union-attr]
        assert (usage.bytes, usage.entries) == held
        assert room._promised == 0
        assert (inside / "kept").read_bytes() == KEPT
        assert (top / "outside" / "file").read_bytes() == OUTSIDE
        assert (inside / "twin").read_bytes()[3:] == OUTSIDE[3:]
        assert (inside / ".metadata.json").read_text() == "own"
        assert not [name for name in os.listdir(inside) if name.startswith(".agentforge")]

        probe = Probe([("/app", tree.root)])  # another execution
        again = Script(probe, FaultyCalls())
        number = again.open(b"afterwards", CREATE, write=True)
        again.move("fd_write", number, b"as before")
        again.call("fd_close", number)
        assert [answer for _, answer, _ in again.answers] == [0, 0, 0]
        assert (inside / "afterwards").read_bytes() == b"as before"
        probe.close()
    assert held_below(top) == []
    return script


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("openat2", [True, False], ids=["openat2", "components"])
@pytest.mark.parametrize("errnos", EACH, ids=named)
def test_the_guest_is_told_of_a_fault_by_the_call_that_met_it(
    tmp_path: Path, errnos: tuple[int, ...], openat2: bool
) -> None:
    def calls() -> FaultyCalls:
        return FaultyCalls(real=SystemCalls() if openat2 else WithoutOpenat2())

    whole = run(tmp_path / "whole", calls(), None)
    usual = [answer for _, answer, _ in whole.answers]
    assert usual.count(0) == len(usual) - 3  # all but those on the hidden file's other name
    assert {
        "openat2",
        "preadv",
        "pwritev",
        "fsync",
        "sendfile",
        "symlink",
        "readdir",
        "rename",
    } <= {call.operation for call in whole.trace}
    told = 0
    for index in range(0, len(whole.trace), STEP):
        number = errnos[index // STEP % len(errnos)]
        faulty = calls()
        script = run(tmp_path / str(index), faulty, nth_call(index, number))
        [failed] = faulty.failed
        [place] = [i for i, (_, _, faults) in enumerate(script.answers) if faults]
        name, answer, _ = script.answers[place]
        if failed.operation in ABSORBED and answer == usual[place]:
            continue
        assert answer == ERRNOS[number], (index, failed, name, answer)
        told += 1
    assert told > len(whole.trace) // STEP // 2
