"""The functions of preview1 that concern what is open: decode a call, have a node answer, encode.

There is no policy here: what a guest may reach is what its descriptors lead to.
"""

from __future__ import annotations

import errno
import os
import struct
import time
from typing import Final

from .files import Descriptor, Entry, Kind, Times, refusal
from .guest import Guest, require

STATUS: Final = struct.Struct("<QQB7xQQQQQ")
RIGHT_READ: Final = 1 << 1
RIGHT_WRITE: Final = 1 << 6
ALL_FLAGS: Final = 0x1F

_DESCRIPTOR: Final = struct.Struct("<BxH4xQQ")
_ENTRY: Final = struct.Struct("<QQIB3x")
_PREOPEN: Final = struct.Struct("<II")

_FILE_RIGHTS: Final = 0x8E001BD  # all but reading and writing that a file can have
_DIRECTORY_RIGHTS: Final = 0xFFFFE19  # all that a directory can have
_ALL_RIGHTS: Final = 0x1FFFFFFF
_APPEND: Final = 1
_MOST_POSITION: Final = (1 << 63) - 1
_SET, _NOW = 1, 2


def fd_advise(guest: Guest, number: int, _start: int, _length: int, _advice: int) -> int:
    guest.descriptors.get(number)
    return 0


def fd_close(guest: Guest, number: int) -> int:
    guest.descriptors.close(number)
    return 0


def fd_sync(guest: Guest, number: int) -> int:
    """Answered at once, or by the disk where the policy says so, which counts as a file call."""
    if guest.descriptors.get(number).node.sync():
        guest.count_file_call()
    return 0


def fd_fdstat_get(guest: Guest, number: int, out: int) -> int:
    found = guest.descriptors.get(number)
    rights = _DIRECTORY_RIGHTS if found.node.kind is Kind.DIRECTORY else _FILE_RIGHTS
    if found.node.kind is Kind.UNKNOWN:
        rights = 0
    if found.readable:
        rights |= RIGHT_READ
    if found.writable:
        rights |= RIGHT_WRITE
    inherited = _ALL_RIGHTS if found.node.kind is Kind.DIRECTORY else 0
    guest.memory.write(out, _DESCRIPTOR.pack(found.node.kind, found.flags, rights, inherited))
    return 0


def fd_fdstat_set_flags(guest: Guest, number: int, flags: int) -> int:
    guest.descriptors.get(number).flags = flags & ALL_FLAGS
    return 0


def fd_filestat_get(guest: Guest, number: int, out: int) -> int:
    guest.memory.write(out, STATUS.pack(*guest.descriptors.get(number).node.status()))
    return 0


def fd_filestat_set_size(guest: Guest, number: int, size: int) -> int:
    found = guest.descriptors.get(number)
    require(found.node.kind is Kind.REGULAR and found.writable, errno.EINVAL)
    require(size <= _MOST_POSITION, errno.EINVAL)
    guest.count_file_call()
    found.node.truncate(size)
    return 0


def fd_filestat_set_times(
    guest: Guest, number: int, accessed: int, modified: int, flags: int
) -> int:
    guest.count_file_call()
    guest.descriptors.get(number).node.set_times(wanted_times(accessed, modified, flags))
    return 0


def _readable(guest: Guest, number: int) -> Descriptor:
    found = guest.descriptors.get(number)
    require(found.readable, errno.EBADF)
    return found


def _writable(guest: Guest, number: int) -> Descriptor:
    found = guest.descriptors.get(number)
    require(found.writable, errno.EBADF)
    return found


def fd_read(guest: Guest, number: int, buffers: int, count: int, out: int) -> int:
    found = _readable(guest, number)
    guest.memory.view(out, 4)
    done = found.node.read(guest.memory.buffers(buffers, count), found.position)
    found.position += done
    guest.memory.write_u32(out, done)
    guest.transferred(done)
    return 0


def fd_pread(guest: Guest, number: int, buffers: int, count: int, at: int, out: int) -> int:
    found = _readable(guest, number)
    require(found.node.kind is not Kind.UNKNOWN, errno.ESPIPE)
    require(at <= _MOST_POSITION, errno.EINVAL)
    guest.memory.view(out, 4)
    done = found.node.read(guest.memory.buffers(buffers, count), at)
    guest.memory.write_u32(out, done)
    guest.transferred(done)
    return 0


