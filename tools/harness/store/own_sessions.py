"""Which sessions of a directory are this person's own: marks outside of every repository.

    $XDG_STATE_HOME/agentforge/sessions/{real path of the directory}/
        {session_id} -> {inode of the session's directory}

A session that was made on this machine has a mark, and so has one that the person adopted. One that
came with a clone, an archive or a copied folder has none: no file in a repository can make one. A
mark is a symbolic link that leads nowhere: one system call writes it whole, and nothing is synced,
because a mark that a power failure took is made again by `agentforge adopt`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from ...base.data_folder import read_plain, state_of
from ...base.identifiers import is_session_id

FOLDER: Final = "sessions"
_GIT: Final = ".git"
_POINTER: Final = b"gitdir: "
_MAX_POINTER_BYTES: Final = 8192
_MAX_INDEX_BYTES: Final = 1 << 30
_HEADER_BYTES: Final = 12
_WITH_PREFIXES: Final = 4
"""The version of Git's index that leaves out of a path what it begins with as the one before."""
_EXTENDED: Final = 0x40
_NAME_AND_FLAGS: Final = 22
"""The bytes before a path: at least the 20 last of the object's name, and the flags."""
_SHARED: Final = "sharedindex."


class OwnSessions:
    """The marks of one directory of sessions.

    Guarantees: a session is own only if its directory is the one that was marked, at the path where
    it was marked, and the Git repository around it tracks the versions of its files that it tracked
    then, which are none of a session that was made here. So a commit of another person that is
    pulled, and changes a session, makes it foreign until it is adopted anew.

    Not guaranteed: that an own session's file was written by nobody else since.

    Args:
        base: The directory of the sessions.
        environment: Says where the person's state directory is.
    """

    def __init__(self, base: Path, *, environment: Mapping[str, str] = os.environ) -> None:
        self._base = base
        self._environment = environment

    @property
    def folder(self) -> Path:
        """Where the marks are; it need not be there."""
        return state_of(self._base, FOLDER, self._environment)

    def add(self, session_id: str, inode: int) -> None:
        """Mark the session whose directory has an inode as own.

        Raises:
            OSError: The person's state directory can't be written; nothing was marked.
        """
        self._write(session_id, str(inode))

    def _write(self, session_id: str, says: str) -> None:
        mark = os.path.join(self.folder, session_id)
        try:
            os.symlink(says, mark)
        except FileExistsError:
            os.unlink(mark)
            os.symlink(says, mark)
        except FileNotFoundError:
            os.makedirs(self.folder, 0o700, exist_ok=True)
            os.symlink(says, mark)

    def adopt(self, session_id: str) -> None:
        """Mark a session that is there as own, as Git tracks it now.

        Raises:
            OSError: There is no directory of it, or the state directory can't be written.
        """
        inode = os.lstat(self._base / session_id).st_ino
        self._write(session_id, f"{inode}{self._tracked(session_id)}")

    def remove(self, session_ids: Iterable[str]) -> None:
        """Remove the marks of sessions that are gone, as far as the system lets us."""
        folder = self.folder
        for session_id in session_ids:
            if is_session_id(session_id):
                with suppress(OSError):
                    os.unlink(folder / session_id)

    def has(self, session_id: str) -> bool:
        """Return whether a session is own."""
        if not is_session_id(session_id):
            return False
        try:
            said = os.readlink(self.folder / session_id)
            found = os.lstat(self._base / session_id)
        except OSError:
            return False
        if not stat.S_ISDIR(found.st_mode) or said.partition(":")[0] != str(found.st_ino):
            return False
        return said == f"{found.st_ino}{self._tracked(session_id)}"

    def _tracked(self, session_id: str) -> str:
        """Return what names the versions of a session's files that Git tracks; empty for none."""
        base = os.path.realpath(self._base)
        found = _index_around(base)
        if found is None:
            return ""
        root, index = found
        wanted = os.fsencode(os.path.join(os.path.relpath(base, root), session_id, ""))
        versions = [one for data in _contents(index) for one in _versions_in(data, index, wanted)]
        if not versions:
            return ""
        import hashlib  # takes long to load, and few sessions are tracked

        return f":{hashlib.sha256(b''.join(versions)).hexdigest()}"


