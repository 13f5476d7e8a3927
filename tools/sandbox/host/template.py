"""A prepared interpreter's memory, from which others begin in no time.

The memory lies in a file that nobody changes: a sealed one without a name where it was made, one
of this user's alone where it was kept for others. An instance maps it, and what it writes to is
copied page by page. Only the host's own code ever ran in it.

An instance whose turn returned can begin again: its own copies are given up, or, where a turn will
write to them again, written back, which is quicker. Of an instance only the memory changes: its
functions and tables are constant, and the one global that is not, the stack pointer, is set back by
the function that was called, from a local variable that no address reaches.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import threading
from typing import Final

from attrs import frozen

from ...event_log import get_logger
from . import native
from .engine import Instance

_Range = tuple[int, int]
"""Where a part of the memory begins, and how many bytes it has."""

_MOST_HOT: Final = 16 << 20
_NEAR_PAGES: Final = re.compile(rb"\x01(?:\x00{0,4}\x01)*")
"""Pages that were written to, with the few between them that were not."""

PIECE: Final = 1 << 16
"""The memory is looked at in pieces of so many bytes."""

_ZEROS: Final = bytes(PIECE)
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL

_log = get_logger("agentforge.sandbox")


@frozen(kw_only=True)
class TemplateImage:
    """The memory of a prepared interpreter, at the start of a file that nobody changes.

    Attributes:
        fd: The file.
        size: How many bytes of it are memory.
        data: Where its pieces of `PIECE` bytes are that hold something else than zeros.
    """

    fd: int
    size: int
    data: frozenset[int]

    @classmethod
    def of(cls, instance: Instance) -> TemplateImage:
        """The memory of an instance as it is now, in a sealed file without a name.

        Args:
            instance: An instance between two calls that has called nothing but the host's own code.
        """
        memory = instance.memory
        memory.refresh()
        size = memory.known
        data = set()
        fd = os.memfd_create("sandbox-template", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, size)
        for at in range(0, size, PIECE):  # holes where there is nothing but zeros
            piece = memory.view(at, min(PIECE, size - at)).tobytes()
            if piece != _ZEROS[: len(piece)]:
                os.pwrite(fd, piece, at)
                data.add(at)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        return cls(fd=fd, size=size, data=frozenset(data))


class Template:
    """What instances begin with.

    Args:
        image: The memory.
    """

    def __init__(self, image: TemplateImage) -> None:
        self.size: Final = image.size
        self._fd = image.fd
        self._data = image.data
        self._whole = mmap.mmap(self._fd, self.size, flags=mmap.MAP_PRIVATE)
        self._address = native.address_of(self._whole)
        self._lock = threading.Lock()
        self._proven: bool | None = None
        self._restores: bool | None = None
        self._hot: tuple[_Range, ...] = ()
        self._cold: tuple[_Range, ...] = ()

    def begin(self, instance: Instance) -> None:
        """Give a new instance this memory.

        The first is compared as a whole; should it differ, all get copies instead of the mapping.

        Raises:
            Trapped: It may not have so much memory.
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
        """Return whether an instance's memory is this, byte for byte."""
        instance.memory.refresh()
        memory = instance.memory
        if memory.known != self.size:
            return False
        try:
            own = native.own_pages(memory.base, self.size)
        except OSError:
            own = b"\x01" * (self.size // mmap.PAGESIZE)
        # A hole of the file is only looked at where a page was put in its place: looking at others
        # would have the system give them memory.
        return all(
            native.are_equal(memory.base + at, self._address + at, min(PIECE, self.size - at))
            for at in range(0, self.size, PIECE)
            if at in self._data or 1 in own[at // mmap.PAGESIZE : (at + PIECE) // mmap.PAGESIZE]
        )

    def restore(self, instance: Instance) -> bool:
        """Give an instance whose turn returned this memory again.

        The first that is restored in a process is compared as a whole; should it differ, none is
        restored any more.

        Returns:
            Whether it has it; if not, close it.
        """
        instance.memory.refresh()
        if self._restores is False or not self._proven or instance.memory.known != self.size:
            return False
        try:
            with self._lock:
                if self._restores is None:
                    self._learn(instance)
                for at, length in self._cold:
                    native.give_up_pages(instance.memory.base + at, length)
                for at, length in self._hot:
                    native.copy(instance.memory.base + at, self._address + at, length)
                if self._restores is None:
                    self._restores = self.is_memory_of(instance)
                    if not self._restores:
                        _log.warning("template.restoring_off", reason="the memory differs")
        except OSError as error:
            self._restores = False
            _log.warning("template.restoring_off", reason=str(error))
        return bool(self._restores)

    def _learn(self, instance: Instance) -> None:
        """Take what one turn wrote to for what the next will."""
        own = native.own_pages(instance.memory.base, self.size)
        hot = [
            (found.start() * mmap.PAGESIZE, (found.end() - found.start()) * mmap.PAGESIZE)
            for found in _NEAR_PAGES.finditer(own)
        ]
        if sum(length for _, length in hot) > _MOST_HOT:
            hot = []
        cold, at = [], 0
        for start, length in [*hot, (self.size, 0)]:
            if start > at:
                cold.append((at, start - at))
            at = start + length
        self._hot, self._cold = tuple(hot), tuple(cold)

    def _copy(self, instance: Instance) -> None:
        for at in range(0, self.size, PIECE):
            piece = instance.memory.view(at, min(PIECE, self.size - at))
            os.preadv(self._fd, [piece], at)
