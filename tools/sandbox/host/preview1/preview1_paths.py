"""The preview1 functions on names: decode a call, pass it to a directory, encode.

There is no policy here: a guest can reach what its descriptors refer to.
"""

from __future__ import annotations

import errno
import functools

from ..files.files import NOT_CAPABLE, Descriptor, Directory, NodeKind, Opening
from ..files.mount_points import MountPoints, from_the_root, reached
from . import rights
from .guest import Guest, require
from .preview1_descriptors import ALL_FLAGS, STATUS, wanted_times

_CREATE, _TRUNCATE = 1, 8
_ROOT = 3
"""The descriptor of the guest's `/`, in which everything else is mounted."""


def _place(
    guest: Guest, number: int, right: int, path: bytes
) -> tuple[Directory | MountPoints, bytes]:
    """Return a path's start directory and the rest; `..` may lead above a mount."""
    directory = guest.descriptors.directory(number, right)
    found = guest.descriptors.get(number)
    if found.preopened is None or b".." not in path or _ROOT not in guest.descriptors:
        return directory, path
    root = guest.descriptors.get(_ROOT).node
    if found.node is root or not isinstance(root, MountPoints):
        return directory, path
    above = from_the_root(found.preopened, directory, path)
    return (root, above) if above else (directory, path)


def _changing(guest: Guest, number: int, right: int, path: bytes) -> tuple[Directory, bytes]:
    """Return the start directory of a path to be changed, and the rest of the path."""
    return reached(*_place(guest, number, right, path))


@functools.lru_cache
def _opening(how: int, wanted: int, lookup: int) -> Opening:
    """Return how a path is to be opened; cached, as there are few ways."""
    return Opening(
        create=bool(how & _CREATE),
        directory=bool(how & 2),
        exclusive=bool(how & 4),
        truncate=bool(how & _TRUNCATE),
        read=bool(wanted & rights.READ),
        write=bool(wanted & rights.WRITE),
        follow=bool(lookup),
    )


def path_open(
    guest: Guest,
    number: int,
    lookup: int,
    path: int,
    length: int,
    how: int,
    wanted: int,
    wanted_below: int,
    flags: int,
    out: int,
) -> int:
    found = guest.descriptors.get(number)
    guest.descriptors.directory(number, _needed_to_open(how))
    require(not (wanted | wanted_below) & found.given_up_below, NOT_CAPABLE)
    opening = _opening(how & 0xF, wanted & (rights.READ | rights.WRITE), lookup & 1)
    name = guest.path(path, length)
    guest.memory.view(out, 4)
    guest.descriptors.require_room()
    directory, name = _place(guest, number, 0, name)
    node = directory.open(name, opening)
    made = Descriptor(
        node,
        readable=opening.read or node.kind is NodeKind.DIRECTORY,
        writable=opening.write,
        flags=flags & ALL_FLAGS,
    )
    made.given_up = made.given_up_below = found.given_up_below
    guest.memory.write_u32(out, guest.descriptors.add(made))
    return 0


def _needed_to_open(how: int) -> int:
    created = rights.CREATE_FILE if how & _CREATE else 0
    return rights.OPEN | created | (rights.TRUNCATE_AT_OPENING if how & _TRUNCATE else 0)


def path_filestat_get(
    guest: Guest, number: int, lookup: int, path: int, length: int, out: int
) -> int:
    directory, name = _place(guest, number, rights.STATUS_OF, guest.path(path, length))
    found = directory.status_of(name, follow=bool(lookup & 1))
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
    directory, name = _place(guest, number, rights.SET_TIMES_OF, guest.path(path, length))
    times = wanted_times(guest, accessed, modified, flags)
    directory, name = reached(directory, name)
    directory.set_times_of(name, times, follow=bool(lookup & 1))
    return 0


def path_create_directory(guest: Guest, number: int, path: int, length: int) -> int:
    directory, name = _changing(guest, number, rights.CREATE_DIRECTORY, guest.path(path, length))
    directory.make_directory(name)
    return 0


def path_remove_directory(guest: Guest, number: int, path: int, length: int) -> int:
    directory, name = _changing(guest, number, rights.REMOVE_DIRECTORY, guest.path(path, length))
    directory.remove_directory(name)
    return 0


def path_unlink_file(guest: Guest, number: int, path: int, length: int) -> int:
    directory, name = _changing(guest, number, rights.UNLINK, guest.path(path, length))
    directory.unlink(name)
    return 0


def path_symlink(
    guest: Guest, target: int, target_length: int, number: int, path: int, length: int
) -> int:
    leads_to = guest.memory.path(target, target_length)
    require(leads_to != b"", errno.ENOENT)
    directory, name = _changing(guest, number, rights.SYMLINK, guest.path(path, length))
    directory.symlink(leads_to, name)
    return 0


def path_readlink(
    guest: Guest, number: int, path: int, length: int, out: int, size: int, used: int
) -> int:
    directory, name = _place(guest, number, rights.READ_LINK, guest.path(path, length))
    target = directory.read_link(name)[:size]
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
    source, name = _place(guest, number, rights.LINK_SOURCE, guest.path(path, length))
    new_name = guest.memory.path(new_path, new_length)
    target, new_name = _place(guest, new_number, rights.LINK_TARGET, new_name)
    target, new_name = reached(target, new_name)
    source, name = reached(source, name)
    source.link(name, target, new_name, follow=bool(lookup & 1))
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
    source, name = _place(guest, number, rights.RENAME_SOURCE, guest.path(path, length))
    new_name = guest.memory.path(new_path, new_length)
    target, new_name = _place(guest, new_number, rights.RENAME_TARGET, new_name)
    target, new_name = reached(target, new_name)
    source, name = reached(source, name)
    source.rename(name, target, new_name)
    return 0
