"""A workspace as a git tree: own walk, `update-index`, and proof that nothing of it is missing.

`git add` is not used: a folder `.GIT` stops it, and of a nested repository it keeps no file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

from ..durable.filesystem import close_reader
from .errors import GitFailed, printable
from .index_memory import FILE as MEMORY
from .index_memory import checksum_of, read_memory, write_memory
from .manifest import Manifest
from .snapshot_repository import INDEX, LockedRepository
from .workspace_scan import ScanLimits, SnapshotRefused, WorkspaceScan, scan_workspace

_MANY: Final = 500
"""From how many new files on they are put into one pack, instead of a file each."""
_FEW: Final = 100
_FEW_BYTES: Final = 60_000
"""How many files an index is told of by arguments, and how long these are in bytes."""
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
    locked: LockedRepository, found: WorkspaceScan, *, index: str = INDEX
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
    directory, looks = locked.repository.directory, found.looks
    memory = read_memory(directory / MEMORY, checksum_of(directory / index))
    if memory is not None and memory.is_all(looks):
        return WorkspaceState(memory.tree, found.manifest())
    if memory is None:
        locked.forget_index(index)  # git compares whole seconds; a file may have changed since
    known = {} if memory is None else memory.looks
    changed = [path for path, look in looks.items() if known.get(path) != look]
    if changed:
        _give(locked, changed, [path for path in changed if path in known], index)
    # All of the names are in the index, if git took them: as many as it holds, and no other is,
    # unless it held one before that is not there any more.
    if not known.keys() <= looks.keys() or (locked.index_count(index) or 0) != len(looks):
        _remove_others(locked, found, index)
    tree = locked.git("write-tree", index=index).line
    if index == INDEX:
        remember(locked, found, tree)
    return WorkspaceState(tree, found.manifest())


def remember(locked: LockedRepository, found: WorkspaceScan, tree: str) -> None:
    """Keep how the files looked that the index has just taken, of which this is the tree."""
    directory = locked.repository.directory
    write_memory(
        directory / MEMORY,
        checksum=checksum_of(directory / INDEX),
        tree=tree,
        looks=found.looks,
        looked_at_ns=found.looked_at_ns,
    )


def _give(
    locked: LockedRepository, changed: Sequence[bytes], known: Sequence[bytes], index: str
) -> None:
    """Have an index take files, and read those anew that it has in an earlier form."""
    forget: list[bytes] = []
    if len(known) <= _FEW and sum(map(len, known)) <= _FEW_BYTES:
        forget = [b"--force-remove", *(b"./" + path for path in known), b"--no-force-remove"]
    else:
        _forget(locked, known, index)
    locked.git(
        *("update-index", "-z", "--add", "--remove", "--replace"),
        *forget,
        "--stdin",
        stdin=_joined(changed),
        index=index,
        configuration=_PACKED if len(changed) - len(known) > _MANY else {},
    )


def _forget(locked: LockedRepository, paths: Iterable[bytes], index: str) -> None:
    given = _joined(paths)
    locked.git("update-index", "-z", "--force-remove", "--stdin", stdin=given, index=index)


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
        _forget(locked, others, index)
    missing = sorted(wanted - held)
    if missing:
        workspace: Path = locked.repository.workspace
        faults = [f"{printable(one, 200)}: git does not take it" for one in missing[:_NAMED]]
        raise SnapshotRefused(workspace, faults)


def _joined(names: Iterable[bytes]) -> bytes:
    return b"".join([name + b"\0" for name in names])
