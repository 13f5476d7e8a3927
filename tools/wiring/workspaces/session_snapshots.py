"""The harness's port to snapshots, implemented with git: what is saved where, and what if it fails.

A session of a person's repository needs git, and git's errors are raised. Any other session works
without git: if it is missing or fails, checkpoints record why they have no snapshot. The content of
a workspace (a pipe, too much data) never stops a session; the checkpoint records that, too.

The module is long because the two ends of each rule, what is noted and what is removed, belong
together.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from attrs import define, field

from ...agents.hooks.project_place import BRANCH, branch_tag
from ...agents.hooks.work_tree import WorkTree, first_sentence, noted_work_tree
from ...base.clock import Clock, utc_now
from ...base.errors import AgentForgeError
from ...base.event_log import get_logger
from ...base.files import (
    AtomicFileWriter,
    DirectoryLock,
    DurableError,
    FileSystem,
    OsFileSystem,
    discard_tree,
    make_durable_directory,
)
from ...base.files.atomic_file import random_token
from ...base.files.trees import TreeChanges
from ...base.identifiers import is_session_id
from ...fleet.objects.place import DEFAULT_BYTES, trim
from ...fleet.objects.workspace_packs import WorkspacePacks
from ...harness.domain.history_events import WorkspacePrepared
from ...harness.services.session_checkpoints import OtherBranch
from ...harness.session_layout import AGENT_STATE, SNAPSHOTS, WORKSPACE
from ...harness.session_ports import LocalSessions
from ...harness.snapshot_port import SnapshotTaken
from ...repository import Git, GitUnavailable, NotARepository, RepositoryError, UserRepository
from ...repository.base import Base, base_files, check_out, drop_ref, keep_ref
from ...repository.errors import SnapshotRefused
from ...repository.snapshots.snapshot_repository import SnapshotRepository
from ...repository.snapshots.snapshots import NoSnapshots, Snapshot, SnapshotMissing, Snapshots
from ...repository.snapshots.workspace_scan import ScanLimits
from ...workflows.submitted_work import RepositoryNotAllowed, require_repository

REPOSITORY_NAME: Final = "repository.json"
"""The attachment of a session that works on a person's repository: its base."""
KEPT_FOLDER: Final = ".repositories"
"""The folder of notes about which repositories have a ref for which session."""
_MARK: Final = "restored"
_AGENT_SNAPSHOTS: Final = "agent.git"
_MOVED_BEFORE_TRIM: Final = 20
"""The number of moves to this machine after which the size of its files is checked."""
_REFERRED_S: Final = 3600.0
"""The age, in seconds, at which no worker is about to refer to a snapshot that it took."""
_MAX_NOTE: Final = 1 << 16

_log = get_logger("agentforge.snapshots")


