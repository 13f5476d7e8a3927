"""The rights of descriptors, in preview1's numbers.

A descriptor starts with every right its kind can have. A guest may give rights up, but never regain
them.
"""

from __future__ import annotations

from typing import Final

from ..files.files import Descriptor, NodeKind

DATASYNC: Final = 1 << 0
READ: Final = 1 << 1
SEEK: Final = 1 << 2
SET_FLAGS: Final = 1 << 3
SYNC: Final = 1 << 4
TELL: Final = 1 << 5
WRITE: Final = 1 << 6
ADVISE: Final = 1 << 7
ALLOCATE: Final = 1 << 8
CREATE_DIRECTORY: Final = 1 << 9
CREATE_FILE: Final = 1 << 10
LINK_SOURCE: Final = 1 << 11
LINK_TARGET: Final = 1 << 12
OPEN: Final = 1 << 13
READ_DIRECTORY: Final = 1 << 14
READ_LINK: Final = 1 << 15
RENAME_SOURCE: Final = 1 << 16
RENAME_TARGET: Final = 1 << 17
STATUS_OF: Final = 1 << 18
TRUNCATE_AT_OPENING: Final = 1 << 19
SET_TIMES_OF: Final = 1 << 20
STATUS: Final = 1 << 21
SET_SIZE: Final = 1 << 22
SET_TIMES: Final = 1 << 23
SYMLINK: Final = 1 << 24
REMOVE_DIRECTORY: Final = 1 << 25
UNLINK: Final = 1 << 26

ALL: Final = (1 << 30) - 1

_OF_FILES: Final = 0x8E001BD  # all of a file's but read and write
_OF_DIRECTORIES: Final = 0xFBFFE19  # all of a directory's


def rights_of(descriptor: Descriptor) -> tuple[int, int]:
    """Return a descriptor's rights, and those of what is opened from it."""
    own, below = _OF_FILES, 0
    if descriptor.node.kind is NodeKind.DIRECTORY:
        own, below = _OF_DIRECTORIES, ALL
    elif descriptor.node.kind is NodeKind.UNKNOWN:
        own = 0
    if descriptor.readable:
        own |= READ
    if descriptor.writable:
        own |= WRITE
    return own & ~descriptor.given_up, below & ~descriptor.given_up_below


def give_up(descriptor: Descriptor, own: int, below: int) -> bool:
    """Reduce a descriptor's rights to these; return whether it had them all."""
    had_own, had_below = rights_of(descriptor)
    if own & ~had_own or below & ~had_below:
        return False
    descriptor.given_up |= ALL & ~own
    descriptor.given_up_below |= ALL & ~below
    return True
