"""Calls of the C library and the kernel that Python has no function for. Linux only."""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os
import platform
import signal
import struct
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ....base.files.linux_calls import process_descriptor

RESOLVE_NO_MAGICLINKS: Final = 0x02
RESOLVE_NO_SYMLINKS: Final = 0x04
RESOLVE_BENEATH: Final = 0x08

O_PATH: Final[int] = getattr(os, "O_PATH", 0)
_OPENAT2: Final = 437  # same on every architecture: added after numbers were unified
_MADV_DONTNEED: Final = 4
_PROCESS_MADVISE: Final = 440  # the same on every architecture
_PROT_READ_WRITE: Final = 0x1 | 0x2
_MAP_PRIVATE_FIXED: Final = 0x02 | 0x10
_MAP_FAILED: Final = ctypes.c_void_p(-1).value
MOST_RANGES: Final = 1024
"""The most memory ranges in one call (IOV_MAX)."""

_PAGEMAP_SCAN: Final = 0xC0606610
"""`_IOWR('f', 16, struct pm_scan_arg)`, Linux 6.7; older kernels refuse it."""

_SCAN: Final = struct.Struct("<12Q")
_SCANNED: Final = struct.Struct("<QQQ")
_IS_FILE, _IS_PRESENT, _IS_SWAPPED = 1 << 2, 1 << 3, 1 << 4
_OWN_OF_ENTRY: Final = bytes(byte & 0xC0 != 0 and not byte & 0x20 for byte in range(256))
"""Whether the top byte of a page's page-map entry marks it as a private copy."""

_LARGER_THAN_ANY: Final = 2048
"""Larger than a `struct sigaction`, a `pthread_attr_t` or a `ucontext_t`, in bytes."""

_STACK_POINTER_AT: Final = {"x86_64": 160, "aarch64": 432}
"""Offset of the stack pointer in a saved `ucontext_t`: glibc, sys/ucontext.h."""

_address, _size, _int, _long = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_long

_libc: Any = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = _address
_libc.mmap.argtypes = (_address, _size, _int, _int, _int, _long)
_libc.preadv.restype = ctypes.c_ssize_t
_libc.preadv.argtypes = (_int, _address, _int, _long)
_libc.ioctl.argtypes = (_int, ctypes.c_ulong, _address)
_libc.syscall.restype = _long
_libc.madvise.argtypes = (_address, _size, _int)
_libc.memcmp.argtypes = (_address, _address, _size)
_libc.pthread_self.restype = ctypes.c_ulong
_libc.pthread_getattr_np.argtypes = (ctypes.c_ulong, _address)


_quick: Any = ctypes.PyDLL(None, use_errno=True)
"""For quick calls: they do not release the GIL, so no other thread takes it in between."""


class _OpenHow(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("flags", "mode", "resolve"))


class _SymbolInfo(ctypes.Structure):
    _fields_ = tuple((name, _address) for name in ("file", "base", "name", "address"))


_syscall: Any = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = _long
_syscall.argtypes = (_long, _int, ctypes.c_char_p, _address, _size)


@functools.lru_cache
def _how(flags: int, resolve: int) -> tuple[Any, int]:
    """Return the last two arguments of `openat2`, which the kernel only reads."""
    how = _OpenHow(flags, 0, resolve)
    return ctypes.byref(how), ctypes.sizeof(how)


def openat2(directory: int, path: bytes, flags: int, resolve: int) -> int:
    """Open a path by `openat2(2)`, with close-on-exec.

    Raises:
        OSError: The kernel's error; EXDEV for a path that would lead out.
    """
    fd: int = _syscall(_OPENAT2, directory, path, *_how(flags | os.O_CLOEXEC, resolve))
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return fd


def map_copy_on_write(address: int, length: int, fd: int) -> None:
    """Replace mapped memory by a file's pages, copied on write.

    Raises:
        OSError: The file cannot be mapped; the old content may be lost.
    """
    found = _libc.mmap(address, length, _PROT_READ_WRITE, _MAP_PRIVATE_FIXED, fd, 0)
    if found == _MAP_FAILED or found != address:
        number = ctypes.get_errno() or errno.ENOMEM
        raise OSError(number, os.strerror(number))


