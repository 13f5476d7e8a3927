"""One file, replaced as a whole or not at all.

The new content is built in a temporary file beside the old one, `.{name}.new-{random}.tmp`. What a
killed writer left of that form is removed by the next replacement of the same file, before its
rename: all that is older than the new content where the caller holds a lock, so that no other
writer can be alive, and what is `LEFTOVER_AGE_S` older where there is none. Making, naming, putting
back and sweeping temporary files are one protocol, and so one module.
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
"""How long an unknown writer's temporary file is left alone after its last write, in seconds."""

_TRIES: Final = 100
_MARK: Final = ".new-"  # or a user's own file might pass for a leftover
_SUFFIX: Final = ".tmp"
_NAME_BYTES: Final = 200
"""How much of a file's name its temporary files carry: names may have 255 bytes."""
_RANDOM_PART: Final = r"[A-Za-z0-9_-]{8,128}"
_FOLLOWING: Final = DIRECTORY_FLAGS & ~os.O_NOFOLLOW


def random_token() -> str:
    """Return an unpredictable text for the name of a temporary file."""
    return os.urandom(8).hex()  # as `secrets` makes it, which takes long to load


@lru_cache(maxsize=64)
def _start(name: str) -> str:
    return f".{os.fsdecode(os.fsencode(name)[:_NAME_BYTES])}{_MARK}"


def temporary_name(name: str, token: str) -> str:
    """Return the name of an entry in which a content of the file `name` is built."""
    return f"{_start(name)}{token}{_SUFFIX}"


def is_temporary(entry: str, name: str) -> bool:
    """Return whether a directory's entry is one in which a content of the file `name` is built."""
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

    What is written goes to a temporary file in the same directory. At the normal end of the block
    it is synced, renamed over the file, and the directory is synced (Pillai et al., "All File
    Systems Are Not Created Equal", OSDI 2014, is why each step is there). A reader sees the old
    content or the new, never a mixture; after the block, the new content survives a power failure,
    as far as the disk keeps its word on fsync. An exception in the block, or a step that fails,
    leaves the old file as it was and no temporary file.

    A symbolic link at `path` is replaced, not followed. Two writers of one file at once both
    succeed, and the later rename stands; a caller that must exclude that locks the directory.
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
        """Name the file; nothing happens yet.

        Args:
            path: The file; its directory must be there.
            fs: The file system; the real one if None.
            token: Gives fresh random texts for temporary names.
            directory_fd: The directory, if the caller has it open; `path` is for messages then.
            previous_fd: The old file, if the caller has it open for reading.
            verify: Read the temporary file back and compare it before it takes the name.
            leftover_age_s: How much older than the new content a temporary file must be to count
                as a killed writer's; 0 where a lock keeps other writers away.
            mode: The mode that the file gets, whatever the umask, and with it the owner of the
                directory where root writes: for files of a person's own. 0600 if None.
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
        """Make the temporary file.

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
        """Write all of `data`, text as UTF-8; return how many bytes that is.

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
        """Leave out bytes that are zeros: a hole, where the file system has them.

        Something must be written after them. Not where the content is read back.

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
            self._sweep()  # before the rename: where the new content is, no leftover is any more
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
        """Return what looks like a killed writer's, its age aside."""
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
        """Remove the leftovers that are old enough; what resists stays for the next time."""
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
        """Remove the temporary file; one that resists is swept by a later replacement."""
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
        previous_fd: As of `AtomicFileWriter`, and so are the others.
        verify: Whether to read it back.
        token: Gives random texts.
        mode: As of `AtomicFileWriter`.

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
    """Make a temporary file under a name that nothing has; return it, open, and the name."""
    for left in reversed(range(_TRIES)):
        temporary = temporary_name(name, token())
        try:
            return fs.open(temporary, CREATE_FLAGS, 0o600, dir_fd=directory_fd), temporary
        except FileExistsError:
            if not left:
                raise
    raise AssertionError  # pragma: no cover


class _Previous:
    """What a file held before it is replaced, kept so that it can be put back."""

    def __init__(self, fs: FileSystem, name: str, fd: int | None) -> None:
        self._fs = fs
        self._name = name
        self._fd = fd
        self._ours = False
        self._absent = False

    def hold(self, directory_fd: int) -> None:
        """Open the old file, unless the caller did; one that can't be opened can't be put back."""
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
        """Undo a rename whose directory could not be synced; return whether all is as it was."""
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
        """Let go of the old file, if it was opened here."""
        if self._ours and self._fd is not None:
            close_reader(self._fs, self._fd)
            self._ours = False
