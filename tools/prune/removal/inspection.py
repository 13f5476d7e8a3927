"""What is under a root: sessions that could be removed, and what is left alone and why.

Nothing is changed here. Directories are opened by name relative to a descriptor and never through a
link; nothing is believed of them beyond what such a descriptor shows.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Final

from attrs import field, frozen

from ...base.errors import reason_of
from ...base.files import FileSystem
from ...base.files.filesystem import DIRECTORY_FLAGS, close_reader
from ..audit_reserve import is_there
from ..domain import Candidate, Inspection, Skipped, SkipReason
from ..ports import Dated, PruneTarget, Record, settled
from .session_lock import is_in_use
from .session_size import SessionSize

CLOCK_SKEW: Final = timedelta(minutes=5)
"""How far in the future a session may be dated without a warning, as clocks may differ."""

_BLOCK: Final = 512
_NO_DIRECTORY: Final = frozenset({errno.ENOTDIR, errno.ELOOP})


@frozen
class InspectionCache:
    """What a look found in sessions that may be removed, by id; it spares the removal another look.

    Attributes:
        now_ns: A time before the look started, by the clock of the file systems' time stamps.
        names: The entries of those that hold few files and no directory.
        records: The records they are dated by, if every later change of these will show in their
            times.
    """

    now_ns: int
    names: dict[str, Sequence[str]] = field(factory=dict)
    records: dict[str, Record] = field(factory=dict)

    def take(self, session_id: str, size: SessionSize, dated: Dated) -> None:
        """Store the findings about a session."""
        if size.names is not None:  # most have the same names
            self.names[session_id] = tuple(map(sys.intern, size.names))
        record = settled(dated, self.now_ns)
        if record is not None:
            self.records[session_id] = record


@frozen(kw_only=True)
class Inspector:
    """Inspects what is under a root.

    Attributes:
        fs: The file system.
        target: The kind of sessions.
        now: The time, aware.
        pins: Ids that are pinned.
        mounted: Names in the root at or below which something is mounted.
        owners: The users whose sessions may be removed.
        cache: Receives findings that spare the removal a second look; None for no cache.
        latest: Sessions dated later are reported; those dated in the future are never removed.
    """

    fs: FileSystem
    target: PruneTarget
    now: datetime
    pins: Collection[str] = ()
    mounted: Collection[str] = ()
    owners: Collection[int] = field(factory=lambda: (os.geteuid(),))
    cache: InspectionCache | None = None
    latest: datetime = field(init=False)

    @latest.default
    def _latest(self) -> datetime:
        return self.now + CLOCK_SKEW

    def look(self, root_fd: int, *, wanted: Callable[[Dated, bool], bool] | None) -> Inspection:
        """Date what is under a root, and measure what may have to be removed.

        Args:
            root_fd: The root, open.
            wanted: Returns whether to measure a session with this date, pinned or not. None
                measures all, the skipped ones too.

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
                        skipped_bytes += SessionSize(fs, fd, fs.fstat(fd)).size_bytes
                # If the name is missing by now, the lock's holder was removing the session.
                elif found is not None and not (found.in_use and not is_there(fs, root_fd, name)):
                    candidates.append(found)
            except OSError as error:
                reason = reason_of(error)
                skipped.append(self._skip(name, SkipReason.UNREADABLE, reason))
            finally:
                close_reader(fs, fd)
        return Inspection(
            candidates=tuple(candidates),
            skipped=tuple(skipped),
            skipped_bytes=skipped_bytes,
            hidden=tuple(name for name in names if name[0] == "."),
        )

    def _skip(self, name: str, reason: SkipReason, detail: str) -> Skipped:
        return Skipped(kind=self.target.kind, session_id=name, reason=reason, detail=detail)

    def _unopened(self, root_fd: int, name: str, error: OSError) -> Skipped | None:
        """Return why a session can't be opened; None if it is missing or is no directory."""
        if error.errno == errno.ENOENT:
            return None
        if error.errno not in _NO_DIRECTORY:
            return self._skip(name, SkipReason.UNREADABLE, reason_of(error))
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
        """Return a candidate if the session can be dated; measured if it may have to go."""
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
            size = SessionSize(fs, fd, status, dated.record)
            if size.foreign is not None or size.mounted is not None or size.unseen is not None:
                return self._unsuitable(name, size)
            size_bytes, blocks = size.size_bytes, size.blocks
            guards = target.guards
            if guards and size.names is not None:  # spares a system call for each missing guard
                guards = [one for one in guards if one in size.names]
            if self.cache is not None:
                self.cache.take(name, size, dated)
            in_use = is_in_use(fs, fd, guards)
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

    def _unsuitable(self, name: str, size: SessionSize) -> Skipped:
        """Return why a directory is left alone because of its content."""
        if size.mounted is not None:
            detail = f"another file system is mounted at {size.mounted!r} in it"
            return self._skip(name, SkipReason.MOUNT_POINT, detail)
        if size.foreign is not None:
            detail = f"{size.foreign!r} in it belongs to another user"
            return self._skip(name, SkipReason.OTHER_OWNER, detail)
        detail = f"{size.unseen!r} in it can't be looked at, so nobody knows whose it is"
        return self._skip(name, SkipReason.UNREADABLE, detail)
