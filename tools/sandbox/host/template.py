"""A prepared interpreter's memory, from which others start instantly.

The memory is in a file that never changes: a sealed nameless one in the process that created it, a
private one of this user in the cache. An instance maps it; pages it writes to are copied. Only the
host's own code ever ran in it.

An instance whose turn returned can be restored: its private copies are dropped or, where the next
turn will write to them again, overwritten, which is faster. Only an instance's memory changes: its
functions and tables are constant, and its one mutable global, the stack pointer, is reset by the
called function from a local variable that no address reaches. The module is long because capturing
a memory and restoring it belong together.
"""

# No deferred annotations here: as strings, each field's would have to be compiled.

import functools
import hashlib
import mmap
import os
import re
import threading
from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from ...base.event_log import get_logger
from ...base.files.linux_calls import memory_file, seal
from .engine import native
from .engine.engine import Instance

_Range = tuple[int, int]
"""Offset and size of a part of the memory."""

_MOST_HOT: Final = 8 << 20
_MOST_BASES: Final = 128
_LESSONS: Final = 4
"""Out of this many turns, the one that wrote least shows what every turn writes to."""

_MOST_WIDENINGS: Final = 8
"""How many times the plan learns what other turns write to."""

_MOST_WIDE_PAGES: Final = 512
"""Nothing is learned from a turn that wrote to more pages."""

NEAR_PAGES: Final = re.compile(rb"\x01(?:\x00{0,4}\x01)*")
"""Written pages together with small gaps between them, for fewer ranges."""

_WRITTEN_PAGES: Final = re.compile(rb"\x01+")
_LOOKED_AT: Final = re.compile(rb"\x01{1,64}")
"""Pieces compared in one go: other threads run meanwhile, but signals must not wait long."""

PIECE: Final = 1 << 16
"""Size of the pieces in which the memory is examined, in bytes."""

_ZEROS: Final = bytes(PIECE)

_log = get_logger("agentforge.sandbox")


