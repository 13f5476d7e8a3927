"""Atomic replacement of one file.

The new content is built in a temporary file beside the old one, `.{name}.new-{random}.tmp`. The
next replacement of the same file removes, before its rename, such files that a killed writer left:
all that are older than the new content where the caller holds a lock, so that no other writer can
be alive, and those `LEFTOVER_AGE_S` older where there is no lock. Creating, naming, restoring and
sweeping temporary files are one protocol, and so one module.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, Self

from .errors import WriteError
from .filesystem import (
    CREATE_FLAGS,
    DIRECTORY_FLAGS,
    READ_FLAGS,
    FileSystem,
    OsFileSystem,
    close_reader,
    hand_over,
)
from .regular_file import Chunk, being_written, read_descriptor, write_all

LEFTOVER_AGE_S: Final = 60.0
"""How many seconds after its last write an unknown writer's temporary file counts as left over."""

_TRIES: Final = 100
_MARK: Final = ".new-"  # distinguishes leftovers from a user's own files
_SUFFIX: Final = ".tmp"
_NAME_BYTES: Final = 200
"""How much of a file's name its temporary files repeat: names may have 255 bytes."""
_RANDOM_PART: Final = r"[A-Za-z0-9_-]{8,128}"
_FOLLOWING: Final = DIRECTORY_FLAGS & ~os.O_NOFOLLOW


def random_token() -> str:
    """Return an unpredictable text for the name of a temporary file."""
    return os.urandom(8).hex()  # as `secrets` makes it, without that slow import


@lru_cache(maxsize=64)
def _start(name: str) -> str:
    return f".{os.fsdecode(os.fsencode(name)[:_NAME_BYTES])}{_MARK}"


def temporary_name(name: str, token: str) -> str:
    """Return the name of a temporary file for the file `name`."""
    return f"{_start(name)}{token}{_SUFFIX}"


def is_temporary(entry: str, name: str) -> bool:
    """Return whether a directory's entry is a temporary file for the file `name`."""
    start = _start(name)
    return (
        entry.startswith(start)
        and entry.endswith(_SUFFIX)
        and re.fullmatch(_RANDOM_PART, entry[len(start) : -len(_SUFFIX)]) is not None
    )


