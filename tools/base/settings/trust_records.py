"""What a person trusts on this machine: each file by its path, its owner and its content.

A record is a file of the person's own state directory, outside of every repository. It does not
apply to a file that has changed, was copied elsewhere, now belongs to another user, or is reached
through a link: then the person is asked again.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from attrs import asdict, field, fields, frozen

from ..data_folder import NAME, state_folder
from ..files import (
    AtomicFileWriter,
    FileSystem,
    OsFileSystem,
    ReadError,
    make_durable_directory,
    read_regular_file,
)

_FOLDER: Final = "trust"
_MAX_BYTES: Final = 64 * 1024


@frozen(kw_only=True)
class TrustRecord:
    """One configuration file that the person trusts.

    Attributes:
        path: The file, without links.
        owner: The user id of its owner.
        sha256: The digest of its content.
        named: The digests of the files that it names and that are used without the person naming
            them, by key: the workflow of `run.workflow`, the rules of `context.rules`.
        trusted_at: When the person trusted it, in ISO 8601.
    """

    path: str = field(converter=str)
    owner: int = field(converter=int)
    sha256: str = field(converter=str)
    named: Mapping[str, str] = field(factory=dict)
    trusted_at: str = field(default="", converter=str)


class TrustRecords:
    """The records of one person on this machine.

    Args:
        environment: The environment variables, which locate the state directory.
        fs: The file system.
    """

    def __init__(
        self, environment: Mapping[str, str] = os.environ, *, fs: FileSystem | None = None
    ) -> None:
        self.folder: Final = state_folder(environment) / _FOLDER
        self._fs: FileSystem = fs if fs is not None else OsFileSystem()

    def find(self, path: Path, data: bytes) -> TrustRecord | None:
        """Return the record that trusts a file with exactly this content, or None.

        A record that can't be read, or that another user could have written, is ignored.
        """
        real = real_place(path)
        if real is None:
            return None
        record = self._read(self._file_of(real))
        if record is None or (record.path, record.sha256) != (real, digest_of(data)):
            return None
        return record if _owner_of(real) == record.owner else None

    def add(
        self, path: Path, data: bytes, *, now: datetime, named: Mapping[str, str] | None = None
    ) -> TrustRecord:
        """Trust a file with exactly this content.

        Args:
            path: The file.
            data: Its content as shown to the person.
            now: The time.
            named: The digests of the files that it names.

        Raises:
            ReadError: The file is reached through a link, or no longer exists.
            WriteError: The record can't be stored.
        """
        real = real_place(path)
        owner = None if real is None else _owner_of(real)
        if real is None or owner is None:
            raise ReadError(path=path, reason="it is reached through a link, or is not there")
        record = TrustRecord(
            path=real,
            owner=owner,
            sha256=digest_of(data),
            named=dict(named or {}),
            trusted_at=now.isoformat(),
        )
        make_durable_directory(self._fs, self.folder)
        with AtomicFileWriter(self._file_of(real), fs=self._fs) as file:
            file.write(_encoded(record))
        return record

    def remove(self, path: Path) -> bool:
        """Revoke the trust in a file; return whether it was trusted, with any content.

        Raises:
            OSError: The system refused.
        """
        real = real_place(path) or os.path.realpath(path)
        try:
            self._fs.unlink(str(self._file_of(real)), dir_fd=None)
        except FileNotFoundError:
            return False
        return True

    def all(self) -> Iterator[TrustRecord]:
        """Yield every record, by path; unreadable ones are skipped."""
        try:
            names = os.listdir(self.folder)
        except OSError:
            return
        found = [self._read(self.folder / name) for name in names if name.endswith(".json")]
        yield from sorted((one for one in found if one is not None), key=lambda one: one.path)

    def _file_of(self, real: str) -> Path:
        return self.folder / f"{hashlib.sha256(os.fsencode(real)).hexdigest()}.json"

    def _is_the_persons(self) -> bool:
        """Return whether only the person can put a record into the folder."""
        try:
            found = os.lstat(self.folder)
        except OSError:
            return False
        others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not others

    def _read(self, file: Path) -> TrustRecord | None:
        if not self._is_the_persons():
            return None
        try:
            data = read_regular_file(self._fs, str(file), path=file, max_bytes=_MAX_BYTES)
            return None if data is None else _decoded(json.loads(data))
        except (ReadError, ValueError, TypeError, KeyError):
            return None


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of a content, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def real_place(path: Path) -> str | None:
    """Return the path of a configuration file without links; None if the file is reached by one.

    The project's folder may be reached by a link; its data folder and the file, which came with the
    project, must not be links.
    """
    absolute = os.path.abspath(path)
    folder, name = os.path.split(absolute)
    if os.path.basename(folder) == NAME:
        project = os.path.realpath(os.path.dirname(folder))
        wanted = os.path.join(project, NAME, name)
    else:
        wanted = os.path.join(os.path.realpath(folder), name)
    return wanted if os.path.realpath(wanted) == wanted else None


def _owner_of(path: str) -> int | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return None if stat.S_ISLNK(found.st_mode) else found.st_uid


def _encoded(record: TrustRecord) -> bytes:
    return f"{json.dumps(asdict(record), indent=1)}\n".encode()


def _decoded(kept: Mapping[str, Any]) -> TrustRecord:
    named = kept["named"]
    if not isinstance(named, dict) or not all(isinstance(one, str) for one in named.values()):
        raise ValueError("named: expected digests")
    return TrustRecord(**{one.name: kept[one.name] for one in fields(TrustRecord)})
