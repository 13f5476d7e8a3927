"""The head of a session's file and the file's identity, read at one moment."""

from __future__ import annotations

import os
from pathlib import Path

from ...base.files import OsFileSystem
from ...base.files.filesystem import READ_FLAGS, close_reader
from ...harness.session_layout import SESSION_FILE
from ...harness.store.session_reader import read_head
from ...harness.views.session_head import SessionHead


def head_of(base: Path | str, session_id: str) -> tuple[SessionHead, os.stat_result] | None:
    """Return a session's head and its file's status, both of the same moment.

    None means that the file can't be opened, or does not have exactly the form that we write.
    """
    fs = OsFileSystem()
    try:
        fd = fs.open(os.path.join(base, session_id, SESSION_FILE), READ_FLAGS)
    except OSError:
        return None
    try:
        status = fs.fstat(fd)
        head = read_head(fs, fd, session_id, status.st_size)
    except OSError:
        return None
    finally:
        close_reader(fs, fd)
    return None if head is None else (head, status)
