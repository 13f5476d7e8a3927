"""Reading files that people name, without trust in what they are."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_limited(path: Path, limit: int) -> bytes | str:
    """Read a regular file; if that can't be done, say why."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        return f"can't be read: {os.strerror(error.errno or 0)}"
    except ValueError:
        return "can't be read: no file has such a name"
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return "can't be read: it is not a regular file"
        pieces = []
        left = limit + 1
        while left and (piece := os.read(fd, left)):
            pieces.append(piece)
            left -= len(piece)
        if not left:
            return f"has more than {limit:,} bytes, the limit"
        return b"".join(pieces)
    except OSError as error:
        return f"can't be read: {os.strerror(error.errno or 0)}"
    finally:
        os.close(fd)
