"""A workspace as a git tree: our own walk, the changes, and proof that nothing is missing.

Few changes are written without git (`small_change`), many by `update-index`. `git add` is not used:
a folder `.GIT` stops it, and of a nested repository it stores no file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ...base.files.filesystem import close_reader
from ..errors import GitFailed, SnapshotRefused, printable
from ..git.git_command import joined
from .folder_look import SIZE, FolderLook, differing
from .manifest import WorkspaceManifest
from .small_change import Change, write_small_change
from .snapshot_repository import LockedRepository, SnapshotRepository
from .workspace_memory import FILE as MEMORY
from .workspace_memory import WorkspaceMemory, read_memory, write_memory
from .workspace_scan import ScanLimits, TooMuchAtOnce, WorkspaceScan, scan_workspace

_MANY: Final = 500
"""The number of files from which they are put into one pack, instead of a file each."""
_PACKED: Final = {
    "core.bigFileThreshold": "1",
    "core.fsyncMethod": "fsync",  # with "batch", git 2.39 loses a pack beside loose objects
}
_GITLINK: Final = b"160000"
_NAMED: Final = 10
_BYTES_EACH: Final = 16 << 10
"""How many bytes one call may store for each file that it may store."""
_NOTHING: Final[Mapping[bytes, FolderLook]] = {}


class WorkspaceState(NamedTuple):
    """The current content of a workspace.

    Attributes:
        tree: Its git tree.
        manifest: The parts that the tree lacks.
    """

    tree: str
    manifest: WorkspaceManifest


class LookedAt(NamedTuple):
    """A look at a workspace.

    Attributes:
        found: Its content.
        memory: The look at its last written tree; None if unknown.
    """

    found: WorkspaceScan
    memory: WorkspaceMemory | None


def look_at(locked: LockedRepository, limits: ScanLimits) -> LookedAt | None:
    """Look at the workspace's content; None if there is no workspace.

    Raises:
        SnapshotRefused: It holds what can't be stored.
        RepositoryError: It is no folder.
        OSError: It can't be read.
    """
    repository = locked.repository
    fd = repository.workspace_fd()
    if fd is None:
        return None
    try:
        memory = read_memory(repository.directory / MEMORY, limits.in_order())
        known = _NOTHING if memory is None else memory.looks
        found = scan_workspace(
            repository.fs,
            fd,
            workspace=repository.workspace,
            limits=limits,
            known=known,
            choice=repository.choice,
        )
        return LookedAt(found, memory)
    finally:
        close_reader(repository.fs, fd)


class Written(NamedTuple):
    """A workspace whose tree is written.

    Attributes:
        state: Its content.
        keep: Makes the tree durable, and stores the look at the workspace. Raises WriteError.
    """

    state: WorkspaceState
    keep: Callable[[], None]


def write_state(locked: LockedRepository, looked: LookedAt) -> Written:
    """Store what a look found, and return its tree.

    Guarantees: the tree has exactly the paths of the look, each with the bytes of its file,
    whatever `.gitattributes` say, and the submodules' entries that it had before. If the workspace
    is unchanged, nothing is done.

    Raises:
        SnapshotRefused: Git accepts one of the paths under no circumstances.
        GitFailed: It could not be stored.
        WriteError: The same.
    """
    found, memory = looked.found, looked.memory
    if memory is not None and memory.manifest and found.same:
        state = WorkspaceState(memory.tree, WorkspaceManifest.decode(memory.manifest))
        return Written(state, lambda: None)
    known = _NOTHING if memory is None else memory.looks
    changed, removed = differing(found.looks, known)
    tree = None if memory is None else memory.tree
    _require_little(locked.repository, found, changed)
    if tree is None or changed or removed:
        written = None
        if tree is not None or not locked.repository.has_alternates:
            written = write_small_change(locked, found, Change(tree, changed, removed))
        tree = _by_git(locked, found, tree, changed) if written is None else written
    state = WorkspaceState(tree, found.manifest())

    def keep() -> None:
        locked.objects.sync()
        remember(locked, found, state.tree, state.manifest.encode(), known)

    return Written(state, keep)


def _require_little(
    repository: SnapshotRepository, found: WorkspaceScan, changed: Mapping[bytes, Sequence[bytes]]
) -> None:
    """Refuse a change that is larger than the repository's choice allows for one call."""
    most = None if repository.choice is None else repository.choice.at_once
    if most is None:
        return
    files = total = 0
    for path, names in changed.items():
        files += len(names)
        sizes = found.looks[path].by_name() if names else {}
        total += sum(sizes[name][SIZE] for name in names)
    if files > most or total > most * _BYTES_EACH:
        raise TooMuchAtOnce(repository.workspace, ["too much has changed for one call"])


def remember(
    locked: LockedRepository,
    found: WorkspaceScan,
    tree: str,
    manifest: bytes = b"",
    known: Mapping[bytes, FolderLook] = _NOTHING,
) -> None:
    """Store the look at a workspace with this tree; its manifest is empty if unknown."""
    write_memory(
        locked.repository.directory / MEMORY,
        WorkspaceMemory(tree, manifest, found.looks),
        measures=found.measures(),
        looked_at_ns=found.looked_at_ns,
        known=known,
    )


def forget(locked: LockedRepository) -> None:
    """Remove the stored look at the workspace: the next one stores everything again."""
    (locked.repository.directory / MEMORY).unlink(missing_ok=True)


def _by_git(
    locked: LockedRepository,
    found: WorkspaceScan,
    tree: str | None,
    changed: Mapping[bytes, Sequence[bytes]],
) -> str:
    """Have git write the tree, by an index that starts with the last tree, if that can be read."""
    try:
        if tree is not None:
            names = [_path(folder, name) for folder, some in changed.items() for name in some]
            try:
                locked.git("read-tree", tree)
                return _indexed(locked, found, names)
            except GitFailed:
                locked.forget_index()
        return _indexed(locked, found, list(found.names()))
    finally:
        locked.forget_index()


def _indexed(locked: LockedRepository, found: WorkspaceScan, names: Sequence[bytes]) -> str:
    if names:
        locked.git(
            *("update-index", "-z", "--add", "--remove", "--replace", "--stdin"),
            stdin=joined(names),
            configuration=_PACKED if len(names) > _MANY else {},
        )
    _remove_others(locked, found)
    return locked.git("write-tree").line


def _path(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name


def _remove_others(locked: LockedRepository, found: WorkspaceScan) -> None:
    """Check that the index has all that was found, and remove everything else."""
    listed = locked.git("ls-files", "--stage", "-z").names
    wanted = set(found.names())
    folders = found.folders
    held: set[bytes] = set()
    others: list[bytes] = []
    for line in listed:
        about, path = line.split(b"\t", 1)
        held.add(path)
        submodule = about.startswith(_GITLINK) and path in folders
        if path not in wanted and not submodule:
            others.append(path)
    if others:
        locked.git("update-index", "-z", "--force-remove", "--stdin", stdin=joined(others))
    missing = sorted(wanted - held)
    if missing:
        workspace: Path = locked.repository.workspace
        faults = [f"{printable(one, 200)}: git does not take it" for one in missing[:_NAMED]]
        raise SnapshotRefused(workspace, faults)
