"""What is under a root: sessions that could go, and what is left alone with the reason why.

Nothing is changed here. Directories are opened by name relative to a descriptor and never through
a link; what is found is believed only as far as it was looked at through such a descriptor.
"""

from __future__ import annotations

import errno
import os
import resource
import stat
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from stat import ST_DEV, ST_INO, ST_MODE, ST_NLINK, ST_SIZE, ST_UID  # faster than by attribute
from typing import Final

from attrs import field, frozen

from ..durable import FileSystem, LockMode, try_lock
from ..durable.filesystem import DIRECTORY_FLAGS, READ_FLAGS, close_reader
from .policy import Candidate, Skipped, SkipReason
from .ports import Dated, PruneTarget, Record, settled

CLOCK_SKEW: Final = timedelta(minutes=5)
"""How far in the future a session may be dated without a warning: two clocks may differ."""

_BLOCK: Final = 512
_KIND: Final = 0o170000  # inode(7): S_IFMT
_DIRECTORY: Final = stat.S_IFDIR
LEVELS: Final = 400
"""How many directories of one tree are open at a time, at the most."""
_FEW: Final = 16
_NO_DIRECTORY: Final = frozenset({errno.ENOTDIR, errno.ELOOP})
_NOBODYS: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""What is missing, or a link by now, is no guard that somebody of ours would hold."""


@frozen(kw_only=True)
class Found:
    """What is under a root.

    Attributes:
        candidates: Sessions that can be dated and are ours.
        skipped: What has a session's name and is neither.
        skipped_bytes: What the skipped ones hold, where all had to be measured.
        hidden: Other names in the root, those that begin with a dot.
    """

    candidates: tuple[Candidate, ...]
    skipped: tuple[Skipped, ...]
    skipped_bytes: int = 0
    hidden: tuple[str, ...] = ()


class Size:
    """What a directory holds; links count as links, mounted trees are not entered.

    It is also what the walk through the tree adds up in: one is made for each of ten thousand
    sessions.

    Args:
        fs: The file system.
        fd: The directory, open.
        status: What `fstat` says of it.
        record: A file in it that was looked at already, or None.

    Attributes:
        size_bytes: Sizes of all files, each counted once however many names it has.
        blocks: The room they take, in units of 512 bytes (inode(7): st_blocks).
        files: How many files and directories there are.
        foreign: A file whose owner is not the directory's, or None.
        mounted: A directory on another file system, or None.
        unseen: What could not be looked at, so that nobody knows whose it is, or None.
        names: What is in it, where that is few files and no directory; else None.
    """

    __slots__ = (
        "_device",
        "_fs",
        "_linked",
        "_owner",
        "_record",
        "blocks",
        "files",
        "foreign",
        "mounted",
        "names",
        "size_bytes",
        "unseen",
    )

    def __init__(
        self, fs: FileSystem, fd: int, status: os.stat_result, record: Record | None = None
    ) -> None:
        self._fs = fs
        self._record = record
        self._device = status.st_dev
        self._owner = status.st_uid
        self._linked: set[int] | None = None
        self.size_bytes = self.blocks = self.files = 0
        self.foreign: str | None = None
        self.mounted: str | None = None
        self.unseen: str | None = None
        self.names: list[str] | None = None
        below = self._look(fd)
        if below:
            self.names = None
            self._visit(fd, below)

    def _visit(self, fd: int, below: list[str]) -> None:
        """Walk the directories below one, however deep, with `LEVELS` descriptors at the most.

        Those nearest to the top are closed where it is deeper, and opened again, by "..", on the
        way back. Where that leads to another directory, somebody moves them meanwhile.
        """
        fs = self._fs
        stack: list[tuple[int, list[str]]] = [(fd, below)]
        closed: list[tuple[int, int]] = []  # which directories they are: stack[1:1 + len(closed)]
        try:
            while stack:
                parent, below = stack[-1]
                if below:
                    child = self._enter(parent, below.pop())
                    if child < 0:
                        continue
                    stack.append((child, self._look(child)))
                    if len(stack) - len(closed) > LEVELS:
                        upper, names = stack[len(closed) + 1]
                        status = fs.fstat(upper)
                        stack[len(closed) + 1] = (-1, names)
                        closed.append((status.st_dev, status.st_ino))
                        close_reader(fs, upper)
                    continue
                if closed and len(stack) == len(closed) + 2:
                    again = self._back(parent, closed.pop())
                    if again < 0:
                        del stack[1:-1]
                        closed.clear()
                    else:
                        stack[-2] = (again, stack[-2][1])
                stack.pop()
                if parent != fd:
                    close_reader(fs, parent)
        finally:
            for open_fd, _ in stack[1:]:
                if open_fd >= 0:
                    close_reader(fs, open_fd)

    def _counted(self, inode: int) -> bool:
        """Tell whether a file of several names was counted before."""
        if self._linked is None:
            self._linked = {inode}
            return False
        before = inode in self._linked
        self._linked.add(inode)
        return before

    def _enter(self, parent: int, name: str) -> int:
        """Open a directory; return -1 if it is gone or can't be opened."""
        try:
            return self._fs.open(name, DIRECTORY_FLAGS, dir_fd=parent)
        except FileNotFoundError:
            return -1
        except OSError:
            self.unseen = name
            return -1

    def _back(self, fd: int, which: tuple[int, int]) -> int:
        """Open the directory above one; return -1 unless it is the one that was there."""
        above = self._enter(fd, "..")
        if above >= 0:
            status = self._fs.fstat(above)
            if (status.st_dev, status.st_ino) == which:
                return above
            close_reader(self._fs, above)
        self.unseen = ".."
        return -1

    def _look(self, fd: int) -> list[str]:
        """Count what is in one directory; name its directories."""
        below: list[str] = []
        try:
            names = self._fs.listdir(fd)
        except OSError:
            self.unseen = "."
            return below
        stat_of, owner = self._fs.stat, self._owner
        record, self._record = self._record, None  # it is at the top
        known = None if record is None else record.name
        size = blocks = 0
        for name in names:
            try:
                if name == known and record is not None:
                    status = record.status
                else:
                    status = stat_of(name, dir_fd=fd)
            except FileNotFoundError:
                continue
            except OSError:
                self.unseen = name
                continue
            if status[ST_UID] != owner:
                self.foreign = name
            if status[ST_MODE] & _KIND == _DIRECTORY:
                if status[ST_DEV] != self._device:
                    self.mounted = name
                    continue
                below.append(name)
            elif status[ST_NLINK] > 1 and self._counted(status[ST_INO]):
                continue
            else:
                size += status[ST_SIZE]
            blocks += status.st_blocks
        if not self.files and len(names) <= _FEW:
            self.names = names
        self.files += len(names)
        self.size_bytes += size
        self.blocks += blocks
        return below


