"""Restoring a session from its archive: all of it, and nothing outside of it.

An archive is trusted only as far as it was checked: its checksum before anything is written, then
its first member, which says what it is, then each member. Members are created by name relative to
the descriptor of a directory that was made from the same archive, out of sight, and never through a
link. The session appears by one rename once all of it is on the disk.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tarfile
from pathlib import Path
from typing import Final

from ..base.files import FileSystem, OsFileSystem
from ..base.files.directory_store import NewDirectory
from ..base.files.filesystem import CREATE_FLAGS, READ_FLAGS, opened
from ..base.files.safe_path import directory_beneath, is_plain_name
from .archive_format import (
    ABOUT_NAME,
    CHECKSUM_SUFFIX,
    FORMAT,
    LEVELS,
    PIECE,
    HashingWriter,
    Reader,
    checksum_of,
    zstd,
)
from .errors import InvalidArchive
from .ports import LOCK_TIMEOUT_S, PruneTarget
from .removal.environment import PruneEnvironment
from .removal.private_directory import COMING, opened_root

_MEMBERS_FAULT: Final = frozenset(
    {
        errno.EEXIST,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.ELOOP,
        errno.EISDIR,
        errno.ENAMETOOLONG,
        errno.EINVAL,
    }
)
"""System errors that mean a faulty member, not a faulty disk."""

_MAX_ABOUT_BYTES: Final = 64 << 10
_MOST_PADDING: Final = PIECE
"""An upper bound of the zeros at the end of a tar; tar(1) and tarfile write fewer."""

_TIME: Final = re.compile(r"(-?)([0-9]{1,20})(?:\.([0-9]*))?")
_CHECKSUM: Final = re.compile(rb"([0-9a-f]{64})[ \t]+\*?(.+?)\s*\Z", re.DOTALL)


def restore_archive(
    archive: Path,
    target: PruneTarget,
    *,
    outside: PruneEnvironment | None = None,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
) -> Path:
    """Restore a session from its archive, all of it at once; the archive stays.

    Args:
        archive: The tar, with its checksum beside it.
        target: The kind and root it is restored to; the archive must be of this kind.
        outside: Time, randomness and the file system; the real ones if None.
        lock_timeout_s: How long to wait for a prune of the same root, in seconds.

    Returns:
        The session's directory. Its files belong to this user; times and permissions are as they
        were, without set-id and sticky bits.

    Raises:
        InvalidArchive: It is no archive, is damaged, has no checksum, is of another kind, or would
            write outside of the session; nothing was written.
        SessionInTheWay: Something has the session's name; nothing was changed.
        PruneBusy: A prune works on the root.
        PruneRootMissing: There is no such root.
        PruneRootUnusable: The system refused; nothing of the session is left.
    """
    outside = outside or PruneEnvironment()
    with opened_root(target.root, outside, lock_timeout_s) as private:
        fd = _open_archive(archive)
        try:
            _require_checksum(archive, fd)
            session_id = _read_about(fd, target)
            private.require_free(session_id)
            coming_fd = private.directory(COMING)
            with NewDirectory(outside.fs, coming_fd, outside.token()) as new:
                with zstd.ZstdFile(Reader(OsFileSystem(), fd), "r") as plain:
                    _unpack(plain, outside.fs, new.fd, session_id)
                new.appear(session_id, parent_fd=private.root_fd)
        except (
            tarfile.TarError,
            zstd.ZstdError,
            EOFError,
            ArithmeticError,
            LookupError,
            ValueError,  # ours, and tarfile's errors for invalid headers
        ) as error:
            raise InvalidArchive(archive, str(error)) from error
        finally:
            os.close(fd)
    return target.root / session_id


def _open_archive(archive: Path) -> int:
    try:
        return _open_regular(archive)
    except (OSError, ValueError) as error:  # a null byte
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidArchive(archive, reason) from error


def _open_regular(path: Path) -> int:
    """Open a regular file, and only that; never wait for a FIFO."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError("it is no regular file")
    return fd


def _require_checksum(archive: Path, fd: int) -> None:
    beside = archive.with_name(archive.name + CHECKSUM_SUFFIX)
    try:
        beside_fd = _open_regular(beside)
        try:
            text = os.pread(beside_fd, _MAX_ABOUT_BYTES, 0)
        finally:
            os.close(beside_fd)
    except OSError as error:
        reason = f"its checksum {beside.name} can't be read ({error.strerror or error})"
        raise ValueError(reason) from error
    found = _CHECKSUM.match(text)
    if found is None:
        raise ValueError(f"{beside.name} holds no checksum")
    if found[1].decode("ascii") != checksum_of(OsFileSystem(), fd):
        raise ValueError(f"it is damaged: its checksum is not that in {beside.name}")


