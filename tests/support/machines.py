"""Several machines that work on the same sessions: each has a directory, all share the rest."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from attrs import define, field

from agentforge_sessions.base.clock import Clock, utc_now
from agentforge_sessions.base.files import FileSystem, OsFileSystem
from agentforge_sessions.fleet.objects import ObjectStore
from agentforge_sessions.fleet.objects.folder_store import FolderStore
from agentforge_sessions.fleet.objects.workspace_packs import WorkspacePacks
from agentforge_sessions.harness import LocalSessions, SessionContext, SessionManager
from agentforge_sessions.testing import MemorySessions, Shelf
from agentforge_sessions.wiring.workspaces.session_results import SessionResults
from agentforge_sessions.wiring.workspaces.session_snapshots import SessionSnapshots
from tests.support.memory_packs import MemoryPacks
from tests.support.repositories import write_files
from tests.support.trees import Tree, tree_of

PLAN: Final = {"workflow.yaml": b"plan"}


@define
class Machine:
    """A machine, and a worker on it.

    Attributes:
        name: What it is called.
        sessions: The sessions, with its places for them.
        snapshots: What keeps their workspaces.
        manager: Leads one.
    """

    name: str
    sessions: LocalSessions
    snapshots: SessionSnapshots
    manager: SessionManager

    @property
    def results(self) -> SessionResults:
        return SessionResults(self.snapshots)

    def take_up(self, session_id: str) -> SessionContext:
        """Begin to lead a session as a runner does, under its lock."""
        session = self.manager.open(session_id)
        self.manager.prepare_workspace()
        self.workspace(session_id).mkdir(exist_ok=True)
        return session

    def workspace(self, session_id: str) -> Path:
        return self.sessions.workspace_path(session_id)

    def write(self, session_id: str, **files: str) -> None:
        found = {name.replace("__", "/"): text for name, text in files.items()}
        write_files(self.workspace(session_id), found)

    def files(self, session_id: str) -> Tree:
        return tree_of(self.workspace(session_id))

    def names(self, session_id: str) -> set[str]:
        return {os.fsdecode(path) for path in self.files(session_id)}


@define
class Fleet:
    """What the machines share.

    Attributes:
        folder: Where all of it is.
        objects: The object store; None: there is none.
        index: The index of packs.
        shelf: The sessions.
    """

    folder: Path
    objects: ObjectStore | None = None
    shelf: Shelf = field(factory=Shelf)
    index: MemoryPacks = field(factory=MemoryPacks)

    @classmethod
    def at(cls, folder: Path) -> Fleet:
        """Make a fleet whose objects are in a folder."""
        (folder / "objects").mkdir(parents=True)
        fleet = cls(folder, FolderStore(folder / "objects"))
        fleet.index.exists = lambda one: one in fleet.shelf.documents
        fleet.index.has_ended = fleet._has_ended
        return fleet

    def _has_ended(self, session_id: str) -> bool:
        session = MemorySessions(self.folder, self.shelf).load(session_id)
        return session is not None and session.state.is_terminal

    def machine(
        self,
        name: str,
        *,
        fs: FileSystem | None = None,
        clock: Clock = utc_now,
        sessions: Callable[[Path], LocalSessions] | None = None,
        cache_bytes: int = 1 << 40,
        many: int = 40,
        most_beside: int = 1 << 40,
    ) -> Machine:
        """Return a worker on a machine; of the same name, on the same one."""
        fs = OsFileSystem() if fs is None else fs
        base = self.folder / name
        store = MemorySessions(base, self.shelf) if sessions is None else sessions(base)
        packs = WorkspacePacks(
            self.index,
            self.objects,
            base,
            fs=fs,
            host=lambda: name,
            many=many,
            most_beside=most_beside,
        )
        snapshots = SessionSnapshots(
            store, fs=fs, clock=clock, packs=packs, cache_bytes=cache_bytes
        )
        return Machine(name, store, snapshots, SessionManager(store, snapshots=snapshots))
