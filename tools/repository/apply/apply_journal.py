"""The record of an apply under way: the former state, the new state, and how to reach either.

It is the folder `agentforge-apply` in the checkout's git directory, so that it is found from the
checkout, belongs to exactly one work tree, lies on the same disk, and outlives the session. It
appears complete and synced before anything else is changed, and disappears after everything else is
synced. The remaining work follows from its content, not from the progress of an earlier process.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from ...base.files import (
    FileSystem,
    ReadError,
    RemovalError,
    discard_tree,
    read_regular_file,
    sweep_discarded,
)
from ...base.files.directory_store import NewDirectory
from ...base.files.filesystem import DIRECTORY_FLAGS, close_reader, opened
from ...base.files.regular_file import create_file, read_descriptor
from ...base.files.safe_path import Missing, directory_beneath
from .apply_errors import JournalDamaged
from .checkout_files import MAX_FILE, EntryKind, PathState, PlannedPath

JOURNAL: Final = "agentforge-apply"
"""The folder's name in the git directory."""
LOCK: Final = "lock"
"""The file in it that has `index.lock` as a second name while the apply holds the index."""
_RECORD: Final = "journal.json"
_FORMAT: Final = 1
_MAX_RECORD: Final = 256 << 20
_MAX_INDEX: Final = 1 << 30
_AS_IT_IS: Final = (
    *("token", "label", "checkout", "head", "branch"),
    *("index_before", "index_after", "index_mode", "pack"),
)
"""The fields of a record that its document contains unchanged."""


@frozen
class RefChange:
    """The commit that the apply makes, and the ref that will name it.

    Attributes:
        old: The commit that HEAD named; None if there was none.
        new: The commit.
    """

    old: str | None
    new: str


@frozen(kw_only=True)
class ApplyRecord:
    """The plan of an apply, without the contents.

    Attributes:
        token: A random text that identifies temporary files.
        label: The result's name, for messages.
        checkout: The checkout's path, for messages.
        head: The commit that HEAD named when the apply started, or None.
        branch: The branch that is checked out, or None.
        paths: What is written.
        folders: The folders around and their modes; None for missing ones.
        index_before: The digest of the index file; None if it was missing.
        index_after: The digest of the new one; None if the index stays.
        index_mode: The permission bits of the index file.
        pack: The name of the pack with the new objects, or None.
        ref: The commit, or None.
    """

    token: str
    label: str
    checkout: str
    head: str | None
    branch: str | None
    paths: tuple[PlannedPath, ...]
    folders: Mapping[bytes, int | None]
    index_before: str | None
    index_after: str | None
    index_mode: int
    pack: str | None
    ref: RefChange | None


class Journal:
    """An open record with its contents.

    Attributes:
        record: The record.
        path: Its path, for messages.
        fd: Its folder, open.
    """

    def __init__(self, fs: FileSystem, fd: int, path: Path, record: ApplyRecord) -> None:
        self._fs = fs
        self.fd = fd
        self.path = path
        self.record = record

    def content(self, number: int, *, after: bool) -> bytes:
        """Return a path's former or new content.

        Raises:
            JournalDamaged: It does not match the record.
        """
        one = self.record.paths[number]
        standing = one.after if after else one.before
        content = self._read(f"{'after' if after else 'before'}/{number:06d}", MAX_FILE)
        if hashlib.sha256(content).hexdigest() != standing.sha256:
            raise self.damaged(f"the content of {os.fsdecode(one.path)!r} is not what was kept")
        return content

    def index(self, *, after: bool) -> bytes:
        """Return the former or the new index file.

        Raises:
            JournalDamaged: It does not match the record.
        """
        name, digest = (
            ("index.after", self.record.index_after)
            if after
            else ("index.before", self.record.index_before)
        )
        content = self._read(name, _MAX_INDEX)
        if hashlib.sha256(content).hexdigest() != digest:
            raise self.damaged("the index is not what was kept")
        return content

    def pack(self, suffix: str) -> bytes:
        """Return a file of the pack with the new objects."""
        return self._read(f"objects{suffix}", _MAX_INDEX)

    def damaged(self, reason: str) -> JournalDamaged:
        """Return the error for a damaged journal."""
        return JournalDamaged(Path(self.record.checkout), self.path, reason)

    def _read(self, name: str, limit: int) -> bytes:
        *above, last = name.split("/")
        try:
            with directory_beneath(self._fs, self.fd, above) as folder:
                content = read_regular_file(
                    self._fs, last, path=self.path / name, max_bytes=limit, directory_fd=folder
                )
        except (OSError, ReadError) as error:
            raise self.damaged(str(error)) from error
        if content is None:
            raise self.damaged(f"{name} is missing")
        return content

    def close(self) -> None:
        """Close its folder."""
        close_reader(self._fs, self.fd)


