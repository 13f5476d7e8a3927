"""What needs Linux, why it is refused elsewhere, and calls of the sandbox and the jail alone.

What other systems do without the sandbox and the jail asks for no call of Linux; where there is a
quicker one there, its caller looks whether `os` has it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from typing import Final

WORKS_ELSEWHERE: Final = (
    "sessions, hooks, questions, the MCP server, `agentforge ui`, `agentforge prune` and "
    "`agentforge do --no-jail` need neither the sandbox nor the jail"
)


def why_not_linux() -> str | None:
    """Return why what needs Linux can't run on this system; None if this is Linux."""
    return None if sys.platform == "linux" else f"it needs Linux, and this is {sys.platform}"


def memory_file(name: str) -> int:
    """Open a new file in memory, without a name; it may be sealed."""
    if sys.platform == "linux":
        return os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    raise _missing("memfd_create")


def seal(fd: int) -> None:
    """Make the content of a file in memory final, for all that have it open."""
    if sys.platform == "linux":
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        return
    raise _missing("F_ADD_SEALS")


def process_descriptor(pid: int) -> int:
    """Open a process: its descriptor means no other, and is readable once it has ended."""
    if sys.platform == "linux":
        return os.pidfd_open(pid)
    raise _missing("pidfd_open")


def _missing(call: str) -> OSError:
    return OSError(errno.ENOSYS, f"{call} is a call of Linux")
