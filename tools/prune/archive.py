"""One compressed tar for a session, proven to be readable before the session goes.

    {kind}-{session_id}-{time}.tar.zst           the tar; its first member says what it is
    {kind}-{session_id}-{time}.tar.zst.sha256    its checksum, as sha256sum(1) writes and checks it

The archive is written, synced and read back from the disk: its checksum, and the checksum of every
file in it, must be those of what was written. Links are kept as links and never followed; sockets
are left out, for they hold nothing.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import stat
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from attrs import field, frozen

from tools.durable import (
    DurableError,
    FileSystem,
    OsFileSystem,
    empty_directory,
    make_durable_directory,
)
from tools.durable.filesystem import CREATE_FLAGS, DIRECTORY_FLAGS, READ_FLAGS, close_reader
from tools.prune.errors import ArchiveUnavailable, InvalidArchive, SessionInTheWay
from tools.prune.outside import Outside
from tools.prune.policy import Candidate
from tools.prune.private import COMING, LOCK_TIMEOUT_S, opened_root
from tools.prune.target import PruneTarget

if TYPE_CHECKING:
    from types import ModuleType

SUFFIX: Final = ".tar.zst"
CHECKSUM_SUFFIX: Final = ".sha256"
ABOUT_NAME: Final = ".agentforge-archive.json"
FORMAT: Final = 1

_LEVELS: Final = 400
_PIECE: Final = 1 << 20
_MAX_ABOUT_BYTES: Final = 64 << 10
_CHECKSUM: Final = re.compile(rb"([0-9a-f]{64})[ \t]+\*?(.+?)\s*\Z", re.DOTALL)


def _zstd() -> ModuleType:
    """Return the standard library's zstd (3.14), or its backport.

    Raises:
        ArchiveUnavailable: There is none.
    """
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError:
        raise ArchiveUnavailable from None
    return zstd


@frozen(kw_only=True)
class TarArchiver:
    """Keeps a copy of each session that goes, in one directory.

    Attributes:
        directory: Where; made with mode 0700 if missing.
        level: The compression level of zstd, 1 to 19; more is smaller and slower.
        clock: Gives the time that is in the archive's name.
        token: Gives a fresh random text for the name while it is written.

    Raises:
        ArchiveUnavailable: The extra that compresses is not installed.
        ValueError: The level is none.
    """

    directory: Path
    level: int = 3
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    token: Callable[[], str] = lambda: secrets.token_hex(8)
    _zstd: ModuleType = field(init=False, factory=_zstd, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if isinstance(self.level, bool) or not 1 <= self.level <= 19:
            raise ValueError(f"level: expected 1 to 19, got {self.level!r}")

    def archive(self, fs: FileSystem, session_fd: int, candidate: Candidate) -> Path:
        """Write an archive of an open session, and prove that it can be read back.

        Args:
            fs: The file system.
            session_fd: The session's directory, open and locked.
            candidate: What is known of it.

        Returns:
            The archive, on the disk for good, with mode 0600.

        Raises:
            OSError: It could not be written or verified, or holds a device; nothing of it is left.
        """
        now = self.clock().astimezone(UTC)
        name = f"{candidate.kind}-{candidate.session_id}-{now:%Y%m%dT%H%M%SZ}{SUFFIX}"
        try:
            make_durable_directory(fs, self.directory)
        except DurableError as error:
            raise OSError(str(error)) from error
        directory_fd = fs.open(os.fspath(self.directory), DIRECTORY_FLAGS & ~os.O_NOFOLLOW)
        temporary = f".{name}.{self.token()}"
        try:
            _require_free(fs, directory_fd, name)
            try:
                sums, checksum = self._write(fs, directory_fd, temporary, session_fd, candidate)
                self._verify(fs, directory_fd, temporary, sums, checksum)
                self._write_checksum(fs, directory_fd, name, checksum)
                fs.rename(temporary, name, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
            except BaseException:
                for left in (temporary, name + CHECKSUM_SUFFIX):
                    with suppress(OSError):
                        fs.unlink(left, dir_fd=directory_fd)
                raise
            fs.fsync(directory_fd)
        finally:
            close_reader(fs, directory_fd)
        return self.directory / name

    def _write(
        self,
        fs: FileSystem,
        directory_fd: int,
        temporary: str,
        session_fd: int,
        candidate: Candidate,
    ) -> tuple[dict[str, str], str]:
        """Write the tar; return the checksum of each file in it, and its own."""
        fd = fs.open(temporary, CREATE_FLAGS, 0o600, dir_fd=directory_fd)
        try:
            sink = _HashingWriter(fs, fd)
            parameter = self._zstd.CompressionParameter
            options = {parameter.compression_level: self.level, parameter.checksum_flag: 1}
            with self._zstd.ZstdFile(sink, "w", options=options) as packed:
                sums = _pack(fs, session_fd, candidate, self.clock(), packed)
            fs.fsync(fd)
            return sums, sink.checksum()
        finally:
            fs.close(fd)

    def _verify(
        self,
        fs: FileSystem,
        directory_fd: int,
        temporary: str,
        sums: dict[str, str],
        checksum: str,
    ) -> None:
        """Read the archive back; what comes out must be what went in."""
        fd = fs.open(temporary, READ_FLAGS, dir_fd=directory_fd)
        try:
            with suppress(OSError):  # or what is read back comes from memory, not from the disk
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            if _checksum(fs, fd) != checksum:
                raise OSError("what was read back is not what was written")
            with self._zstd.ZstdFile(_Reader(fs, fd), "r") as plain:
                found = {name: text for name, text in _contents(plain) if name != ABOUT_NAME}
            if found != sums:
                raise OSError("the files in the archive are not those of the session")
        except (tarfile.TarError, self._zstd.ZstdError, EOFError) as error:
            raise OSError(f"it can't be read back: {error}") from error
        finally:
            close_reader(fs, fd)

    def _write_checksum(self, fs: FileSystem, directory_fd: int, name: str, checksum: str) -> None:
        fd = fs.open(name + CHECKSUM_SUFFIX, CREATE_FLAGS, 0o600, dir_fd=directory_fd)
        try:
            sink = _HashingWriter(fs, fd)
            sink.write(f"{checksum}  {name}\n".encode())
            fs.fsync(fd)
        finally:
            fs.close(fd)


def _require_free(fs: FileSystem, directory_fd: int, name: str) -> None:
    for taken in (name, name + CHECKSUM_SUFFIX):
        try:
            fs.stat(taken, dir_fd=directory_fd)
        except FileNotFoundError:
            continue
        raise FileExistsError(f"there is an archive {taken} already")


# ---------------------------------------------------------------------------------------- writing


class _HashingWriter(io.RawIOBase):
    """Writes to a descriptor, all of what it is given, and keeps the checksum."""

    def __init__(self, fs: FileSystem, fd: int) -> None:
        self._fs = fs
        self._fd = fd
        self._sum = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: object, /) -> int:
        view = memoryview(cast("bytes", data)).cast("B")
        self._sum.update(view)
        done = 0
        while done < len(view):
            done += self._fs.writev(self._fd, [view[done:]])
        return len(view)

    def checksum(self) -> str:
        return self._sum.hexdigest()


class _HashingReader:
    """Reads a session's file for the tar, and keeps the checksum of what was read."""

    def __init__(self, fs: FileSystem, fd: int) -> None:
        self._fs = fs
        self._fd = fd
        self._at = 0
        self._sum = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._fs.pread(self._fd, size, self._at)
        self._at += len(data)
        self._sum.update(data)
        return data

    def checksum(self) -> str:
        return self._sum.hexdigest()


