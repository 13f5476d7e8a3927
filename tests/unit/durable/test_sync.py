"""What is acknowledged is on the disk, and not in the drive's own cache."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys

import pytest

from agentforge_sessions.base.files import OsFileSystem
from agentforge_sessions.base.files.filesystem import syncing_by

FULL = 51
"""`F_FULLFSYNC` of macOS."""


class Disk:
    """The two calls, as a system answers them."""

    def __init__(self, refusal: int | None = None) -> None:
        self.calls: list[tuple[str, ...]] = []
        self._refusal = refusal

    def control(self, fd: int, command: int) -> int:
        self.calls.append(("fcntl", str(fd), str(command)))
        if self._refusal is not None:
            raise OSError(self._refusal, os.strerror(self._refusal))
        return 0

    def fsync(self, fd: int) -> None:
        self.calls.append(("fsync", str(fd)))

    def sync(self, full: int | None) -> None:
        syncing_by(full, control=self.control, fsync=self.fsync)(7)


def test_the_drives_cache_is_emptied_where_the_system_can_do_that() -> None:
    disk = Disk()
    disk.sync(FULL)
    assert disk.calls == [("fcntl", "7", "51")]


def test_a_system_without_that_syncs_as_it_can() -> None:
    disk = Disk()
    disk.sync(None)
    assert disk.calls == [("fsync", "7")]


@pytest.mark.parametrize("refusal", [errno.ENOTSUP, errno.EINVAL, errno.ENOTTY])
def test_a_file_system_without_that_is_synced_as_it_can(refusal: int) -> None:
    disk = Disk(refusal)
    disk.sync(FULL)
    assert disk.calls == [("fcntl", "7", "51"), ("fsync", "7")]


@pytest.mark.parametrize("refusal", [errno.EIO, errno.ENOSPC, errno.EBADF])
def test_a_sync_that_failed_is_not_tried_in_another_way(refusal: int) -> None:
    disk = Disk(refusal)
    with pytest.raises(OSError, match=os.strerror(refusal)):
        disk.sync(FULL)
    assert disk.calls == [("fcntl", "7", "51")]


def test_the_real_file_system_asks_for_it_where_the_system_has_it() -> None:
    program = (
        "import fcntl; fcntl.F_FULLFSYNC = 51\n"
        "from agentforge_sessions.base.files import OsFileSystem\n"
        "print(OsFileSystem.fsync.__qualname__)"
    )
    told = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert told == "syncing_by.<locals>.sync\n"
    if not hasattr(fcntl, "F_FULLFSYNC"):
        assert OsFileSystem.fsync is os.fsync
