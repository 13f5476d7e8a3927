"""What a prune needs of the world, in one place, so that tests can give their own."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import field, frozen
from attrs.validators import ge

from ..clock import Clock, utc_now
from ..durable import FileSystem, OsFileSystem
from .audit_log import actor
from .deleters import DELETERS
from .inspection import mount_id, mounted_names


def _free(fd: int) -> int:
    status = os.fstatvfs(fd)
    return status.f_bavail * status.f_frsize


@frozen(kw_only=True)
class Outside:
    """What a prune needs of the world, replaceable.

    Attributes:
        fs: The file system; called from several threads at once where there are several deleters.
        clock: The time now, aware.
        file_clock: The clock that file systems stamp changes with, in nanoseconds since 1970.
        token: Gives fresh random texts for names out of sight.
        monotonic: The clock that waits and durations are read from.
        sleep: How to pause.
        actor: Who prunes, for the audit log.
        free_bytes: What is free on the file system of an open directory.
        mounts: Names in a root at or below which something is mounted.
        mount_of: Which mount an open directory is reached through.
        deleters: How many threads delete at once, the caller's among them; 1 starts none.
    """

    fs: FileSystem = field(factory=OsFileSystem)
    clock: Clock = utc_now
    file_clock: Callable[[], int] = time.time_ns
    token: Callable[[], str] = lambda: secrets.token_hex(8)
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    actor: Callable[[], Mapping[str, object]] = actor
    free_bytes: Callable[[int], int] = _free
    mounts: Callable[[Path], frozenset[str]] = mounted_names
    mount_of: Callable[[int], object] = mount_id
    deleters: int = field(default=DELETERS, validator=ge(1))


def owners_of(fs: FileSystem, root_fd: int) -> frozenset[int]:
    """Say whose sessions may go: this user's; root also cleans up for the root's owner."""
    user = os.geteuid()
    return frozenset({user} | ({fs.fstat(root_fd).st_uid} if user == 0 else set()))
