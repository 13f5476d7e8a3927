"""All that a prune needs of its surroundings, in one place, so that tests can replace it."""

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
from ..audit_log import actor
from .deletion import DELETERS


def mounted_names(root: Path, mountinfo: str = "/proc/self/mountinfo") -> frozenset[str]:
    """List the names in a root at or below which something is mounted.

    A bind from the same file system has the same device number, so only the kernel's table shows it
    (proc_pid_mountinfo(5): the fifth field, with blanks and backslashes as octal escapes).

    Args:
        root: The directory.
        mountinfo: The table; if it is missing, no mounts are known.
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
    """Return the mount through which an open file or directory is reached; None if unknown.

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
class PruneEnvironment:
    """The surroundings of a prune, replaceable.

    Attributes:
        fs: The file system; called from several threads at once if there are several deleters.
        clock: Returns the time now, aware.
        file_clock: The clock of the file systems' time stamps, in nanoseconds since 1970.
        token: Returns a fresh random text for a name out of sight.
        monotonic: The clock for waits and durations.
        sleep: Pauses.
        actor: Returns who prunes, for the audit log.
        free_bytes: Returns the free bytes on the file system of an open directory.
        mounts: Returns the names in a root at or below which something is mounted.
        mount_of: Returns the mount through which an open directory is reached.
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
    """Return whose sessions may be removed: this user's, and for root the root owner's too."""
    user = os.geteuid()
    return frozenset({user} | ({fs.fstat(root_fd).st_uid} if user == 0 else set()))
