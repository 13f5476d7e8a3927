"""Workspaces for many machines: snapshots are exchanged through the object store.

The order keeps them consistent: the pack is durable, then the index names it, then the caller saves
the session that refers to its snapshots. A kill in between leaves a pack without a name, which
`collect` removes, or snapshots without references.
"""

from __future__ import annotations

import re
import socket
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import timedelta
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Final

from attrs import define, field, frozen

from ...base.clock import Clock, utc_now
from ...base.errors import AgentForgeError, ErrorKind
from ...base.event_log import get_logger
from ...base.files import FileSystem, OsFileSystem, make_durable_directory
from ...repository.snapshots.snapshots import NewPack, Snapshots
from . import ObjectStore, ObjectStoreRefused, StoredObject, fetch_checked
from .objects import MOST_BESIDE_BYTES, sha256_of
from .pack_index import Pack, PackIndex, PackKind, PackPlace
from .place import place_of

COLLECTED_AFTER_S: Final = 86_400.0
"""The age, in seconds, from which an unnamed pack is not about to be named."""
MANY_PACKS: Final = 40
"""The number of packs from which a session's packs are merged."""
_BATCH: Final = 500
_LOOSER: Final = 2
"""How many times its size in a pack a snapshot takes at most, usually, outside of one."""
_PACK: Final = r"(session_[0-9a-f_]+)/\.?[0-9a-f]{64}\.pack(?:\.new-[A-Za-z0-9_-]+\.tmp)?"
_log = get_logger("agentforge.snapshots")


class WorkspaceElsewhere(AgentForgeError, kind=ErrorKind.REFUSED):
    """A session's files are on another machine and not available here; nothing was changed."""

    session_id: str
    host: str | None
    """The machine that worked on it last, if known."""
    reason: str

    def __str__(self) -> str:
        where = "another machine" if self.host is None else f"the machine {self.host}"
        return (
            f"the workspace of session {self.session_id} is on {where}: {self.reason}. Nothing was "
            "changed. Go on there, or begin a new session from an earlier checkpoint: "
            f"agentforge session fork {self.session_id} --at N."
        )


class WorkspaceMoved(AgentForgeError, kind=ErrorKind.CONFLICT, retryable=True):
    """Another worker has taken the session up; this one has released it."""

    message = """session {session_id} was taken up by another worker meanwhile; nothing of it was
    changed here. Try again once that one has ended."""
    session_id: str


@frozen
class Collected:
    """The result of a collection.

    Attributes:
        objects: The number of removed objects.
        size: Their bytes.
    """

    objects: int = 0
    size: int = 0


