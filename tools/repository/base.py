"""The base of a session's work: a commit of a person's repository, checked out into a workspace.

The person's repository gets one ref, so that its gc retains the commit; nothing else of it changes.
No filter and no line-end conversion runs: the workspace has the bytes of the commit.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from attrs import asdict, frozen

from ..base.errors import ErrorKind
from ..base.files import FileSystem
from ..base.files.filesystem import CREATE_FLAGS, DIRECTORY_FLAGS, READ_FLAGS, opened
from ..base.files.regular_file import write_all
from ..base.files.safe_path import Missing, directory_beneath
from .apply.checkout_files import passing_over_absent
from .errors import GitFailed, NotARepository, RepositoryError
from .git.git_command import Git
from .git.git_repositories import UserRepository
from .git.git_settings import read_settings
from .snapshots.manifest import WorkspaceManifest
from .snapshots.snapshot_repository import SnapshotRepository
from .snapshots.snapshot_restore import restore_to
from .snapshots.snapshots import Snapshot, Snapshots
from .snapshots.workspace_index import WorkspaceState

KEPT_REFS: Final = "refs/agentforge/sessions/"
_VERSION: Final = 1
_PIECE: Final = 1 << 20
_OWN_FOLDER: Final = b".agentforge/"


class BaseUnavailable(RepositoryError, kind=ErrorKind.STORAGE):
    """A base can't be checked out; there is no workspace."""

    message = """the base {commit:.12} can't be checked out: {problem}. Nothing of the repository
    was changed. In a partial clone, fetch the missing objects first (git fetch --refetch)."""
    commit: str
    problem: str


@frozen
class Base:
    """The base of a session's work.

    Attributes:
        work_tree: The person's checkout.
        git_dir: Their repository; a linked work tree's own.
        common_dir: The directory of its refs.
        objects: The directory of its objects.
        object_format: "sha1" or "sha256".
        commit: The commit.
        revision: The person's name for it.
        branch: The branch that the checkout was on, or None.
        with_uncommitted: Whether the checkout's uncommitted work is included.
    """

    work_tree: str
    git_dir: str
    common_dir: str
    objects: str
    object_format: str
    commit: str
    revision: str
    branch: str | None
    with_uncommitted: bool = False

    @classmethod
    def of(
        cls, user: UserRepository, revision: str = "HEAD", *, with_uncommitted: bool = False
    ) -> Base:
        """Look up the base of new work; nothing is changed.

        Raises:
            UnknownRevision: There is no such commit.
            GitFailed: The repository can't be read.
        """
        commit = user.resolve(revision)
        branch = user.run("symbolic-ref", "--quiet", "--short", "HEAD", accept=(0, 1, 128))
        return cls(
            work_tree=os.fspath(user.work_tree),
            git_dir=os.fspath(user.git_dir),
            common_dir=os.fspath(user.common_dir),
            objects=os.fspath(user.objects),
            object_format=user.object_format,
            commit=commit,
            revision=revision,
            branch=branch.line if branch.exit_code == 0 else None,
            with_uncommitted=with_uncommitted,
        )

    def encode(self) -> bytes:
        """Return the base as a document in ASCII."""
        return json.dumps({"schema_version": _VERSION, **asdict(self)}, indent=1).encode()

    @classmethod
    def decode(cls, data: bytes) -> Base:
        """Decode a base.

        Raises:
            ValueError: The document is invalid, or of a newer version.
        """
        value: Any = json.loads(data)
        if not isinstance(value, dict) or value.pop("schema_version", None) != _VERSION:
            raise ValueError("it is no base of a version that is known here")
        try:
            return cls(**value)
        except TypeError as error:
            raise ValueError(f"it is no base: {error}") from error

    def user_repository(self, git: Git | None = None) -> UserRepository:
        """Return the person's repository in its current state.

        Raises:
            NotARepository: It is missing, or another one is in its place.
        """
        user = UserRepository.at(Path(self.work_tree), git)
        if os.fspath(user.common_dir) != self.common_dir:
            raise NotARepository(Path(self.work_tree), f"its repository is {user.common_dir} now")
        if os.fspath(user.objects) != self.objects:
            raise NotARepository(Path(self.work_tree), f"its objects are in {user.objects} now")
        return user


def keep_ref(user: UserRepository, name: str, commit: str) -> None:
    """Make a person's repository retain a commit.

    If the ref is missing but has a lock, only a killed git of ours can have left that: it is
    removed.

    Args:
        user: The repository.
        name: The name to store it under: letters, digits, "_" and "-".
        commit: The commit.

    Raises:
        GitFailed: The ref could not be written.
    """
    words = ("update-ref", "--no-deref", f"{KEPT_REFS}{name}", commit)
    try:
        user.change(*words)
    except GitFailed:
        found = user.run(
            *("rev-parse", "--verify", "--quiet", "--end-of-options", f"{KEPT_REFS}{name}"),
            accept=(0, 1, 128),
        )
        if found.exit_code == 0 and found.line == commit:
            return
        lock = user.common_dir / f"{KEPT_REFS}{name}.lock"
        if found.exit_code == 0 or not lock.is_file():
            raise
        lock.unlink(missing_ok=True)
        user.change(*words)


def drop_ref(user: UserRepository, name: str) -> None:
    """Remove the ref of `keep_ref`; does nothing if it is missing.

    Raises:
        GitFailed: The ref could not be removed.
    """
    ref = f"{KEPT_REFS}{name}"
    if user.run("show-ref", "--verify", "--quiet", ref, accept=(0, 1)).exit_code == 0:
        user.change("update-ref", "--no-deref", "-d", ref)