class _Plan:
    """How to restore an instance's memory to the template's, in two calls.

    Hot pages, which every turn writes to, are overwritten from a file that holds them contiguously.
    Private copies elsewhere are dropped; if the kernel cannot report them, all other pages are.

    Args:
        size: The size of the memory.
        pages: How many pages were written by the turn that this was learned from.
        fd: The file with the hot pages.
        hot: The ranges to overwrite.
        cold: All other ranges.
    """

    def __init__(
        self,
        size: int,
        pages: int,
        fd: int | None,
        hot: tuple[_Range, ...],
        cold: tuple[_Range, ...],
    ) -> None:
        self.pages: Final = pages
        self._size = size
        self._fd = fd
        self._hot = hot
        self._cold = cold
        self._hot_pages = [
            (at // mmap.PAGESIZE, (at + length) // mmap.PAGESIZE, bytes(length // mmap.PAGESIZE))
            for at, length in hot
        ]
        self._at: dict[int, tuple[native.Ranges, native.Ranges, bytes]] = {}

    def __del__(self) -> None:
        if self._fd is not None:
            os.close(self._fd)

    @classmethod
    def of(cls, template: int, size: int, written: bytes) -> Self:
        """Create the plan for turns that write to the same pages as one observed turn.

        Args:
            template: The file of the template's memory.
            size: Its size in bytes.
            written: For each page, whether the turn wrote to it.
        """
        hot: tuple[_Range, ...] = ()
        for together in (_WRITTEN_PAGES, NEAR_PAGES):
            hot = tuple(ranges_of(written, together))
            if len(hot) < native.MOST_RANGES:
                break
        if len(hot) >= native.MOST_RANGES or sum(length for _, length in hot) > _MOST_HOT:
            hot = ()
        cold, at = [], 0
        for start, length in [*hot, (size, 0)]:
            if start > at:
                cold.append((at, start - at))
            at = start + length
        if not hot:
            return cls(size, written.count(1), None, (), tuple(cold))
        fd = memory_file("sandbox-template-hot")
        at = 0
        for start, length in hot:
            at += os.pwrite(fd, os.pread(template, length, start), at)
        seal(fd)
        return cls(size, written.count(1), fd, hot, tuple(cold))

    def apply(self, base: int, own: bytes | None) -> None:
        """Restore the memory at an address to the template's.

        Args:
            base: The address.
            own: Where its private copies are, as from `native.scan_own`.

        Raises:
            OSError: The system refused.
        """
        hot, cold, only_hot = self._ranges_at(base)
        if own is None:
            native.give_up_ranges(cold)
        elif own != only_hot and (besides := self._besides(base, own)):
            native.give_up_ranges(native.Ranges(base, besides))
        if self._fd is not None:
            native.read_into(self._fd, hot)

    def is_for(self, base: int, own: bytes) -> bool:
        """Return whether the private copies are exactly the hot pages, as after a turn."""
        return own == self._ranges_at(base)[2]

    def has_all(self, base: int, own: bytes) -> bool:
        """Return whether all private copies are hot pages."""
        return not self._besides(base, own)

    def _ranges_at(self, base: int) -> tuple[native.Ranges, native.Ranges, bytes]:
        """Return the hot ranges, the cold ones, and the scan result for exactly the hot ones."""
        found = self._at.get(base)
        if found is None:
            if len(self._at) >= _MOST_BASES:
                self._at.clear()
            found = self._at[base] = (
                native.Ranges(base, self._hot),
                native.Ranges(base, self._cold),
                native.scanned((base + at, base + at + length) for at, length in self._hot),
            )
        return found

    def _besides(self, base: int, own: bytes) -> list[_Range]:
        """Return the ranges of private copies that are not hot."""
        pages = bytearray(native.pages_of(own, base, self._size))
        for first, last, none in self._hot_pages:
            pages[first:last] = none
        return ranges_of(pages)


def own_pages(base: int, size: int) -> bytes:
    """Return one byte per page, 1 for a private copy; for all where the system reports none."""
    try:
        return native.own_pages(base, size)
    except OSError:
        return b"\x01" * (size // mmap.PAGESIZE)


def ranges_of(
    pages: bytes | bytearray, together: re.Pattern[bytes] = _WRITTEN_PAGES
) -> list[_Range]:
    """Return the ranges of the pages marked by 1, by offset and size, in order."""
    return [_range_of(found) for found in together.finditer(pages)]


def _range_of(found: re.Match[bytes]) -> _Range:
    return found.start() * mmap.PAGESIZE, (found.end() - found.start()) * mmap.PAGESIZE


class TemplateImage(NamedTuple):
    """A prepared interpreter's memory, at the start of a file that never changes.

    Attributes:
        fd: The file.
        size: How many bytes of it are memory.
        data: Where the pieces of `PIECE` bytes are that are not all zeros.
        known_digest: What `digest` returns, where it is known; else None.
    """

    fd: int
    size: int
    data: frozenset[int]
    known_digest: str | None = None

    def digest(self) -> str:
        """Return the SHA-256 of the memory's bytes; it is the same for the same memory anywhere.

        Unless it is known, all of the memory is read.
        """
        if self.known_digest is not None:
            return self.known_digest
        found = hashlib.sha256()
        for at in range(0, self.size, PIECE):
            size = min(PIECE, self.size - at)
            found.update(os.pread(self.fd, size, at) if at in self.data else _ZEROS[:size])
        return found.hexdigest()

    @classmethod
    def of(cls, instance: Instance) -> Self:
        """Copy an instance's current memory to a sealed file without a name.

        Args:
            instance: An instance between two calls that has run only the host's own code.
        """
        memory = instance.memory
        memory.refresh()
        size = memory.known
        data = set()
        fd = memory_file("sandbox-template")
        os.ftruncate(fd, size)
        for at in range(0, size, PIECE):  # all-zero pieces become holes
            piece = memory.view(at, min(PIECE, size - at)).tobytes()
            if piece != _ZEROS[: len(piece)]:
                os.pwrite(fd, piece, at)
                data.add(at)
        seal(fd)
        return cls(fd=fd, size=size, data=frozenset(data))


class Template:
    """A memory that instances start from.

    Args:
        image: The memory.
    """

    def __init__(self, image: TemplateImage) -> None:
        self.size: Final = image.size
        self._fd = image.fd
        self._data = image.data
        self._image: Final = image
        self._whole = mmap.mmap(self._fd, self.size, flags=mmap.MAP_PRIVATE)
        self._address = native.address_of(self._whole)
        self._lock = threading.Lock()
        self._proven: bool | None = None
        self._restores: bool | None = None
        self._plan: _Plan | None = None
        self._wide: _Plan | None = None
        self._written = b""
        self._lessons = _LESSONS
        self._widenings = _MOST_WIDENINGS

    @functools.cached_property
    def digest(self) -> str:
        """The SHA-256 of the memory's bytes; read from the template's file where there is one."""
        return self._image.digest()

    def begin(self, instance: Instance) -> None:
        """Give a new instance this memory.

        The first is compared in full; if it differs, all instances get copies instead of the
        mapping.

        Raises:
            Trapped: The instance's limit is below this size.
            OSError: The memory cannot be mapped.
        """
        instance.grow(self.size)
        if self._proven is not False:
            native.map_copy_on_write(instance.memory.base, self.size, self._fd)
        if self._proven is None:
            self._proven = self.is_memory_of(instance)
            if not self._proven:
                _log.warning("template.mapping_differs", bytes=self.size)
        if self._proven is False:
            self._copy(instance)

    def is_memory_of(self, instance: Instance) -> bool:
        """Return whether an instance's memory equals this one, byte for byte."""
        instance.memory.refresh()
        return instance.memory.known == self.size and self._begins(instance)

    def _begins(self, instance: Instance) -> bool:
        """Return whether an instance's memory begins with this one."""
        memory = instance.memory
        own = own_pages(memory.base, self.size)
        # A hole of the file is compared only where a page has replaced it: reading others would
        # make the system allocate memory for them.
        looked_at = bytes(
            at in self._data or 1 in own[at // mmap.PAGESIZE : (at + PIECE) // mmap.PAGESIZE]
            for at in range(0, self.size, PIECE)
        )
        return all(
            native.are_equal(memory.base + at, self._address + at, min(end, self.size) - at)
            for at, end in (
                (found.start() * PIECE, found.end() * PIECE)
                for found in _LOOKED_AT.finditer(looked_at)
            )
        )

    def restore(self, instance: Instance) -> bool:
        """Restore this memory in an instance whose turn returned.

        The first one restored in a process must pass `proves` before it is used again.

        Returns:
            Whether it was restored, as far as known; if not, close the instance.
        """
        instance.memory.refresh()
        if self._restores is False or not self._proven or instance.memory.known != self.size:
            return False
        try:
            if self._lessons or self._plan is None:
                self._learn_from(instance)
            else:
                self._apply(self._plan, instance)
        except OSError as error:
            self._restores = False
            _log.warning("template.restoring_off", reason=str(error))
        return self._restores is not False

    def _apply(self, plan: _Plan, instance: Instance) -> None:
        """Restore by the plan that suits what the turn wrote to.

        A dropped page must be copied again by the next turn that writes to it. So for turns that
        write to more than most, such as failing ones, a wider plan overwrites those pages too.
        """
        base = instance.memory.base
        own, wide = native.scan_own(base, self.size), self._wide
        if own is None or plan.is_for(base, own):
            plan.apply(base, own)
        elif wide is not None and (wide.is_for(base, own) or wide.has_all(base, own)):
            wide.apply(base, own)
        elif (wide := self._widened(native.pages_of(own, base, self.size))) is not None:
            wide.apply(base, own)
            self._compare(instance)
        else:
            plan.apply(base, own)

    def _widened(self, written: bytes) -> _Plan | None:
        """Return a plan for turns that write to more pages, learned from one; None if too many."""
        with self._lock:
            together = int.from_bytes(written) | int.from_bytes(self._written)
            if self._widenings == 0 or together.bit_count() > _MOST_WIDE_PAGES:
                return None
            self._widenings -= 1
            self._written = together.to_bytes(len(written))
            self._wide = _Plan.of(self._fd, self.size, self._written)
            return self._wide

    def proves(self, instance: Instance) -> bool:
        """Return whether a restored instance may be used, that is, has this memory.

        The first in a process is compared in full; if it differs, restoring is turned off.
        """
        if self._restores is None:
            with self._lock:
                if self._restores is None:
                    self._compare(instance)
        return bool(self._restores)

    def _compare(self, instance: Instance) -> None:
        self._restores = self.is_memory_of(instance)
        if not self._restores:
            _log.warning("template.restoring_off", reason="the memory differs")

    def _learn_from(self, instance: Instance) -> None:
        """Restore one of the first instances, and learn what its turn wrote to.

        The last one is restored by the plan and compared, which verifies the plan.
        """
        base = instance.memory.base
        with self._lock:
            written = native.own_pages(base, self.size)
            if self._plan is None or written.count(1) < self._plan.pages:
                self._plan = _Plan.of(self._fd, self.size, written)
                self._written = written
            native.give_up_pages(base, self.size)
            self._lessons -= self._lessons > 0
            if self._lessons == 0:
                self._plan.apply(base, native.scan_own(base, self.size))
                self._compare(instance)

    @property
    def whole(self) -> mmap.mmap:
        """All of it; only to be read."""
        return self._whole

    def content(self, ranges: Sequence[_Range]) -> bytes:
        """Return the content of ranges of this memory; nothing of what lies past it."""
        whole = memoryview(self._whole)
        return b"".join(whole[at : at + length] for at, length in ranges)

    def rewind(self, instance: Instance, besides: Sequence[_Range]) -> None:
        """Make the memory of an instance that began with this one equal to it, with zeros past it.

        Args:
            instance: The instance, between two turns.
            besides: Ranges that the caller overwrites next; they may have any content.

        Raises:
            OSError: The system refused; close the instance.
        """
        base, size = instance.memory.base, instance.memory.known
        if self._restores is None and self._proven:
            native.give_up_pages(base, size)
            with self._lock:
                self._restores = self._begins(instance)
        elif self._restores and self._proven:
            own = bytearray(own_pages(base, size))
            if 1 not in own:  # a new instance
                return
            for start, length in besides:
                first, count = start // mmap.PAGESIZE, length // mmap.PAGESIZE
                own[first : first + count] = bytes(count)
            given = ranges_of(own)
            for first in range(0, len(given), native.MOST_RANGES):
                some = given[first : first + native.MOST_RANGES]
                native.give_up_ranges(native.Ranges(base, some))
        if not (self._restores and self._proven):
            self._copy(instance)
            if size > self.size:
                native.give_up_pages(base + self.size, size - self.size)

    def _copy(self, instance: Instance) -> None:
        for at in range(0, self.size, PIECE):
            piece = instance.memory.view(at, min(PIECE, self.size - at))
            os.preadv(self._fd, [piece], at)