def _pack(
    fs: FileSystem, session_fd: int, candidate: Candidate, now: datetime, packed: BinaryIO
) -> dict[str, str]:
    sums: dict[str, str] = {}
    about = {
        "format": FORMAT,
        "kind": candidate.kind,
        "session_id": candidate.session_id,
        "dated_at": candidate.dated_at.astimezone(UTC).isoformat(),
        "archived_at": now.astimezone(UTC).isoformat(),
        "state": candidate.state,
    }
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        content = json.dumps(about, indent=2).encode("ascii")
        first = tarfile.TarInfo(ABOUT_NAME)
        first.size, first.mode, first.mtime = len(content), 0o600, int(now.timestamp())
        tar.addfile(first, io.BytesIO(content))
        for path, fd, status in _walk(fs, session_fd, candidate.session_id):
            info = tarfile.TarInfo(path)
            info.mode, info.mtime = stat.S_IMODE(status.st_mode), int(status.st_mtime)
            if stat.S_ISDIR(status.st_mode):
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
                sums[path] = "directory"
            elif stat.S_ISLNK(status.st_mode):
                info.type = tarfile.SYMTYPE
                info.linkname = os.readlink(os.path.basename(path), dir_fd=fd)
                tar.addfile(info)
                sums[path] = f"link {info.linkname}"
            elif stat.S_ISFIFO(status.st_mode):
                info.type = tarfile.FIFOTYPE
                tar.addfile(info)
                sums[path] = "fifo"
            elif stat.S_ISREG(status.st_mode):
                info.size = status.st_size
                source = _HashingReader(fs, fd)
                tar.addfile(info, cast("BinaryIO", source))
                sums[path] = source.checksum()
            elif not stat.S_ISSOCK(status.st_mode):
                raise OSError(f"{path!r} is a device, which an archive does not hold")
    return sums


