"""A snapshot as bytes: the form AFLIVE01.

A head (magic, form, four lengths, SHA-256 of the rest), the description, the pages of memory,
packed against the template's same pages, the index with the content of files in memory, packed, and
what the program's host attached, packed.
Anyone may have written it: it is checked as a whole before any of it is used. There is no
signature; a made-up one is a hostile guest, as sealed as any other.
"""

from __future__ import annotations

import hashlib
import itertools
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...base.files import AtomicFileWriter, OsFileSystem, read_regular_file
from .capture import MachineState
from .errors import ProgramSnapshotDamaged, ProgramSnapshotRefused
from .state.description import (
    MOST_DESCRIPTION,
    MOST_INDEX,
    SnapshotDescription,
    StateLimits,
    decode_index,
    encode_index,
)
from .state.pages import pack, unpack

if TYPE_CHECKING:
    from ...base.files import FileSystem
    from ..host.template import Template

MAGIC: Final = b"AFLIVE01"
FORM: Final = 1

_HEAD: Final = struct.Struct("<8sIQQQQ32s")
_SAVED_ELSEWHERE: Final = "restore it with the release and interpreter that saved it"


class Interpreter(NamedTuple):
    """The interpreter that a snapshot belongs to: the digests of its module and its library."""

    module: str
    library: str


class ProgramSnapshot:
    """A program's state at a moment, as bytes; they are whole, and their description is valid.

    Attributes:
        description: What it says of itself.
        digest: The SHA-256 of the bytes.
    """

    def __init__(self, data: bytes) -> None:
        """Check bytes from anywhere.

        Raises:
            ProgramSnapshotRefused: They are no snapshot of a form that this release knows.
        """
        if len(data) < _HEAD.size or not data.startswith(MAGIC):
            raise ProgramSnapshotDamaged("it is no snapshot of a program")
        _, form, *lengths, digest = _HEAD.unpack_from(data)
        if form != FORM:
            raise ProgramSnapshotRefused(
                f"it has form {form}, and this release reads form {FORM}",
                "restore it with the release that saved it",
            )
        if lengths[0] > MOST_DESCRIPTION or _HEAD.size + sum(lengths) != len(data):
            raise ProgramSnapshotDamaged("it is cut short, or longer than it says")
        whole = memoryview(data)
        if _digest_of(whole[: _HEAD.size - len(digest)], whole[_HEAD.size :]) != digest:
            raise ProgramSnapshotDamaged("its digest is that of other content")
        self._data: Final = bytes(data)
        self._ends: Final = list(itertools.accumulate(lengths, initial=_HEAD.size))
        self.digest: Final = hashlib.sha256(data).hexdigest()
        self.description: Final = SnapshotDescription.decoded(self._part(0))

    def __bytes__(self) -> bytes:
        return self._data

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        return f"<ProgramSnapshot {self.digest[:12]}, {len(self)} bytes>"

    @classmethod
    def load(
        cls, path: Path, *, fs: FileSystem | None = None, most: int = 1 << 32
    ) -> ProgramSnapshot | None:
        """Read one from a file; None without one.

        Args:
            path: The file; a symbolic link is not followed.
            fs: The file system; the real one if None.
            most: The most bytes it may have.

        Raises:
            ProgramSnapshotRefused: It is not a snapshot.
            ReadError: It cannot be read.
        """
        data = read_regular_file(fs or OsFileSystem(), str(path), path=path, max_bytes=most)
        return None if data is None else cls(data)

    def save(self, path: Path, *, fs: FileSystem | None = None) -> None:
        """Write it to a file that only this user may read, durably and whole or not at all.

        Raises:
            WriteError: The old content is untouched.
        """
        with AtomicFileWriter(path, fs=fs) as file:
            file.write(self._data)

    def state(
        self,
        *,
        interpreter: Interpreter,
        template_of: Callable[[str], Template | None],
        limits: StateLimits,
    ) -> MachineState:
        """Return the machine's state, all of it checked.

        Args:
            interpreter: The interpreter that is to run it.
            template_of: Returns the template with a digest, or None.
            limits: What the guest may have.

        Raises:
            ProgramSnapshotRefused: It belongs to another interpreter, is not valid, or exceeds a
                limit.
        """
        found = self.description
        template = self._template(interpreter, template_of)
        if found.memory_size > limits.memory_bytes:
            raise _exceeds("bytes of memory", found.memory_size, limits.memory_bytes)
        if found.content_bytes > limits.temporary_bytes + limits.host_bytes:
            raise _exceeds("bytes in /tmp", found.content_bytes, limits.temporary_bytes)
        if found.memory_size < template.size:
            raise ProgramSnapshotDamaged("its memory is smaller than its template")
        content = unpack(self._part(2), found.index_bytes + found.content_bytes)
        index, content = content[: found.index_bytes], content[found.index_bytes :]
        descriptors, temporary = decode_index(index, content, limits)
        return MachineState(
            template=found.template,
            memory_size=found.memory_size,
            ranges=found.ranges,
            pages=unpack(self._part(1), found.page_bytes, template.content(found.ranges)),
            descriptors=descriptors,
            temporary=temporary,
            monotonic_ns=found.monotonic_ns,
            wall_ns=found.wall_ns,
        )

    def attached(self, most: int) -> bytes:
        """Return what the program's host attached; untrusted.

        Raises:
            ProgramSnapshotRefused: It has more than this many bytes, or is damaged.
        """
        size = self.description.attached_bytes
        if size > most:
            raise _exceeds("bytes attached", size, most)
        return unpack(self._part(3), size)

    def _part(self, number: int) -> bytes:
        return self._data[self._ends[number] : self._ends[number + 1]]

    def _template(
        self, interpreter: Interpreter, template_of: Callable[[str], Template | None]
    ) -> Template:
        found = self.description
        if (found.module, found.library) != interpreter:
            raise ProgramSnapshotRefused(
                "it was saved by another release of the interpreter", _SAVED_ELSEWHERE
            )
        template = template_of(found.template)
        if template is None or template.digest != found.template:
            raise ProgramSnapshotRefused(
                f"its prepared interpreter ({found.template[:12]}) is not here", _SAVED_ELSEWHERE
            )
        return template


