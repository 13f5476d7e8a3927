"""One compressed tar for a session, proven to be readable before the session is removed.

    {kind}-{session_id}-{time}.tar.zst           the tar; its first member says what it is
    {kind}-{session_id}-{time}.tar.zst.sha256    its checksum, as sha256sum(1) writes and checks it

The archive is written, synced and read back from the disk: its checksum, and the checksum of every
file in it, must equal those of what was written. Links are archived as links and never followed;
sockets are left out, since they hold nothing. The next writer removes what a killed writer left
(`archive_format`).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import stat
import tarfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import BinaryIO, Final, cast

from attrs import field, frozen

from ..base.clock import Clock, utc_now
from ..base.files import DurableError, FileSystem, make_durable_directory
from ..base.files.filesystem import CREATE_FLAGS, DIRECTORY_FLAGS, READ_FLAGS, close_reader, opened
from ..base.files.trees import walk_tree
from .archive_format import (
    ABOUT_NAME,
    CHECKSUM_SUFFIX,
    FORMAT,
    LEVELS,
    PIECE,
    SUFFIX,
    HashingReader,
    HashingWriter,
    Reader,
    checksum_of,
    create_hidden,
    sweep,
    zstd,
)
from .audit_reserve import is_there
from .domain import Candidate
from .removal.private_directory import PRIVATE

_DONT_NEED: Final[int] = getattr(os, "POSIX_FADV_DONTNEED", 0)


@frozen(kw_only=True)
class TarArchiver:
    """An archiver that copies each session into one directory before it is removed.

    Attributes:
        directory: The archives' directory; created with mode 0700 if missing.
        level: The compression level of zstd, 1 to 19; more is smaller and slower.
        clock: Returns the time for the archive's name.
        token: Returns a fresh random text of hexadecimal digits for the name while it is written.

    Raises:
        ValueError: The level is out of range.
    """

    directory: Path
    level: int = 3
    clock: Clock = utc_now
    token: Callable[[], str] = lambda: secrets.token_hex(8)
    _swept: set[tuple[int, int]] = field(init=False, factory=set, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if isinstance(self.level, bool) or not 1 <= self.level <= 19:
            raise ValueError(f"level: expected 1 to 19, got {self.level!r}")

    def archive(self, fs: FileSystem, session_fd: int, candidate: Candidate) -> Path:
        """Write an archive of an open session, and prove that it can be read back.

        Args:
            fs: The file system.
            session_fd: The session's directory, open and locked.
            candidate: The session, as it was inspected.

        Returns:
            The absolute path of the archive, which is durable and has mode 0600.

        Raises:
            OSError: It could not be written or verified, the session holds a device or the
                archive's own directory, or the archives' directory is one that prunes delete from;
                nothing of the archive is left.
        """
        now = self.clock().astimezone(UTC)
        stem = f"{candidate.kind}-{candidate.session_id}-{now:%Y%m%dT%H%M%SZ}"
        try:
            _require_elsewhere(fs, self.directory, session_fd)
            make_durable_directory(fs, self.directory)
        except DurableError as error:
            raise OSError(str(error)) from error
        directory_fd = fs.open(os.fspath(self.directory), DIRECTORY_FLAGS & ~os.O_NOFOLLOW)
        hidden_fd = -1
        try:
            self._sweep(fs, directory_fd)
            name = _free_name(fs, directory_fd, stem)
            temporary, hidden_fd = create_hidden(fs, directory_fd, stem, self.token)
            ours = [temporary]
            try:
                sums, checksum = self._write(fs, hidden_fd, session_fd, candidate)
                self._verify(fs, directory_fd, temporary, sums, checksum)
                self._write_checksum(fs, directory_fd, name, checksum, ours)
                fs.rename(temporary, name, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
                ours.append(name)
                fs.fsync(directory_fd)
            except BaseException:
                for left in ours:
                    with suppress(OSError):
                        fs.unlink(left, dir_fd=directory_fd)
                raise
        finally:
            if hidden_fd >= 0:
                close_reader(fs, hidden_fd)  # writes through it are synced
            close_reader(fs, directory_fd)
        return Path(os.path.abspath(self.directory), name)

    def _sweep(self, fs: FileSystem, directory_fd: int) -> None:
        """Remove what killed writers left, once for each directory."""
        status = fs.fstat(directory_fd)
        here = (status.st_dev, status.st_ino)
        if here not in self._swept:
            sweep(fs, directory_fd)
            self._swept.add(here)

    def _write(
        self, fs: FileSystem, fd: int, session_fd: int, candidate: Candidate
    ) -> tuple[dict[str, str], str]:
        """Write the tar; return the checksum of each file in it, and its own."""
        sink = HashingWriter(fs, fd)
        parameter = zstd.CompressionParameter
        options: dict[int, int] = {
            parameter.compression_level: self.level,
            parameter.checksum_flag: 1,
        }
        with zstd.ZstdFile(sink, "w", options=options) as packed:
            sums = _pack(fs, session_fd, candidate, self.clock(), packed)
        fs.fsync(fd)
        return sums, sink.checksum()

    def _verify(
        self,
        fs: FileSystem,
        directory_fd: int,
        temporary: str,
        sums: dict[str, str],
        checksum: str,
    ) -> None:
        """Read the archive back; raise unless it holds what was written."""
        fd = fs.open(temporary, READ_FLAGS, dir_fd=directory_fd)
        try:
            with suppress(OSError):  # else it is read back from memory, not from the disk
                if hasattr(os, "posix_fadvise"):
                    os.posix_fadvise(fd, 0, 0, _DONT_NEED)
            if checksum_of(fs, fd) != checksum:
                raise OSError("what was read back is not what was written")
            with zstd.ZstdFile(Reader(fs, fd), "r") as plain:
                found = {name: text for name, text in _contents(plain) if name != ABOUT_NAME}
            if found != sums:
                raise OSError("the files in the archive are not those of the session")
        except (tarfile.TarError, zstd.ZstdError, EOFError) as error:
            raise OSError(f"it can't be read back: {error}") from error
        finally:
            close_reader(fs, fd)

    def _write_checksum(
        self, fs: FileSystem, directory_fd: int, name: str, checksum: str, ours: list[str]
    ) -> None:
        beside = name + CHECKSUM_SUFFIX
        fd = fs.open(beside, CREATE_FLAGS, 0o600, dir_fd=directory_fd)
        ours.append(beside)
        try:
            sink = HashingWriter(fs, fd)
            sink.write(f"{checksum}  {name}\n".encode())
            fs.fsync(fd)
        finally:
            fs.close(fd)


def _require_elsewhere(fs: FileSystem, directory: Path, session_fd: int) -> None:
    """Refuse a directory inside the session, whose archives would be removed with it.

    Also refuse one inside a root's private directory, where the next prune would delete it.
    """
    if PRIVATE in Path(os.path.realpath(directory)).parts:
        raise OSError(f"the directory of the archives, {directory}, is in {PRIVATE} of a root")
    there = directory
    while not there.is_dir() and there != there.parent:
        there = there.parent
    top = fs.fstat(session_fd)
    fd = fs.open(os.fspath(there), DIRECTORY_FLAGS & ~os.O_NOFOLLOW)
    try:
        while True:
            here = fs.fstat(fd)
            if os.path.samestat(here, top):
                raise OSError(f"the directory of the archives, {directory}, is in the session")
            above = fs.open("..", DIRECTORY_FLAGS, dir_fd=fd)
            close_reader(fs, fd)
            fd = above
            if os.path.samestat(here, fs.fstat(fd)):
                return
    finally:
        close_reader(fs, fd)


def _free_name(fs: FileSystem, directory_fd: int, stem: str) -> str:
    """Return a free archive name: a killed prune may have left one of the same second."""
    for number in count(1):
        name = f"{stem}{'' if number == 1 else f'-{number}'}{SUFFIX}"
        if not any(is_there(fs, directory_fd, one) for one in (name, name + CHECKSUM_SUFFIX)):
            break
    return name


def _pack(
    fs: FileSystem, session_fd: int, candidate: Candidate, now: datetime, packed: zstd.ZstdFile
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
            info.mode = stat.S_IMODE(status.st_mode)
            info.pax_headers = {"mtime": _time_text(status.st_mtime_ns)}
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
                source = HashingReader(fs, fd)
                tar.addfile(info, cast("BinaryIO", source))
                sums[path] = source.checksum()
            elif not stat.S_ISSOCK(status.st_mode):
                raise OSError(f"{path!r} is a device, which an archive does not hold")
    return sums


def _time_text(ns: int) -> str:
    """Format a time in seconds, to the nanosecond (POSIX pax: a decimal number of seconds)."""
    seconds, rest = divmod(abs(ns), 10**9)
    return f"{'-' if ns < 0 else ''}{seconds}.{rest:09d}"


def _walk(
    fs: FileSystem, session_fd: int, session_id: str
) -> Iterator[tuple[str, int, os.stat_result]]:
    """Walk a tree: yield each path, a descriptor, and the entry's status.

    The descriptor is that of the file itself if it is a regular one, else of its directory.
    """
    yield session_id, session_fd, fs.fstat(session_fd)
    for entry in walk_tree(fs, session_fd):
        path = "/".join((session_id, *entry.names))
        if entry.is_directory and len(entry.names) >= LEVELS:
            raise OSError(f"directories are nested deeper than {LEVELS} levels")
        if stat.S_ISREG(entry.status.st_mode):
            with opened(fs, entry.name, READ_FLAGS, dir_fd=entry.directory_fd) as fd:
                yield path, fd, fs.fstat(fd)
        else:
            yield path, entry.directory_fd, entry.status


def _contents(plain: zstd.ZstdFile) -> Iterator[tuple[str, str]]:
    """Read through a tar: yield each member's name, and its content's checksum or its kind."""
    with tarfile.open(fileobj=plain, mode="r|") as tar:
        for member in tar:
            if member.isreg():
                made = hashlib.sha256()
                source = tar.extractfile(member)
                while source is not None and (piece := source.read(PIECE)):
                    made.update(piece)
                yield member.name, made.hexdigest()
            elif member.issym():
                yield member.name, f"link {member.linkname}"
            else:
                yield member.name, "directory" if member.isdir() else "fifo"