@define(eq=False)
class WorkspacePacks:
    """One machine's access to the packs of a store's sessions.

    Args:
        index: Knows all packs.
        objects: Stores them; if None, only work trees are exchanged, by the index's own store.
        base: The directory of the sessions on this machine.
        fs: The file system.
        host: What to call this machine in messages.
        many: The number of packs from which a session's packs are merged.
        most_beside: The largest pack that the index's own store takes, in bytes.
    """

    index: PackIndex
    _objects: ObjectStore | None
    _base: Path
    _fs: FileSystem = field(factory=OsFileSystem, kw_only=True)
    _host: Callable[[], str] = field(default=socket.gethostname, kw_only=True)
    _many: int = field(default=MANY_PACKS, kw_only=True)
    _most_beside: int = field(default=MOST_BESIDE_BYTES, kw_only=True)

    @cached_property
    def here(self) -> str:
        """The name of this machine's directory of sessions."""
        return place_of(self._base, self._fs)

    # ----------------------------------------------------------------------------- ownership

    def is_last(self, place: PackPlace | None) -> bool:
        """Return whether this place is a session's last one, or it has none yet."""
        return place is None or place.place == self.here

    def take_up(self, session_id: str, former: PackPlace | None) -> None:
        """Make this place the session's place.

        Raises:
            WorkspaceMoved: Another has taken it up.
            AgentForgeError: The index does not answer.
        """
        if former is not None and former.place == self.here:
            return
        if not self.index.take_up(session_id, self.here, self._host(), former=former):
            raise WorkspaceMoved(session_id)
        if former is not None:
            _log.info("workspace.moved", session_id=session_id, host=former.host)

    # ------------------------------------------------------------------------ to the object store

    def push(
        self, session_id: str, kind: PackKind, snapshots: Snapshots, *, boundary: str | None = None
    ) -> None:
        """Store the snapshots of a session that the object store lacks, and name them in the index.

        Args:
            session_id: The session.
            kind: What the snapshots are of.
            snapshots: The snapshots.
            boundary: The person's commit that the work started from, whose history stays here.

        Raises:
            ObjectStoreError: The store refused, or does not answer.
            AgentForgeError: The index does not answer, or a pack can't be made.
            OSError: The disk.
        """
        if self._store_of(snapshots) is not None:
            known = {one for row in self.index.packs(session_id, kind) for one in row.snapshots}
            self._store(session_id, kind, snapshots, known, self.index.add, boundary)

    def _store_of(self, snapshots: Snapshots) -> ObjectStore | None:
        """Return what stores the packs of snapshots, or None."""
        if self._objects is None and snapshots.repository.choice is not None:
            return self.index.objects
        return self._objects

    def _store(
        self,
        session_id: str,
        kind: PackKind,
        snapshots: Snapshots,
        known: Collection[str],
        name: Callable[[str, Pack], object],
        boundary: str | None,
    ) -> None:
        """Store a pack, then have the index name it."""
        objects = self._store_of(snapshots)
        assert objects is not None  # noqa: S101 (the callers have checked)
        if objects is self.index.objects:
            size = snapshots.disk_bytes(known)
            if size > _LOOSER * self._most_beside:
                reason = f"{size:,} bytes of new snapshots are too many without an object store"
                raise ObjectStoreRefused(store=objects.name, reason=reason)
        with tempfile.TemporaryFile(dir=snapshots.repository.directory.parent) as file:
            written = snapshots.write_pack(known, file, boundary=boundary)
            if written is None:
                return
            digest = sha256_of(file)
            pack = Pack(
                self._key(session_id, digest),
                digest,
                file.tell(),
                kind,
                written.snapshots,
                written.base,
            )
            if objects.put(pack.key, file):
                name(session_id, pack)
            else:  # a killed call's: it may be about to be collected
                with self.index.exclusive(session_id):
                    objects.put(pack.key, file)
                    name(session_id, pack)
            snapshots.note_pack(digest)
        _log.info("workspace.stored", session_id=session_id, kind=kind, bytes=pack.size)

    def tidy(
        self,
        session_id: str,
        kind: PackKind,
        snapshots: Snapshots,
        wanted: Collection[str],
        *,
        boundary: str | None = None,
    ) -> None:
        """Merge the packs of a session where there are many, so that few are fetched.

        Args:
            session_id: The session.
            kind: What the snapshots are of.
            snapshots: The snapshots; all local ones stay.
            wanted: Those that the session refers to.
            boundary: The person's commit that the work started from, whose history stays here.

        Raises: as `push`.
        """
        rows = self.index.packs(session_id, kind)
        if self._store_of(snapshots) is None or len(rows) < self._many:
            return
        named = {one for row in rows for one in row.snapshots}
        if named.intersection(wanted).difference(snapshots.ids()):
            return  # some were never fetched here
        numbers = [row.number for row in rows]

        def name(_: str, pack: Pack) -> None:
            self.index.replace(session_id, numbers, pack, place=self.here)

        self._store(session_id, kind, snapshots, (), name, boundary)

    # ---------------------------------------------------------------------- from the object store

    def fetch(
        self,
        session_id: str,
        kind: PackKind,
        snapshots: Snapshots,
        *,
        boundary: str | None = None,
        object_format: str = "sha1",
    ) -> str | None:
        """Fetch all snapshots of a session that the index knows; return the newest.

        Args:
            session_id: The session.
            kind: What the snapshots are of.
            snapshots: The local snapshots; created if necessary.
            boundary: The person's commit that the work started from.
            object_format: That of their repository.

        Raises:
            WorkspaceElsewhere: No object store is configured here.
            ObjectDamaged: A pack is damaged, and ObjectMissing: one no longer exists.
            ObjectStoreError: The store does not answer.
            AgentForgeError: The index does not answer, or the disk refused.
        """
        rows = self.index.packs(session_id, kind)
        if not rows:
            return None
        here = snapshots.packs_here() if snapshots.repository.exists else ()
        missing = [row for row in rows if row.sha256 not in here]
        if missing:
            packs = [
                NewPack(row.sha256, row.snapshots, self._fetched(session_id, row))
                for row in missing
            ]
            make_durable_directory(self._fs, snapshots.repository.directory.parent)
            snapshots.repository.make(object_format=object_format)
            snapshots.take_in(packs, base=rows[-1].base, boundary=boundary)
            size = sum(row.size for row in missing)
            _log.info("workspace.fetched", session_id=session_id, kind=kind, bytes=size)
        return rows[-1].snapshots[-1]

    def _fetched(self, session_id: str, row: Pack) -> Callable[..., object]:
        """Return a function that fetches a pack, by a key that is always the session's own."""
        key, beside = self._key(session_id, row.sha256), self.index.objects
        is_beside = beside is not None and beside.find(key) is not None
        store = beside if is_beside else self._objects
        if store is None:
            raise self.refusal(session_id, self.index.place(session_id))
        return partial(fetch_checked, store, key, row.sha256)

    def _key(self, session_id: str, digest: str) -> str:
        return f"{self.index.space}/{session_id}/{digest}.pack"

    def refusal(
        self, session_id: str, place: PackPlace | None, reason: str | None = None
    ) -> WorkspaceElsewhere:
        """Return why a session's files are not available here; by default, no store has them."""
        if reason is None and self._objects is None:
            reason = (
                "no object store is configured here that has its files (--objects, "
                "AGENTFORGE_OBJECTS, or objects in [store])"
            )
        return WorkspaceElsewhere(
            session_id,
            host=None if place is None else place.host,
            reason=reason or "its files were not stored in the object store",
        )


