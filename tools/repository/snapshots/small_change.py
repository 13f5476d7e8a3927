"""The tree of a workspace with few changes, written without git: only the changes are written.

Guarantees: the tree is the one that git would write; each folder that was touched is compared, name
for name, with the look. If they disagree, or much has changed, no tree is made here, and git makes
it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ...base.files.filesystem import READ_FLAGS, close_reader, opened
from ...base.files.regular_file import read_descriptor
from ...base.files.safe_path import directory_beneath
from ..errors import GitFailed
from ..git.git_objects import (
    BLOB,
    EXECUTABLE,
    FILE,
    FOLDER,
    LINK,
    SUBMODULE,
    TREE,
    ObjectFiles,
    TreeEntry,
    object_id,
    parse_tree,
    tree_content,
)
from .folder_look import MODE, MODE_SHIFT, SIZE, FolderLook, is_file
from .manifest import kind_of_file
from .snapshot_repository import LockedRepository
from .workspace_scan import WorkspaceScan

_READ: Final = 1_000
"""The most files that are read here."""
_READ_BYTES: Final = 16 << 20
_WRITTEN: Final = 150
"""The most files that are stored here; git puts many into one pack."""

_Entries = dict[bytes, TreeEntry]


class _NotHere(Exception):
    """Git has to write this tree."""


class Change(NamedTuple):
    """The changes of a workspace since its last tree.

    Attributes:
        tree: The last tree; None if there is none, and the workspace was empty.
        changed: The names of new and changed files and links, by their folder.
        removed: The names of those that are missing now, by their folder.
    """

    tree: str | None
    changed: Mapping[bytes, Sequence[bytes]]
    removed: Mapping[bytes, Sequence[bytes]]


def write_small_change(
    locked: LockedRepository, found: WorkspaceScan, change: Change
) -> str | None:
    """Store the changes, and return the tree; None if git has to do it.

    The caller has to sync the repository's objects.

    Raises:
        WriteError: The system refused; nothing refers to what was stored.
    """
    try:
        return _TreeWriter(locked, found, change).write()
    except (_NotHere, ValueError, GitFailed):
        return None


class _TreeWriter:
    """Writes one tree."""

    def __init__(self, locked: LockedRepository, found: WorkspaceScan, change: Change) -> None:
        self._locked = locked
        self._found = found
        self._change = change
        self._objects: ObjectFiles = locked.objects
        self._kept = {change.tree}
        """Objects that the repository has, or that it can read."""

    def write(self) -> str:
        """Write it, and return it."""
        contents = self._contents()
        trees = self._trees()
        for folder, files in contents.items():
            for name, (mode, content) in files.items():
                oid = object_id(BLOB, content, self._objects.algorithm)
                trees[folder][name] = TreeEntry(mode, oid)
        self._store([content for files in contents.values() for _, content in files.values()])
        return self._written(trees)

    # ------------------------------------------------------------------------------------ contents

    def _contents(self) -> dict[bytes, dict[bytes, tuple[bytes, bytes]]]:
        """Read the changed files: by folder and name, the mode and the content."""
        wanted = {path: names for path, names in self._change.changed.items() if names}
        if sum(map(len, wanted.values())) > _READ:
            raise _NotHere
        left = _READ_BYTES
        found = {}
        root_fd = self._locked.repository.workspace_fd()
        if root_fd is None:
            raise _NotHere
        fs = self._locked.repository.fs
        try:
            for path, names in wanted.items():
                above = os.fsdecode(path).split("/") if path else ()
                with directory_beneath(fs, root_fd, above) as fd:
                    found[path] = _read_files(self, fd, self._found.looks[path], names, left)
                left -= sum(len(content) for _, content in found[path].values())
        except OSError as error:  # it is changing: git reads what there is
            raise _NotHere from error
        finally:
            close_reader(fs, root_fd)
        return found

    def read(self, fd: int, name: bytes, size: int) -> bytes:
        """Read a regular file, which must not have grown."""
        fs = self._locked.repository.fs
        with opened(fs, os.fsdecode(name), READ_FLAGS, dir_fd=fd) as file_fd:
            status = fs.fstat(file_fd)
            if not is_file(status.st_mode) or status.st_size != size:
                raise _NotHere
            return read_descriptor(fs, file_fd, size)

    def _store(self, contents: Sequence[bytes]) -> None:
        new = {}
        for content in contents:
            oid = object_id(BLOB, content, self._objects.algorithm)
            if oid not in self._kept:
                new[oid] = content
        if sum(not self._objects.has(oid) for oid in new) > _WRITTEN:
            raise _NotHere
        for content in new.values():
            self._objects.write(BLOB, content)

    # ------------------------------------------------------------------------------------ the trees

    def _trees(self) -> dict[bytes, _Entries]:
        """Return the last trees of all touched folders, and of those above them."""
        touched = {b""}
        for path in {*self._change.changed, *self._change.removed}:
            at = path
            while at not in touched:
                touched.add(at)
                at = at.rpartition(b"/")[0]
        found = self._last_trees(sorted(touched, key=_depth))
        self._kept |= {entry.oid for entries in found.values() for entry in entries.values()}
        for path in touched:
            for name in self._change.removed.get(path, ()):
                found[path].pop(name, None)
        return found

    def _last_trees(self, paths: Sequence[bytes]) -> dict[bytes, _Entries]:
        if self._change.tree is None:
            return {path: {} for path in paths}
        found: dict[bytes, _Entries] = {}
        for path in paths:  # those above come first
            parent, _, name = path.rpartition(b"/")
            entry = found[parent].get(name) if path else TreeEntry(FOLDER, self._change.tree)
            if entry is None or entry.mode != FOLDER:
                found[path] = {}
                continue
            content = self._objects.read(entry.oid, TREE)
            if content is None:
                return self._trees_by_git(self._change.tree, paths)
            found[path] = parse_tree(content, self._objects.id_bytes)
        return found

    def _trees_by_git(self, tree: str, paths: Sequence[bytes]) -> dict[bytes, _Entries]:
        """Have git read them, as they are in a pack or among a person's objects."""
        asked = [tree.encode() + b":" + path for path in paths]
        given = b"".join(one + b"\0" for one in asked)
        rest = self._locked.git("cat-file", "--batch", "-z", stdin=given).stdout
        found: dict[bytes, _Entries] = {}
        for path, name in zip(paths, asked, strict=True):
            missing = name + b" missing\n"
            if rest.startswith(missing):
                found[path], rest = {}, rest[len(missing) :]
                continue
            head, _, rest = rest.partition(b"\n")
            _, kind, size = head.split(b" ")
            content, rest = rest[: int(size)], rest[int(size) + 1 :]
            found[path] = parse_tree(content, self._objects.id_bytes) if kind == TREE else {}
        if not found[b""] and tree != object_id(TREE, b"", self._objects.algorithm):
            raise _NotHere
        return found

    def _written(self, trees: dict[bytes, _Entries]) -> str:
        """Write the trees from below, each into the one above it; return the topmost."""
        for path in sorted(trees, key=_depth, reverse=True):
            entries = trees[path]
            self._agree(path, entries)
            if not path:
                break
            parent, _, name = path.rpartition(b"/")
            if entries:
                oid = self._objects_tree(entries)
                trees[parent][name] = TreeEntry(FOLDER, oid)
            elif trees[parent].get(name, _NOTHING).mode == FOLDER:
                del trees[parent][name]
        return self._objects_tree(trees[b""])

    def _objects_tree(self, entries: _Entries) -> str:
        content = tree_content(entries)
        oid = object_id(TREE, content, self._objects.algorithm)
        return oid if oid in self._kept else self._objects.write(TREE, content)

    def _agree(self, path: bytes, entries: _Entries) -> None:
        """Remove former folders, and check that a tree has exactly the names of the look."""
        look = self._found.looks.get(path)
        names = set(look.file_names()) if look is not None else set()
        below = set(look.below) if look is not None else set()
        for name, entry in list(entries.items()):
            if entry.mode in {FOLDER, SUBMODULE} and name not in below:
                del entries[name]
        files = {name for name, entry in entries.items() if entry.mode not in _FOLDERS}
        if files != names:
            raise _NotHere


def _read_files(
    writer: _TreeWriter, fd: int, look: FolderLook, names: Sequence[bytes], most: int
) -> dict[bytes, tuple[bytes, bytes]]:
    numbers = look.by_name()
    if sum(numbers[name][SIZE] for name in names) > most:
        raise _NotHere
    found = {}
    for name in names:
        mode = numbers[name][MODE] >> MODE_SHIFT
        if is_file(mode):
            kind = EXECUTABLE if kind_of_file(mode) == "executable" else FILE
            found[name] = (kind, writer.read(fd, name, numbers[name][SIZE]))
        else:
            found[name] = (LINK, os.fsencode(os.readlink(os.fsdecode(name), dir_fd=fd)))
    return found


def _depth(path: bytes) -> int:
    return path.count(b"/") + bool(path)


_FOLDERS: Final = frozenset({FOLDER, SUBMODULE})
_NOTHING: Final = TreeEntry(b"", "")
