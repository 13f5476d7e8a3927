"""On-disk image of a prepared interpreter; other processes start from it.

One file contains everything a process needs: the memory, with holes for zeros, so that it can be
mapped directly; then the attachment; then a description, and a footer with the digest of
everything. It is written and judged like compiled code (`private_cache`). An invalid file counts as
missing and is rebuilt.
"""

# No deferred annotations here: as strings, each field's would have to be compiled.

import hashlib
import json
import os
import re
import struct
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from ...base.event_log import get_logger
from ...base.files.filesystem import READ_FLAGS
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
_DIGEST: Final = re.compile("[0-9a-f]{64}")

_TEMPLATES: Final = r"[0-9a-f]+-(?:[0-9a-f]+-)?[a-z]+(?:-[a-z]+)?\.template(?:\.checked)?"
_UNNEEDED: Final = r"[0-9a-f]+-(?:[0-9a-f]+-)?(?:plain|science)\.template(?:\.checked)?"
"""The files of templates, and those of templates that no snapshot is ever continued from."""

_UNUSED_SECONDS: Final = 90 * 86400.0
"""Age since the last use at which templates of other releases are removed, in seconds."""

_log = get_logger("agentforge.sandbox")


class PreparedFile(NamedTuple):
    """The content of a template file.

    Attributes:
        image: The memory.
        settings: Its description.
        attached: The file that contains the attachment, and the attachment's offset.
    """

    image: TemplateImage
    settings: Mapping[str, Any]
    attached: tuple[int, int]

    def with_descriptors(self, image: int, attached: int) -> Self:
        """Return a copy with other descriptors, for use in another process."""
        return self._replace(
            image=self.image._replace(fd=image), attached=(attached, self.attached[1])
        )


def write_template(
    cache: Path, name: str, image: TemplateImage, settings: Mapping[str, Any], attached: bytes = b""
) -> bool:
    """Write a template file while holding `making`; return whether it was written."""
    ranges = list(_ranges(image))
    description = json.dumps(
        {
            "memory": image.size,
            "digest": image.digest(),
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
    remove_unused(cache, re.compile(_UNNEEDED), unused_s=_UNUSED_SECONDS)
    return True


def remove_unused_templates(cache: Path, needed: Collection[str]) -> None:
    """Remove the templates that nothing has started from for long, while holding `making`.

    Args:
        cache: The cache directory.
        needed: The digests of the memories that snapshots continue from; they stay.
    """
    spared = [name for name, digest in template_digests(cache) if digest in needed]
    spared += [f"{name}.checked" for name in spared]
    remove_unused(cache, re.compile(_TEMPLATES), unused_s=_UNUSED_SECONDS, spared=spared)


def template_digests(cache: Path | None) -> list[tuple[str, str]]:
    """Return each template file of the cache, with the digest that it says its memory has."""
    try:
        names = [] if cache is None else sorted(os.listdir(cache))
    except OSError:
        return []
    found = []
    for name in names:
        if cache is None or not re.fullmatch(_TEMPLATES, name) or name.endswith(".checked"):
            continue
        try:
            # A file that is only looked at does not count as used.
            fd = os.open(cache / name, READ_FLAGS | os.O_NOATIME)
            with open(fd, "rb", buffering=0):
                found.append((name, _read(fd)[0].image.digest()))
        except (OSError, ValueError, TypeError, KeyError):  # it is none of this form
            continue
    return found


def read_template(cache: Path | None, name: str, *, unread: bool = True) -> PreparedFile | None:
    """Return a file's content, to be mapped on use, or None if there is no valid one.

    Args:
        cache: The cache directory, or None.
        name: The file's name.
        unread: Whether a file not yet checked since it was written or copied may be read in full
            for the check; otherwise it counts as missing.
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
    """Return the content that a file describes, and the digest that it should have.

    Raises:
        ValueError: It is not a template file; KeyError, TypeError likewise.
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
    of_memory = said["digest"]
    if not isinstance(of_memory, str) or not _DIGEST.fullmatch(of_memory):
        raise ValueError("its digest is not as it should be")
    if not 0 < memory <= _MAX_MEMORY or memory % PIECE or attached < 0 or memory + attached != end:
        raise ValueError("its size is not as it should be")
    data = frozenset(at for start, count in ranges for at in range(start, start + count, PIECE))
    return (
        PreparedFile(
            image=TemplateImage(fd, memory, data, of_memory),
            settings=dict(said["settings"]),
            attached=(fd, memory),
        ),
        digest,
    )


def _check(found: PreparedFile, expected: str) -> None:
    """Read a file in full and compare its digest.

    Raises:
        ValueError: The digest differs.
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
    """Yield offset and size of the parts of the memory that are not zeros, in order."""
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
    """Yield a part of a file, piece by piece.

    Raises:
        OSError: It cannot be read.
        ValueError: The file ends before the part does.
    """
    while length > 0:
        block = os.pread(fd, min(length, _BLOCK), start)
        if not block:
            raise ValueError("it is shorter than it says")
        yield block
        start, length = start + len(block), length - len(block)
