"""A network of its own with the loopback device alone, where the machine allows one.

A holder process keeps the network namespace; programs are started in it by `nsenter`, and a server
listens in it from a thread that enters it. What is started there reaches nothing else.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_NEW_NETWORK: Final = 0x40000000
_HOLD: Final = "ip link set lo up && echo ready && exec sleep infinity"


class Loopback:
    """The network, or this machine's where there is none.

    Attributes:
        prefix: What a command line begins with to be run in it.
        isolated: Whether it is one of its own.
    """

    def __init__(self, holder: int | None) -> None:
        self._path = None if holder is None else f"/proc/{holder}/ns/net"
        self.isolated = holder is not None
        self.prefix = [] if self._path is None else ["nsenter", f"--net={self._path}"]

    def enter(self) -> None:
        """Take the calling thread into it, for good."""
        if self._path is None:
            return
        fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if ctypes.CDLL(None, use_errno=True).setns(fd, _NEW_NETWORK) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
        finally:
            os.close(fd)


@contextmanager
def loopback() -> Iterator[Loopback]:
    """Make the network, and end it with the block."""
    if not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
        yield Loopback(None)
        return
    holder = subprocess.Popen(
        ["unshare", "-n", "sh", "-c", _HOLD],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert holder.stdout is not None
        made = holder.stdout.readline() == b"ready\n"
        yield Loopback(holder.pid if made else None)
    finally:
        holder.kill()
        holder.communicate()
