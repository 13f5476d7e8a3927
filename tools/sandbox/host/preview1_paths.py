"""The functions of preview1 that concern names: decode a call, have a directory answer, encode.

There is no policy here: what a guest may reach is what its descriptors lead to.
"""

from __future__ import annotations

import errno
import functools

from .files import Descriptor, Directory, Kind, Opening
from .guest import Guest, require
from .mount_points import reached
from .preview1_descriptors import ALL_FLAGS, RIGHT_READ, RIGHT_WRITE, STATUS, wanted_times


@functools.lru_cache
def _opening(how: int, rights: int, lookup: int) -> Opening:
    """How a path is to be opened; there are few ways."""
    return Opening(
        create=bool(how & 1),
        directory=bool(how & 2),
        exclusive=bool(how & 4),
        truncate=bool(how & 8),
        read=bool(rights & RIGHT_READ),
        write=bool(rights & RIGHT_WRITE),
        follow=bool(lookup),
    )


def path_open(
    guest: Guest,
    number: int,
    lookup: int,
    path: int,
    length: int,
    how: int,
    rights: int,
    _inherited: int,
    flags: int,
    out: int,
) -> int:
    directory = guest.descriptors.directory(number)
    opening = _opening(how & 0xF, rights & (RIGHT_READ | RIGHT_WRITE), lookup & 1)
    name = guest.path(path, length)
    guest.memory.view(out, 4)
    guest.descriptors.require_room()
    node = directory.open(name, opening)
    made = Descriptor(
        node,
        readable=opening.read or node.kind is Kind.DIRECTORY,
        writable=opening.write,
        flags=flags & ALL_FLAGS,
    )
    guest.memory.write_u32(out, guest.descriptors.add(made))
    return 0


def path_filestat_get(
    guest: Guest, number: int, lookup: int, path: int, length: int, out: int
) -> int:
    directory = guest.descriptors.directory(number)
    found = directory.status_of(guest.path(path, length), follow=bool(lookup & 1))
    guest.memory.write(out, STATUS.pack(*found))
    return 0


def path_filestat_set_times(
    guest: Guest,
    number: int,
    lookup: int,
    path: int,
    length: int,
    accessed: int,
    modified: int,
    flags: int,
) -> int:
    directory = guest.descriptors.directory(number)
    name = guest.path(path, length)
    directory.set_times_of(name, wanted_times(accessed, modified, flags), follow=bool(lookup & 1))
    return 0


def path_create_directory(guest: Guest, number: int, path: int, length: int) -> int:
    guest.descriptors.directory(number).make_directory(guest.path(path, length))
    return 0


def path_remove_directory(guest: Guest, number: int, path: int, length: int) -> int:
    guest.descriptors.directory(number).remove_directory(guest.path(path, length))
    return 0


def path_unlink_file(guest: Guest, number: int, path: int, length: int) -> int:
    directory = guest.descriptors.directory(number)
    name = guest.path(path, length)
    require(not name.endswith(b"/"), errno.ENOTDIR)
    directory.unlink(name)
    return 0


def path_symlink(
    guest: Guest, target: int, target_length: int, number: int, path: int, length: int
) -> int:
    directory = guest.descriptors.directory(number)
    leads_to = guest.memory.path(target, target_length)
    require(leads_to != b"", errno.ENOENT)
    directory.symlink(leads_to, guest.path(path, length))
    return 0


def path_readlink(
    guest: Guest, number: int, path: int, length: int, out: int, size: int, used: int
) -> int:
    directory = guest.descriptors.directory(number)
    target = directory.read_link(guest.path(path, length))[:size]
    guest.memory.view(used, 4)
    guest.memory.write(out, target)
    guest.memory.write_u32(used, len(target))
    return 0


def path_link(
    guest: Guest,
    number: int,
    lookup: int,
    path: int,
    length: int,
    new_number: int,
    new_path: int,
    new_length: int,
) -> int:
    directory, name, other, new_name = _two_places(
        guest, number, path, length, new_number, new_path, new_length
    )
    directory.link(name, other, new_name, follow=bool(lookup & 1))
    return 0


def path_rename(
    guest: Guest,
    number: int,
    path: int,
    length: int,
    new_number: int,
    new_path: int,
    new_length: int,
) -> int:
    directory, name, other, new_name = _two_places(
        guest, number, path, length, new_number, new_path, new_length
    )
    directory.rename(name, other, new_name)
    return 0


def _two_places(
    guest: Guest,
    number: int,
    path: int,
    length: int,
    new_number: int,
    new_path: int,
    new_length: int,
) -> tuple[Directory, bytes, Directory, bytes]:
    directory = guest.descriptors.directory(number)
    other = guest.descriptors.directory(new_number)
    name = guest.path(path, length)
    new_name = guest.memory.path(new_path, new_length)
    return directory, name, *reached(other, new_name)
