"""State of an agent's program between calls, such as its conversation.

Each answer names the state that the program left then, so a session that is taken back continues
from the state of that time. If a state can't be saved, the program starts without one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from attrs import frozen

from ...base.event_log import get_logger
from ...base.files import DurableError, OsFileSystem, discard_tree, make_durable_directory
from ...base.files.atomic_file import random_token
from ...base.files.filesystem import DIRECTORY_FLAGS
from ...base.files.safe_path import directory_beneath
from ...base.files.trees import CopyLimits, TreeTooLarge, copy_tree
from ...harness.session_layout import AGENT_STATE

LIMITS: Final = CopyLimits(max_entries=10_000, max_bytes=64 << 20, max_depth=32)
"""The most that is saved of one state."""

_log = get_logger("agentforge.agents")


@frozen
class AgentStates:
    """The states of one session's agent.

    Attributes:
        session_directory: The session's directory.
    """

    session_directory: Path

    def bring(self, name: str | None, target_fd: int) -> bool:
        """Copy a state into an empty folder; return whether that gave it any content."""
        if name is None:
            return False
        fs = OsFileSystem()
        try:
            fd = os.open(self.session_directory / AGENT_STATE / name, DIRECTORY_FLAGS)
        except OSError:
            return False
        try:
            copy_tree(fs, fd, target_fd, limits=LIMITS)
        finally:
            os.close(fd)
        return bool(fs.listdir(target_fd))

    def keep(self, name: str, source_fd: int, *, former: str | None) -> str | None:
        """Save a state, remove all others but the former one; return its name, or None on failure.

        Args:
            name: Its name; a state of this name is replaced.
            source_fd: The folder, open.
            former: The state that the program continued from.
        """
        fs = OsFileSystem()
        folder = self.session_directory / AGENT_STATE
        make_durable_directory(fs, folder)
        fd = os.open(folder, DIRECTORY_FLAGS)
        try:
            for one in fs.listdir(fd):
                if one != former or one == name:
                    discard_tree(fs, fd, one, parent=folder, token=random_token)
            fs.mkdir(name, 0o700, dir_fd=fd)
            with directory_beneath(fs, fd, [name]) as target_fd:
                copy_tree(fs, source_fd, target_fd, limits=LIMITS)
        except (TreeTooLarge, OSError, DurableError) as error:
            _log.warning("agent.state_not_kept", name=name, problem=str(error))
            with suppress(OSError, DurableError):
                discard_tree(fs, fd, name, parent=folder, token=random_token)
            return None
        finally:
            os.close(fd)
        return name