@define(eq=False)
class SessionSnapshots:
    """Saves the workspaces of a store's sessions. Implements `harness.snapshot_port`.

    Args:
        store: The sessions' store.
        git: The program; the one on PATH by default.
        fs: The file system.
        clock: The time.
        limits: The limits of a workspace's size.
        lock_timeout_s: How long to wait for another process that uses the same snapshots, in
            seconds.
        packs: Moves workspaces to and from other machines; None if this is the only one.
        cache_bytes: How many bytes of sessions and their results this machine retains before it
            removes those that are in the object store and ended or are worked on elsewhere.
        repositories: The folders whose repositories sessions may start from; any if None.
    """

    _store: LocalSessions
    _git: Git = field(factory=Git, kw_only=True)
    _fs: FileSystem = field(factory=OsFileSystem, kw_only=True)
    _clock: Clock = field(default=utc_now, kw_only=True)
    _limits: ScanLimits = field(factory=ScanLimits, kw_only=True)
    _lock_timeout_s: float = field(default=60.0, kw_only=True)
    _packs: WorkspacePacks | None = field(default=None, kw_only=True)
    _cache_bytes: int = field(default=DEFAULT_BYTES, kw_only=True)
    _repositories: Collection[Path] | None = field(default=None, kw_only=True)
    _moved: int = field(default=0, init=False)
    _bases: dict[str, Base | None] = field(factory=dict, init=False)

    def of(self, session_id: str) -> Snapshots:
        """Return the snapshots of a session; there may be none."""
        directory = self._store.session_directory(session_id)
        tree = self.work_tree(session_id)
        if tree is not None:
            return WorkTree(tree, directory).snapshots(
                wait_s=self._lock_timeout_s,
                git=self._git,
                fs=self._fs,
                shared=self._packs is not None,
            )
        workspace = self._store.workspace_path(session_id)
        return self._in(session_id, directory / SNAPSHOTS, workspace)

    def _in(self, session_id: str, directory: Path, folder: Path) -> Snapshots:
        repository = SnapshotRepository(
            directory,
            folder,
            git=self._git,
            fs=self._fs,
            lock_timeout_s=self._lock_timeout_s,
            foreign=not self._store.is_own(session_id),
        )
        return Snapshots(repository, clock=self._clock, limits=self._limits)

    def fetched(self, session_id: str) -> Snapshots:
        """Return the snapshots of a session, including those of other machines.

        Raises:
            WorkspaceElsewhere: They are not available here.
            ObjectStoreError: The object store does not answer, or a pack is damaged.
        """
        snapshots = self.of(session_id)
        if self._packs is not None:
            base = self.base_of(session_id)
            self._packs.fetch(
                session_id,
                "workspace",
                snapshots,
                boundary=None if base is None else base.commit,
                object_format="sha1" if base is None else base.object_format,
            )
        return snapshots

    def base_of(self, session_id: str) -> Base | None:
        """Return the base of a session; None if it does not work on a repository.

        Raises:
            SnapshotMissing: The session's note of its base can't be read.
        """
        if session_id in self._bases:
            return self._bases[session_id]
        data = self._store.read_attachment(session_id, REPOSITORY_NAME)
        try:
            base = None if data is None else Base.decode(data)
        except ValueError as error:
            directory = self._store.session_directory(session_id)
            raise SnapshotMissing(REPOSITORY_NAME, directory=directory) from error
        if self._packs is not None:  # needed at each checkpoint, and never changes
            self._bases = {session_id: base}
        return base

    # ----------------------------------------------------------------------------------- the port

    def attachments(
        self, repository: Path, revision: str, *, with_uncommitted: bool
    ) -> dict[str, bytes]:
        """Return a new session's files about its base; see the port.

        Raises:
            NotARepository: The folder is in no checkout of a repository.
            UnknownRevision: The repository has no such commit.
            GitUnavailable: No usable git is installed.
        """
        user = UserRepository.at(repository, self._git)
        base = Base.of(user, revision, with_uncommitted=with_uncommitted)
        return {REPOSITORY_NAME: base.encode()}

    @contextmanager
    def begun_files(self, attachments: Mapping[str, bytes]) -> Iterator[tuple[Path, str]]:
        """Yield a temporary folder with the files a session will start from, and their owner.

        Args:
            attachments: The return value of `attachments`.

        Raises:
            BaseUnavailable: The files can't be checked out.
        """
        base = Base.decode(attachments[REPOSITORY_NAME])
        also = ", with what is not committed" if base.with_uncommitted else ""
        with base_files(base, base.user_repository(self._git)) as folder:
            yield folder, f"{base.work_tree} at {base.revision} ({base.commit[:12]}){also}"

    def work_tree(self, session_id: str) -> Path | None:
        """Return the person's folder that the session works in; see the port."""
        found = noted_work_tree(self._store.session_directory(session_id))
        return found if found is not None and self._store.is_own(session_id) else None

    @property
    def travels(self) -> bool:
        """Whether several machines work in the workspaces; see the port."""
        return self._packs is not None

    def take_up(
        self,
        session_id: str,
        last: SnapshotTaken,
        *,
        mark: int | None = None,
        parent_id: str | None = None,
        more: Collection[str] = (),
    ) -> None:
        """Bring the workspace to this machine as the session left it; see the port.

        The new machine is recorded last, so that a killed call leaves the workspace where it was.

        Raises:
            WorkspaceElsewhere: It is on another machine, and is not available here.
            WorkspaceMoved: Another worker took it up meanwhile.
            ObjectStoreError: The object store does not answer, or a pack is damaged.
            RestoreFailed: A file in the folder can't be replaced.
        """
        packs = self._packs
        if packs is None or self.work_tree(session_id) is not None:
            return
        make_durable_directory(self._fs, self._store.session_directory(session_id))
        place = packs.index.place(session_id)
        here = packs.is_last(place)
        if here and (last.snapshot is None or self._store.workspace_path(session_id).is_dir()):
            packs.take_up(session_id, place)
            return
        if not here and last.unkept is not None:
            reason = f"its last checkpoint has no snapshot ({last.unkept})"
            raise packs.refusal(session_id, place, reason)
        snapshots = self.fetched(session_id)
        if last.snapshot is None:
            self._discard(session_id, WORKSPACE)
        else:
            try:
                if parent_id is not None:
                    self._take_over(session_id, snapshots, last.snapshot, parent_id, more)
                snapshots.restore(last.snapshot)
            except (NoSnapshots, SnapshotMissing) as error:
                if here:
                    raise
                raise packs.refusal(session_id, place) from error
            if mark is not None:
                self._write_mark(snapshots, mark)
        if not here:
            self._take_up_agent(session_id)
        packs.take_up(session_id, place)
        self._moved += 1
        if self._moved % _MOVED_BEFORE_TRIM == 0:
            trim(self._store, packs.index, packs.here, max_bytes=self._cache_bytes, fs=self._fs)

    def is_here(self, session_id: str) -> bool:
        """Return whether the current workspace is on this machine; see the port."""
        packs = self._packs
        if packs is None:
            return True
        tree = self.work_tree(session_id)
        there = tree is not None or self._store.workspace_path(session_id).is_dir()
        return there and packs.is_last(packs.index.place(session_id))

    def prepare(self, session_id: str) -> WorkspacePrepared | None:
        """Check out the base of a session that has one; see `repository.base.check_out`.

        On a machine that has the session's first snapshot from another one, that snapshot is
        checked out.

        Raises:
            RepositoryNotAllowed: Sessions may not start from this repository here.
            WorkspaceElsewhere: The workspace is not on this machine.
        """
        base = self.base_of(session_id)
        if base is None:
            return None
        snapshots = self.of(session_id)
        first = self._first_from_elsewhere(snapshots)
        if first is None:
            try:
                user = self._user_repository(base)
            except NotARepository as error:
                if self._packs is None:
                    raise
                place = self._packs.index.place(session_id)
                reason = f"it works on the repository {base.work_tree}, which is not here"
                raise self._packs.refusal(session_id, place, reason) from error
            self._note_ref(session_id, base)
            first = check_out(snapshots, base, user, session_id)
            self._push(session_id, snapshots)
        return WorkspacePrepared(
            base=base.commit,
            revision=base.revision,
            snapshot=first.id,
            with_uncommitted=base.with_uncommitted,
        )

    def _user_repository(self, base: Base) -> UserRepository:
        """Return the person's repository of a session's base.

        Raises:
            RepositoryNotAllowed: Sessions may not start from this repository here.
            NotARepository: The repository is missing, or is a different one.
        """
        if self._repositories is not None:
            require_repository(base.work_tree, self._repositories)
        return base.user_repository(self._git)

    def _first_from_elsewhere(self, snapshots: Snapshots) -> Snapshot | None:
        if self._packs is None or not snapshots.packs_here() or snapshots.repository.has_alternates:
            return None
        first = snapshots.list()[0]
        snapshots.restore(first.id)
        return first

    def settle(
        self,
        session_id: str,
        snapshot: str,
        *,
        mark: int,
        parent_id: str | None = None,
        more: Collection[str] = (),
    ) -> None:
        """Restore a snapshot into a workspace, once for each mark; see the port.

        Raises:
            SnapshotMissing: Neither the session nor its parent has the snapshot.
            RestoreFailed: A file in the workspace can't be replaced.
        """
        snapshots = self.of(session_id)
        if snapshots.repository.choice is not None:
            return  # a person's folder, which `bring_back` alone changes
        with suppress(FileNotFoundError, ValueError):
            if int((snapshots.repository.directory / _MARK).read_text()) >= mark:
                return
        if parent_id is not None:
            self._take_over(session_id, snapshots, snapshot, parent_id, more)
        snapshots.restore(snapshot)
        self._write_mark(snapshots, mark)

    def add_work_tree(self, session_id: str, folder: Path, branch: str) -> None:
        """Make a linked work tree, without files, of the repository that an agent's session is in.

        Raises:
            NotARepository: The session's folder is in none any more.
            GitFailed: There is such a folder or branch, or no commit yet.
        """
        tree = self.work_tree(session_id)
        if tree is not None:
            UserRepository.at(tree, self._git).add_work_tree(folder, branch)

    def work_in(self, session_id: str, snapshot: str, folder: Path) -> str:
        """Bring a forked session's files to a work tree of its own, instead of a workspace.

        Returns:
            The tag by which agents in the work tree find the session.

        Raises:
            WriteError: The system refused.
            RestoreFailed: The files can't be written.
        """
        tree = WorkTree(folder, self._store.session_directory(session_id))
        tree.note()
        tree.snapshots().restore(snapshot)
        self._discard(session_id, WORKSPACE)
        return branch_tag(folder)

    def require_branch(self, session_id: str, tags: Collection[str]) -> None:
        """Raise if a person's folder has another branch checked out; see the port.

        Raises:
            OtherBranch: It has.
        """
        tree = self.work_tree(session_id)
        named = [one for one in tags if one.startswith(BRANCH)]
        present = "" if tree is None else branch_tag(tree)
        if tree is not None and named and present not in named:
            raise OtherBranch(
                session_id,
                branch=" or ".join(named),
                folder=tree,
                present=present or "something else",
            )

    def bring_back(self, session_id: str, snapshot: str) -> None:
        """Bring the session's work tree to a snapshot; see the port."""
        self.of(session_id).restore(snapshot)

    def _write_mark(self, snapshots: Snapshots, mark: int) -> None:
        with AtomicFileWriter(snapshots.repository.directory / _MARK, fs=self._fs) as file:
            file.write(f"{mark}\n")

    def _take_over(
        self,
        session_id: str,
        snapshots: Snapshots,
        snapshot: str,
        parent_id: str,
        more: Collection[str],
    ) -> None:
        """Create a fork's repository with its parent's snapshot."""
        base = self.base_of(session_id)
        if base is None:
            snapshots.repository.make()
        elif self._is_kept_by_user(session_id, base):
            snapshots.repository.make(objects=Path(base.objects), object_format=base.object_format)
        else:
            snapshots.repository.make(object_format=base.object_format)
        try:
            snapshots.get(snapshot)
        except SnapshotMissing:
            self.fetched(parent_id).copy_to(snapshots, snapshot, more)
        self._push(session_id, snapshots)

    def _is_kept_by_user(self, session_id: str, base: Base) -> bool:
        """Pin the base in the person's repository; return whether the base is there.

        Raises:
            RepositoryError: It is missing, and this is the only machine.
        """
        try:
            user = self._user_repository(base)
            self._note_ref(session_id, base)
            keep_ref(user, session_id, base.commit)
        except RepositoryNotAllowed:
            return False
        except RepositoryError:
            if self._packs is None:
                raise
            return False
        return True

    def take(self, session_id: str, label: str) -> SnapshotTaken:
        """Save the current workspace; see the port and the module.

        Raises:
            RepositoryError: The session works on a repository, and git failed.
            DurableError: The session works on a repository, and the disk failed.
            ObjectStoreError: Other machines need the workspace, and the object store does not
                answer.
        """
        snapshots = self.of(session_id)
        if not snapshots.repository.workspace.is_dir():
            return SnapshotTaken()
        try:
            snapshots.repository.make()
            taken = snapshots.take(label)
        except SnapshotRefused as error:
            return self._unkept(session_id, error)
        except (AgentForgeError, OSError) as error:
            if self.base_of(session_id) is not None:
                raise
            return self._unkept(session_id, error)
        if taken is None:
            return SnapshotTaken()
        self._push(session_id, snapshots)
        self._push_agent(session_id)
        return SnapshotTaken(snapshot=taken.id)

    def empty(self, session_id: str) -> SnapshotTaken:
        """Save an empty workspace; see the port."""
        snapshots = self.of(session_id)
        try:
            snapshots.repository.make()
            taken = snapshots.take_empty("empty")
        except (AgentForgeError, OSError) as error:
            return self._unkept(session_id, error)
        self._push(session_id, snapshots)
        return SnapshotTaken(snapshot=taken.id)

    def _unkept(self, session_id: str, error: Exception) -> SnapshotTaken:
        log = _log.info if isinstance(error, GitUnavailable) else _log.warning
        log("snapshot.not_taken", session_id=session_id, error=str(error))
        return SnapshotTaken(unkept=first_sentence(error))

    def require(self, session_id: str, snapshot: str) -> None:
        """Raise unless a snapshot exists.

        Raises:
            SnapshotMissing: The snapshot does not exist.
            NoSnapshots: The session has no snapshots at all.
        """
        self.fetched(session_id).get(snapshot)

    def changes(
        self,
        session_id: str,
        before: str | None,
        after: str | None,
        *,
        patch: bool,
        paths: Sequence[str],
    ) -> TreeChanges:
        """Compare two snapshots; see the port.

        Raises:
            NoSnapshots: The session has none.
            SnapshotMissing: One of them does not exist.
            SnapshotRefused: The current workspace can't be saved, and so can't be compared.
        """
        snapshots = self.fetched(session_id)
        if before is None and after is None and not snapshots.repository.exists:
            if not self._store.workspace_path(session_id).is_dir():
                return TreeChanges(())
            snapshots.repository.make()
        first = snapshots.empty_tree() if before is None else before
        second = snapshots.tree_now() if after is None else after
        return snapshots.changes(first, second, patch=patch, paths=paths)

    def sweep(self, session_id: str, wanted: Collection[str]) -> None:
        """Remove unreferenced snapshots; see the port.

        If the repository has many object files, pack them into one.
        """
        snapshots = self.of(session_id)
        if not snapshots.repository.exists:
            return
        try:
            snapshots.keep_only(wanted, older_than_s=_REFERRED_S)
            snapshots.pack()
            if self._packs is not None:
                boundary = self._boundary(session_id)
                self._packs.tidy(session_id, "workspace", snapshots, wanted, boundary=boundary)
                agent = self._agent(session_id)
                if agent.repository.exists:
                    self._packs.tidy(session_id, "agent", agent, ())
        except (AgentForgeError, OSError) as error:
            _log.warning("snapshot.not_swept", session_id=session_id, error=str(error))

    def disk_bytes(self, session_id: str) -> int:
        """Return the disk space of a session's snapshots, in bytes."""
        return self.of(session_id).repository.disk_bytes()

    # ------------------------------------------------------------------------- to other machines

    def _push(self, session_id: str, snapshots: Snapshots) -> None:
        if self._packs is None:
            return
        boundary = self._boundary(session_id)
        try:
            self._packs.push(session_id, "workspace", snapshots, boundary=boundary)
        except (AgentForgeError, OSError) as error:
            if snapshots.repository.choice is None:
                raise
            # The files are in the person's folder; the end of the next turn stores them again.
            _log.warning("snapshot.not_sent", session_id=session_id, error=str(error))

    def send(self, session_id: str) -> None:
        """Pack a work tree's snapshots, and store them for other machines if there are any.

        Raises:
            ObjectStoreError: The store refused, or does not answer.
            AgentForgeError: The index does not answer, or a pack can't be made.
        """
        snapshots, packs = self.of(session_id), self._packs
        snapshots.pack()
        if packs is not None:
            self.stay(session_id)
            packs.push(session_id, "workspace", snapshots)
            packs.tidy(session_id, "workspace", snapshots, ())

    def worked_on_at(self, session_id: str) -> str | None:
        """Return the other machine an agent's session was worked on last; None if it was here."""
        packs = self._packs
        if packs is None:
            return None
        place = packs.index.place(session_id)
        if place is None:
            return None if self.work_tree(session_id) is not None else "another machine"
        return None if packs.is_last(place) else place.host

    def arrive(self, session_id: str, folder: Path) -> Snapshots:
        """Fetch an agent's snapshots, as those of a work tree here, and return them.

        No file of the work tree is changed.

        Raises:
            WorkspaceElsewhere: They are not available here.
            ObjectStoreError: The store does not answer, or a pack is damaged.
        """
        if self.fetched(session_id).repository.exists:
            WorkTree(folder, self._store.session_directory(session_id)).note()
        return self.of(session_id)

    def stay(self, session_id: str) -> None:
        """Record that a session is worked on here from now on.

        Raises:
            WorkspaceMoved: Another machine did the same at the same time.
        """
        if self._packs is not None:
            self._packs.take_up(session_id, self._packs.index.place(session_id))

    def _boundary(self, session_id: str) -> str | None:
        base = self.base_of(session_id)
        return None if base is None else base.commit

    def _agent(self, session_id: str) -> Snapshots:
        """Return the snapshots of the agent program's own state."""
        directory = self._store.session_directory(session_id)
        return self._in(session_id, directory / _AGENT_SNAPSHOTS, directory / AGENT_STATE)

    def _push_agent(self, session_id: str) -> None:
        """Store the agent's state; without it the program would start a new conversation."""
        snapshots = self._agent(session_id)
        if self._packs is None or not snapshots.repository.workspace.is_dir():
            return
        try:
            snapshots.repository.make()
            snapshots.take("agent")
            self._packs.push(session_id, "agent", snapshots)
            snapshots.keep_only(())
        except (SnapshotRefused, RepositoryError) as error:
            _log.warning("agent.state_not_stored", session_id=session_id, error=str(error))

    def _take_up_agent(self, session_id: str) -> None:
        """Restore the agent's state of the last checkpoint."""
        packs = self._packs
        if packs is None:
            return
        snapshots = self._agent(session_id)
        newest = packs.fetch(session_id, "agent", snapshots)
        if newest is None:
            self._discard(session_id, AGENT_STATE)
        else:
            snapshots.restore(newest)

    def _discard(self, session_id: str, name: str) -> None:
        """Remove a folder of a session's directory, if it exists."""
        directory = self._store.session_directory(session_id)
        with (
            suppress(FileNotFoundError),
            DirectoryLock(self._fs, directory, timeout_s=self._lock_timeout_s) as lock,
        ):
            self._fs.stat(name, dir_fd=lock.fd)
            discard_tree(self._fs, lock.fd, name, parent=directory, token=random_token)

    # ------------------------------------------------------------------- refs of deleted sessions

    def _note_ref(self, session_id: str, base: Base) -> None:
        """Record that a person's repository has a ref for a session, before the ref is created."""
        folder = self._store.base_path / KEPT_FOLDER
        make_durable_directory(self._fs, folder)
        with AtomicFileWriter(folder / f"{session_id}.json", fs=self._fs) as file:
            file.write(json.dumps({"schema_version": 1, "work_tree": base.work_tree}))

    def forget_deleted(self) -> None:
        """Remove the refs of sessions that are neither in the store nor in its trash.

        A ref that can't be removed, because its repository is missing or git fails, stays recorded
        and is retried later.
        """
        folder = self._store.base_path / KEPT_FOLDER
        kept: set[str] | None = None
        for note, session_id in list(_notes(folder)):
            if self._store.exists(session_id):
                continue
            if kept is None:
                kept = _in_trash(self._store.base_path)
            if session_id in kept:
                continue
            try:
                self._drop(note, session_id)
            except (AgentForgeError, OSError, ValueError) as error:
                _log.warning("snapshot.ref_not_removed", session_id=session_id, error=str(error))

    def _drop(self, note: Path, session_id: str) -> None:
        with note.open("rb") as file:
            work_tree = Path(json.loads(file.read(_MAX_NOTE))["work_tree"])
        if work_tree.is_dir():  # else the repository was deleted, and the ref with it
            drop_ref(UserRepository.at(work_tree, self._git), session_id)
            _log.info("snapshot.ref_removed", session_id=session_id, repository=str(work_tree))
        note.unlink(missing_ok=True)


def _notes(folder: Path) -> Iterator[tuple[Path, str]]:
    try:
        entries = sorted(os.listdir(folder))
    except OSError:
        return
    for name in entries:
        session_id = name.removesuffix(".json")
        if name.endswith(".json") and is_session_id(session_id):
            yield folder / name, session_id


def _in_trash(base: Path) -> set[str]:
    """Return the sessions in the trash of a prune, which may still be restored."""
    from ...prune.removal.trash import list_trash

    try:
        return {one.session_id for one in list_trash(base)}
    except (AgentForgeError, DurableError, OSError) as error:
        _log.warning("snapshot.trash_unreadable", base=str(base), error=str(error))
        return {session_id for _, session_id in _notes(base / KEPT_FOLDER)}