def give_up_pages(address: int, length: int) -> None:
    """Drop the private copies of pages, so that they are the mapped file's again.

    Raises:
        OSError: The kernel refuses.
    """
    if _libc.madvise(address, length, _MADV_DONTNEED) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class Ranges:
    """Memory ranges, for calls that take many at once.

    Args:
        base: The address that offsets are relative to.
        parts: Offset and size of each, at most `MOST_RANGES`.
    """

    def __init__(self, base: int, parts: Sequence[tuple[int, int]]) -> None:
        self.count: Final = len(parts)
        self.bytes: Final = sum(length for _, length in parts)
        flat = [number for at, length in parts for number in (base + at, length)]
        self.vector: Final = (ctypes.c_size_t * max(2, len(flat)))(*flat)  # of `struct iovec`

    def parts(self) -> Iterator[tuple[int, int]]:
        """Yield their addresses and lengths."""
        for i in range(self.count):
            yield self.vector[2 * i], self.vector[2 * i + 1]


def give_up_ranges(ranges: Ranges) -> None:
    """Do `give_up_pages` for several ranges, in one call if the kernel can (6.13).

    Raises:
        OSError: The kernel refuses.
    """
    process = _own_process(os.getpid())
    if process is not None and _give_up_in(process, ranges) == ranges.bytes:
        return
    for address, length in ranges.parts():
        give_up_pages(address, length)


def _give_up_in(process: int, ranges: Ranges) -> int:
    count, advice, flags = _size(ranges.count), _int(_MADV_DONTNEED), ctypes.c_uint(0)
    given: int = _libc.syscall(_PROCESS_MADVISE, _int(process), ranges.vector, count, advice, flags)
    return given


@functools.cache
def _own_process(pid: int) -> int | None:
    """Return a descriptor of this process, or None if it cannot be used to give up memory.

    The argument is there because a descriptor cached by the parent still means the parent in a
    forked child.
    """
    try:
        fd = process_descriptor(pid)
    except OSError:
        return None
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        part = Ranges(address_of(page), [(0, mmap.PAGESIZE)])
        if _give_up_in(fd, part) == mmap.PAGESIZE:
            return fd
    os.close(fd)
    return None


def read_into(fd: int, ranges: Ranges) -> None:
    """Fill memory ranges, one after another, from the start of a file.

    Raises:
        OSError: The file cannot be read, or is too short.
    """
    count = _libc.preadv(fd, ranges.vector, ranges.count, 0)
    if count != ranges.bytes:
        number = ctypes.get_errno() if count < 0 else errno.EIO
        raise OSError(number, os.strerror(number))