def snapshot_of(
    state: MachineState,
    *,
    interpreter: Interpreter,
    template: Template,
    limits: StateLimits,
    said: Mapping[str, Any],
    attached: bytes = b"",
) -> ProgramSnapshot:
    """Return a machine's state as a snapshot.

    Args:
        state: The state.
        interpreter: The interpreter that it ran in.
        template: The template that the state is relative to.
        limits: What the guest may have when it is restored.
        said: What the program's host says of it, as JSON; untrusted when it is read back.
        attached: What it adds, likewise.

    Raises:
        ProgramSnapshotRefused: It would exceed a limit when it is restored.
    """
    index, contents = encode_index(state.descriptors, state.temporary)
    held = sum(len(each.content) for each in state.temporary.nodes)
    if held > limits.temporary_bytes:
        raise _exceeds("bytes in /tmp and open files without a name", held, limits.temporary_bytes)
    if len(index) > MOST_INDEX:
        raise _exceeds("bytes about its files", len(index), MOST_INDEX)
    description = SnapshotDescription(
        module=interpreter.module,
        library=interpreter.library,
        template=state.template,
        memory_size=state.memory_size,
        ranges=state.ranges,
        monotonic_ns=state.monotonic_ns,
        wall_ns=state.wall_ns,
        index_bytes=len(index),
        content_bytes=sum(map(len, contents)),
        attached_bytes=len(attached),
        said=said,
    ).encoded()
    if len(description) > MOST_DESCRIPTION:
        raise _exceeds("bytes in its description", len(description), MOST_DESCRIPTION)
    parts = (
        description,
        pack(state.pages, template.content(state.ranges)),
        pack(b"".join((index, *contents))),
        pack(attached),
    )
    head = _HEAD.pack(MAGIC, FORM, *map(len, parts), bytes(32))[:-32]
    return ProgramSnapshot(b"".join((head, _digest_of(head, *parts), *parts)))


def _digest_of(*parts: bytes | memoryview) -> bytes:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.digest()


def _exceeds(what: str, count: int, most: int) -> ProgramSnapshotRefused:
    return ProgramSnapshotRefused(
        f"it has {count:,} {what}, and {most:,} are allowed",
        "have the program hold less, or raise the limit of its policy",
    )
