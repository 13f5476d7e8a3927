"""A workspace as a git tree: own walk, `update-index`, and proof that nothing of it is missing.

`git add` is not used: a folder `.GIT` stops it, and of a nested repository it keeps no file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from attrs import frozen

from ..durable.filesystem import close_reader
from .errors import GitFailed, printable
from .manifest import Manifest
from .snapshot_repository import LockedRepository
from .workspace_scan import ScanLimits, SnapshotRefused, WorkspaceScan, scan_workspace

_MANY: Final = 500
"""From how many new files on they are put into one pack, instead of a file each."""
_DAMAGED_INDEX: Final = re.compile(r"index file|bad (?:index|signature)|cache entry")
_PACKED: Final = {
    "core.bigFileThreshold": "1",
    "core.fsyncMethod": "fsync",  # with "batch", git 2.39 loses a pack beside loose objects
}
_GITLINK: Final = b"160000"
_NAMED: Final = 10


@frozen
class WorkspaceState:
    """What a workspace holds now.

    Attributes:
        tree: Its git tree.
        manifest: What that does not hold of it.
    """

    tree: str
    manifest: Manifest


def scan(locked: LockedRepository, limits: ScanLimits) -> WorkspaceScan | None:
    """Look at what the workspace holds; None where there is none.

    Raises:
        SnapshotRefused: It holds what can't be kept.
        RepositoryError: It is no folder, or can't be read.
    """
    repository = locked.repository
    fd = repository.workspace_fd()
    if fd is None:
        return None
    try:
        return scan_workspace(repository.fs, fd, workspace=repository.workspace, limits=limits)
    finally:
        close_reader(repository.fs, fd)


def write_state(
    locked: LockedRepository, found: WorkspaceScan, *, index: str = "index"
) -> WorkspaceState:
    """Store what a scan found, and return its tree.

    Guarantees: the tree has exactly the paths of the scan, each with the bytes of its file,
    whatever `.gitattributes` say, and the submodules' entries that it had before.

    Raises:
        SnapshotRefused: Git takes one of the paths under no circumstances.
        GitFailed: It could not be stored.
    """
    try:
        return _write(locked, found, index)
    except GitFailed as error:
        if not _DAMAGED_INDEX.search(error.output):
            raise
    locked.forget_index(index)  # a power failure may have cut it off; it is only a memory
    return _write(locked, found, index)


def _write(locked: LockedRepository, found: WorkspaceScan, index: str) -> WorkspaceState:
    before = locked.index_count(index)
    many = before is None or len(found.names) - before > _MANY
    locked.git(
        *("update-index", "-z", "--add", "--remove", "--replace", "--stdin"),
        stdin=_joined(found.names),
        index=index,
        configuration=_PACKED if many else {},
    )
    # All of the names are in the index, if git took them: as many as it holds, and no other is.
    if (locked.index_count(index) or 0) != len(found.names):
        _remove_others(locked, found, index)
    tree = locked.git("write-tree", index=index).line
    return WorkspaceState(tree, found.manifest())


def _remove_others(locked: LockedRepository, found: WorkspaceScan, index: str) -> None:
    listed = locked.git("ls-files", "--stage", "-z", index=index).names
    wanted = set(found.names)
    held: set[bytes] = set()
    others: list[bytes] = []
    for line in listed:
        about, path = line.split(b"\t", 1)
        held.add(path)
        submodule = about.startswith(_GITLINK) and path in found.folders
        if path not in wanted and not submodule:
            others.append(path)
    if others:
        locked.git(
            *("update-index", "-z", "--force-remove", "--stdin"), stdin=_joined(others), index=index
        )
    missing = sorted(wanted - held)
    if missing:
        workspace: Path = locked.repository.workspace
        faults = [f"{printable(one, 200)}: git does not take it" for one in missing[:_NAMED]]
        raise SnapshotRefused(workspace, faults)


def _joined(names: list[bytes]) -> bytes:
    return b"".join([name + b"\0" for name in names])
