"""An instance's linear memory, read and written through checked views only."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable
from typing import Final

MAX_PATH_BYTES: Final = 4096
"""The longest path or link target that a call may pass, in bytes."""

MAX_BUFFERS: Final = 1024
"""The most buffers that a call may name."""

MAX_TRANSFER: Final = 64 << 20
"""The most bytes that one call reads or writes; the rest takes another call."""

_BUFFER: Final = struct.Struct("<II")
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")


class GuestMemory:
    """Views of an instance's memory; none extends past its end.

    Addresses and lengths are unsigned. A view is valid until the call that took it returns: the
    memory may be unmapped afterwards.

    Args:
        base: Address of the memory in this process; it stays the same as the memory grows.
        size: Returns the current size in bytes.
    """

    def __init__(self, base: int, size: Callable[[], int]) -> None:
        self.base: Final = base
        self._size = size
        self._known = 0
        self._whole = memoryview(b"")
        self.refresh()

    @property
    def known(self) -> int:
        """The size in bytes when last read."""
        return self._known

    def refresh(self) -> None:
        """Read the size again after the memory has grown."""
        self._known = self._size()
        self._whole = memoryview((ctypes.c_ubyte * self._known).from_address(self.base)).cast("B")

    def release(self) -> None:
        """Refuse all views from now on; the memory is about to be unmapped."""
        self._known, self._whole, self._size = 0, memoryview(b""), _nothing

    def view(self, address: int, length: int) -> memoryview:
        """Return a view of the bytes at an address.

        Raises:
            OSError: The range is not within the memory (EFAULT).
        """
        end = address + length
        if end > self._known:
            self._require(end)
        return self._whole[address:end]

    def _require(self, end: int) -> None:
        """Raise unless the memory extends to `end`."""
        if end > self._known:
            self.refresh()
            if end > self._known:
                raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))

    def write(self, address: int, data: bytes) -> None:
        """Write bytes at an address.

        Raises:
            OSError: As from `view`.
        """
        self.view(address, len(data))[:] = data

    def write_u32(self, address: int, value: int) -> None:
        """Write a 32-bit number at an address; raise as `view` does."""
        self._require(address + 4)
        _U32.pack_into(self._whole, address, value)

    def write_u64(self, address: int, value: int) -> None:
        """Write a 64-bit number at an address; raise as `view` does."""
        self._require(address + 8)
        _U64.pack_into(self._whole, address, value)

    def path(self, address: int, length: int) -> bytes:
        """Return a path, or a link's target.

        Raises:
            OSError: As from `view`; the path is too long (ENAMETOOLONG), contains a NUL byte
                (EINVAL) or is not UTF-8 (EILSEQ).
        """
        if length > MAX_PATH_BYTES:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        text = bytes(self.view(address, length))
        if b"\0" in text:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        if not text.isascii():
            try:
                text.decode("utf-8")
            except UnicodeDecodeError as error:
                raise OSError(errno.EILSEQ, os.strerror(errno.EILSEQ)) from error
        return text

    def buffers(self, address: int, count: int) -> list[memoryview]:
        """Return the buffers in a table of addresses and lengths, at most `MAX_TRANSFER` bytes.

        Raises:
            OSError: As from `view`; there are too many (EINVAL).
        """
        if count > MAX_BUFFERS:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        found: list[memoryview] = []
        left = MAX_TRANSFER
        for start, length in _BUFFER.iter_unpack(self.view(address, count * _BUFFER.size)):
            view = self.view(start, length)
            if left > 0:
                found.append(view[:left])
                left -= length
        return found


def _nothing() -> int:
    """Return 0, the size of released memory."""
    return 0
