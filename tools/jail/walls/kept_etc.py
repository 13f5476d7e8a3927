"""A cached `/etc` for jails: one folder to mount instead of a dozen files and folders.

It has what a jail that assembles its `/etc` would see there, as far as every user of the machine
may read it. It is in the user's cache, named by its content, so that a change in the system's own
`/etc` leads to another folder, and many processes share one.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeAlias

from ...base.clock import Clock, utc_now
from ...base.files import (
    DirectoryLock,
    DurableError,
    FileSystem,
    OsFileSystem,
    discard_tree,
    sweep_discarded,
)
from ...base.files.atomic_file import random_token
from ...base.files.directory_store import NewDirectory
from ...base.files.tree_removal import DISCARDED_PREFIX
from .system_folders import ETC, SystemView, is_in_etc

_PLACE: Final = "agentforge/jail"
_NAME: Final = "etc-"
_MAX_BYTES: Final = 16 << 20
_MAX_ENTRIES: Final = 5000
_MAX_DEPTH: Final = 16
_UNUSED_S: Final = 30 * 86_400.0
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH

Content: TypeAlias = Mapping[str, bytes | str | None]


def kept_etc(view: SystemView, files: Mapping[str, bytes]) -> Path | None:
    """Return the folder to mount as `/etc`; it is made if it is missing.

    Args:
        view: What a jail sees of the system.
        files: Files made for every jail, by path; only those in `/etc` matter.

    Returns:
        None if it can't be cached: no cache that is this user's alone, or too much to copy. Then a
        jail assembles its `/etc`.
    """
    folders = tuple(folder for folder in view.folders if is_in_etc(folder))
    given = tuple(sorted((path, said) for path, said in files.items() if is_in_etc(path)))
    place = _place()
    if place is None:
        return None
    asked = (folders, given, place)
    found = _kept(*asked, tuple(map(_stamp, folders)))
    if found is not None and not found.is_dir():  # the cache was emptied meanwhile
        _kept.cache_clear()
        found = _kept(*asked, tuple(map(_stamp, folders)))
    return found


def _stamp(folder: str) -> tuple[int, ...]:
    try:
        seen = os.stat(folder)
    except OSError:
        return ()
    return (seen.st_dev, seen.st_ino, seen.st_mtime_ns, seen.st_ctime_ns)


@lru_cache(maxsize=8)
def _kept(
    folders: tuple[str, ...],
    files: tuple[tuple[str, bytes], ...],
    place: Path,
    _: tuple[tuple[int, ...], ...],
) -> Path | None:
    try:
        content = etc_content(folders, dict(files))
        return None if content is None else kept_folder(content, place)
    except (OSError, DurableError):
        return None  # a jail that mounts piece by piece reports the cause


# -------------------------------------------------------------------------------------- its content


def etc_content(folders: tuple[str, ...], files: Mapping[str, bytes]) -> Content | None:
    """Return the folder's content by path below `/etc`: bytes, a link's target, a folder's None.

    Args:
        folders: Folders of `/etc`, absolute.
        files: Files of it, absolute.

    Returns:
        None if there is too much to copy.

    Raises:
        OSError: A folder can't be listed.
    """
    found: dict[str, bytes | str | None] = {}
    size = 0
    for name, entry in _entries(folders):
        if isinstance(entry, Path):
            content = _public(entry)
            if content is None:
                continue
            found[name], size = content, size + len(content)
        else:
            found[name] = entry
        if size > _MAX_BYTES or len(found) > _MAX_ENTRIES:
            return None
    for path, said in files.items():
        found[path.removeprefix(f"{ETC}/")] = said
    for name in list(found):
        for above in list(Path(name).parents)[:-1]:
            found.setdefault(str(above), None)
    return found


def _entries(folders: tuple[str, ...]) -> Iterator[tuple[str, Path | str | None]]:
    for folder in folders:
        yield folder.removeprefix(f"{ETC}/"), None
        yield from _below(Path(folder), folder.removeprefix(f"{ETC}/"), _MAX_DEPTH)


def _below(folder: Path, name: str, depth: int) -> Iterator[tuple[str, Path | str | None]]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            inner = f"{name}/{entry.name}"
            if entry.is_symlink():
                yield inner, os.readlink(entry.path)
            elif entry.is_dir() and depth:
                yield inner, None
                with suppress(PermissionError):  # it would be closed to a jail, too
                    yield from _below(Path(entry.path), inner, depth - 1)
            elif entry.is_file(follow_symlinks=False):
                yield inner, Path(entry.path)


def _public(file: Path) -> bytes | None:
    """Return a file's content, or None if not every user may read it."""
    with suppress(FileNotFoundError, PermissionError), open(file, "rb") as opened:
        if os.fstat(opened.fileno()).st_mode & stat.S_IROTH:
            return opened.read(_MAX_BYTES + 1)
    return None