def fd_write(guest: Guest, number: int, buffers: int, count: int, out: int) -> int:
    found = _writable(guest, number)
    guest.memory.view(out, 4)
    at = None if found.flags & _APPEND else found.position
    done, found.position = found.node.write(guest.memory.buffers(buffers, count), at)
    guest.memory.write_u32(out, done)
    guest.transferred(done)
    return 0


def fd_pwrite(guest: Guest, number: int, buffers: int, count: int, at: int, out: int) -> int:
    found = _writable(guest, number)
    require(found.node.kind is not Kind.UNKNOWN, errno.ESPIPE)
    require(at <= _MOST_POSITION, errno.EINVAL)
    guest.memory.view(out, 4)
    done, _ = found.node.write(guest.memory.buffers(buffers, count), at)
    guest.memory.write_u32(out, done)
    guest.transferred(done)
    return 0


def fd_seek(guest: Guest, number: int, offset: int, whence: int, out: int) -> int:
    found = guest.descriptors.get(number)
    require(found.node.kind is Kind.REGULAR, errno.ESPIPE)
    require(whence <= os.SEEK_END, errno.EINVAL)
    if offset > _MOST_POSITION:
        offset -= 1 << 64
    if whence == os.SEEK_CUR:
        offset += found.position
    elif whence == os.SEEK_END:
        offset += found.node.status().size
    require(0 <= offset <= _MOST_POSITION, errno.EINVAL)
    guest.memory.write_u64(out, offset)
    found.position = offset
    return 0


def fd_tell(guest: Guest, number: int, out: int) -> int:
    found = guest.descriptors.get(number)
    require(found.node.kind is Kind.REGULAR, errno.ESPIPE)
    guest.memory.write_u64(out, found.position)
    return 0


def fd_prestat_get(guest: Guest, number: int, out: int) -> int:
    path = guest.descriptors.get(number).preopened
    if path is None:
        raise refusal(errno.EBADF)
    guest.memory.write(out, _PREOPEN.pack(0, len(path)))
    return 0


def fd_prestat_dir_name(guest: Guest, number: int, out: int, length: int) -> int:
    path = guest.descriptors.get(number).preopened
    if path is None:
        raise refusal(errno.EBADF)
    require(length >= len(path), errno.ENAMETOOLONG)
    guest.memory.write(out, path)
    return 0


def fd_readdir(guest: Guest, number: int, out: int, length: int, cookie: int, used: int) -> int:
    found = guest.descriptors.get(number)
    directory = guest.descriptors.directory(number)
    guest.memory.view(out, length)
    guest.memory.view(used, 4)
    if cookie == 0 or found.listing is None:
        guest.count_file_call()
        found.listing = [
            Entry(b".", 0, Kind.DIRECTORY),
            Entry(b"..", 0, Kind.DIRECTORY),
            *directory.entries(),
        ]
        guest.transferred(64 * len(found.listing))
    at = 0
    for i in range(cookie, len(found.listing)):
        if at >= length:
            break
        entry = found.listing[i]
        record = _ENTRY.pack(i + 1, entry.inode, len(entry.name), entry.kind) + entry.name
        piece = record[: length - at]  # the last one may be cut; the guest asks for it again
        guest.memory.write(out + at, piece)
        at += len(piece)
    guest.memory.write_u32(used, at)
    guest.transferred(at)
    return 0


def wanted_times(accessed: int, modified: int, flags: int) -> Times:
    """What sets the times that a call asks for."""
    for_access, for_modification = flags & 3, flags >> 2 & 3
    require(for_access != _SET | _NOW and for_modification != _SET | _NOW, errno.EINVAL)
    require(max(accessed, modified) <= _MOST_POSITION, errno.EINVAL)

    def times(was_accessed: int, was_modified: int) -> tuple[int, int]:
        now = time.time_ns()
        chosen = {0: was_accessed, _SET: accessed, _NOW: now}[for_access]
        return chosen, {0: was_modified, _SET: modified, _NOW: now}[for_modification]

    return times
