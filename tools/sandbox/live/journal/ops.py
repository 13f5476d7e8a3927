"""What a journal's notes are of."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final


class Op(IntEnum):
    """What a note is of; the numbers are the file's form."""

    WALL = 1
    MONOTONIC = 2
    CHANCE = 3
    WAIT = 4
    REQUEST = 5
    CALL = 6
    TOO_LONG = 7
    REFUSED = 8
    HANDED_ON = 9
    ROOTS = 10
    OPEN = 16
    CLOSE = 17
    FSTAT = 18
    STAT = 19
    READ = 20
    WRITE = 21
    TRUNCATE = 22
    SYNC = 23
    MAKE_DIRECTORY = 24
    REMOVE_DIRECTORY = 25
    UNLINK = 26
    SYMLINK = 27
    READ_LINK = 28
    RENAME = 29
    LINK = 30
    LIST = 31
    COPY = 32
    SET_TIMES = 33
    COUNT_NAMES = 34
    FILES_BELOW = 35


REPEATABLE: Final = frozenset({Op.HANDED_ON, Op.ROOTS, Op.WRITE, Op.TRUNCATE, Op.SET_TIMES})
"""What is answered the same if it is made twice, whatever was noted before."""


class EffectState(Enum):
    """What is known of an effect that is to be made."""

    NOT = "not done"
    NOTED = "done, and its answer noted"
    PERHAPS = "done, perhaps"