def _index_around(directory: str) -> tuple[str, str] | None:
    """Return the root of the Git repository that a directory is in, and its index; None if none."""
    while True:
        found = os.path.join(directory, _GIT)
        if os.path.isdir(found):
            return directory, os.path.join(found, "index")
        if os.path.isfile(found):
            index = _index_named_by(found)
            return None if index is None else (directory, index)
        above = os.path.dirname(directory)
        if above == directory:
            return None
        directory = above


def _index_named_by(pointer: str) -> str | None:
    """Return the index of a linked work tree or a submodule, whose `.git` is a file."""
    try:
        said = read_plain(pointer, most=_MAX_POINTER_BYTES)
    except OSError:
        return None
    if not said.startswith(_POINTER):
        return None
    folder = os.fsdecode(said.removeprefix(_POINTER).strip())
    return os.path.join(os.path.dirname(pointer), folder, "index")


def _contents(index: str) -> Iterator[bytes]:
    """Yield what an index consists of: itself, and what it shares with others where it is split."""
    folder = os.path.dirname(index)
    try:
        shared = sorted(one for one in os.listdir(folder) if one.startswith(_SHARED))
    except OSError:
        return
    for name in ("index", *shared):
        with suppress(OSError):
            yield read_plain(os.path.join(folder, name), most=_MAX_INDEX_BYTES)


def _versions_in(data: bytes, index: str, wanted: bytes) -> list[bytes]:
    """Return what names the versions below a path; all of an index that can't be understood."""
    try:
        return list(_versions(data, wanted, _name_bytes(index)))
    except (IndexError, ValueError):
        return [data]


def _name_bytes(index: str) -> int:
    """Return the length of an object's name in a repository: SHA-1's, or SHA-256's."""
    folder = os.path.dirname(index)
    with suppress(OSError):
        common = read_plain(os.path.join(folder, "commondir"), most=_MAX_POINTER_BYTES)
        folder = os.path.join(folder, os.fsdecode(common.strip()))
    try:
        said = read_plain(os.path.join(folder, "config"), most=_MAX_POINTER_BYTES).lower()
    except OSError:
        return 20
    return 32 if b"objectformat" in said and b"sha256" in said else 20


def _versions(index: bytes, wanted: bytes, name_bytes: int) -> Iterator[bytes]:
    """Yield the end of the object's name, the flags and the path of each entry below a path."""
    if int.from_bytes(index[4:8], "big") == _WITH_PREFIXES:
        yield from _versions_with_prefixes(index, wanted, name_bytes)
        return
    at = index.find(wanted)
    while at >= 0:
        end = index.find(b"\0", at)
        yield index[at - _NAME_AND_FLAGS : end]
        at = index.find(wanted, end)


def _versions_with_prefixes(index: bytes, wanted: bytes, name_bytes: int) -> Iterator[bytes]:
    """Yield the same of an index in which each path goes on from the one before it.

    An entry is 42 bytes and the object's name (2 more with extended flags), the length that is cut
    off the path before as a variable-width number, and the rest of its own path up to a zero byte.
    """
    at, path = _HEADER_BYTES, b""
    for _ in range(int.from_bytes(index[8:12], "big")):
        flags = at + 40 + name_bytes
        begin = at = flags + (4 if index[flags] & _EXTENDED else 2)
        byte = index[at]
        cut, at = byte & 0x7F, at + 1
        while byte & 0x80:
            byte = index[at]
            cut, at = ((cut + 1) << 7) | (byte & 0x7F), at + 1
        end = index.index(b"\0", at)
        path, at = path[: len(path) - cut] + index[at:end], end + 1
        if path.startswith(wanted):
            yield index[begin - _NAME_AND_FLAGS : begin] + path


__all__ = ["OwnSessions"]