def write_journal(
    fs: FileSystem,
    git_dir_fd: int,
    record: ApplyRecord,
    *,
    before: Path,
    after: Path,
    index_before: bytes | None,
    index_after: bytes | None,
    pack: Mapping[str, bytes],
) -> None:
    """Write a journal; it appears complete and synced, or not at all.

    Args:
        fs: The file system.
        git_dir_fd: The git directory, open and locked.
        record: The record.
        before: A folder with copies of the present files, by path.
        after: A folder with the new files, by path.
        index_before: The index file.
        index_after: The new one.
        pack: The files of the pack, by suffix.

    Raises:
        OSError: The system refused; there is no journal.
    """
    with NewDirectory(fs, git_dir_fd, f".discarded-new-{record.token}") as new:
        for folder, source, standings in (
            ("before", before, [one.before for one in record.paths]),
            ("after", after, [one.after for one in record.paths]),
        ):
            with directory_beneath(fs, new.fd, [folder], missing=Missing.MADE_DURABLY) as folder_fd:
                for number, standing in enumerate(standings):
                    if standing.kind in {EntryKind.FILE, EntryKind.LINK}:
                        content = _copied(fs, source, record.paths[number].path, standing)
                        create_file(fs, folder_fd, f"{number:06d}", [content], handed_over=True)
                fs.fsync(folder_fd)
        files: Iterable[tuple[str, bytes | None]] = (
            ("index.before", index_before),
            ("index.after", index_after),
            (LOCK, b""),
            *((f"objects{suffix}", content) for suffix, content in pack.items()),
        )
        for name, whole in files:
            if whole is not None:
                create_file(fs, new.fd, name, [whole], handed_over=True)
        create_file(fs, new.fd, _RECORD, [encode_record(record)], handed_over=True)
        new.sync()
        new.appear(JOURNAL)


def _copied(fs: FileSystem, source: Path, path: bytes, standing: PathState) -> bytes:
    place = os.path.join(os.fsencode(source), path)
    if standing.kind is EntryKind.LINK:
        return os.fsencode(os.readlink(place))
    with opened(fs, os.fsdecode(place), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC) as fd:
        return read_descriptor(fs, fd, fs.fstat(fd).st_size)


def open_journal(fs: FileSystem, git_dir_fd: int, git_dir: Path) -> Journal | None:
    """Open the journal of an interrupted apply; return None if there is none.

    Raises:
        JournalDamaged: It was changed or damaged since it was written.
        OSError: The system refused.
    """
    path = git_dir / JOURNAL
    try:
        fd = fs.open(JOURNAL, DIRECTORY_FLAGS, dir_fd=git_dir_fd)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JournalDamaged(git_dir, path, "it is no folder") from error
    try:
        return Journal(fs, fd, path, _read_record(fs, fd, path))
    except (ReadError, ValueError) as error:
        close_reader(fs, fd)
        raise JournalDamaged(git_dir, path, str(error)) from error
    except BaseException:
        close_reader(fs, fd)
        raise


def _read_record(fs: FileSystem, fd: int, path: Path) -> ApplyRecord:
    content = read_regular_file(
        fs, _RECORD, path=path / _RECORD, max_bytes=_MAX_RECORD, directory_fd=fd
    )
    if content is None:
        raise ValueError(f"{_RECORD} is missing")
    return decode_record(content)


def remove_journal(fs: FileSystem, git_dir_fd: int, git_dir: Path, token: str) -> None:
    """Remove the journal, at once for every reader.

    Files that can't be deleted are out of sight, and the next apply tries again.

    Raises:
        WriteError: It could not be taken out of sight.
    """
    with suppress(RemovalError):
        discard_tree(fs, git_dir_fd, JOURNAL, parent=git_dir, token=lambda: token)


def sweep_journals(fs: FileSystem, git_dir_fd: int, git_dir: Path) -> None:
    """Remove the remains of unfinished or finished journals of killed processes."""
    with suppress(OSError):
        sweep_discarded(fs, git_dir_fd, parent=git_dir)


# --------------------------------------------------------------------------------------- format


def encode_record(record: ApplyRecord) -> bytes:
    """Encode a record: a line with the digest of the JSON document that follows it."""
    document = {
        "format": _FORMAT,
        **{name: getattr(record, name) for name in _AS_IT_IS},
        "paths": [
            [os.fsdecode(one.path), _encoded(one.before), _encoded(one.after)]
            for one in record.paths
        ],
        "folders": {os.fsdecode(path): mode for path, mode in record.folders.items()},
        "ref": None if record.ref is None else [record.ref.old, record.ref.new],
    }
    body = json.dumps(document, ensure_ascii=True, indent=1).encode("ascii")
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body + b"\n"


def decode_record(content: bytes) -> ApplyRecord:
    """Decode a record.

    Raises:
        ValueError: It is damaged, or of a later release.
    """
    digest, _, rest = content.partition(b"\n")
    body = rest.removesuffix(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise ValueError("its digest is not that of its content")
    document = json.loads(body)
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ValueError("it was written by another release of agentforge; use that one")
    try:
        return _decoded(document)
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"a part of it is missing ({error})") from error


def _decoded(document: Mapping[str, Any]) -> ApplyRecord:
    ref = document["ref"]
    return ApplyRecord(
        **{name: document[name] for name in _AS_IT_IS},
        paths=tuple(
            PlannedPath(os.fsencode(path), _standing(before), _standing(after))
            for path, before, after in document["paths"]
        ),
        folders={os.fsencode(path): mode for path, mode in document["folders"].items()},
        ref=None if ref is None else RefChange(*ref),
    )


def _encoded(standing: PathState) -> list[object]:
    return [standing.kind.value, standing.mode, standing.sha256, standing.mtime_ns]


def _standing(fields: Iterable[Any]) -> PathState:
    kind, mode, digest, mtime_ns = fields
    return PathState(EntryKind(kind), mode, digest, mtime_ns)
