"""The preview1 functions on descriptors: decode a call, pass it to a node, encode.

There is no policy here: a guest can reach what its descriptors refer to.
"""

from __future__ import annotations

import errno
import itertools
import os
import struct
from typing import Final

from ..files.files import (
    NOT_CAPABLE,
    Descriptor,
    DirectoryEntry,
    DirectoryListing,
    NodeKind,
    Times,
    refusal,
)
from . import rights
from .guest import Guest, require

STATUS: Final = struct.Struct("<QQB7xQQQQQ")
ALL_FLAGS: Final = 0x1F

_DESCRIPTOR: Final = struct.Struct("<BxH4xQQ")
_PREOPEN: Final = struct.Struct("<II")

_APPEND: Final = 1
_MOST_POSITION: Final = (1 << 63) - 1
_SET, _NOW = 1, 2


def fd_advise(guest: Guest, number: int, _start: int, _length: int, _advice: int) -> int:
    guest.descriptors.get(number, rights.ADVISE)
    return 0


def fd_allocate(guest: Guest, number: int, start: int, length: int) -> int:
    """Grow a file to at least this size; counts against the quota, reserves no disk space."""
    found = guest.descriptors.get(number, rights.ALLOCATE)
    require(found.node.kind is not NodeKind.DIRECTORY, errno.EISDIR)
    require(found.node.kind is NodeKind.REGULAR, errno.ENODEV)
    require(found.writable, errno.EBADF)
    require(length > 0, errno.EINVAL)
    require(start + length <= _MOST_POSITION, errno.EFBIG)
    guest.upkeep.count_file_call()
    if start + length > found.node.status().size:
        found.node.truncate(start + length)
    return 0


def fd_close(guest: Guest, number: int) -> int:
    guest.descriptors.close(number)
    return 0


def fd_renumber(guest: Guest, number: int, new: int) -> int:
    guest.descriptors.renumber(number, new)
    return 0


def fd_sync(guest: Guest, number: int) -> int:
    """Return at once, or sync to disk if the policy says so; that counts as a file call."""
    return _sync(guest, number, rights.SYNC)


def fd_datasync(guest: Guest, number: int) -> int:
    return _sync(guest, number, rights.DATASYNC)


def _sync(guest: Guest, number: int, right: int) -> int:
    if guest.descriptors.get(number, right).node.sync():
        guest.upkeep.count_file_call()
    return 0


def fd_fdstat_get(guest: Guest, number: int, out: int) -> int:
    found = guest.descriptors.get(number)
    own, below = rights.rights_of(found)
    guest.memory.write(out, _DESCRIPTOR.pack(found.node.kind, found.flags, own, below))
    return 0


def fd_fdstat_set_rights(guest: Guest, number: int, own: int, below: int) -> int:
    require(rights.give_up(guest.descriptors.get(number), own, below), NOT_CAPABLE)
    return 0


def fd_fdstat_set_flags(guest: Guest, number: int, flags: int) -> int:
    guest.descriptors.get(number, rights.SET_FLAGS).flags = flags & ALL_FLAGS
    return 0


def fd_filestat_get(guest: Guest, number: int, out: int) -> int:
    found = guest.descriptors.get(number, rights.STATUS)
    guest.memory.write(out, STATUS.pack(*found.node.status()))
    return 0


def fd_filestat_set_size(guest: Guest, number: int, size: int) -> int:
    found = guest.descriptors.get(number, rights.SET_SIZE)
    require(found.node.kind is NodeKind.REGULAR and found.writable, errno.EINVAL)
    require(size <= _MOST_POSITION, errno.EINVAL)
    guest.upkeep.count_file_call()
    found.node.truncate(size)
    return 0


def fd_filestat_set_times(
    guest: Guest, number: int, accessed: int, modified: int, flags: int
) -> int:
    guest.upkeep.count_file_call()
    found = guest.descriptors.get(number, rights.SET_TIMES)
    found.node.set_times(wanted_times(guest, accessed, modified, flags))
    return 0


