"""A prepared interpreter's memory on disk, so that another process begins with it.

One file holds all that a process needs: the memory at its start, with holes where that is zeros,
so that it is mapped as it is; then what is attached; then a description, and a footer with the
digest of everything. It is made and judged as compiled code is (`private_cache`). A file that is
not right is none: it is made again.
"""

# Annotations are evaluated here: each field's would be compiled if it were a text.

import hashlib
import json
import os
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from ...base.event_log import get_logger
from ..compiled.private_cache import (
    is_checked,
    keep,
    note_checked,
    open_private,
    opened_private,
    remove_unused,
)
from ..host.template import PIECE, TemplateImage

if TYPE_CHECKING:
    from ...base.files import AtomicFileWriter

_FOOTER: Final = struct.Struct("<8sQ32s")
_MAGIC: Final = b"AFTEMPL1"
_MAX_DESCRIPTION: Final = 1 << 20
_MAX_MEMORY: Final = 1 << 32
_BLOCK: Final = 1 << 20

_TEMPLATES: Final = r"[0-9a-f]+-(?:[0-9a-f]+-)?[a-z]+\.template(?:\.checked)?"
_UNUSED_SECONDS: Final = 90 * 86400.0
"""After how long without use the templates of other releases are removed, in seconds."""

_log = get_logger("agentforge.sandbox")


class PreparedFile(NamedTuple):
    """What a file holds.

    Attributes:
        image: The memory.
        settings: What is said of it.
        attached: The file in which there is what is attached, and where in it that begins.
    """

    image: TemplateImage
    settings: Mapping[str, Any]
    attached: tuple[int, int]

    def with_descriptors(self, image: int, attached: int) -> Self:
        """The same by other descriptors, as another process has them."""
        return self._replace(
            image=self.image._replace(fd=image), attached=(attached, self.attached[1])
        )


def write_template(
    cache: Path, name: str, image: TemplateImage, settings: Mapping[str, Any], attached: bytes = b""
) -> bool:
    """Put a file in place, while `cache_lock.making` is held; return whether it is there."""
    ranges = list(_ranges(image))
    description = json.dumps(
        {
            "memory": image.size,
            "data": ranges,
            "attached": len(attached),
            "settings": settings,
        }
    ).encode("ascii")
    digest = hashlib.sha256()

    def write(writer: "AtomicFileWriter") -> None:
        at = 0
        for start, length in ranges:
            writer.skip(start - at)
            for block in _blocks(image.fd, start, length):
                digest.update(block)
                writer.write_chunks([block])
            at = start + length
        writer.skip(image.size - at)
        for part in (attached, description):
            digest.update(part)
            writer.write_chunks([part])
        writer.write_chunks([_FOOTER.pack(_MAGIC, len(description), digest.digest())])

    if not keep(cache, name, write, locked=True):
        return False
    with opened_private(cache, name) as fd:
        if fd is None:
            return False
        note_checked(cache, name, fd, digest.hexdigest())
    remove_unused(cache, re.compile(_TEMPLATES), unused_s=_UNUSED_SECONDS)
    return True


def read_template(cache: Path | None, name: str, *, unread: bool = True) -> PreparedFile | None:
    """A file's content, mapped when it is used, or None where there is none that is right.

    Args:
        cache: Where files are kept, or None.
        name: The file's name.
        unread: Whether one that was not checked since it was made or copied may be read whole for
            that; else it is none.
    """
    fd = None if cache is None else open_private(cache, name)
    if fd is None:
        return None
    try:
        found = _read(fd)
        digest = found[1].hex()
        if not is_checked(cache, name, fd, digest):
            if not unread:
                os.close(fd)
                return None
            _check(found[0], digest)
            note_checked(cache, name, fd, digest)
    except (OSError, ValueError, TypeError, KeyError) as error:
        os.close(fd)
        _log.warning(
            "template.file_not_right", name=name, reason=f"{type(error).__name__}: {error}"
        )
        return None
    return found[0]


def _read(fd: int) -> tuple[PreparedFile, bytes]:
    """What a file says that it holds, and the digest that it should have.

    Raises:
        ValueError: It is none of ours; KeyError, TypeError likewise.
    """
    size = os.fstat(fd).st_size
    footer = os.pread(fd, _FOOTER.size, max(0, size - _FOOTER.size))
    if len(footer) != _FOOTER.size:
        raise ValueError("it is too short")
    magic, length, digest = _FOOTER.unpack(footer)
    end = size - _FOOTER.size - length
    if magic != _MAGIC or length > _MAX_DESCRIPTION or end < 0:
        raise ValueError("it has no footer")
    said = json.loads(os.pread(fd, length, end))
    memory, attached = int(said["memory"]), int(said["attached"])
    ranges = [(int(start), int(count)) for start, count in said["data"]]
    at = 0
    for start, count in ranges:
        if start < at or count <= 0 or start % PIECE or start + count > memory:
            raise ValueError("its memory is not as it should be")
        at = start + count
    if not 0 < memory <= _MAX_MEMORY or memory % PIECE or attached < 0 or memory + attached != end:
        raise ValueError("its size is not as it should be")
    data = frozenset(at for start, count in ranges for at in range(start, start + count, PIECE))
    return (
        PreparedFile(
            image=TemplateImage(fd=fd, size=memory, data=data),
            settings=dict(said["settings"]),
            attached=(fd, memory),
        ),
        digest,
    )


def _check(found: PreparedFile, expected: str) -> None:
    """Read all that a file holds.

    Raises:
        ValueError: It is not what was written.
        OSError: It cannot be read.
    """
    image = found.image
    end = os.fstat(image.fd).st_size - _FOOTER.size
    digest = hashlib.sha256()
    for start, length in (*_ranges(image), (image.size, end - image.size)):
        for block in _blocks(image.fd, start, length):
            digest.update(block)
    if digest.hexdigest() != expected:
        raise ValueError("it is not what was written")


def _ranges(image: TemplateImage) -> Iterator[tuple[int, int]]:
    """The parts of the memory that hold something, in order: where, and how many bytes."""
    begun: tuple[int, int] | None = None
    for at in sorted(image.data):
        if begun is not None and sum(begun) == at:
            begun = begun[0], begun[1] + PIECE
            continue
        if begun is not None:
            yield begun
        begun = at, PIECE
    if begun is not None:
        yield begun


def _blocks(fd: int, start: int, length: int) -> Iterator[bytes]:
    """A part of a file, piece by piece.

    Raises:
        OSError: It cannot be read.
        ValueError: It ends before.
    """
    while length > 0:
        block = os.pread(fd, min(length, _BLOCK), start)
        if not block:
            raise ValueError("it is shorter than it says")
        yield block
        start, length = start + len(block), length - len(block)
