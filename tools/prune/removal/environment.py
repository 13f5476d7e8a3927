"""What a prune needs of the world, in one place, so that tests can give their own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import field, frozen
from attrs.validators import ge

from ...base.clock import Clock, utc_now
from ...base.files import FileSystem, OsFileSystem
from ...base.files.atomic_file import random_token
from ..records.audit_log import actor
from .deletion import DELETERS


def mounted_names(root: Path, mountinfo: str = "/proc/self/mountinfo") -> frozenset[str]:
    """List what in a root has something mounted at or below it.

    A bind from the same file system has the same device number, so only the kernel's table has
    it (proc_pid_mountinfo(5): the fifth field, with blanks and backslashes as octal escapes).

    Args:
        root: The directory.
        mountinfo: The table; where there is none, nothing is known to be mounted.
    """
    try:
        with open(mountinfo, "rb") as table:
            points = [line.split(b" ")[4] for line in table]
    except (OSError, IndexError):
        return frozenset()
    base = os.fsencode(os.path.realpath(root)).rstrip(b"/") + b"/"
    plain = (_unescaped(point) if b"\\" in point else point for point in points)
    below = (point[len(base) :] for point in plain if point.startswith(base))
    return frozenset(os.fsdecode(point.split(b"/", 1)[0]) for point in below)


def mount_id(fd: int) -> str | None:
    """Return which mount an open file or directory is reached through; None where it is not known.

    A bind has an id of its own even where the device number is the same (proc_pid_fdinfo(5)).
    """
    try:
        with open(f"/proc/self/fdinfo/{fd}", "rb") as about:
            lines = about.read().splitlines()
    except OSError:
        return None
    found = (line.split()[1] for line in lines if line.startswith(b"mnt_id:"))
    return next((number.decode("ascii") for number in found), None)


def _unescaped(field_: bytes) -> bytes:
    for code, plain in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        field_ = field_.replace(code, plain)
    return field_


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
    token: Callable[[], str] = random_token
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    actor: Callable[[], Mapping[str, object]] = actor
    free_bytes: Callable[[int], int] = _free
    mounts: Callable[[Path], frozenset[str]] = mounted_names
    mount_of: Callable[[int], object] = mount_id
    deleters: int = field(default=DELETERS, validator=ge(1))


def owners_of(fs: FileSystem, root_fd: int) -> frozenset[int]:
    """Return whose sessions may go: this user's; root also cleans up for the root's owner."""
    user = os.geteuid()
    return frozenset({user} | ({fs.fstat(root_fd).st_uid} if user == 0 else set()))