def _moved(guest: Guest, out: int, count: int) -> int:
    """Report how many bytes were transferred, and charge for them."""
    guest.memory.write_u32(out, count)
    guest.transferred(count)
    return 0


def _for_transfer(
    guest: Guest, number: int, right: int, out: int, at: int | None = None
) -> Descriptor:
    """Return the checked descriptor of a read or write, at a position if one is given."""
    found = guest.descriptors.get(number, right)
    require(found.readable if right == rights.READ else found.writable, errno.EBADF)
    if at is not None:
        require(found.node.kind is not NodeKind.UNKNOWN, errno.ESPIPE)
        require(at <= _MOST_POSITION, errno.EINVAL)
    guest.memory.view(out, 4)
    return found


def fd_read(guest: Guest, number: int, buffers: int, count: int, out: int) -> int:
    found = _for_transfer(guest, number, rights.READ, out)
    done = found.node.read(guest.memory.buffers(buffers, count), found.position)
    found.position += done
    return _moved(guest, out, done)


def fd_pread(guest: Guest, number: int, buffers: int, count: int, at: int, out: int) -> int:
    found = _for_transfer(guest, number, rights.READ, out, at)
    return _moved(guest, out, found.node.read(guest.memory.buffers(buffers, count), at))


def fd_write(guest: Guest, number: int, buffers: int, count: int, out: int) -> int:
    found = _for_transfer(guest, number, rights.WRITE, out)
    at = None if found.flags & _APPEND else found.position
    done, found.position = found.node.write(guest.memory.buffers(buffers, count), at)
    return _moved(guest, out, done)


def fd_pwrite(guest: Guest, number: int, buffers: int, count: int, at: int, out: int) -> int:
    found = _for_transfer(guest, number, rights.WRITE, out, at)
    return _moved(guest, out, found.node.write(guest.memory.buffers(buffers, count), at)[0])


def _with_position(guest: Guest, number: int, right: int) -> Descriptor:
    found = guest.descriptors.get(number, right)
    require(found.node.kind is not NodeKind.DIRECTORY, errno.EISDIR)
    require(found.node.kind is NodeKind.REGULAR, errno.ESPIPE)
    return found


def fd_seek(guest: Guest, number: int, offset: int, whence: int, out: int) -> int:
    found = _with_position(guest, number, rights.SEEK)
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
    found = _with_position(guest, number, rights.TELL)
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
    directory = guest.descriptors.directory(number, rights.READ_DIRECTORY)
    guest.memory.view(out, length)
    guest.memory.view(used, 4)
    if cookie == 0 or found.listing is None:
        guest.upkeep.count_file_call()
        found.leave_listing()
        dots = (
            DirectoryEntry(b".", directory.status().inode, NodeKind.DIRECTORY),
            DirectoryEntry(b"..", 0, NodeKind.DIRECTORY),
        )
        found.listing = DirectoryListing(itertools.chain(dots, directory.entries()), guest.upkeep)
    at = found.listing.copy(cookie, guest.memory.view(out, length))
    guest.memory.write_u32(used, at)
    guest.transferred(at)
    return 0


def wanted_times(guest: Guest, accessed: int, modified: int, flags: int) -> Times:
    """Return the `Times` for a call's flags."""
    for_access, for_modification = flags & 3, flags >> 2 & 3
    require(for_access != _SET | _NOW and for_modification != _SET | _NOW, errno.EINVAL)
    require(max(accessed, modified) <= _MOST_POSITION, errno.EINVAL)

    def times(was_accessed: int, was_modified: int) -> tuple[int, int]:
        now = guest.wall_ns()
        chosen = {0: was_accessed, _SET: accessed, _NOW: now}[for_access]
        return chosen, {0: was_modified, _SET: modified, _NOW: now}[for_modification]

    return times
