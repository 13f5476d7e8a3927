"""The bare repository that stores snapshots: its creation, its lock and its repair.

    snapshots.git/
        HEAD, config            make it a repository; no other configuration is read
        info/attributes         no file is converted, whatever a workspace's attributes say
        objects/info/alternates a person's objects, if the work is on their repository
        refs/base               the base of the work, if it has one
        refs/latest             the newest snapshot
        refs/snapshots/ID       every snapshot
        workspace.memory        the status of its files, so that unchanged ones are skipped

It appears complete. Every process that works in it holds its lock; git holds it too, so that a git
that outlives its killed caller is waited for.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from ...base.errors import ErrorKind
from ...base.files import DirectoryLock, FileSystem, OsFileSystem, WriteError, sweep_discarded
from ...base.files.atomic_file import random_token
from ...base.files.directory_store import NewDirectory
from ...base.files.filesystem import DIRECTORY_FLAGS, close_reader, opened
from ...base.files.regular_file import create_file, read_regular_file
from ...base.files.safe_path import Missing, directory_beneath
from ...base.files.tree_removal import DISCARDED_PREFIX
from ...base.files.trees import walk_tree
from ..errors import NotARepository, RepositoryError, SnapshotRefused
from ..git.git_command import Git, GitOutput
from ..git.git_objects import ObjectFiles
from ..git.git_repositories import OwnRepository
from .workspace_scan import FileChoice

BASE_REF: Final = "refs/base"
LATEST_REF: Final = "refs/latest"
SNAPSHOT_REFS: Final = "refs/snapshots/"
_INDEX: Final = "index.aside"
TIMEOUT_S: Final = 900.0
"""How long one step of a snapshot may take, in seconds; a full workspace has gigabytes."""
_ATTRIBUTES: Final = (
    b"* -text -filter -ident -working-tree-encoding !eol !diff !merge"
    b" !export-ignore !export-subst\n"
)
_CONFIGURATION: Final = {
    # An object is on the disk before a ref to it; an index serves one call alone.
    "core.fsync": "loose-object,pack,pack-metadata,reference",
    "core.fsyncMethod": "batch",
    "core.compression": "1",
    "core.sparseCheckout": "false",
    "index.threads": "1",
}
_CONFIG: Final = "config"
_COMMON: Final = "commondir"
_ALTERNATES: Final = ("alternates", "http-alternates")
_FOLDERS: Final = ("info", "refs", "refs/snapshots", "objects", "objects/info", "objects/pack")
_MOST_BYTES: Final = 64 * 1024
_BLOCK: Final = 512
MANY_LOOSE: Final = 4_000
"""The number of loose objects that counts as many: each takes a block of the disk."""
_FOLLOWING: Final = DIRECTORY_FLAGS & ~os.O_NOFOLLOW
_FORMATS: Final = {
    "sha1": b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
    "sha256": b"[core]\n\trepositoryformatversion = 1\n\tbare = true\n"
    b"[extensions]\n\tobjectformat = sha256\n",
}


class SnapshotsChanged(RepositoryError):
    """A repository of snapshots was changed: git could run or read something that it names now.

    No git was run, and nothing was changed.
    """

    message = """{path} is not as a repository of snapshots is made, so another program or person
    changed it, and git could run or read what it names. No git was run, and nothing was changed.
    Take that change back, {otherwise}or remove the session: its file and its workspace can be read
    without its snapshots."""
    path: Path
    foreign: bool = False
    """Whether the session belongs to someone other than this person."""

    @property
    def otherwise(self) -> str:
        """The alternative remedy, in words."""
        return (
            "adopt the session if it is yours (`agentforge session adopt`), "
            if self.foreign
            else ""
        )


class NoSnapshots(RepositoryError, kind=ErrorKind.NOT_FOUND):
    """A workspace has no snapshots; nothing was changed."""

    message = "there is no snapshot in {directory}; nothing was changed"
    directory: Path
    """Their expected place."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SnapshotRepository:
    """A repository of snapshots and their workspace.

    Attributes:
        directory: The repository.
        workspace: The workspace.
        git: The program.
        fs: The file system.
        token: Returns random texts for hidden names.
        lock_timeout_s: How long to wait for another process that works in it, in seconds.
        foreign: Whether it is of a session that is not this person's: it may name nothing outside.
        choice: Chooses the workspace's files that are stored; all of them if None.
        shared: Whether snapshots may come from other machines: they may bring nothing by which git
            or a link leads elsewhere.
    """

    directory: Path
    workspace: Path
    git: Git = field(default_factory=Git, kw_only=True)
    fs: FileSystem = field(default_factory=OsFileSystem, kw_only=True)
    token: Callable[[], str] = field(default=random_token, kw_only=True)
    lock_timeout_s: float = field(default=60.0, kw_only=True)
    foreign: bool = field(default=False, kw_only=True)
    choice: FileChoice | None = field(default=None, kw_only=True)
    shared: bool = field(default=False, kw_only=True)

    @property
    def exists(self) -> bool:
        """Whether it exists."""
        return self.directory.is_dir()

    @property
    def has_base(self) -> bool:
        """Whether it has a base of the work."""
        return (self.directory / BASE_REF).is_file()

    def base_commit(self) -> str:
        """Return the base of the work, which must be recorded."""
        return (self.directory / BASE_REF).read_text().strip()

    def make(self, *, objects: Path | None = None, object_format: str = "sha1") -> bool:
        """Create the repository, unless it exists; it appears complete.

        Args:
            objects: A person's objects, which are then not stored again.
            object_format: Theirs: "sha1" or "sha256".

        Returns:
            Whether it was created.

        Raises:
            WriteError: The system refused; there is none.
            RepositoryError: Its path, or that of the objects, can't be written down.
        """
        if self.exists:
            return False
        _ = self.git.program  # before anything is created
        alternates = b"" if objects is None else os.fsencode(objects) + b"\n"
        if objects is not None and alternates.count(b"\n") > 1:
            raise NotARepository(objects, "its path has a line break")
        parent = self.directory.parent
        with DirectoryLock(self.fs, parent, timeout_s=self.lock_timeout_s, follow=True) as lock:
            if self.directory.is_dir():  # another was faster
                return False
            with suppress(OSError):
                sweep_discarded(self.fs, lock.fd, parent=parent)
            new = NewDirectory(self.fs, lock.fd, f"{DISCARDED_PREFIX}new-{self.token()}")
            try:
                with new:
                    self._fill(new.fd, _FORMATS[object_format], alternates)
                    new.sync()
                    new.appear(self.directory.name)
            except OSError as error:
                raise WriteError(
                    path=self.directory, operation=new.step, cause=error, visible=new.visible
                ) from error
        return True

    def _fill(self, fd: int, configuration: bytes, alternates: bytes) -> None:
        fs = self.fs
        create_file(fs, fd, "HEAD", [b"ref: refs/heads/none\n"])
        create_file(fs, fd, _CONFIG, [configuration])
        files = {"info": ("attributes", _ATTRIBUTES), "objects/info": ("alternates", alternates)}
        for folder in _FOLDERS:
            parts = folder.split("/")
            with directory_beneath(fs, fd, parts, missing=Missing.MADE_DURABLY) as inside:
                name, content = files.get(folder, ("", b""))
                if content:
                    create_file(fs, inside, name, [content])
                    fs.fsync(inside)

    @contextmanager
    def locked(self) -> Iterator[LockedRepository]:
        """Hold the repository's lock, and remove the locks that killed processes left.

        Raises:
            NoSnapshots: There is none.
            SnapshotsChanged: It names more than at its creation, as a stranger's can.
            LockTimeout: Another process works in it.
        """
        lock = DirectoryLock(self.fs, self.directory, timeout_s=self.lock_timeout_s)
        try:
            lock.acquire()
        except FileNotFoundError as error:
            raise NoSnapshots(self.directory) from error
        try:
            self._require_as_made(lock.fd)
            self._remove_stale_locks(lock.fd)
            yield LockedRepository(self, lock.fd, self.objects())
        finally:
            lock.release()

    def _require_as_made(self, fd: int) -> None:
        """Refuse a foreign configuration, whose filters and drivers are programs."""
        path = self.directory / _CONFIG
        found = read_regular_file(
            self.fs, _CONFIG, path=path, max_bytes=_MOST_BYTES, directory_fd=fd
        )
        if found not in _FORMATS.values():
            raise SnapshotsChanged(path)
        if _COMMON in self.fs.listdir(fd):  # the configuration would be read from its target
            raise SnapshotsChanged(self.directory / _COMMON)
        for name in _FOLDERS:
            with suppress(FileNotFoundError):  # if git needs it, git reports it missing
                if stat.S_ISLNK(self.fs.stat(name, dir_fd=fd).st_mode):
                    raise SnapshotsChanged(self.directory / name)
        if self.foreign:
            self._require_nothing_outside()

    def _require_nothing_outside(self) -> None:
        """Refuse anything by which git reads other folders: alternates, and links anywhere."""
        for folder, folders, files in os.walk(self.directory):
            for name in (*folders, *files):
                path = Path(folder, name)
                leads_out = name in _ALTERNATES and folder.endswith("/objects/info")
                if leads_out or path.is_symlink():
                    raise SnapshotsChanged(path, foreign=True)

    def _remove_stale_locks(self, fd: int) -> None:
        """Remove git's lock files: under our lock no other process can hold one."""
        fs = self.fs
        for name in fs.listdir(fd):
            if name.endswith((".lock", ".aside")):
                fs.unlink(name, dir_fd=fd)
        for folder in ("refs", "refs/snapshots"):
            with (
                suppress(FileNotFoundError),
                opened(fs, folder, DIRECTORY_FLAGS, dir_fd=fd) as inside,
            ):
                for name in fs.listdir(inside):
                    if name.endswith(".lock"):
                        fs.unlink(name, dir_fd=inside)

    def loose_objects(self) -> int:
        """Return an estimate of the number of loose objects, from one of their 256 folders."""
        try:
            return 256 * len(os.listdir(self.directory / "objects" / "17"))
        except FileNotFoundError:
            return 0

    @property
    def has_alternates(self) -> bool:
        """Whether it also reads a person's objects."""
        return (self.directory / "objects" / "info" / "alternates").is_file()

    def objects(self) -> ObjectFiles:
        """Return its loose objects."""
        algorithm = "sha1"
        with suppress(OSError):  # git reports what is wrong with it
            if (self.directory / _CONFIG).read_bytes() == _FORMATS["sha256"]:
                algorithm = "sha256"
        return ObjectFiles(self.directory / "objects", self.fs, algorithm, self.token)

    def disk_bytes(self) -> int:
        """Return the repository's size on the disk, in bytes; 0 if it does not exist."""
        try:
            fd = self.fs.open(os.fspath(self.directory), DIRECTORY_FLAGS)
        except FileNotFoundError:
            return 0
        try:
            entries = walk_tree(self.fs, fd, onerror=lambda _: None)
            return _BLOCK * sum(one.status.st_blocks for one in entries)
        finally:
            close_reader(self.fs, fd)

    def workspace_fd(self) -> int | None:
        """Open the workspace; None if it is missing.

        Raises:
            OSError: It is a link or a file, or the system refused.
        """
        try:
            return self.fs.open(os.fspath(self.workspace), DIRECTORY_FLAGS)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in {errno.ENOTDIR, errno.ELOOP}:
                raise SnapshotRefused(
                    self.workspace, ["it is a link or a file, not a folder"]
                ) from error
            raise


