"""Following all sessions of a directory: which of them appeared, changed or disappeared.

The watcher that wakes waits (`directory_watcher`) watches the base and each session in it. A
reported session is looked at alone; a full look at intervals finds the rest.
"""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Final, Protocol, Self

from attrs import frozen

from ...base.files import FileSystem
from ..repository import OnChange
from .change_feed import MOST_COST, Reports
from .directory_watcher import Watcher


@frozen
class Signature:
    """What shows that a session's directory changed, without reading it.

    Attributes:
        inode: The directory.
        changed_ns: When a name in it, or status.json, changed last, in nanoseconds since the epoch.
        status: The inode, the size and the time of status.json, which another program may write in
            place; None if it is missing.
    """

    inode: int
    changed_ns: int
    status: tuple[int, int, int] | None = None


class Directories(Protocol):
    """The operations required of a store whose directories are followed."""

    fs: FileSystem
    base_dir: Path

    def prepare(self) -> None:
        """Create the base, if it is missing."""
        ...

    def names(self) -> list[str]:
        """Return the ids of the existing sessions."""
        ...

    def signature(self, session_id: str) -> Signature | None:
        """Return what shows a change of a session; None if there is no such session."""
        ...

    def is_settled(self, signature: Signature) -> bool:
        """Return whether a later change would give another signature."""
        ...


class _Watched:
    """The watched directories: the base, and each session by its id."""

    def __init__(self, store: Directories, watcher: Watcher, ring: OnChange) -> None:
        self._store = store
        self._watcher = watcher
        self.reports: Final = Reports(ring)
        self._base: tuple[int, AbstractContextManager[None]] | None = None
        self._sessions: dict[str, tuple[int, AbstractContextManager[None]]] = {}

    def watch_base(self) -> None:
        """Watch the base; watch it again if it has become another directory."""
        try:
            inode = self._store.fs.stat(os.path.realpath(self._store.base_dir)).st_ino
        except OSError:
            return
        if self._base is not None:
            if self._base[0] == inode:
                return
            self._base[1].__exit__(None, None, None)
        block = self._watcher.watching(self._store.base_dir, self.reports.note)
        block.__enter__()
        self._base = (inode, block)

    def watch(self, name: str, inode: int) -> bool:
        """Watch a session; return False if it is watched already."""
        known = self._sessions.get(name)
        if known is not None:
            if known[0] == inode:
                return False
            self.forget(name)
        report = partial(self.reports.note, name)
        block = self._watcher.watching(self._store.base_dir / name, report)
        block.__enter__()
        self._sessions[name] = (inode, block)
        return True

    def forget(self, name: str) -> None:
        """Stop watching a session."""
        known = self._sessions.pop(name, None)
        if known is not None:
            known[1].__exit__(None, None, None)

    def close(self) -> None:
        """Stop watching everything."""
        for name in list(self._sessions):
            self.forget(name)
        if self._base is not None:
            self._base[1].__exit__(None, None, None)
            self._base = None


class DirectoryFollower:
    """Follows the changes of the sessions in a directory. A `repository.Follower`."""

    def __init__(self, store: Directories, watcher: Watcher, ring: OnChange, look_s: float) -> None:
        self._store = store
        self._watched = _Watched(store, watcher, ring)
        self._look_s = look_s
        self._seen: dict[str, Signature] = {}
        self._unsettled: set[str] = set()
        self._due = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._watched.close()

    def look_at_all(self) -> frozenset[str]:
        """Return the sessions that differ from the last look, and those reported as changed."""
        began = time.monotonic()
        self._store.prepare()
        self._watched.watch_base()
        reported, _ = self._watched.reports.take()
        names = set(self._store.names())
        changed = self._look(names | self._seen.keys(), reported | self._unsettled)
        now = time.monotonic()
        self._due = now + max(self._look_s, (now - began) / MOST_COST)
        return changed

    def look_again(self, *, reported: bool) -> frozenset[str]:
        """Return what changed: of all sessions if a full look is due, else of the reported ones.

        Args:
            reported: Whether a change was reported; else recently changed sessions are looked at
                again, since the clock of file times is slower than a change.
        """
        if time.monotonic() >= self._due:
            return self.look_at_all()
        names, base = self._watched.reports.take()
        if not reported:
            names |= self._unsettled
        if not base:
            return self._look(names, names)
        self._watched.watch_base()
        return self._look(names | (self._seen.keys() ^ set(self._store.names())), names)

    def _look(self, names: set[str], anyway: set[str]) -> frozenset[str]:
        changed = set()
        for name in names:
            signature = self._signature(name)
            if signature != self._seen.get(name) or (signature is not None and name in anyway):
                changed.add(name)
            if signature is None:
                self._seen.pop(name, None)
                self._watched.forget(name)
            else:
                self._seen[name] = signature
        self._unsettled -= names
        self._unsettled |= {
            name for name in changed & self._seen.keys() if not self._is_settled(name)
        }
        return frozenset(changed)

    def _signature(self, name: str) -> Signature | None:
        """Return what will show a session's next change; watch it before taking this."""
        signature = self._store.signature(name)
        if signature is not None and self._watched.watch(name, signature.inode):
            return self._store.signature(name)
        return signature

    def _is_settled(self, name: str) -> bool:
        return self._store.is_settled(self._seen[name])