def own_pages(address: int, length: int) -> bytes:
    """Return one byte per page: 1 if it is a private copy of this process.

    That is, present or swapped out, and not a file's page. Source: Linux,
    Documentation/admin-guide/mm/pagemap.rst.

    Raises:
        OSError: The system does not provide that.
    """
    scanned = scan_own(address, length)
    if scanned is not None:
        return pages_of(scanned, address, length)
    with open("/proc/self/pagemap", "rb", buffering=0) as file:
        file.seek(address // mmap.PAGESIZE * 8)
        return file.read(length // mmap.PAGESIZE * 8)[7::8].translate(_OWN_OF_ENTRY)


def scan_own(address: int, length: int) -> bytes | None:
    """Return where private copies are, in the kernel's form for `pages_of`; takes microseconds.

    None if the kernel cannot (before 6.7), or there are more than `MOST_RANGES` ranges. Equal
    ranges give equal bytes.
    """
    fd = _page_map(os.getpid())
    if fd is None:
        return None
    places = (ctypes.c_uint64 * (3 * MOST_RANGES))()
    wanted = _IS_PRESENT | _IS_SWAPPED
    asked = _SCAN.pack(
        *(_SCAN.size, 0, address, address + length, 0),
        *(ctypes.addressof(places), MOST_RANGES, 0),
        *(_IS_FILE, _IS_FILE, wanted, wanted),
    )
    count = _libc.ioctl(fd, _PAGEMAP_SCAN, ctypes.create_string_buffer(asked))
    if not 0 <= count < MOST_RANGES:
        return None
    return bytes(memoryview(places).cast("B")[: count * _SCANNED.size])


def scanned(places: Iterator[tuple[int, int]]) -> bytes:
    """Return what `scan_own` gives for private copies, none swapped out, in (start, end) ranges."""
    return b"".join(_SCANNED.pack(start, end, _IS_PRESENT) for start, end in places)


def pages_of(scanned: bytes, address: int, length: int) -> bytes:
    """Convert the result of `scan_own` to the form of `own_pages`."""
    found = bytearray(length // mmap.PAGESIZE)
    for start, end, _ in _SCANNED.iter_unpack(scanned):
        first, last = (start - address) // mmap.PAGESIZE, (end - address) // mmap.PAGESIZE
        found[first:last] = b"\1" * (last - first)
    return bytes(found)


@functools.cache
def _page_map(pid: int) -> int | None:
    """Return a descriptor of this process's page map, or None without one.

    The argument is there because a descriptor cached by the parent still means the parent in a
    forked child.
    """
    del pid
    try:
        return os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def address_of(mapped: mmap.mmap) -> int:
    """Return the address of a writable or private mapping, which then stays mapped for good."""
    return ctypes.addressof(ctypes.c_char.from_buffer(mapped))


def are_equal(one: int, other: int, length: int) -> bool:
    """Return whether two memory ranges have the same content."""
    return not _libc.memcmp(one, other, length)


def library_of(address: int | None) -> int | None:
    """Return the load address of the shared library that contains an address, or None."""
    info = _SymbolInfo()
    if not address or not _libc.dladdr(ctypes.c_void_p(address), ctypes.byref(info)):
        return None
    base: int | None = info.base
    return base


def signal_handler(number: int) -> int | None:
    """Return the address of a signal's handler, or None."""
    action = (ctypes.c_char * _LARGER_THAN_ANY)()
    if _quick.sigaction(int(number), None, action) != 0:
        return None
    return ctypes.c_void_p.from_buffer(action).value


def trap_signals() -> tuple[signal.Signals, ...]:
    """Return the signals by which faults in compiled WebAssembly reach the engine."""
    if platform.machine() == "x86_64":
        return (signal.SIGSEGV, signal.SIGILL, signal.SIGFPE)
    return (signal.SIGSEGV, signal.SIGILL)


class _Stack(threading.local):
    """The lowest address of this thread's stack; None until known."""

    lowest: int | None = None


_stack: Final = _Stack()


def stack_left() -> int | None:
    """Return this thread's remaining native stack in bytes, or None if unknown."""
    offset = _STACK_POINTER_AT.get(platform.machine())
    if offset is None:
        return None
    if _stack.lowest is None:
        _stack.lowest = _lowest_of_stack()
    context = (ctypes.c_char * _LARGER_THAN_ANY)()
    if _stack.lowest is None or _quick.getcontext(context) != 0:
        return None
    left = ctypes.c_size_t.from_buffer(context, offset).value - _stack.lowest
    return left if left >= 0 else None


def _lowest_of_stack() -> int | None:
    attributes = (ctypes.c_char * _LARGER_THAN_ANY)()
    bottom, size, guard = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    if _libc.pthread_getattr_np(_libc.pthread_self(), attributes) != 0:
        return None
    try:
        _libc.pthread_attr_getstack(attributes, ctypes.byref(bottom), ctypes.byref(size))
        _libc.pthread_attr_getguardsize(attributes, ctypes.byref(guard))
    finally:
        _libc.pthread_attr_destroy(attributes)
    return None if bottom.value is None else bottom.value + guard.value