def _read_about(fd: int, target: PruneTarget) -> str:
    with (
        zstd.ZstdFile(Reader(OsFileSystem(), fd), "r") as plain,
        tarfile.open(fileobj=plain, mode="r|") as tar,
    ):
        first = tar.next()
        source = None if first is None or first.name != ABOUT_NAME else tar.extractfile(first)
        if source is None:
            raise ValueError("it is no archive of a session")
        try:
            about = json.loads(source.read(_MAX_ABOUT_BYTES))
            version, kind, session_id = about["format"], about["kind"], about["session_id"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ValueError("what it says of itself makes no sense") from error
    if version != FORMAT:
        raise ValueError(f"its format is {version!r}, and this release reads {FORMAT}")
    if kind != target.kind:
        raise ValueError(f"it is of a {kind!r} session, not of a {target.kind!r} one")
    if not isinstance(session_id, str) or not target.owns(session_id):
        raise ValueError(f"{session_id!r} can't be the id of a {target.kind} session")
    return session_id


def _unpack(plain: zstd.ZstdFile, fs: FileSystem, top_fd: int, session_id: str) -> None:
    """Write the members below a directory, each through descriptors of its parents."""
    late: list[tuple[tuple[str, ...], tarfile.TarInfo]] = []
    with tarfile.open(fileobj=plain, mode="r|") as tar:
        for number, member in enumerate(tar):
            if number == 0:
                continue
            parts = _parts(member.name, session_id)
            if bool(late) != bool(parts) or not (parts or member.isdir()):
                raise ValueError("its second entry is not the session's directory")
            if member.isdir():
                late.append((parts, member))  # its mode and time are set after its content
            if not parts:
                continue
            _make_member(tar, member, fs, top_fd, parts)
    if not late:
        raise ValueError("it holds nothing")
    if len(plain.read(_MOST_PADDING)) == _MOST_PADDING:  # read on: zstd checks its sum at the end
        raise ValueError("it goes on after its end")
    for parts, member in reversed(late):
        with directory_beneath(fs, top_fd, parts) as fd:
            _finish(fd, member)
            fs.fsync(fd)


def _finish(fd: int, member: tarfile.TarInfo) -> None:
    """Set the permissions and the time of an open file or directory."""
    os.fchmod(fd, member.mode & 0o777)
    moment = _time_of(member)
    os.utime(fd, ns=(moment, moment))


def _time_of(member: tarfile.TarInfo) -> int:
    """Return when a member was changed, in nanoseconds."""
    found = _TIME.fullmatch(member.pax_headers.get("mtime", str(member.mtime)))
    if found is None:
        raise ValueError(f"{member.name!r} in it has no time")
    ns = int(found[2]) * 10**9 + int((found[3] or "").ljust(9, "0")[:9])
    if ns >= 1 << 63:
        raise ValueError(f"{member.name!r} in it has a time that is out of range")
    return -ns if found[1] else ns


def _parts(name: str, session_id: str) -> tuple[str, ...]:
    parts = tuple(name.split("/"))
    if parts[0] != session_id or not all(map(is_plain_name, parts)):
        raise ValueError(f"it holds {name!r}, which is not in the session")
    if len(parts) > LEVELS + 1:
        raise ValueError(f"it is nested deeper than {LEVELS} levels")
    return parts[1:]


def _make_member(
    tar: tarfile.TarFile,
    member: tarfile.TarInfo,
    fs: FileSystem,
    top_fd: int,
    parts: tuple[str, ...],
) -> None:
    """Create a member in its place; raise an invalid-archive error if it can't be there."""
    try:
        with directory_beneath(fs, top_fd, parts[:-1]) as parent_fd:
            _write_member(tar, member, fs, parent_fd, parts[-1])
    except OSError as error:
        if error.errno in _MEMBERS_FAULT:
            reason = f"{member.name!r} in it can't be made: {error.strerror}"
            raise ValueError(reason) from error
        raise


def _write_member(
    tar: tarfile.TarFile,
    member: tarfile.TarInfo,
    fs: FileSystem,
    parent_fd: int,
    name: str,
) -> None:
    if member.isdir():
        fs.mkdir(name, 0o700, dir_fd=parent_fd)
    elif member.issym():
        os.symlink(member.linkname, name, dir_fd=parent_fd)
        moment = _time_of(member)
        os.utime(name, ns=(moment, moment), dir_fd=parent_fd, follow_symlinks=False)
    elif member.isfifo():
        os.mkfifo(name, 0o600, dir_fd=parent_fd)
        with opened(fs, name, READ_FLAGS, dir_fd=parent_fd) as fd:
            _finish(fd, member)
    elif member.isreg():
        fd = fs.open(name, CREATE_FLAGS, 0o600, dir_fd=parent_fd)
        try:
            sink = HashingWriter(fs, fd)
            source = tar.extractfile(member)
            size = 0
            while source is not None and (piece := source.read(PIECE)):
                size += len(piece)
                if piece.count(0) == len(piece):  # maybe a hole, which takes no room on the disk
                    os.lseek(fd, size, os.SEEK_SET)
                else:
                    sink.write(piece)
            os.ftruncate(fd, size)
            _finish(fd, member)
            fs.fsync(fd)
        finally:
            fs.close(fd)
    else:
        raise ValueError(f"{member.name!r} in it is none of what an archive holds")
