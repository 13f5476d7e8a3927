"""Git's loose objects: their form, read and written without git.

An object is its kind, its length and its content, named by their hash and compressed. It is written
as git does it: under another name in its folder, synced, then renamed. A tree is the list of a
folder's entries, in the order of their names; a folder's name counts as ending with "/".
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from ...base.files import FileSystem, WriteError
from ...base.files.filesystem import CREATE_FLAGS, DIRECTORY_FLAGS, READ_FLAGS, close_reader, opened
from ...base.files.regular_file import being_written, read_descriptor, write_all

BLOB, TREE, COMMIT = b"blob", b"tree", b"commit"
FOLDER: Final = b"40000"
FILE: Final = b"100644"
EXECUTABLE: Final = b"100755"
LINK: Final = b"120000"
SUBMODULE: Final = b"160000"
_ID_BYTES: Final = {"sha1": 20, "sha256": 32}
_COMPRESSION: Final = 1
_READ_ONLY: Final = 0o444
_UNFINISHED: Final = "tmp_obj_"
"""Git's prefix for an unfinished object, which its `prune` removes."""


class TreeEntry(NamedTuple):
    """An entry of a tree.

    Attributes:
        mode: The mode, in octal digits without leading zeros.
        oid: The object's id, in hexadecimal digits.
    """

    mode: bytes
    oid: str


def object_id(kind: bytes, content: bytes, algorithm: str = "sha1") -> str:
    """Return the id of an object.

    Args:
        kind: Its kind.
        content: Its content.
        algorithm: "sha1" or "sha256".
    """
    import hashlib  # slow to load, and where nothing changed, nothing is stored

    digest = hashlib.new(algorithm, b"%b %d\0" % (kind, len(content)), usedforsecurity=False)
    digest.update(content)
    return digest.hexdigest()


def parse_tree(content: bytes, id_bytes: int) -> dict[bytes, TreeEntry]:
    """Parse a tree; files have one of the two modes that git uses today.

    Args:
        content: The tree.
        id_bytes: The length of an id, in bytes.

    Raises:
        ValueError: It is no tree.
    """
    found = {}
    at = 0
    while at < len(content):
        space = content.index(b" ", at)
        end = content.index(b"\0", space)
        mode, oid = content[at:space], content[end + 1 : end + 1 + id_bytes]
        at = end + 1 + id_bytes
        if len(oid) != id_bytes or end == space + 1:
            raise ValueError("a tree is cut off")
        if mode.startswith(b"100"):
            mode = EXECUTABLE if int(mode, 8) & 0o100 else FILE
        found[content[space + 1 : end]] = TreeEntry(mode, oid.hex())
    return found


def tree_content(entries: Mapping[bytes, TreeEntry]) -> bytes:
    """Return the content of a tree object."""

    def key(name: bytes) -> bytes:
        return name + b"/" if entries[name].mode == FOLDER else name

    return b"".join(
        b"%b %b\0%b" % (entries[name].mode, name, bytes.fromhex(entries[name].oid))
        for name in sorted(entries, key=key)
    )


def commit_content(tree: str, parents: Sequence[str], *, at_s: int, message: bytes) -> bytes:
    """Return the content of a commit object of ours.

    Args:
        tree: Its tree.
        parents: Its parents.
        at_s: Its time, in seconds since 1970.
        message: Its message, with a newline at the end.
    """
    who = f"agentforge <agentforge@localhost> {at_s} +0000"
    head = [f"tree {tree}", *(f"parent {one}" for one in parents)]
    head += [f"author {who}", f"committer {who}", "", ""]
    return "\n".join(head).encode() + message


def compressed(kind: bytes, content: bytes) -> bytes:
    """Return the content of an object's file."""
    return zlib.compress(b"%b %d\0" % (kind, len(content)) + content, _COMPRESSION)


