"""What a restarted conversation sends again, as the program's own file of it shows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

_MAX_BYTES: Final = 16 * 1024 * 1024
"""How much of the file's end is read: some milliseconds' worth."""


def holds_texts(path: str | None, beginnings: Sequence[str], compacted: bytes | None) -> bool:
    """Return whether the context of a conversation has texts that begin so.

    False if the file can't be read, or if they are too far from its end. A text that only quotes
    another is none: the file is JSON, in which its quotation mark is escaped.

    Args:
        path: The program's file of the conversation.
        beginnings: How the texts begin; plain ASCII without quotation marks.
        compacted: What the file has where the context was compacted; None if a restarted
            conversation of this program lacks what our hooks gave it.
    """
    if path is None or compacted is None or not beginnings:
        return False
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return False
    try:
        end = os.fstat(fd).st_size
        tail = os.pread(fd, _MAX_BYTES, max(0, end - _MAX_BYTES))
    except OSError:
        return False
    finally:
        os.close(fd)
    sent = tail[tail.rfind(compacted) + 1 :]
    return all(_has_text(sent, f'"{text}'.encode()) for text in beginnings)


def _has_text(data: bytes, beginning: bytes) -> bool:
    """Return whether a text begins so whose quotation mark is not escaped."""
    at = data.find(beginning)
    while at > 0 and data[at - 1 : at] == b"\\":
        at = data.find(beginning, at + 1)
    return at >= 0
