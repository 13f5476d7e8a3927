"""The folder that the code of a session's phases works in."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ...harness import SessionNotFound
from ...harness.session_ports import LocalSessions


def session_workspace(store: LocalSessions, session_id: str) -> Path:
    """Return a session's workspace; it is made if it is not there.

    Raises:
        SessionNotFound: There is no such session.
        InvalidSessionId: It is no id.
        OSError: The system refused.
    """
    workspace = store.workspace_path(session_id)
    try:
        with suppress(FileExistsError):
            os.mkdir(workspace, 0o700)
    except FileNotFoundError:
        raise SessionNotFound(session_id, path=store.where) from None
    return workspace
