"""Follow a session's file: yield the session at each new revision."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ...harness import SessionContext, SessionStore

POLL_SECONDS: Final = 0.5
"""How often the file is looked at."""


def follow(
    store: SessionStore, session_id: str, *, sleep: Callable[[float], None]
) -> Iterator[SessionContext]:
    """Yield the session as it is, and again at each new revision, until it has ended.

    Between two looks only the file's status is read; the file itself only when that changed.

    Args:
        store: Where the session is.
        session_id: Which.
        sleep: How to wait between two looks.

    Raises:
        SessionNotFound: There is none, or it was deleted meanwhile.
        SessionCorrupted: Its file is no session (any more).
    """
    from ...harness import SessionNotFound

    path = store.session_path(session_id)
    seen: tuple[int, ...] | None = None
    revision: int | None = None
    while True:
        mark: tuple[int, ...] = ()
        try:
            status = os.stat(path, follow_symlinks=False)
            mark = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        except OSError:
            pass  # the store says what is wrong
        if mark != seen or not mark:
            session = store.load(session_id)
            if session is None:
                raise SessionNotFound(session_id, path=store.base_path)
            seen = mark
            if session.revision != revision:
                revision = session.revision
                yield session
                if session.state.is_terminal:
                    return
        sleep(POLL_SECONDS)
