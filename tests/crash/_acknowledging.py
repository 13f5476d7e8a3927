"""A process that changes sessions and stops after each acknowledgement until it may go on.

Run as `python -m tests.crash._acknowledging BASE CHANGES SYNC`. After each change it writes a JSON
line, the session's id and its revision (0 once it is deleted), and waits for a line. With SYNC
"left-out" the store's `fsync` does nothing.
"""

from __future__ import annotations

import json
import sys

from agentforge_sessions.base.files import OsFileSystem
from agentforge_sessions.harness import SessionContext, SessionStore
from tests.crash import _story


class UnsyncedFileSystem(OsFileSystem):
    """The real file system, whose `fsync` says that all is well and does nothing."""

    @staticmethod
    def fsync(fd: int) -> None:  # type: ignore[override]
        """Do nothing."""


def main(base: str, changes: int, *, synced: bool) -> None:
    """Make sessions, save them again and delete them; each change is acknowledged by itself."""
    store = SessionStore(base, fs=OsFileSystem() if synced else UnsyncedFileSystem())
    sessions: dict[str, SessionContext] = {}
    for number in range(changes):
        turn, step = divmod(number, 4)
        session_id = _story.BYSTANDER if step == 2 else _story.id_of(turn)
        if step == 3:
            assert store.delete(session_id)
            revision = 0
        else:
            if session_id in sessions:
                _story.go_on(sessions[session_id])
            else:
                sessions[session_id] = _story.begin(session_id)
            store.save(sessions[session_id])
            revision = sessions[session_id].revision
        print(json.dumps({"id": session_id, "revision": revision}), flush=True)
        if not sys.stdin.readline():
            return


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), synced=sys.argv[3] != "left-out")
