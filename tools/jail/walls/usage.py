"""What a jail uses: its processes and their memory, and the space of a folder on the disk."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from attrs import frozen

from ...base.files import OsFileSystem
from ...base.files.filesystem import DIRECTORY_FLAGS
from ...base.files.trees import Entry, walk_tree

_PROC: Final = Path("/proc")
_OWN: Final = re.compile(rb"^(?:RssAnon|VmSwap|VmPTE):\s*(\d+) kB$", re.MULTILINE)
_SHARED: Final = re.compile(rb"^RssShmem:\s*(\d+) kB$", re.MULTILINE)
_OWN_PART: Final = re.compile(rb"^(?:Pss_Anon|SwapPss):\s*(\d+) kB$", re.MULTILINE)
_SHARED_PART: Final = re.compile(rb"^Pss_Shmem:\s*(\d+) kB$", re.MULTILINE)
_THREADS: Final = re.compile(rb"^Threads:\s*(\d+)$", re.MULTILINE)
MAX_DESCRIPTORS: Final = 4096
"""The most descriptors to examine in one look, for files that have no name any more."""
_BLOCK: Final = 512
_DEPTH: Final = 600
"""The depth limit of a look; a deeper tree counts as too many files, and so does a folder
that can't be read.
"""


@frozen(kw_only=True)
class TreeLook:
    """One look at a tree of processes.

    Attributes:
        processes: The number of processes and threads.
        own_bytes: Their private memory, including swapped out memory.
        shared_bytes: Their shared memory, counted for each.
        unnamed_bytes: The size of the nameless files that they hold open, by device.
    """

    processes: int
    own_bytes: int
    shared_bytes: int
    unnamed_bytes: dict[int, int]


def look_at(top: int, *, most: int, descriptors: bool = False, proc: Path = _PROC) -> TreeLook:
    """Look at a process and its descendants.

    Processes that start or end meanwhile may be missed; everything in a pid namespace descends from
    its first process, even orphans.

    Args:
        top: The process.
        most: The most processes to count; the look ends beyond.
        descriptors: Whether to look for open files without a name.
        proc: The mount point of `/proc`.
    """
    processes = own = shared = 0
    unnamed: dict[tuple[int, int], int] = {}
    for pid in _descendants(top, proc):
        status = b""
        with suppress(OSError):
            status = (proc / str(pid) / "status").read_bytes()
        threads = _THREADS.search(status)
        processes += int(threads[1]) if threads else 1
        own += _sum(_OWN, status)
        shared += _sum(_SHARED, status)
        if descriptors:
            _add_unnamed(proc / str(pid) / "fd", unnamed)
        if processes > most:
            break
    devices: dict[int, int] = {}
    for (device, _), size in unnamed.items():
        devices[device] = devices.get(device, 0) + size
    return TreeLook(processes=processes, own_bytes=own, shared_bytes=shared, unnamed_bytes=devices)


def divided(top: int, look: TreeLook, *, most: int, proc: Path = _PROC) -> TreeLook:
    """Return a look in which each page counts once, however many processes share it.

    After a fork, a process and its child share the pages that neither has written. This costs the
    kernel a walk over all pages; use it for a look that seems to exceed a limit. If the kernel does
    not report a process's shares, the look stays unchanged.

    Args:
        top: The process.
        look: The look.
        most: The most processes to examine.
        proc: The mount point of `/proc`.
    """
    own = shared = 0
    for pid, _ in zip(_descendants(top, proc), range(most), strict=False):
        try:
            parts = (proc / str(pid) / "smaps_rollup").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        except OSError:
            return look
        if parts and b"Pss_Anon:" not in parts:
            return look
        own += _sum(_OWN_PART, parts)
        shared += _sum(_SHARED_PART, parts)
    return TreeLook(
        processes=look.processes,
        own_bytes=own,
        shared_bytes=shared,
        unnamed_bytes=look.unnamed_bytes,
    )


def _sum(fields: re.Pattern[bytes], text: bytes) -> int:
    return sum(int(found) for found in fields.findall(text)) * 1024


def _descendants(top: int, proc: Path) -> Iterator[int]:
    seen = {top}
    waiting = [top]
    while waiting:
        pid = waiting.pop()
        yield pid
        for child in _children(pid, proc):
            if child not in seen:
                seen.add(child)
                waiting.append(child)


def _children(pid: int, proc: Path) -> Iterator[int]:
    try:
        threads = os.listdir(proc / str(pid) / "task")
    except OSError:
        return
    for thread in threads:
        with suppress(OSError, ValueError):
            content = (proc / str(pid) / "task" / thread / "children").read_bytes()
            yield from map(int, content.split())


def _add_unnamed(folder: Path, unnamed: dict[tuple[int, int], int]) -> None:
    """Add the nameless files that a process holds open."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(unnamed) >= MAX_DESCRIPTORS:
                    return
                with suppress(OSError):
                    seen = entry.stat()  # of the file itself, which is not opened
                    if stat.S_ISREG(seen.st_mode) and seen.st_nlink == 0:
                        unnamed[seen.st_dev, seen.st_ino] = seen.st_blocks * 512
    except OSError:
        return


@frozen(kw_only=True)
class DiskUsage:
    """Bytes on the disk, each file once whatever its names, and the number of entries.

    Attributes:
        bytes: Bytes on the disk.
        entries: Files and folders.
        device: The device that the folder is on.
    """

    bytes: int
    entries: int
    device: int


def disk_usage(folder: str | os.PathLike[str], *, most_entries: int) -> DiskUsage:
    """Return the space that a folder takes up, following no link and staying on its device.

    Args:
        folder: The folder.
        most_entries: The most entries to count; the count is one more if there are more, if they
            are too deep, or if a folder can't be read.

    Raises:
        OSError: The folder can't be opened.
    """
    fs = OsFileSystem()
    root = os.open(folder, DIRECTORY_FLAGS)
    try:
        device = os.fstat(root).st_dev
        total = entries = 0
        seen: set[int] = set()

        def enter(entry: Entry) -> bool:
            return entry.status.st_dev == device and len(entry.names) < _DEPTH

        hidden = False

        def onerror(error: OSError) -> None:
            nonlocal hidden
            hidden = hidden or error.errno == errno.EACCES

        for entry in walk_tree(fs, root, enter=enter, onerror=onerror):
            entries += 1
            status = entry.status
            if entry.is_directory and len(entry.names) >= _DEPTH:
                entries = most_entries + 1
            if entries > most_entries:
                break
            if status.st_dev != device:
                continue
            if status.st_nlink > 1 and not entry.is_directory:
                if status.st_ino in seen:
                    continue
                seen.add(status.st_ino)
            total += status.st_blocks * _BLOCK
        if hidden:
            entries = most_entries + 1
        return DiskUsage(bytes=total, entries=entries, device=device)
    finally:
        os.close(root)
