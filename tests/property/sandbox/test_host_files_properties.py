"""The own host's files under any sequence of operations are those of a directory of the system."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentforge_sessions.sandbox.host.files.files import Directory, Node, NodeKind, Opening
from agentforge_sessions.sandbox.workspaces.workspace_tree import measure_tree
from tests.support.host_trees import AMPLE, in_memory, served
from tests.support.soak import examples

NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join) | st.sampled_from(
    ["a/../b", "./a", "a/.", "b/", "a//b"]
)
TARGETS = st.lists(NAMES, min_size=1, max_size=2).map("/".join)
DATA = st.binary(max_size=40)
SIZES = st.integers(0, 60)


class _Files(RuleBasedStateMachine):
    """Does everything twice, in a directory of the system and through the host's nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.top = Path(tempfile.mkdtemp())
        self.stack.callback(shutil.rmtree, self.top)
        self.native = self.top / "native"
        self.native.mkdir()
        (self.top / "served").mkdir()
        self.root = self.serve(self.top / "served")
        self.handles: list[tuple[int, Node, bool]] = []

    def serve(self, directory: Path) -> Directory:
        """The directory that is compared."""
        raise NotImplementedError

    def teardown(self) -> None:
        for fd, node, _ in self.handles:
            os.close(fd)
            node.close()
        self.stack.close()

    def both(self, native: Any, ours: Any) -> tuple[Any, Any] | None:
        """Do something twice; both do it, or both refuse it."""
        results = []
        for call in (native, ours):
            try:
                results.append((call(), None))
            except OSError as error:
                results.append((None, errno.errorcode[error.errno or 0]))
        (right, refused), (got, also_refused) = results
        assert (refused is None) == (also_refused is None), (refused, also_refused)
        return None if refused else (right, got)

    def at(self, path: str) -> str:
        # Joined by hand: what a slash or a dot at the end says must not be lost.
        return f"{self.native}/{path}"

    @rule(path=PATHS, create=st.booleans(), anew=st.booleans(), writing=st.booleans())
    def open(self, path: str, create: bool, anew: bool, writing: bool) -> None:
        flags = os.O_RDWR if writing else os.O_RDONLY
        flags |= (os.O_CREAT if create else 0) | (os.O_TRUNC if anew and writing else 0)
        opening = Opening(
            read=True, write=writing, create=create, truncate=anew and writing, follow=True
        )
        opened = self.both(
            lambda: os.open(self.at(path), flags, 0o666),
            lambda: self.root.open(path.encode(), opening),
        )
        if opened is not None:
            fd, node = opened
            assert (node.kind is NodeKind.DIRECTORY) == stat.S_ISDIR(os.fstat(fd).st_mode)
            if node.kind is NodeKind.DIRECTORY or len(self.handles) > 6:
                os.close(fd)
                node.close()
            else:
                self.handles.append((fd, node, writing))

    @precondition(lambda self: self.handles)
    @rule(which=st.integers(0, 6), data=DATA, at=st.none() | SIZES)
    def write(self, which: int, data: bytes, at: int | None) -> None:
        fd, node, writing = self.handles[which % len(self.handles)]
        if writing:
            place = os.fstat(fd).st_size if at is None else at
            count = os.pwrite(fd, data, place)
            assert node.write([memoryview(data)], at) == (count, place + count)

    @precondition(lambda self: self.handles)
    @rule(which=st.integers(0, 6), size=SIZES)
    def truncate(self, which: int, size: int) -> None:
        fd, node, writing = self.handles[which % len(self.handles)]
        if writing:
            os.ftruncate(fd, size)
            node.truncate(size)

    @precondition(lambda self: self.handles)
    @rule(which=st.integers(0, 6))
    def close(self, which: int) -> None:
        fd, node, _ = self.handles.pop(which % len(self.handles))
        os.close(fd)
        node.close()

    @rule(path=PATHS)
    def make_directory(self, path: str) -> None:
        self.both(lambda: os.mkdir(self.at(path)), lambda: self.root.make_directory(path.encode()))

    @rule(path=PATHS)
    def remove_directory(self, path: str) -> None:
        self.both(
            lambda: os.rmdir(self.at(path)), lambda: self.root.remove_directory(path.encode())
        )

    @rule(path=PATHS)
    def unlink(self, path: str) -> None:
        if not path.endswith("/"):  # refused before a directory is asked
            self.both(lambda: os.unlink(self.at(path)), lambda: self.root.unlink(path.encode()))

    @rule(path=PATHS, new=PATHS)
    def rename(self, path: str, new: str) -> None:
        self.both(
            lambda: os.rename(self.at(path), self.at(new)),
            lambda: self.root.rename(path.encode(), self.root, new.encode()),
        )

    @rule(path=PATHS, new=PATHS)
    def link(self, path: str, new: str) -> None:
        if not os.path.islink(self.at(path)):  # a link has one name here
            self.both(
                lambda: os.link(self.at(path), self.at(new)),
                lambda: self.root.link(path.encode(), self.root, new.encode(), follow=False),
            )

    @rule(leads_to=TARGETS, path=PATHS)
    def symlink(self, leads_to: str, path: str) -> None:
        self.both(
            lambda: os.symlink(leads_to, self.at(path)),
            lambda: self.root.symlink(leads_to.encode(), path.encode()),
        )

    @rule(path=PATHS, follow=st.booleans())
    def status(self, path: str, follow: bool) -> None:
        found = self.both(
            lambda: os.stat(self.at(path), follow_symlinks=follow),
            lambda: self.root.status_of(path.encode(), follow=follow),
        )
        if found is not None and found[1].kind is not NodeKind.DIRECTORY:
            assert (found[0].st_size, found[0].st_nlink) == (found[1].size, found[1].links)

    @invariant()
    def alike(self) -> None:
        assert _listed(self.root) == _native(self.native)
        for fd, node, _ in self.handles:
            buffer = bytearray(200)
            count = node.read([memoryview(buffer)], 0)
            assert bytes(buffer[:count]) == os.pread(fd, 200, 0)
            assert node.status().size == os.fstat(fd).st_size


