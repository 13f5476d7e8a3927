"""The guest's standard library, served from the files that contain it.

The archive is served straight from the wheel, once its digest was checked. Matplotlib reads its
data as files, which are in a nested archive: they are attached to the template when that is built,
and served from there.
"""

# No deferred annotations here: as strings, each field's would have to be compiled.

import functools
import hashlib
import io
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ..compiled.private_cache import is_checked, note_checked, stamp_of
from ..guest.guest_code import LIBRARY
from ..host.files.files import Buffers, Directory
from ..host.files.memory_files import MemoryTree, ReadOnlyFile
from ..installed.interpreter_files import LIBRARY_ARCHIVE, InterpreterFiles, changed

_DATA_ARCHIVE: Final = "matplotlib/mpl-data.zip"
_DATA_PLACE: Final = "matplotlib/mpl-data"

Index = Sequence[tuple[str, int, int]]
"""Path, content offset and size of each of matplotlib's files."""


class Archive(NamedTuple):
    """The archive of the standard library, open and checked.

    Attributes:
        fd: The file.
        name: The guest's name for it.
        is_intact: Returns whether it is unchanged since it was opened.
    """

    fd: int
    name: str
    is_intact: Callable[[], bool]


def open_archive(files: InterpreterFiles, cache: Path | None) -> Archive:
    """Open the archive of the standard library and check its digest.

    Raises:
        SandboxUnavailable: It cannot be opened, or does not match its digest.
    """
    digest = files.digests[LIBRARY_ARCHIVE]
    fd = files.open_archive()
    record = f"{digest[:32]}-{_short(files.directory)}-library"
    if not is_checked(cache, record, fd, digest):
        if _digest_of(fd) != digest:
            os.close(fd)
            raise changed(files.directory / LIBRARY_ARCHIVE)
        note_checked(cache, record, fd, digest)
    opened = stamp_of(os.fstat(fd))
    return Archive(
        fd=fd, name=files.archive_name, is_intact=lambda: stamp_of(os.fstat(fd)) == opened
    )


def data_of(archive: Archive) -> tuple[Index, bytes]:
    """Return matplotlib's files: their index, and their concatenated contents."""
    import zipfile  # needed only to build a template

    index: list[tuple[str, int, int]] = []
    content = io.BytesIO()
    with open(archive.fd, "rb", closefd=False) as file, zipfile.ZipFile(file) as outer:
        try:
            inner = zipfile.ZipFile(io.BytesIO(outer.read(_DATA_ARCHIVE)))
        except KeyError:
            return [], b""
        for member in inner.infolist():
            if not member.is_dir():
                data = inner.read(member)
                index.append((member.filename, content.tell(), len(data)))
                content.write(data)
    return index, content.getvalue()


def served_library(
    archive: Archive, index: Index, data: tuple[int, int]
) -> Mapping[str, Directory]:
    """Return the directories of the library, by guest path.

    Args:
        archive: The standard library.
        index: The index of matplotlib's files.
        data: The file with their contents, and the offset of these.
    """
    tree = MemoryTree(None)
    read = functools.partial(os.preadv, archive.fd)
    tree.add(archive.name.encode(), ReadOnlyFile(tree, os.fstat(archive.fd).st_size, read))
    directories: dict[str, Directory] = {LIBRARY: tree.root}
    if index:
        fd, begin = data

        def fill() -> None:
            for path, at, size in index:
                content = functools.partial(_read_part, fd, begin + at, size)
                files.add(path.encode(), ReadOnlyFile(files, size, content))

        files = MemoryTree(None, filled=fill)
        directories[f"{LIBRARY}/{archive.name}/{_DATA_PLACE}"] = files.root
    return directories


def _read_part(fd: int, begin: int, size: int, buffers: Buffers, at: int) -> int:
    """Fill buffers from a part of a file."""
    wanted, left = [], max(0, size - at)
    for buffer in buffers:
        wanted.append(buffer[:left])
        left -= len(wanted[-1])
    return os.preadv(fd, wanted, begin + at) if at < size else 0


def _digest_of(fd: int) -> str:
    with open(fd, "rb", closefd=False) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _short(directory: Path) -> str:
    """Return a short form of the path: several installations of a user may share a cache."""
    return hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