def _walk(
    fs: FileSystem, session_fd: int, session_id: str
) -> Iterator[tuple[str, int, os.stat_result]]:
    """Go through a tree: each path, a descriptor, and what it is.

    The descriptor is the file itself where it is a regular one, else the directory it is in.
    """
    yield session_id, session_fd, fs.fstat(session_fd)
    stack = [(session_fd, session_id, sorted(fs.listdir(session_fd), reverse=True))]
    try:
        while stack:
            fd, path, names = stack[-1]
            if not names:
                stack.pop()
                if fd != session_fd:
                    close_reader(fs, fd)
                continue
            name = names.pop()
            here = f"{path}/{name}"
            status = fs.stat(name, dir_fd=fd)
            if stat.S_ISDIR(status.st_mode):
                if len(stack) >= _LEVELS:
                    raise OSError(f"directories are nested deeper than {_LEVELS} levels")
                yield here, fd, status
                below = fs.open(name, DIRECTORY_FLAGS, dir_fd=fd)
                stack.append((below, here, sorted(fs.listdir(below), reverse=True)))
            elif stat.S_ISREG(status.st_mode):
                file_fd = fs.open(name, READ_FLAGS, dir_fd=fd)
                try:
                    yield here, file_fd, fs.fstat(file_fd)
                finally:
                    close_reader(fs, file_fd)
            else:
                yield here, fd, status
    finally:
        for fd, _, _ in stack:
            if fd != session_fd:
                close_reader(fs, fd)


# ---------------------------------------------------------------------------------------- reading


class _Reader(io.RawIOBase):
    """Reads an open file from its start."""

    def __init__(self, fs: FileSystem, fd: int) -> None:
        self._fs = fs
        self._fd = fd
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object, /) -> int:
        view = memoryview(cast("bytearray", buffer)).cast("B")
        data = self._fs.pread(self._fd, len(view), self._at)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            return self.readall()
        data = self._fs.pread(self._fd, size, self._at)
        self._at += len(data)
        return data


def _checksum(fs: FileSystem, fd: int) -> str:
    made = hashlib.sha256()
    at = 0
    while piece := fs.pread(fd, _PIECE, at):
        made.update(piece)
        at += len(piece)
    return made.hexdigest()