def _listed(root: Directory) -> dict[bytes, Any]:
    found: dict[bytes, Any] = {}
    for entry in root.entries():
        if entry.kind is NodeKind.LINK:
            found[entry.name] = root.read_link(entry.name)
            continue
        node = root.open(entry.name, Opening(read=True))
        if entry.kind is NodeKind.DIRECTORY:
            found[entry.name] = _listed(node)  # type: ignore[arg-type]
        else:
            buffer = bytearray(200)
            found[entry.name] = bytes(buffer[: node.read([memoryview(buffer)], 0)])
        node.close()
    return found


def _native(directory: Path) -> dict[bytes, Any]:
    found: dict[bytes, Any] = {}
    for path in directory.iterdir():
        name = os.fsencode(path.name)
        if path.is_symlink():
            found[name] = os.fsencode(os.readlink(path))
        else:
            found[name] = _native(path) if path.is_dir() else path.read_bytes()
    return found


class WorkspaceFiles(_Files):
    openat2 = True

    def serve(self, directory: Path) -> Directory:
        self.tree = self.stack.enter_context(served(directory, openat2=self.openat2))
        self.tree.meter.room.afford(1, 0)  # counts what is there, from now on kept up to date
        return self.tree.root

    @invariant()
    def counted(self) -> None:
        """What is counted is what a walk would count."""
        root = os.open(self.top / "served", os.O_RDONLY)
        held = measure_tree(root, max_entries=AMPLE.workspace_files)
        os.close(root)
        usage = self.tree.meter.room._usage._usage  # type: ignore[union-attr]
        assert usage is not None
        assert (usage.bytes, usage.entries) == held

    @invariant()
    def noted(self) -> None:
        """The changes that are noted are those that a comparison with nothing finds."""
        files = {
            str(path.relative_to(self.native))
            for path in self.native.rglob("*")
            if path.is_file() and not path.is_symlink()
        }
        created, _, _ = self.tree.changes.lists()
        assert set(created) == files


class WorkspaceFilesByComponents(WorkspaceFiles):
    openat2 = False


class MemoryFiles(_Files):
    def serve(self, directory: Path) -> Directory:
        return self.stack.enter_context(in_memory(directory)).root


SETTINGS = settings(
    max_examples=examples(40),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

TestWorkspaceFiles = pytest.mark.timeout(600)(WorkspaceFiles.TestCase)
TestWorkspaceFiles.settings = SETTINGS
TestWorkspaceFilesByComponents = pytest.mark.timeout(600)(WorkspaceFilesByComponents.TestCase)
TestWorkspaceFilesByComponents.settings = SETTINGS
TestMemoryFiles = pytest.mark.timeout(600)(MemoryFiles.TestCase)
TestMemoryFiles.settings = SETTINGS