def check_out(snapshots: Snapshots, base: Base, user: UserRepository, name: str) -> Snapshot:
    """Create the workspace of a base, with its first snapshot; existing parts stay.

    A kill may leave a part; the same call then does the rest. The workspace appears complete.

    Args:
        snapshots: The workspace's snapshots; this creates their repository.
        base: The base.
        user: The person's repository.
        name: The name under which their repository retains the base.

    Returns:
        The first snapshot: the base, with the uncommitted work if it is included.

    Raises:
        BaseUnavailable: Objects of it are missing.
        SnapshotRefused: It holds more than a workspace may.
        WriteError: The disk or its permissions.
        GitFailed: The repository can't be read, or the ref not be written.
    """
    keep_ref(user, name, base.commit)
    repository = snapshots.repository
    repository.make(objects=Path(base.objects), object_format=base.object_format)
    if not repository.has_base:
        with suppress(OSError):
            os.rmdir(repository.workspace)  # an empty folder is no workspace yet
    if not repository.workspace.exists():
        _check_out(repository, base, user)
    if not repository.has_base:
        snapshots.begin(base.commit)
    first = snapshots.list()
    if first:
        return first[0]
    taken = snapshots.take(f"base {base.revision}")
    if taken is None:
        raise BaseUnavailable(base.commit, "the workspace disappeared meanwhile")
    if base.with_uncommitted:
        snapshots.begin(taken.id)
    return taken


@contextmanager
def base_files(base: Base, user: UserRepository) -> Iterator[Path]:
    """Yield a temporary folder with a base's files, as the workspace starts with them.

    Raises:
        BaseUnavailable: Objects of it are missing.
        GitFailed: The repository can't be read.
    """
    with tempfile.TemporaryDirectory(prefix="agentforge-base-") as scratch:
        folder = Path(scratch)
        repository = SnapshotRepository(folder / "objects.git", folder / "workspace", git=user.git)
        repository.make(objects=Path(base.objects), object_format=base.object_format)
        _check_out(repository, base, user)
        yield repository.workspace


def _check_out(repository: SnapshotRepository, base: Base, user: UserRepository) -> None:
    uncommitted = uncommitted_paths(user, base.commit) if base.with_uncommitted else ()

    def overlay(folder_fd: int) -> None:
        _copy_over(repository.fs, Path(base.work_tree), uncommitted, folder_fd)

    with repository.locked() as locked:
        try:
            tree = locked.git("rev-parse", "--verify", f"{base.commit}^{{tree}}").line
            restore_to(
                locked,
                WorkspaceState(tree, WorkspaceManifest()),
                repository.workspace,
                complete=overlay,
            )
        except GitFailed as error:
            raise BaseUnavailable(base.commit, error.output or str(error)) from error


def uncommitted_paths(user: UserRepository, commit: str) -> Sequence[bytes]:
    """Return the paths that differ in content from the base in the checkout, ignored ones aside."""
    changed = user.run(
        *("diff-index", "-z", "--name-only", "--no-renames", commit),
        configuration=read_settings(user, os.environ).converting(),
    ).names
    untracked = user.run("ls-files", "-z", "--others", "--exclude-standard").names
    paths = {*changed, *(one for one in untracked if not one.endswith(b"/"))}
    return sorted(one for one in paths if not one.startswith(_OWN_FOLDER))


def _copy_over(fs: FileSystem, work_tree: Path, paths: Sequence[bytes], target_fd: int) -> None:
    """Copy these paths of a checkout into a folder, deletions included; no link is followed."""
    with opened(fs, os.fspath(work_tree), DIRECTORY_FLAGS & ~os.O_NOFOLLOW) as source_fd:
        for path in paths:  # removals first: a file may replace a folder, and the reverse
            _remove(fs, target_fd, path)
        for path in paths:
            with passing_over_absent():  # deleted meanwhile, or its folder is none now
                _copy_one(fs, source_fd, target_fd, path)


def _remove(fs: FileSystem, folder_fd: int, path: bytes) -> None:
    """Remove a file, and the folders above it that are then empty."""
    *above, name = os.fsdecode(path).split("/")
    with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
        with directory_beneath(fs, folder_fd, above) as there:
            fs.unlink(name, dir_fd=there)
        while above:
            name = above.pop()
            with directory_beneath(fs, folder_fd, above) as there:
                try:
                    fs.rmdir(name, dir_fd=there)
                except OSError:
                    return  # the folder is not empty


def _copy_one(fs: FileSystem, source_fd: int, target_fd: int, path: bytes) -> None:
    *above, name = os.fsdecode(path).split("/")
    with directory_beneath(fs, source_fd, above) as here:
        mode = fs.stat(name, dir_fd=here).st_mode
        if not (stat.S_ISLNK(mode) or stat.S_ISREG(mode)):
            return  # a submodule's folder, which belongs to another repository
        with directory_beneath(fs, target_fd, above, missing=Missing.MADE) as there:
            if stat.S_ISLNK(mode):
                os.symlink(os.readlink(name, dir_fd=here), name, dir_fd=there)
            else:
                _copy_file(fs, name, here, there)


def _copy_file(fs: FileSystem, name: str, here: int, there: int) -> None:
    with opened(fs, name, READ_FLAGS, dir_fd=here) as source:
        mode = fs.fstat(source).st_mode
        target = fs.open(name, CREATE_FLAGS, 0o755 if mode & 0o100 else 0o644, dir_fd=there)
        try:
            offset = 0
            while piece := fs.pread(source, _PIECE, offset):
                write_all(fs, target, [piece])
                offset += len(piece)
        finally:
            fs.close(target)
