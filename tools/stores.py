"""The part of the composition root that opens where sessions are kept; it loads nothing besides.

What works on sessions knows the ports of `harness.session_ports` alone, and is handed what this
opens.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .harness.session_ports import LocalSessions


def open_sessions(base_path: Path | str | None = None) -> LocalSessions:
    """Open the sessions of a base, and their places on this machine; nothing is read or made yet.

    Args:
        base_path: The sessions' directory; `.agentforge/sessions` if None.
    """
    from .harness.session_store import SessionStore

    return SessionStore(base_path)
