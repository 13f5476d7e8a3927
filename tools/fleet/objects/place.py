"""A place: one directory of sessions, its name in the fleet, and the limit of its disk space.

The name is random and stored in the directory. A copy of the directory is another place, since its
contents become outdated: the name is valid only for the directory that it was created in.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from ...base.event_log import get_logger
from ...base.files import (
    AtomicFileWriter,
    DirectoryLock,
    DurableError,
    FileSystem,
    OsFileSystem,
    ReadError,
    discard_tree,
    make_durable_directory,
    read_regular_file,
)
from ...base.files.atomic_file import random_token
from ...base.files.filesystem import DIRECTORY_FLAGS, close_reader
from ...base.files.trees import walk_tree
from ...base.identifiers import is_session_id
from ...harness.errors import SessionInUse
from ...harness.session_layout import GUARDS, SESSION_FILE, SNAPSHOTS, WORKSPACE
from ...harness.session_ports import SessionPlaces
from .pack_index import PackIndex

PLACE_FILE: Final = ".place"
_MAX_BYTES: Final = 4096
_ID: Final = re.compile(r"[0-9a-f]{32}")


def _random_id() -> str:
    return os.urandom(16).hex()


def place_of(base: Path, fs: FileSystem, *, token: Callable[[], str] = _random_id) -> str:
    """Return the name of a directory of sessions, creating it the first time.

    Args:
        base: The directory; it is created if it is missing.
        fs: The file system.
        token: Returns random names of 32 hexadecimal digits.

    Raises:
        WriteError: The disk or its permissions.
    """
    found = _read(fs, base)
    if found is not None:
        return found
    make_durable_directory(fs, base)
    with DirectoryLock(fs, base, follow=True) as lock:
        found = _read(fs, base)
        if found is None:
            found = token()
            said = {"schema_version": 1, "place": found, "inode": os.stat(base).st_ino}
            with AtomicFileWriter(base / PLACE_FILE, fs=fs, directory_fd=lock.fd) as file:
                file.write(json.dumps(said) + "\n")
    return found


def _read(fs: FileSystem, base: Path) -> str | None:
    """Return the name created in this very directory; None if it has none."""
    try:
        path = base / PLACE_FILE
        data = read_regular_file(fs, str(path), path=path, max_bytes=_MAX_BYTES)
        said: Any = json.loads(data or b"")
        known = said["place"], said["inode"]
        inode = os.stat(base).st_ino
    except (OSError, ReadError, ValueError, KeyError, TypeError):
        return None
    place = known[0]
    if not isinstance(place, str) or _ID.fullmatch(place) is None or known[1] != inode:
        return None
    return place


DEFAULT_BYTES: Final = 20 << 30
"""The default limit of a place's sessions, in bytes."""
_BLOCK: Final = 512
_DEPTH: Final = 200
_log = get_logger("agentforge.snapshots")


@frozen
class _Kept:
    session_id: str
    disk_bytes: int
    used_at_ns: int


def trim(
    places: SessionPlaces,
    index: PackIndex,
    place: str,
    *,
    max_bytes: int,
    fs: FileSystem | None = None,
) -> Sequence[str]:
    """Remove directories of sessions until they take up at most `max_bytes`.

    Only sessions that were taken up elsewhere since, or have ended, are removed, if all their
    snapshots are in the object store and nothing works on them or holds them; the least recently
    used one first.

    Args:
        places: The sessions on this machine.
        index: Knows their places and their packs.
        place: The name of this place.
        max_bytes: The limit of all directories on the disk, in bytes.
        fs: The file system.

    Returns:
        The sessions whose directories were removed.

    Raises:
        AgentForgeError: The index does not answer.
    """
    fs = fs if fs is not None else OsFileSystem()
    found = list(_kept(fs, places.base_path))
    total = sum(one.disk_bytes for one in found)
    if total <= max_bytes:
        return []
    released = index.released([one.session_id for one in found], place)
    removed = []
    for one in sorted(found, key=lambda each: each.used_at_ns):
        if total <= max_bytes:
            break
        stored = released.get(one.session_id)
        if stored is None or not _is_stored(places.base_path / one.session_id, stored):
            continue
        try:
            _remove(places, fs, one.session_id)
        except (SessionInUse, DurableError, OSError) as error:
            _log.info("workspace.not_trimmed", session_id=one.session_id, error=str(error))
            continue
        total -= one.disk_bytes
        removed.append(one.session_id)
        _log.info("workspace.trimmed", session_id=one.session_id, bytes=one.disk_bytes)
    return removed


def _kept(fs: FileSystem, base: Path) -> Iterator[_Kept]:
    """Measure each session's directory."""
    try:
        names = sorted(os.listdir(base))
    except FileNotFoundError:
        return
    for name in names:
        if not is_session_id(name):
            continue
        with suppress(OSError):
            fd = fs.open(os.fspath(base / name), DIRECTORY_FLAGS)
            try:
                status = fs.fstat(fd)
                entries = [
                    one.status
                    for one in walk_tree(
                        fs,
                        fd,
                        enter=lambda one: len(one.names) < _DEPTH,
                        onerror=lambda _: None,
                    )
                ]
            finally:
                close_reader(fs, fd)
            size = _BLOCK * sum(one.st_blocks for one in [status, *entries])
            yield _Kept(name, size, max(one.st_mtime_ns for one in [status, *entries]))


def _is_stored(directory: Path, stored: Collection[str]) -> bool:
    """Return whether all contents of a directory are stored elsewhere."""
    if (directory / SESSION_FILE).exists():
        return False  # another store's session
    if not stored:
        return not (directory / WORKSPACE).exists()
    try:
        return set(os.listdir(directory / SNAPSHOTS / "refs" / "snapshots")) <= set(stored)
    except FileNotFoundError:
        return True


def _remove(places: SessionPlaces, fs: FileSystem, session_id: str) -> None:
    base = places.base_path
    with (
        places.idle(session_id, GUARDS),
        DirectoryLock(fs, base, follow=True) as lock,
    ):
        discard_tree(fs, lock.fd, session_id, parent=base, token=random_token)
