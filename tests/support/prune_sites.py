"""Roots to prune, with a canary beside them, and whole trees to compare before and after."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from attrs import define, field, frozen

from agentforge_sessions.base.files import FileSystem, ReadError
from agentforge_sessions.base.files.filesystem import READ_FLAGS, close_reader
from agentforge_sessions.prune import (
    PRIVATE,
    Dated,
    Decision,
    PruneEnvironment,
    PruneObserver,
    PruneResult,
    PruneSource,
    RetentionPolicy,
    Skipped,
    SkipReason,
    Undatable,
    read_audit,
)
from agentforge_sessions.prune.audit_log import AUDIT_NAME
from agentforge_sessions.prune.ports import undatable
from tests.support.clock import FakeClock, FakeTokens
from tests.support.filesystem import FaultyFileSystem

Files = Mapping[str, bytes]
Tree = dict[str, tuple[object, ...]]

ACTOR: Final = {"user": "tester", "uid": 0, "pid": 1, "host": "here", "program": "pytest"}


def uuid_of(number: int) -> str:
    """Name a session by a number; the order is that of the numbers."""
    return f"{number:08x}-0000-4000-8000-{number:012x}"


def tree_of(top: Path) -> Tree:
    """Say what is in a directory: each path with its type, mode, owner, links and content.

    Times are those of files and links; a directory's changes with what is made beside its content.
    """
    found: Tree = {}
    pending = [os.fspath(top)]
    while pending:
        here = pending.pop()
        for entry in os.scandir(here):
            status = entry.stat(follow_symlinks=False)
            content: object = None
            if stat.S_ISREG(status.st_mode):
                with open(entry.path, "rb") as file:
                    content = hashlib.sha256(file.read()).hexdigest()
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(entry.path)
            is_directory = stat.S_ISDIR(status.st_mode)
            if is_directory:
                pending.append(entry.path)
            found[os.path.relpath(entry.path, top)] = (
                status.st_mode,
                status.st_uid,
                status.st_gid,
                content,
                None if is_directory else status.st_mtime_ns,
            )
    return found


def below(tree: Tree, name: str) -> Tree:
    """Return what of a tree is at or below a name."""
    return {
        path: what for path, what in tree.items() if path == name or path.startswith(f"{name}/")
    }


def outside_of(tree: Tree, names: Sequence[str]) -> Tree:
    """Return what of a tree is neither at nor below any of these names."""
    tops = tuple(f"{name}/" for name in names)
    gone = set(names)
    return {
        path: what for path, what in tree.items() if path not in gone and not path.startswith(tops)
    }


def write_files(directory: Path, files: Files) -> None:
    """Write files, given by their paths in a directory."""
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def metadata(session_id: str, updated: datetime, created: datetime | None = None) -> bytes:
    """Write the metadata of a sandbox session as the sandbox does."""

    def text(moment: datetime) -> str:
        return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")

    fields = {
        "session_id": session_id,
        "created_at": text(created or updated),
        "updated_at": text(updated),
        "version": 1,
    }
    return (json.dumps(fields, indent=2) + "\n").encode("ascii")


@define
class Site:
    """A root in a directory of its own, with a canary tree beside it.

    Attributes:
        top: The directory that holds all of it.
        clock: The time, which stands still.
        fs: The file system, recorded; a test may make it fail.
        deleters: How many threads delete at once; of one, the calls come in one order.
        file_clock: The clock that says which files changed long ago; by this one, none did.
    """

    top: Path
    clock: FakeClock = field(factory=FakeClock)
    fs: FaultyFileSystem = field(factory=FaultyFileSystem)
    tokens: Callable[[], str] = field(factory=FakeTokens)
    count: int = 0
    deleters: int = 1
    file_clock: Callable[[], int] = field(default=lambda: 0)

    def __attrs_post_init__(self) -> None:
        self.root.mkdir(parents=True)
        write_files(self.beside, {"file": b"alive", "deep/er/file": b"alive too", ".hidden": b""})

    @property
    def root(self) -> Path:
        return self.top / "root"

    @property
    def beside(self) -> Path:
        return self.top / "beside"

    @property
    def private(self) -> Path:
        return self.root / PRIVATE

    def outside(self, fs: FileSystem | None = None) -> PruneEnvironment:
        """Give what a prune needs of the world."""
        return PruneEnvironment(
            fs=fs or self.fs,
            clock=self.clock,
            file_clock=self.file_clock,
            token=self.tokens,
            actor=lambda: ACTOR,
            sleep=lambda _: None,
            deleters=self.deleters,
        )

    def add(
        self,
        *,
        age_hours: float | None,
        files: Files | None = None,
        session_id: str | None = None,
    ) -> str:
        """Make a sandbox session of some age; without metadata if that is None."""
        self.count += 1
        name = session_id or uuid_of(self.count)
        write_files(self.root / name, files or {"data.txt": b"x" * 100, "deep/er/file": b"y" * 50})
        if age_hours is not None:
            updated = self.clock.now - timedelta(hours=age_hours)
            (self.root / name / ".metadata.json").write_bytes(metadata(name, updated))
        return name

    def sessions(self) -> list[str]:
        """Name what stands in the root, less what is private."""
        return sorted(name for name in os.listdir(self.root) if name != PRIVATE)

    def steps(self, base: Path | None = None) -> list[str]:
        """Tell the trace as "operation path" lines, paths relative to the root, which is "base".

        The private directory is opened by way of the root's descriptor.
        """
        top = base or self.root
        told = []
        for call in self.fs.trace:
            path = re.sub(r"^/proc/self/fd/[0-9]+", str(self.root), call.path)
            relative = os.path.relpath(path, top)
            told.append(f"{call.operation} {'base' if relative == '.' else relative}")
        return told

    def audit(self) -> list[dict[str, object]]:
        """Read the audit log."""
        return [dict(line) for line in read_audit(self.private / AUDIT_NAME)]

    def events(self) -> list[tuple[object, object]]:
        """Say what the audit log tells of which session."""
        return [(line["event"], line["session_id"]) for line in self.audit()]

    def hidden(self, place: str = "going") -> list[str]:
        """Name what is out of sight."""
        directory = self.private / place
        return sorted(os.listdir(directory)) if directory.is_dir() else []


def size_of(directory: Path) -> int:
    """Add up the sizes of all files below a directory."""
    total = 0
    for entry in os.scandir(directory):
        if entry.is_dir(follow_symlinks=False):
            total += size_of(Path(entry.path))
        else:
            total += entry.stat(follow_symlinks=False).st_size
    return total


@frozen
class FakeTarget:
    """Sessions whose file `dated` has a time and a state, one a line. A `PruneTarget`.

    A state that begins with "busy" is never removable. The file `guard` is what workers lock.
    """

    root: Path
    kind: str = "fake"
    guards: Sequence[str] = ("guard",)

    def owns(self, name: str) -> bool:
        return re.fullmatch(r"s-[0-9a-z]{1,40}", name) is not None

    def stray_age(self, name: str) -> timedelta | None:
        return timedelta(0) if name.startswith(".gone-") else None

    def date(self, fs: FileSystem, session_fd: int, session_id: str) -> Dated | Undatable | None:
        try:
            fd = fs.open("dated", READ_FLAGS, dir_fd=session_fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            return undatable(ReadError(path=Path("dated"), cause=error))
        try:
            text = fs.pread(fd, 1000, 0).decode()
            at, state = text.splitlines()
            moment = datetime.fromisoformat(at)
        except (OSError, ValueError) as error:
            return Undatable(SkipReason.CORRUPTED_METADATA, str(error))
        finally:
            close_reader(fs, fd)
        return Dated(at=moment, version=text, state=state, removable=not state.startswith("busy"))


def add_fake(
    root: Path, name: str, dated: datetime, *, state: str = "done", files: Files | None = None
) -> str:
    """Make a session of the fake kind."""
    write_files(root / name, {"guard": b"", **(files or {"file": b"z" * 10})})
    (root / name / "dated").write_text(f"{dated.isoformat()}\n{state}\n")
    return name


class Watcher(PruneObserver):
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, object]] = []

    def started(self, target: PruneSource, policy: RetentionPolicy, *, dry_run: bool) -> None:
        self.told.append(("started", dry_run))

    def skipped(self, skipped: Skipped) -> None:
        self.told.append(("skipped", skipped.session_id))

    def candidate(self, decision: Decision, *, age_hours: float) -> None:
        self.told.append(("candidate", decision.candidate.session_id))

    def deleted(self, session_id: str, *, size_bytes: int, trashed: bool) -> None:
        self.told.append(("deleted", session_id))

    def failed(self, session_id: str, *, error: str) -> None:
        self.told.append(("failed", session_id))

    def completed(self, result: PruneResult) -> None:
        self.told.append(("completed", result))


@contextmanager
def guarded_site(top: Path) -> Iterator[Site]:
    """Make a root; whatever the block does to it, what is beside it stays, and nothing is open."""
    made = Site(top)
    before = tree_of(made.beside)
    yield made
    assert tree_of(made.beside) == before
    assert made.fs.open_descriptors == {}


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a directory or file within the block."""
    fd = os.open(path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(fd)
