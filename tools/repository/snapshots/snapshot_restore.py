"""Restoring a snapshot as files: over a workspace, or as a new folder."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from ...base.errors import ErrorKind
from ...base.event_log import get_logger
from ...base.files import FileSystem, WriteError, empty_directory
from ...base.files.directory_store import NewDirectory
from ...base.files.filesystem import DIRECTORY_FLAGS, READ_FLAGS, close_reader, opened
from ...base.files.safe_path import Missing, directory_beneath
from ...base.files.tree_removal import DISCARDED_PREFIX
from ..errors import GitFailed, RepositoryError, SnapshotRefused, printable
from .manifest import MODE_BITS, WorkspaceManifest, kind_of_file
from .snapshot_repository import LockedRepository
from .workspace_index import WorkspaceState, look_at, remember, write_state
from .workspace_scan import ScanLimits, WorkspaceScan, scan_workspace

_LITTLE: Final = 4
"""Only differences are restored if at most one file in this many differs."""
_HOLDS_MORE: Final = frozenset({errno.ENOTEMPTY, errno.EEXIST})
_log = get_logger("agentforge.snapshots")
_NO_LIMITS: Final = ScanLimits(1 << 31, 1 << 60, 1 << 60, 1 << 60, 1 << 12, 1 << 16)
"""The limits were checked when the snapshot was taken."""


class RestoreFailed(RepositoryError, kind=ErrorKind.STORAGE):
    """A snapshot could not be restored as files."""

    message = """the snapshot could not be restored to {folder}: {problem}. The snapshot is as it
    was; mend what is named, then do the same again."""
    folder: Path
    problem: str


def restore_in_place(locked: LockedRepository, state: WorkspaceState) -> None:
    """Restore the workspace to a snapshot; the folder itself stays the same one.

    If little differs, only that is changed; else the workspace is emptied and filled.
    """
    repository = locked.repository
    fs, workspace = repository.fs, repository.workspace
    with suppress(FileExistsError):
        fs.mkdir(os.fspath(workspace), 0o700)
    fd = repository.workspace_fd()
    if fd is None:
        raise RestoreFailed(workspace, "it disappeared meanwhile")
    try:
        if _restore_differences(locked, fd, state):
            return
        locked.forget_index()
        locked.git("read-tree", state.tree)
        try:
            left = empty_directory(fs, fd)
        except OSError as error:
            raise RestoreFailed(workspace, f"it can't be emptied ({error.strerror})") from error
        if left:
            named = printable(os.fsencode(left[0].name), 200)
            raise RestoreFailed(workspace, f"{named} can't be deleted ({left[0].cause.strerror})")
        _fill(locked, workspace, fd, state)
    finally:
        locked.forget_index()
        close_reader(fs, fd)


def _restore_differences(locked: LockedRepository, fd: int, state: WorkspaceState) -> bool:
    """Restore a workspace by its differences, if they are few; return whether it is done."""
    repository = locked.repository
    fs, workspace = repository.fs, repository.workspace
    try:
        looked = look_at(locked, _NO_LIMITS)
        if looked is None or looked.found.left_out:
            return False
        found, now = looked.found, write_state(locked, looked).state
        listed = locked.git(
            *("diff-tree", "-r", "-z", "--name-status", "--no-renames", now.tree, state.tree)
        ).names
        changes = dict(zip(listed[1::2], listed[::2], strict=True))
        if len(changes) * _LITTLE > found.count:
            return False
        clear_files(fs, fd, [path for path, kind in changes.items() if kind != b"A"], found.empty)
        wanted = [path for path, kind in changes.items() if kind != b"D"]
        if wanted:
            locked.git("read-tree", state.tree)
        _fill(locked, workspace, fd, state, names=wanted)
    except (OSError, SnapshotRefused, GitFailed, RestoreFailed) as error:
        _log.info("snapshot.restored_anew", workspace=str(workspace), error=str(error))
        return False
    return True


def clear_files(fs: FileSystem, fd: int, files: Sequence[bytes], empty: Sequence[bytes]) -> None:
    """Remove files, and folders that are empty already or become so."""
    for path in files:
        *above, name = _parts(path)
        with directory_beneath(fs, fd, above) as parent_fd:
            fs.unlink(name, dir_fd=parent_fd)
    left = {path.rpartition(b"/")[0] for path in files} | set(empty)
    for path in sorted(left, key=len, reverse=True):
        *above, name = _parts(path)
        while name:
            with directory_beneath(fs, fd, above) as parent_fd:
                try:
                    fs.rmdir(name, dir_fd=parent_fd)
                except FileNotFoundError:
                    pass  # it is removed with another one
                except OSError as error:
                    if error.errno not in _HOLDS_MORE:
                        raise
                    break
            name = above.pop() if above else ""


def restore_to(
    locked: LockedRepository,
    state: WorkspaceState,
    folder: Path,
    *,
    complete: Callable[[int], None] = lambda _: None,
) -> None:
    """Write a snapshot as a new folder, which appears complete.

    If it is the missing workspace, the next snapshot knows its files.

    Args:
        locked: The repository.
        state: The folder's content.
        folder: The folder, which must not exist.
        complete: Called with the open folder before it appears; may add to it.

    Raises:
        RestoreFailed: There is something at the path.
        WriteError: The disk or its permissions.
    """
    repository = locked.repository
    fs = repository.fs
    parent = folder.parent
    try:
        parent_fd = fs.open(os.fspath(parent), DIRECTORY_FLAGS & ~os.O_NOFOLLOW)
    except OSError as error:
        raise RestoreFailed(folder, f"{parent} can't be opened ({error.strerror})") from error
    hidden = f"{DISCARDED_PREFIX}new-{repository.token()}"
    new = NewDirectory(fs, parent_fd, hidden)
    try:
        _require_free(fs, parent_fd, folder)
        locked.forget_index()
        locked.git("read-tree", state.tree)
        with new:
            _fill(locked, parent / hidden, new.fd, state, known=folder == repository.workspace)
            complete(new.fd)
            new.appear(folder.name)
    except OSError as error:
        raise WriteError(path=folder, operation=new.step, cause=error, visible=new.visible) from (
            error
        )
    finally:
        close_reader(fs, parent_fd)
        locked.forget_index()


def _require_free(fs: FileSystem, parent_fd: int, folder: Path) -> None:
    try:
        fs.stat(folder.name, dir_fd=parent_fd)
    except FileNotFoundError:
        return
    raise RestoreFailed(folder, "there is something of this name already")


def _fill(
    locked: LockedRepository,
    folder: Path,
    fd: int,
    state: WorkspaceState,
    *,
    known: bool = True,
    names: Sequence[bytes] | None = None,
) -> None:
    """Write the index's files into a folder, all or these, then set the modes of all.

    Args:
        locked: The repository.
        folder: The folder.
        fd: The same, open.
        state: Its content.
        known: Whether it is the workspace, whose look is then stored.
        names: The files to write; all if None.
    """
    fs, manifest = locked.repository.fs, state.manifest
    which = ("--all",) if names is None else ("-z", "--stdin")
    if names is None or names:
        locked.git(
            *("checkout-index", *which, "--force", "--quiet"),
            stdin=b"".join(name + b"\0" for name in names or ()),
            work_tree=folder,
            umask=MODE_BITS & ~manifest.common["folder"],
        )
    try:
        for path in manifest.empty:
            with directory_beneath(fs, fd, _parts(path), missing=Missing.MADE):
                pass
        found = scan_workspace(fs, fd, workspace=folder, limits=_NO_LIMITS)
        _give_modes(fs, fd, found, manifest)
    except OSError as error:
        raise RestoreFailed(folder, f"its modes can't be set ({error.strerror})") from error
    if known:
        remember(locked, found, state.tree)


def _give_modes(fs: FileSystem, fd: int, found: WorkspaceScan, manifest: WorkspaceManifest) -> None:
    """Set the modes that differ."""
    for path, mode in found.files():
        wanted = manifest.mode_of(path, kind_of_file(mode))
        if mode & MODE_BITS != wanted:
            _change_mode(fs, fd, path, wanted, READ_FLAGS)
    folders = found.folders
    for path in sorted(folders, reverse=True):  # lower ones first: a folder may become closed
        wanted = manifest.mode_of(path, "folder")
        if folders[path] & MODE_BITS != wanted:
            _change_mode(fs, fd, path, wanted, DIRECTORY_FLAGS)


def _change_mode(fs: FileSystem, root_fd: int, path: bytes, mode: int, flags: int) -> None:
    *above, name = _parts(path)
    with (
        directory_beneath(fs, root_fd, above) as parent_fd,
        opened(fs, name, flags, dir_fd=parent_fd) as fd,
    ):
        if not stat.S_ISLNK(fs.fstat(fd).st_mode):
            os.fchmod(fd, mode)


def _parts(path: bytes) -> Sequence[str]:
    return os.fsdecode(path).split("/")
