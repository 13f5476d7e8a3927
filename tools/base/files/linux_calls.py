"""The calls of Linux that only the sandbox and the jail make, which are refused elsewhere.

What other systems do without those two asks for no call of Linux; where there is a quicker one
there, its caller looks whether `os` has it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys


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