@frozen
class Seen:
    """What a look found in sessions that may go, by session id; it spares their removal another.

    Attributes:
        now_ns: When it had not begun, on the clock that file systems stamp changes with.
        names: What is in those that hold few files and no directory.
        records: What they are dated by, where every later change of that shows in its times.
    """

    now_ns: int
    names: dict[str, Sequence[str]] = field(factory=dict)
    records: dict[str, Record] = field(factory=dict)

    def take(self, session_id: str, size: Size, dated: Dated) -> None:
        """Keep what was found in a session."""
        if size.names is not None:  # most have the same names
            self.names[session_id] = tuple(map(sys.intern, size.names))
        record = settled(dated, self.now_ns)
        if record is not None:
            self.records[session_id] = record


@frozen(kw_only=True)
class Inspector:
    """Looks at what is under a root.

    Attributes:
        fs: The file system.
        target: The kind of sessions.
        now: The time, aware.
        pins: Ids that somebody pinned.
        mounted: Names in the root at or below which something is mounted.
        owners: The users whose sessions may be removed.
        seen: Takes what helps to remove what was looked at; None for nothing.
        latest: The latest time a session may be dated and not be told of; it goes in no case.
    """

    fs: FileSystem
    target: PruneTarget
    now: datetime
    pins: Collection[str] = ()
    mounted: Collection[str] = ()
    owners: Collection[int] = field(factory=lambda: (os.geteuid(),))
    seen: Seen | None = None
    latest: datetime = field(init=False)

    @latest.default
    def _latest(self) -> datetime:
        return self.now + CLOCK_SKEW

    def look(self, root_fd: int, *, wanted: Callable[[Dated, bool], bool] | None) -> Found:
        """Date what is under a root, and measure what may have to go.

        Args:
            root_fd: The root, open.
            wanted: Whether a session, dated so and pinned or not, is to be measured. None for
                all, the skipped ones too.

        Raises:
            OSError: The root can't be listed.
        """
        fs = self.fs
        candidates = []
        skipped = []
        skipped_bytes = 0
        device = fs.fstat(root_fd).st_dev
        names = fs.listdir(root_fd)
        for name in sorted(filter(self.target.owns, names)):
            try:
                fd = fs.open(name, DIRECTORY_FLAGS, dir_fd=root_fd)
            except OSError as error:
                why = self._unopened(root_fd, name, error)
                if why is not None:
                    skipped.append(why)
                continue
            try:
                found = self._examine(fd, name, device, wanted)
                if isinstance(found, Skipped):
                    skipped.append(found)
                    if wanted is None:
                        skipped_bytes += Size(fs, fd, fs.fstat(fd)).size_bytes
                elif found is not None:
                    candidates.append(found)
            except OSError as error:
                reason = error.strerror or str(error)
                skipped.append(self._skip(name, SkipReason.UNREADABLE, reason))
            finally:
                close_reader(fs, fd)
        return Found(
            candidates=tuple(candidates),
            skipped=tuple(skipped),
            skipped_bytes=skipped_bytes,
            hidden=tuple(name for name in names if name[0] == "."),
        )

    def _skip(self, name: str, reason: SkipReason, detail: str) -> Skipped:
        return Skipped(kind=self.target.kind, session_id=name, reason=reason, detail=detail)

    def _unopened(self, root_fd: int, name: str, error: OSError) -> Skipped | None:
        """Say why a session can't be opened; None for what is gone or is no directory."""
        if error.errno == errno.ENOENT:
            return None
        if error.errno not in _NO_DIRECTORY:
            return self._skip(name, SkipReason.UNREADABLE, error.strerror or str(error))
        try:
            mode = self.fs.stat(name, dir_fd=root_fd).st_mode
        except OSError:
            return None
        if stat.S_ISLNK(mode):
            detail = "a symbolic link has a session's name; it is not followed"
            return self._skip(name, SkipReason.SYMBOLIC_LINK, detail)
        return None

    def _examine(
        self, fd: int, name: str, device: int, wanted: Callable[[Dated, bool], bool] | None
    ) -> Candidate | Skipped | None:
        """Make a candidate of what can be dated, and measure it if it may have to go."""
        fs, target = self.fs, self.target
        status = fs.fstat(fd)
        if status.st_dev != device or name in self.mounted:
            return self._skip(name, SkipReason.MOUNT_POINT, "something is mounted at or below it")
        if status.st_uid not in self.owners:
            detail = f"it belongs to user {status.st_uid}"
            return self._skip(name, SkipReason.OTHER_OWNER, detail)
        dated = target.date(fs, fd, name)
        if not isinstance(dated, Dated):
            return None if dated is None else self._skip(name, dated.reason, dated.detail)
        at = dated.at
        if at > self.latest:
            detail = f"it is dated {at.isoformat()}, which is still to come"
            return self._skip(name, SkipReason.FUTURE, detail)
        pinned = name in self.pins
        size_bytes = blocks = 0
        in_use = False
        if wanted is None or wanted(dated, pinned):
            size = Size(fs, fd, status, dated.record)
            if size.foreign is not None or size.mounted is not None or size.unseen is not None:
                return self._unsuitable(name, size)
            size_bytes, blocks = size.size_bytes, size.blocks
            guards = target.guards
            if size.names is not None:  # that spares a question for each that is missing
                guards = [one for one in guards if one in size.names]
            in_use = is_in_use(fs, fd, guards)
            if self.seen is not None:
                self.seen.take(name, size, dated)
        return Candidate(
            kind=target.kind,
            session_id=name,
            dated_at=at,
            version=dated.version,
            size_bytes=size_bytes,
            disk_bytes=blocks * _BLOCK,
            state=dated.state,
            removable=dated.removable,
            pinned=pinned,
            in_use=in_use,
        )

    def _unsuitable(self, name: str, size: Size) -> Skipped:
        """Refuse a directory for what is in it."""
        if size.mounted is not None:
            detail = f"another file system is mounted at {size.mounted!r} in it"
            return self._skip(name, SkipReason.MOUNT_POINT, detail)
        if size.foreign is not None:
            detail = f"{size.foreign!r} in it belongs to another user"
            return self._skip(name, SkipReason.OTHER_OWNER, detail)
        detail = f"{size.unseen!r} in it can't be looked at, so nobody knows whose it is"
        return self._skip(name, SkipReason.UNREADABLE, detail)