def _contents(plain: BinaryIO) -> Iterator[tuple[str, str]]:
    """Go through a tar: each member's name, and the checksum or the kind of what it holds."""
    with tarfile.open(fileobj=plain, mode="r|") as tar:
        for member in tar:
            if member.isreg():
                made = hashlib.sha256()
                source = tar.extractfile(member)
                while source is not None and (piece := source.read(_PIECE)):
                    made.update(piece)
                yield member.name, made.hexdigest()
            elif member.issym():
                yield member.name, f"link {member.linkname}"
            else:
                yield member.name, "directory" if member.isdir() else "fifo"


# -------------------------------------------------------------------------------------- restoring


def restore_archive(
    archive: Path,
    target: PruneTarget,
    *,
    outside: Outside | None = None,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
) -> Path:
    """Bring a session back from its archive; it appears whole, and the archive stays.

    Args:
        archive: The tar, with its checksum beside it.
        target: The kind and root it goes to; the archive must be of this kind.
        outside: Time, chance and the file system; the real ones if None.
        lock_timeout_s: How long to wait for a prune of the same root, in seconds.

    Returns:
        The session's directory. Its files belong to this user; times and modes are as they were.

    Raises:
        InvalidArchive: It is none, is damaged, has no checksum, is of another kind, or would write
            outside of the session; nothing was written.
        SessionInTheWay: Something has the session's name; nothing was changed.
        ArchiveUnavailable: The extra that decompresses is not installed.
        PruneBusy: A prune works on the root.
        PruneRootMissing: There is no such root.
        PruneRootUnusable: The system refused; nothing of it is left.
    """
    outside = outside or Outside()
    zstd = _zstd()
    with opened_root(target.root, outside, lock_timeout_s) as opened:
        fd = _open_archive(archive)
        try:
            _require_checksum(archive, fd)
            session_id = _read_about(zstd, archive, fd, target)
            try:
                outside.fs.stat(session_id, dir_fd=opened.root_fd)
            except FileNotFoundError:
                pass
            else:
                raise SessionInTheWay(session_id, target.root / session_id)
            coming_fd = opened.private.directory(COMING)
            staging = outside.token()
            try:
                with zstd.ZstdFile(_Reader(OsFileSystem(), fd), "r") as plain:
                    _unpack(archive, plain, outside.fs, coming_fd, staging, session_id)
                outside.fs.rename(
                    staging, session_id, src_dir_fd=coming_fd, dst_dir_fd=opened.root_fd
                )
            except BaseException:
                _drop(outside.fs, coming_fd, staging)
                raise
            outside.fs.fsync(opened.root_fd)
        except (tarfile.TarError, zstd.ZstdError, EOFError) as error:
            raise InvalidArchive(archive, str(error)) from error
        finally:
            os.close(fd)
    return target.root / session_id