@dataclass(slots=True, eq=False, repr=False)
class ObjectFiles:
    """The loose objects of a repository.

    Once `sync` has returned, everything that was written is durable.

    Attributes:
        directory: The repository's `objects`.
        fs: The file system.
        algorithm: "sha1" or "sha256".
        token: Returns random texts for hidden names.
    """

    directory: Path
    fs: FileSystem
    algorithm: str
    token: Callable[[], str]
    _unsynced: set[str] = field(default_factory=set, init=False)

    @property
    def id_bytes(self) -> int:
        """The length of an id, in bytes."""
        return _ID_BYTES[self.algorithm]

    def read(self, oid: str, kind: bytes) -> bytes | None:
        """Return an object's content; None if it is not loose, or is damaged."""
        try:
            fd = self.fs.open(os.fspath(self.directory / oid[:2] / oid[2:]), READ_FLAGS)
        except OSError:
            return None
        try:
            stored = read_descriptor(self.fs, fd, self.fs.fstat(fd).st_size)
            head, _, content = zlib.decompress(stored).partition(b"\0")
        except (OSError, zlib.error):
            return None
        finally:
            close_reader(self.fs, fd)
        return content if head == b"%b %d" % (kind, len(content)) else None

    def has(self, oid: str) -> bool:
        """Return whether an object is loose."""
        try:
            self.fs.stat(os.fspath(self.directory / oid[:2] / oid[2:]))
        except OSError:
            return False
        return True

    def write(self, kind: bytes, content: bytes) -> str:
        """Store an object, and return its id; an existing loose one stays unchanged.

        The existing one may be that of a writer that was killed before it had synced the folder.

        Raises:
            WriteError: The system refused; the object is not there.
        """
        oid = object_id(kind, content, self.algorithm)
        if self.has(oid):
            self._unsynced |= {"", oid[:2]}
            return oid
        folder = self.directory / oid[:2]
        try:
            fd = self._folder(oid[:2])
            try:
                self._write_file(fd, oid[2:], compressed(kind, content))
            finally:
                close_reader(self.fs, fd)
        except OSError as error:
            raise WriteError(path=folder / oid[2:], operation="write", cause=error) from error
        self._unsynced.add(oid[:2])
        return oid

    def sync(self) -> None:
        """Make the names of all written objects durable.

        Raises:
            WriteError: The system refused.
        """
        for name in sorted(self._unsynced, reverse=True):  # their parent folder last
            folder = self.directory / name
            try:
                sync_folder(self.fs, folder)
            except OSError as error:
                raise WriteError(path=folder, operation="fsync", cause=error, visible=True) from (
                    error
                )
            self._unsynced.discard(name)

    def _folder(self, name: str) -> int:
        path = os.fspath(self.directory / name)
        try:
            return self.fs.open(path, DIRECTORY_FLAGS)
        except FileNotFoundError:
            self.fs.mkdir(path, 0o700)
            self._unsynced.add("")
            return self.fs.open(path, DIRECTORY_FLAGS)

    def _write_file(self, folder_fd: int, name: str, data: bytes) -> None:
        fs = self.fs
        hidden = _UNFINISHED + self.token()
        fd = fs.open(hidden, CREATE_FLAGS, _READ_ONLY, dir_fd=folder_fd)
        with being_written(fs, fd, folder_fd, hidden):
            write_all(fs, fd, [data])
            fs.fsync(fd)
        try:
            fs.rename(hidden, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
        except OSError:
            fs.unlink(hidden, dir_fd=folder_fd)
            raise


def write_refs(fs: FileSystem, directory: Path, refs: Sequence[tuple[str, str]]) -> None:
    """Write refs as git does: each under its lock, all locks first.

    The caller has locked the repository, so that no other process can hold these locks.

    Args:
        fs: The file system.
        directory: The repository.
        refs: Their names and new ids, in the order in which they appear.

    Raises:
        WriteError: The system refused; the refs before are written.
    """
    named = [(directory / name, oid) for name, oid in refs]
    step, place = "create", directory
    try:
        for place, oid in named:
            lock = os.fspath(place.with_name(f"{place.name}.lock"))
            fd = fs.open(lock, CREATE_FLAGS, 0o644)
            try:
                write_all(fs, fd, [oid.encode() + b"\n"])
                fs.fsync(fd)
            finally:
                fs.close(fd)
        step = "rename"
        for place, _ in named:
            lock = os.fspath(place.with_name(f"{place.name}.lock"))
            fs.rename(lock, os.fspath(place), src_dir_fd=None, dst_dir_fd=None)
    except OSError as error:
        raise WriteError(path=place, operation=step, cause=error) from error
    sync_refs(fs, directory, [name for name, _ in refs])


def sync_refs(fs: FileSystem, directory: Path, names: Sequence[str]) -> None:
    """Make refs durable, even if their writer was killed right after writing them.

    Raises:
        WriteError: The system refused.
    """
    for folder in {(directory / name).parent for name in names}:
        try:
            sync_folder(fs, folder)
        except OSError as error:
            raise WriteError(path=folder, operation="fsync", cause=error, visible=True) from error


def sync_folder(fs: FileSystem, folder: Path) -> None:
    """Make the names in a folder durable."""
    with opened(fs, os.fspath(folder), DIRECTORY_FLAGS) as fd:
        fs.fsync(fd)
