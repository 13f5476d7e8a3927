"""Bringing a person's work tree to a snapshot: only the files that two snapshots differ in.

Each file is replaced in one step. What no snapshot has (ignored and secret files, other
repositories) stays as it is: if it is in the way of a file, nothing is changed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Final

from ...base.errors import reason_of
from ...base.files import FileSystem, replace_file
from ...base.files.filesystem import close_reader
from ...base.files.safe_path import Missing, directory_beneath
from ...base.settings.ignored_files import NEVER_STORED
from ..errors import GitFailed, printable
from ..git.git_command import EXECUTABLE, LINK, Difference, Leaf, parse_differences
from ..git.git_objects import BLOB
from .manifest import WorkspaceManifest
from .snapshot_repository import LockedRepository
from .snapshot_restore import RestoreFailed, clear_files
from .workspace_index import WorkspaceState

_MOST_BYTES: Final = 1 << 30
_NAMED: Final = 10
_EVERY_SPELLING: Final = {"core.protectHFS": "true", "core.protectNTFS": "true"}
"""Has git refuse what would be `.git` on the file systems of macOS and Windows, too."""


def bring_to(locked: LockedRepository, now: WorkspaceState, state: WorkspaceState) -> None:
    """Bring the workspace from its present state, which a snapshot has, to another one.

    A kill leaves some files changed; with the state in between, the same call completes it.

    Raises:
        RestoreFailed: Something unknown is in the way, and nothing was changed; or the system
            refused.
        WriteError: A file can't be written.
    """
    repository = locked.repository
    fs, fd = repository.fs, repository.workspace_fd()
    if fd is None:
        raise RestoreFailed(repository.workspace, "the folder is missing")
    try:
        listed = ("-r", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=none")
        found = parse_differences(locked.git("diff-tree", *listed, now.tree, state.tree).stdout)
        if repository.shared:
            _require_safe(locked, state, found)
        removed = [one.path for one in found if one.new is None]
        blocked = [
            one.path
            for one in found
            if one.new is not None and _is_blocked(fs, fd, one, set(removed))
        ]
        if blocked:
            named = ", ".join(printable(path, 200) for path in blocked[:_NAMED])
            problem = f"something that no snapshot has (ignored, secret or large) is at {named}"
            raise RestoreFailed(repository.workspace, f"{problem}; move it away")
        clear_files(fs, fd, removed, ())
        for one in found:
            if one.new is not None:
                _write(locked, fd, one, one.new, state.manifest)
    except OSError as error:
        raise RestoreFailed(repository.workspace, reason_of(error)) from error
    finally:
        close_reader(fs, fd)


def _require_safe(
    locked: LockedRepository, state: WorkspaceState, found: Sequence[Difference]
) -> None:
    """Refuse what no snapshot of ours has, or would lead elsewhere: another machine made it.

    Raises:
        RestoreFailed: A path is none in a work tree (`.git` in any spelling, `..`) or is that of a
            program's own folder, or a file is a submodule or a link that leads out of the tree.
    """
    workspace = locked.repository.workspace
    try:
        locked.git("read-tree", state.tree, configuration=_EVERY_SPELLING)
    except GitFailed as error:
        raise RestoreFailed(workspace, f"git refuses a path of it: {error.output}") from error
    finally:
        locked.forget_index()
    for one in found:
        if one.new is not None and (reason := _refusal(locked, one.path, one.new)):
            raise RestoreFailed(workspace, f"{printable(one.path, 200)} {reason}")


def _refusal(locked: LockedRepository, path: bytes, new: Leaf) -> str | None:
    if not NEVER_STORED.isdisjoint(os.fsdecode(path).lower().split("/")):
        return "is no file of a work tree"
    if new.mode == LINK and _leads_out(path, _content(locked, new)):
        return "is a link that leads out of the work tree"
    return "is a submodule" if new.is_submodule else None


def _leads_out(path: bytes, target: bytes) -> bool:
    """Return whether a link can lead out, by a `..` after a name of what may be a link, too."""
    parts = [one for one in target.split(b"/") if one not in {b"", b"."}]
    up = next((at for at, one in enumerate(parts) if one != b".."), len(parts))
    return target.startswith(b"/") or up > path.count(b"/") or b".." in parts[up:]


def _content(locked: LockedRepository, leaf: Leaf) -> bytes:
    content = locked.objects.read(leaf.oid, BLOB)
    if content is None:
        content = locked.git("cat-file", "blob", leaf.oid, max_output=_MOST_BYTES).stdout
    return content


def _is_blocked(fs: FileSystem, fd: int, one: Difference, removed: Collection[bytes]) -> bool:
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
    return one.old is None


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
    locked: LockedRepository, fd: int, one: Difference, new: Leaf, manifest: WorkspaceManifest
) -> None:
    fs, workspace = locked.repository.fs, locked.repository.workspace
    content = _content(locked, new)
    path = os.fsdecode(one.path)
    *above, name = path.split("/")
    with directory_beneath(fs, fd, above, missing=Missing.MADE) as parent_fd:
        if one.old is None:
            _clear_folder(fs, parent_fd, name)
        if new.mode == LINK:
            if one.old is not None:
                fs.unlink(name, dir_fd=parent_fd)
            os.symlink(os.fsdecode(content), name, dir_fd=parent_fd)
            return
        kind = "executable" if new.mode == EXECUTABLE else "file"
        mode = manifest.mode_of(one.path, kind)
        replace_file(fs, parent_fd, name, [content], path=workspace / path, mode=mode)


def _clear_folder(fs: FileSystem, fd: int, name: str) -> None:
    """Remove a folder that has nothing but folders, where a kill left one in place of a file."""
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(fs.stat(name, dir_fd=fd).st_mode):
            with directory_beneath(fs, fd, [name]) as inside:
                for below in fs.listdir(inside):
                    _clear_folder(fs, inside, below)
            fs.rmdir(name, dir_fd=fd)