# -------------------------------------------------------------------------------------- its folder


def kept_folder(content: Content, place: Path, *, clock: Clock = utc_now) -> Path:
    """Return the cached folder of a content; make it if it is missing or differs.

    Args:
        content: Its content.
        place: The folder of the cache.
        clock: Returns the time, by which unused folders are found.

    Raises:
        OSError, DurableError: It can't be made.
    """
    kept = place / f"{_NAME}{_digest(content)}"
    if not _holds(kept, content):
        fs = OsFileSystem()
        with DirectoryLock(fs, place) as lock:
            if not _holds(kept, content):
                _sweep(fs, lock.fd, place, clock())
                _make(fs, lock.fd, kept, content)
    with suppress(OSError):
        os.utime(kept)  # in use: it stays for another month
    return kept


def _make(fs: FileSystem, place_fd: int, kept: Path, content: Content) -> None:
    if os.path.lexists(kept):
        discard_tree(fs, place_fd, kept.name, parent=kept.parent, token=random_token)
    hidden = f"{DISCARDED_PREFIX}new-{random_token()}"
    with NewDirectory(fs, place_fd, hidden) as new:
        _write(kept.parent / hidden, content)
        new.appear(kept.name)


def _digest(content: Content) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, said in sorted(content.items()):
        raw = said if isinstance(said, bytes) else os.fsencode(said or "")
        kind = "folder" if said is None else "link" if isinstance(said, str) else "file"
        digest.update(f"{kind} {len(raw)} ".encode() + os.fsencode(name) + b"\0" + raw)
    return digest.hexdigest()


def _write(folder: Path, content: Content) -> None:
    for name, said in sorted(content.items()):
        path = folder / name
        if said is None:
            path.mkdir()
            path.chmod(0o755)
        elif isinstance(said, str):
            path.symlink_to(said)
        else:
            path.write_bytes(said)
            path.chmod(0o444)
    folder.chmod(0o755)


def _holds(folder: Path, content: Content) -> bool:
    """Return whether a folder has these names, with content of these sizes, and no others."""
    try:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            return False
        seen = {}
        for name, entry in _below(folder, "", _MAX_DEPTH + 1):
            size = entry.stat().st_size if isinstance(entry, Path) else entry
            seen[name.removeprefix("/")] = size
    except OSError:
        return False
    return seen == {
        name: len(said) if isinstance(said, bytes) else said for name, said in content.items()
    }


def _sweep(fs: FileSystem, place_fd: int, place: Path, now: datetime) -> None:
    """Remove folders that were unused for a month, and what killed makers left."""
    sweep_discarded(fs, place_fd, parent=place)
    for name in fs.listdir(place_fd):
        with suppress(OSError, DurableError):
            seen = fs.stat(name, dir_fd=place_fd)
            if name.startswith(_NAME) and seen.st_mtime < now.timestamp() - _UNUSED_S:
                discard_tree(fs, place_fd, name, parent=place, token=random_token)


# --------------------------------------------------------------------------------------- its place


def _place() -> Path | None:
    """Return the folder in the user's cache, or None if others could put something into it."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        home = os.path.expanduser("~")
        if not os.path.isabs(home) or not os.path.isdir(home):
            return None
        base = os.path.join(home, ".cache")
    place = Path(os.path.realpath(base), _PLACE)
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return place if _is_ours_alone(place) else None


def _is_ours_alone(place: Path) -> bool:
    """Return whether only this user, and root, can change what a path leads to."""
    own = os.geteuid()
    if not os.access(place, os.W_OK | os.X_OK) or os.path.realpath(place) != str(place):
        return False
    for one in (place, *place.parents):
        seen = os.lstat(one)
        if seen.st_uid not in (own, 0):
            return False
        if seen.st_mode & _OTHERS_WRITE and (one == place or not seen.st_mode & stat.S_ISVTX):
            return False
    return True