class AtomicFileWriter:
    """Replaces a file at the end of a `with` block, atomically and durably.

        with AtomicFileWriter(path) as file:
            file.write(b"...")

    Writes go to a temporary file in the same directory. At the normal end of the block it is
    synced, renamed over the file, and the directory is synced (Pillai et al., "All File Systems Are
    Not Created Equal", OSDI 2014, is why each step is there). A reader sees the old content or the
    new, never a mixture; after the block, the new content survives a power failure, as far as the
    disk honours fsync. An exception in the block, or a step that fails, leaves the old file
    unchanged and no temporary file.

    A symbolic link at `path` is replaced, not followed. Two concurrent writers of one file both
    succeed, and the later rename wins; a caller that must exclude that locks the directory.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        fs: FileSystem | None = None,
        token: Callable[[], str] = random_token,
        directory_fd: int | None = None,
        previous_fd: int | None = None,
        verify: bool = False,
        leftover_age_s: float = LEFTOVER_AGE_S,
        mode: int | None = None,
    ) -> None:
        """Remember the file; no I/O yet.

        Args:
            path: The file; its directory must exist.
            fs: The file system; the real one if None.
            token: Returns fresh random texts for temporary names.
            directory_fd: The directory, if the caller has it open; `path` is for messages then.
            previous_fd: The old file, if the caller has it open for reading.
            verify: Read the temporary file back and compare it before the rename.
            leftover_age_s: How much older than the new content a temporary file must be to count as
                a killed writer's; 0 where a lock excludes other writers.
            mode: The file's mode regardless of the umask; if root writes, the file then also gets
                the directory's owner. For a person's own files. 0600 if None.
        """
        self._mode = mode
        self._leftover_age_s = leftover_age_s
        self._path = path if isinstance(path, Path) else Path(path)
        self._name = self._path.name
        self._fs: FileSystem = fs if fs is not None else OsFileSystem()
        self._token = token
        self._given_fd = directory_fd
        self._directory_fd = -1 if directory_fd is None else directory_fd
        self._previous = _Previous(self._fs, self._name, previous_fd)
        self._written: list[Chunk] | None = [] if verify else None
        self._fd = -1
        self._temporary = ""

    def __enter__(self) -> Self:
        """Create the temporary file.

        Raises:
            WriteError: The system refused; nothing was changed.
        """
        fs = self._fs
        try:
            if self._given_fd is None:
                self._directory_fd = fs.open(str(self._path.parent), _FOLLOWING)
            self._fd, self._temporary = _create(fs, self._directory_fd, self._name, self._token)
            if self._mode is not None:
                hand_over(fs, self._fd, self._directory_fd)
                os.fchmod(self._fd, self._mode)
        except BaseException as error:
            if self._temporary:
                self._abandon()
            self._close()
            if isinstance(error, OSError):
                raise self._refused("write", error) from error
            raise
        return self

    def write(self, data: Chunk | str) -> int:
        """Write all of `data`, text as UTF-8; return the number of bytes.

        Raises:
            WriteError: The system refused; the block should end.
        """
        chunk = data.encode() if isinstance(data, str) else data
        self.write_chunks([chunk])
        return len(chunk)

    def write_chunks(self, chunks: Sequence[Chunk]) -> None:
        """Write pieces one after another.

        Raises:
            WriteError: As `write`.
        """
        try:
            write_all(self._fs, self._fd, chunks)
        except OSError as error:
            raise self._refused("write", error) from error
        if self._written is not None:
            self._written += [bytes(chunk) for chunk in chunks]

    def skip(self, count: int) -> None:
        """Skip `count` zero bytes: a hole, where the file system supports holes.

        A write must follow. Not allowed together with `verify`.

        Raises:
            WriteError: As `write`.
        """
        try:
            os.lseek(self._fd, count, os.SEEK_CUR)
        except OSError as error:
            raise self._refused("write", error) from error

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                self._commit()
            else:
                self._abandon()
        finally:
            self._close()

    def _commit(self) -> None:
        fs, directory_fd = self._fs, self._directory_fd
        operation = "write"
        try:
            fs.fsync(self._fd)
            fd, self._fd = self._fd, -1
            fs.close(fd)
            if self._written is not None:
                operation = "verify"
                self._compare(b"".join(self._written))
            self._previous.hold(directory_fd)
            self._sweep()  # before the rename, so that the new content implies no leftovers
            operation = "rename"
            fs.rename(self._temporary, self._name, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
        except BaseException as error:
            self._abandon()
            if isinstance(error, OSError):
                raise self._refused(operation, error) from error
            raise
        try:
            fs.fsync(directory_fd)
        except OSError as error:
            visible = not self._previous.put_back(directory_fd, self._token)
            raise self._refused("fsync of the directory", error, visible=visible) from error

    def _leftovers(self) -> list[str]:
        """Return the names of possible leftovers of a killed writer, of any age."""
        name, ours = self._name, (self._name, self._temporary)
        try:
            return [
                entry
                for entry in self._fs.listdir(self._directory_fd)
                if entry.startswith(".") and entry not in ours and is_temporary(entry, name)
            ]
        except OSError:
            return []

    def _sweep(self) -> None:
        """Remove the leftovers that are old enough; one that resists waits for the next sweep."""
        fs, directory_fd = self._fs, self._directory_fd
        left = self._leftovers()
        if not left:
            return
        with suppress(OSError):
            until = fs.stat(self._temporary, dir_fd=directory_fd).st_mtime - self._leftover_age_s
            for entry in left:
                with suppress(OSError):
                    found = fs.stat(entry, dir_fd=directory_fd)
                    if not stat.S_ISDIR(found.st_mode) and found.st_mtime <= until:
                        fs.unlink(entry, dir_fd=directory_fd)

    def _compare(self, expected: bytes) -> None:
        fd = self._fs.open(self._temporary, READ_FLAGS, dir_fd=self._directory_fd)
        try:
            found = read_descriptor(self._fs, fd, self._fs.fstat(fd).st_size)
        finally:
            close_reader(self._fs, fd)
        if found != expected:
            raise OSError(errno.EIO, "what was read back is not what was written")

    def _abandon(self) -> None:
        """Remove the temporary file; a later replacement sweeps one that resists."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            close_reader(self._fs, fd)
        with suppress(OSError):
            self._fs.unlink(self._temporary, dir_fd=self._directory_fd)

    def _close(self) -> None:
        self._previous.close()
        if self._given_fd is None and self._directory_fd >= 0:
            fd, self._directory_fd = self._directory_fd, -1
            close_reader(self._fs, fd)

    def _refused(self, operation: str, error: OSError, *, visible: bool = False) -> WriteError:
        return WriteError(path=self._path, operation=operation, cause=error, visible=visible)