def _open_archive(archive: Path) -> int:
    try:
        fd = os.open(archive, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise InvalidArchive(archive, error.strerror or str(error)) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise InvalidArchive(archive, "it is no regular file")
    return fd


def _require_checksum(archive: Path, fd: int) -> None:
    beside = archive.with_name(archive.name + CHECKSUM_SUFFIX)
    try:
        text = beside.read_bytes()[:_PIECE]
    except OSError as error:
        reason = f"its checksum {beside.name} can't be read ({error.strerror or error})"
        raise InvalidArchive(archive, reason) from error
    found = _CHECKSUM.match(text)
    if found is None:
        raise InvalidArchive(archive, f"{beside.name} holds no checksum")
    if found[1].decode("ascii") != _checksum(OsFileSystem(), fd):
        raise InvalidArchive(archive, f"it is damaged: its checksum is not that in {beside.name}")


def _read_about(zstd: ModuleType, archive: Path, fd: int, target: PruneTarget) -> str:
    with (
        zstd.ZstdFile(_Reader(OsFileSystem(), fd), "r") as plain,
        tarfile.open(fileobj=plain, mode="r|") as tar,
    ):
        first = tar.next()
        source = None if first is None or first.name != ABOUT_NAME else tar.extractfile(first)
        if source is None:
            raise InvalidArchive(archive, "it is no archive of a session")
        try:
            about = json.loads(source.read(_MAX_ABOUT_BYTES))
            version, kind, session_id = about["format"], about["kind"], about["session_id"]
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidArchive(archive, "what it says of itself makes no sense") from error
    if version != FORMAT:
        raise InvalidArchive(archive, f"its format is {version!r}, and this release reads {FORMAT}")
    if kind != target.kind:
        raise InvalidArchive(archive, f"it is of a {kind!r} session, not of a {target.kind!r} one")
    if not isinstance(session_id, str) or not target.owns(session_id):
        raise InvalidArchive(archive, f"{session_id!r} can't be the id of a {target.kind} session")
    return session_id


def _unpack(
    archive: Path, plain: BinaryIO, fs: FileSystem, coming_fd: int, staging: str, session_id: str
) -> None:
    """Write the members below the staging directory, each through descriptors of its parents."""
    fs.mkdir(staging, 0o700, dir_fd=coming_fd)
    top_fd = fs.open(staging, DIRECTORY_FLAGS, dir_fd=coming_fd)
    late: list[tuple[tuple[str, ...], tarfile.TarInfo]] = []
    try:
        with tarfile.open(fileobj=plain, mode="r|") as tar:
            for number, member in enumerate(tar):
                if number == 0:
                    continue
                parts = _parts(archive, member.name, session_id)
                if member.isdir():
                    late.append((parts, member))  # its mode and time: after what is in it
                if not parts:
                    continue
                parent_fd = _parent(fs, top_fd, parts)
                try:
                    _write_member(archive, tar, member, fs, parent_fd, parts[-1])
                finally:
                    if parent_fd != top_fd:
                        close_reader(fs, parent_fd)
        for parts, member in reversed(late):
            fd = _directory(fs, top_fd, parts)
            try:
                os.fchmod(fd, member.mode & 0o777)
                os.utime(fd, (member.mtime, member.mtime))
                fs.fsync(fd)
            finally:
                if fd != top_fd:
                    close_reader(fs, fd)
    finally:
        close_reader(fs, top_fd)


def _parts(archive: Path, name: str, session_id: str) -> tuple[str, ...]:
    parts = tuple(name.split("/"))
    if parts[0] != session_id or any(part in {"", ".", ".."} or "\0" in part for part in parts):
        raise InvalidArchive(archive, f"it holds {name!r}, which is not in the session")
    return parts[1:]


def _parent(fs: FileSystem, top_fd: int, parts: tuple[str, ...]) -> int:
    return _directory(fs, top_fd, parts[:-1])


def _directory(fs: FileSystem, top_fd: int, parts: tuple[str, ...]) -> int:
    fd = top_fd
    for part in parts:
        try:
            below = fs.open(part, DIRECTORY_FLAGS, dir_fd=fd)
        finally:
            if fd != top_fd:
                close_reader(fs, fd)
        fd = below
    return fd


def _write_member(
    archive: Path,
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
    elif member.isfifo():
        os.mkfifo(name, member.mode & 0o777, dir_fd=parent_fd)
    elif member.isreg():
        fd = fs.open(name, CREATE_FLAGS, 0o600, dir_fd=parent_fd)
        try:
            sink = _HashingWriter(fs, fd)
            source = tar.extractfile(member)
            while source is not None and (piece := source.read(_PIECE)):
                sink.write(piece)
            os.fchmod(fd, member.mode & 0o777)
            os.utime(fd, (member.mtime, member.mtime))
            fs.fsync(fd)
        finally:
            fs.close(fd)
    else:
        raise InvalidArchive(archive, f"{member.name!r} in it is none of what an archive holds")


def _drop(fs: FileSystem, coming_fd: int, staging: str) -> None:
    """Remove what was being restored; what resists is removed by the next prune."""
    with suppress(OSError):
        fd = fs.open(staging, DIRECTORY_FLAGS, dir_fd=coming_fd)
        try:
            empty_directory(fs, fd)
        finally:
            close_reader(fs, fd)
        fs.rmdir(staging, dir_fd=coming_fd)