# ------------------------------------------------------------------------------------------ locks


def is_in_use(fs: FileSystem, session_fd: int, guards: Collection[str]) -> bool:
    """Tell whether somebody holds a session's directory, or one of its guards, locked.

    The directory is locked against work in it from here until its descriptor is closed.
    """
    try:
        if not try_lock(fs, session_fd, LockMode.SHARED):
            return True
        for fd in _guards(fs, session_fd, guards):
            try:
                if not try_lock(fs, fd, LockMode.SHARED):
                    return True
            finally:
                close_reader(fs, fd)
    except OSError as error:
        if error.errno == errno.EACCES:
            return True  # a guard that may not be opened
        raise _unlockable(error) from error
    return False


def _unlockable(error: OSError) -> OSError:
    """Say what a failed lock means; over NFS, say, it is EBADF."""
    why = error.strerror or error
    return OSError(error.errno, f"nobody can tell whether it is in use, it can't be locked ({why})")


def hold(fs: FileSystem, session_fd: int, guards: Collection[str]) -> list[int] | None:
    """Lock a session's directory and guards against whoever works in it.

    Returns:
        The descriptors that hold the guards, to be closed in the end; None if it is in use.

    Raises:
        OSError: The file system has no such locks.
    """
    held: list[int] = []
    free = False
    try:
        free = try_lock(fs, session_fd)
        guarding = _guards(fs, session_fd, guards)
        while free and (fd := next(guarding, None)) is not None:
            held.append(fd)
            free = try_lock(fs, fd)
    except OSError as error:
        free = False
        if error.errno != errno.EACCES:  # else a guard that may not be opened
            raise _unlockable(error) from error
    finally:
        if not free:
            for fd in held:
                close_reader(fs, fd)
    return held if free else None


