"""Bringing a person's work tree to a snapshot: only the files that two snapshots differ in.

Each file is replaced in one step. What no snapshot has (ignored and secret files, other
repositories) stays as it is: if it is in the way of a file, nothing is changed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Sequence
from typing import Final

from attrs import frozen

from ...base.files import FileSystem, replace_file
from ...base.files.filesystem import close_reader
from ...base.files.safe_path import Missing, directory_beneath
from ..errors import printable
from ..git.git_objects import BLOB
from .manifest import WorkspaceManifest
from .snapshot_repository import LockedRepository
from .snapshot_restore import RestoreFailed, clear_files
from .workspace_index import WorkspaceState

_LINK: Final = "120000"
_EXECUTABLE: Final = "100755"
_MOST_BYTES: Final = 1 << 30
_NAMED: Final = 10


@frozen
class _Difference:
    """A path in which two snapshots differ.

    Attributes:
        path: The path.
        kind: "A" for a new file, "D" for a missing one, "M" or "T" for a changed one.
        mode: Its mode in the second snapshot, as git writes it.
        oid: Its content there.
    """

    path: bytes
    kind: str
    mode: str
    oid: str


def bring_to(locked: LockedRepository, now: WorkspaceState, state: WorkspaceState) -> None:
    """Bring the workspace from its present state, which a snapshot has, to another one.

    A kill leaves some files changed; with the state in between, the same call completes it.

    Raises:
        RestoreFailed: Something unknown is in the way, and nothing was changed; or a file can't be
            written.
        OSError: The system refused.
    """
    repository = locked.repository
    fs, fd = repository.fs, repository.workspace_fd()
    if fd is None:
        raise RestoreFailed(repository.workspace, "the folder is missing")
    try:
        found = _differences(locked, now.tree, state.tree)
        removed = [one.path for one in found if one.kind == "D"]
        blocked = [
            one.path for one in found if one.kind != "D" and _is_blocked(fs, fd, one, set(removed))
        ]
        if blocked:
            named = ", ".join(printable(path, 200) for path in blocked[:_NAMED])
            problem = f"something that no snapshot has (ignored, secret or large) is at {named}"
            raise RestoreFailed(repository.workspace, f"{problem}; move it away")
        clear_files(fs, fd, removed, ())
        for one in found:
            if one.kind != "D":
                _write(locked, fd, one, state.manifest)
    finally:
        close_reader(fs, fd)


def _differences(locked: LockedRepository, before: str, after: str) -> Sequence[_Difference]:
    listed = locked.git(
        *("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", before, after)
    ).names
    found = []
    for about, path in zip(listed[::2], listed[1::2], strict=True):
        _, mode, _, oid, kind = about.decode().split(" ")
        found.append(_Difference(path, kind[:1], mode, oid))
    return found


def _is_blocked(fs: FileSystem, fd: int, one: _Difference, removed: Collection[bytes]) -> bool:
    """Return whether a file can't be written, for the sake of something that no snapshot has."""
    *above, name = os.fsdecode(one.path).split("/")
    at = b""
    for part in map(os.fsencode, above):
        at = at + b"/" + part if at else part
        mode = _mode(fs, fd, at)
        if mode is None or at in removed:
            return False  # the folder will be made
        if not stat.S_ISDIR(mode):
            return True
    mode = _mode(fs, fd, one.path)
    if mode is None:
        return False
    if stat.S_ISDIR(mode):  # it may become empty, if all in it is known
        with directory_beneath(fs, fd, [*above, name]) as inside:
            return not _all_removed(fs, inside, one.path, removed)
    return one.kind == "A"


def _all_removed(fs: FileSystem, fd: int, path: bytes, removed: Collection[bytes]) -> bool:
    for name in fs.listdir(fd):
        below = path + b"/" + os.fsencode(name)
        if below in removed:
            continue
        if not stat.S_ISDIR(fs.stat(name, dir_fd=fd).st_mode):
            return False
        with directory_beneath(fs, fd, [name]) as inside:
            if not _all_removed(fs, inside, below, removed):
                return False
    return True


def _mode(fs: FileSystem, fd: int, path: bytes) -> int | None:
    *above, name = os.fsdecode(path).split("/")
    try:
        with directory_beneath(fs, fd, above) as parent_fd:
            return fs.stat(name, dir_fd=parent_fd).st_mode
    except FileNotFoundError:
        return None


def _write(
    locked: LockedRepository, fd: int, one: _Difference, manifest: WorkspaceManifest
) -> None:
    fs, workspace = locked.repository.fs, locked.repository.workspace
    content = locked.objects.read(one.oid, BLOB)
    if content is None:
        content = locked.git("cat-file", "blob", one.oid, max_output=_MOST_BYTES).stdout
    path = os.fsdecode(one.path)
    *above, name = path.split("/")
    with directory_beneath(fs, fd, above, missing=Missing.MADE) as parent_fd:
        if one.mode == _LINK:
            if one.kind != "A":
                fs.unlink(name, dir_fd=parent_fd)
            os.symlink(os.fsdecode(content), name, dir_fd=parent_fd)
            return
        kind = "executable" if one.mode == _EXECUTABLE else "file"
        mode = manifest.mode_of(one.path, kind)
        replace_file(fs, parent_fd, name, [content], path=workspace / path, mode=mode)