def collect(
    index: PackIndex,
    objects: ObjectStore,
    *,
    older_than_s: float = COLLECTED_AFTER_S,
    clock: Clock = utc_now,
) -> Collected:
    """Remove the packs that no session names: of deleted sessions, and of killed workers.

    Recent objects stay: their worker may be about to name them. Objects that are not ours, and
    those of another index, are not touched.

    Args:
        index: Knows all packs.
        objects: Stores them.
        older_than_s: The age below which an object stays in any case, in seconds.
        clock: The time.

    Raises:
        AgentForgeError: One of them does not answer; objects removed before stay removed.
    """
    until = clock() - timedelta(seconds=older_than_s)
    ours = re.compile(f"{re.escape(index.space)}/{_PACK}")
    removed = size = 0
    old = (one for one in objects.list() if one.stored_at <= until and ours.fullmatch(one.key))
    for batch in _batches(old):
        named = index.named([one.key for one in batch])
        for one in batch:
            if one.key not in named and _remove(index, objects, one):
                removed += 1
                size += one.size
    _log.info("workspace.collected", objects=removed, bytes=size)
    return Collected(removed, size)


def _remove(index: PackIndex, objects: ObjectStore, one: StoredObject) -> bool:
    with index.exclusive(one.key.split("/")[1]):
        if index.named([one.key]):
            return False
        objects.delete(one.key)
        return True


def _batches(found: Iterable[StoredObject]) -> Iterator[list[StoredObject]]:
    rest = iter(found)
    while batch := list(islice(rest, _BATCH)):
        yield batch