def _guards(fs: FileSystem, session_fd: int, guards: Collection[str]) -> Iterator[int]:
    """Open the guards that are there, one after another."""
    for name in guards:
        try:
            mode = fs.stat(name, dir_fd=session_fd).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                continue  # opening a device may do something
            fd = fs.open(name, READ_FLAGS, dir_fd=session_fd)
        except OSError as error:
            if error.errno in _NOBODYS:
                continue
            raise
        yield fd


# ----------------------------------------------------------------------------------------- mounts


def mounted_names(root: Path, mountinfo: str = "/proc/self/mountinfo") -> frozenset[str]:
    """Name what in a root has something mounted at or below it.

    A bind from the same file system has the same device number, so only the kernel's table tells
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
    names = set()
    for point in points:
        plain = _unescaped(point)
        if plain.startswith(base):
            names.add(os.fsdecode(plain[len(base) :].split(b"/", 1)[0]))
    return frozenset(names)


def mount_id(fd: int) -> str | None:
    """Say which mount an open file or directory is reached through; None where it is not known.

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
    if b"\\" not in field_:
        return field_
    for code, plain in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        field_ = field_.replace(code, plain)
    return field_


def batch_size(guards: int = 0, *, at_once: int = 1, largest: int = 1024) -> int:
    """Say how many sessions a batch may have: they are held open, and take half of what is free.

    A batch is synced as one, so larger ones take fewer waits for the disk.

    Args:
        guards: How many guards each may have.
        at_once: How many batches are held open at the same time.
        largest: The most.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return largest
    try:
        taken = len(os.listdir("/proc/self/fd"))
    except OSError:
        taken = soft // 2
    return max(1, min(largest, (soft - taken) // (2 * at_once * (1 + guards))))
