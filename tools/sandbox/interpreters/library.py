"""The guest's standard library, served from the files that hold it.

The archive is served as the wheel carries it, once it was found to be what is listed. Matplotlib
reads its data as files, which lie in an archive in that archive: they are attached to the template
when that is made, and served from there.
"""

# Annotations are evaluated here: each field's would be compiled if it were a text.

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
"""Of each of matplotlib's files its path, where its content begins, and how many bytes it has."""


class Archive(NamedTuple):
    """The archive of the standard library, open and checked.

    Attributes:
        fd: The file.
        name: What the guest calls it.
        is_intact: Tells whether it is what it was.
    """

    fd: int
    name: str
    is_intact: Callable[[], bool]


def open_archive(files: InterpreterFiles, cache: Path | None) -> Archive:
    """Open the archive of the standard library.

    Raises:
        SandboxUnavailable: It cannot be opened, or is not what is listed.
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
    """Matplotlib's files: their index, and their contents one after another."""
    import zipfile  # only where a template is made

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
    """The directories of the library, by the guest's paths.

    Args:
        archive: The standard library.
        index: Of matplotlib's files.
        data: The file that holds their contents, and where in it they begin.
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
    """Several installations of a user may share a cache."""
    return hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