class LockedRepository(NamedTuple):
    """A repository of snapshots whose lock is held.

    Attributes:
        repository: The repository.
        lock_fd: The lock, which each git holds, too.
        objects: Its loose objects.
    """

    repository: SnapshotRepository
    lock_fd: int
    objects: ObjectFiles

    def git(
        self,
        *arguments: str | bytes,
        work_tree: Path | None = None,
        configuration: dict[str, str] | None = None,
        **options: Any,
    ) -> GitOutput:
        """Run git on it; see `OwnRepository.run`.

        Args:
            arguments: The command and its arguments.
            work_tree: Another work tree than the workspace.
            configuration: More configuration.
            options: More for `OwnRepository.run`.
        """
        repository = self.repository
        directory = Path(os.path.abspath(repository.directory))
        tree = repository.workspace if work_tree is None else work_tree
        own = OwnRepository(
            directory, Path(os.path.abspath(tree)), directory / _INDEX, git=repository.git
        )
        return own.run(
            *arguments,
            configuration={**_CONFIGURATION, **(configuration or {})},
            held=(self.lock_fd,),
            timeout_s=options.pop("timeout_s", TIMEOUT_S),
            **options,
        )

    def forget_index(self) -> None:
        """Remove the index, so that the next command starts without one."""
        (self.repository.directory / _INDEX).unlink(missing_ok=True)