def replace_file(
    fs: FileSystem,
    directory_fd: int,
    name: str,
    chunks: Sequence[Chunk],
    *,
    path: Path,
    previous_fd: int | None = None,
    verify: bool = False,
    token: Callable[[], str] = random_token,
    mode: int | None = None,
) -> None:
    """Replace the content of a file, as `AtomicFileWriter` does, in a directory that is locked.

    Args:
        fs: The file system.
        directory_fd: The directory, open and locked by the caller.
        name: The file's name in it.
        chunks: The new content, in pieces.
        path: The file's path, for messages only.
        previous_fd: This and the others are as for `AtomicFileWriter`.
        verify: Whether to read it back.
        token: Returns random texts.
        mode: The file's mode.

    Raises:
        WriteError: The old content is untouched (unless `visible` says otherwise) and no temporary
            file is left behind.
    """
    with AtomicFileWriter(
        path if path.name == name else path.with_name(name),
        fs=fs,
        token=token,
        directory_fd=directory_fd,
        previous_fd=previous_fd,
        verify=verify,
        leftover_age_s=0.0,
        mode=mode,
    ) as file:
        file.write_chunks(chunks)


def _create(
    fs: FileSystem, directory_fd: int, name: str, token: Callable[[], str]
) -> tuple[int, str]:
    """Create a temporary file under an unused name; return its descriptor and the name."""
    for left in reversed(range(_TRIES)):
        temporary = temporary_name(name, token())
        try:
            return fs.open(temporary, CREATE_FLAGS, 0o600, dir_fd=directory_fd), temporary
        except FileExistsError:
            if not left:
                raise
    raise AssertionError  # pragma: no cover


class _Previous:
    """A file's content before its replacement, held so that it can be restored."""

    def __init__(self, fs: FileSystem, name: str, fd: int | None) -> None:
        self._fs = fs
        self._name = name
        self._fd = fd
        self._ours = False
        self._absent = False

    def hold(self, directory_fd: int) -> None:
        """Open the old file, unless the caller did; one that can't be opened can't be restored."""
        if self._fd is not None:
            return
        try:
            self._fd = self._fs.open(self._name, READ_FLAGS, dir_fd=directory_fd)
            self._ours = True
        except FileNotFoundError:
            self._absent = True
        except OSError:
            return

    def put_back(self, directory_fd: int, token: Callable[[], str]) -> bool:
        """Undo a rename whose directory can't be synced; return whether the old state is back."""
        fs, name = self._fs, self._name
        try:
            if self._absent:
                fs.unlink(name, dir_fd=directory_fd)
                return True
            if self._fd is None:
                return False
            old = read_descriptor(fs, self._fd, fs.fstat(self._fd).st_size)
            fd, temporary = _create(fs, directory_fd, name, token)
        except OSError:
            return False
        try:
            with being_written(fs, fd, directory_fd, temporary):
                write_all(fs, fd, [old])
                fs.fsync(fd)
            fs.rename(temporary, name, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
        except OSError:
            with suppress(OSError):
                fs.unlink(temporary, dir_fd=directory_fd)
            return False
        return True

    def close(self) -> None:
        """Close the old file, if it was opened here."""
        if self._ours and self._fd is not None:
            close_reader(self._fs, self._fd)
            self._ours = False
