"""Objects as files in a folder on a disk that several machines share."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

from attrs import field, frozen

from ...base.files import AtomicFileWriter, FileSystem, OsFileSystem, WriteError
from ...base.files.filesystem import DIRECTORY_FLAGS, READ_FLAGS, close_reader
from ...base.files.safe_path import Missing, directory_beneath
from ...base.files.trees import walk_tree
from .objects import (
    ObjectMissing,
    ObjectStoreFull,
    ObjectStoreRefused,
    ObjectStoreUnavailable,
    StoredObject,
    checked_key,
)

_PIECE: Final = 1 << 20
_AWAY: Final = frozenset({errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT, errno.ENODEV})
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


@frozen
class FolderStore:
    """Objects as files. An `ObjectStore`.

    The folder must exist: creating it would hide that a disk is not mounted. All that is below it
    belongs to this store; no link is followed.

    Attributes:
        root: The folder.
        fs: The file system.
    """

    root: Path
    fs: FileSystem = field(factory=OsFileSystem, kw_only=True, eq=False)

    @property
    def name(self) -> str:
        """Its address."""
        return self.root.absolute().as_uri()

    def put(self, key: str, content: IO[bytes]) -> bool:
        """Store an object unless it exists; see `ObjectStore`."""
        *above, name = checked_key(key).split("/")
        with self._errors(), self._root() as root_fd:
            if self._status(root_fd, above, name) is not None:
                return False
            with (
                directory_beneath(
                    self.fs, root_fd, above, missing=Missing.MADE_DURABLY
                ) as directory_fd,
                AtomicFileWriter(self.root / key, fs=self.fs, directory_fd=directory_fd) as file,
            ):
                content.seek(0)
                while piece := content.read(_PIECE):
                    file.write(piece)
        return True

    def get(self, key: str, target: IO[bytes]) -> None:
        """Write an object to a file; see `ObjectStore`."""
        *above, name = checked_key(key).split("/")
        fs = self.fs
        with self._errors(), self._root() as root_fd:
            try:
                with directory_beneath(fs, root_fd, above) as directory_fd:
                    fd = fs.open(name, READ_FLAGS, dir_fd=directory_fd)
            except FileNotFoundError:
                raise ObjectMissing(store=self.name, key=key) from None
        try:
            offset = 0
            while piece := self._read(fd, offset):
                offset += len(piece)
                target.write(piece)
        finally:
            close_reader(fs, fd)

    def _read(self, fd: int, offset: int) -> bytes:
        with self._errors():
            return self.fs.pread(fd, _PIECE, offset)

    def find(self, key: str) -> StoredObject | None:
        """Return an object's description; see `ObjectStore`."""
        *above, name = checked_key(key).split("/")
        with self._errors(), self._root() as root_fd:
            status = self._status(root_fd, above, name)
        return None if status is None else _stored(key, status)

    def list(self) -> Iterator[StoredObject]:
        """Yield all objects; see `ObjectStore`."""
        with self._errors(), self._root() as root_fd:
            found = [
                _stored("/".join(one.names), one.status)
                for one in walk_tree(self.fs, root_fd, onerror=_raise_unless_absent)
                if stat.S_ISREG(one.status.st_mode)
            ]
        yield from found

    def delete(self, key: str) -> None:
        """Remove an object; see `ObjectStore`."""
        *above, name = checked_key(key).split("/")
        with (
            self._errors(),
            self._root() as root_fd,
            suppress(FileNotFoundError),
            directory_beneath(self.fs, root_fd, above) as fd,
        ):
            self.fs.unlink(name, dir_fd=fd)

    def _status(self, root_fd: int, above: Sequence[str], name: str) -> os.stat_result | None:
        try:
            with directory_beneath(self.fs, root_fd, above) as directory_fd:
                return self.fs.stat(name, dir_fd=directory_fd)
        except FileNotFoundError:
            return None

    @contextmanager
    def _root(self) -> Iterator[int]:
        try:
            fd = self.fs.open(os.fspath(self.root), DIRECTORY_FLAGS & ~os.O_NOFOLLOW)
        except FileNotFoundError as error:
            reason = "the folder is not there; make it, or mount its disk"
            raise ObjectStoreUnavailable(store=self.name, reason=reason) from error
        try:
            yield fd
        finally:
            close_reader(self.fs, fd)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, WriteError) as error:
            number = error.errno
            reason = os.strerror(number) if number is not None else str(error)
            raise _kind_of(number)(store=self.name, reason=reason) from error


def _kind_of(number: int | None) -> type[ObjectStoreUnavailable | ObjectStoreRefused]:
    """Return the error class for an error number of the system."""
    if number in _AWAY:
        return ObjectStoreUnavailable
    return ObjectStoreFull if number in _FULL else ObjectStoreRefused


def _stored(key: str, status: os.stat_result) -> StoredObject:
    return StoredObject(key, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))


def _raise_unless_absent(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # another process has removed it
        raise error
