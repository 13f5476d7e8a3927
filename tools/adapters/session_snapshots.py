"""The harness's port to snapshots, on git: whose workspace is kept where, and what if it can't be.

A session of a person's repository needs git, and what goes wrong with it is raised. Any other
session works without: where git is missing or fails, its checkpoints say why they have no snapshot.
What a workspace holds (a pipe, too much) never stops a session; its checkpoint says so, too.

The module is long because the two ends of each rule, what is noted and what is let go of, stand
together.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..clock import Clock, utc_now
from ..durable import (
    AtomicFileWriter,
    DurableError,
    FileSystem,
    OsFileSystem,
    make_durable_directory,
)
from ..errors import AgentForgeError
from ..event_log import get_logger
from ..harness.session_layout import SNAPSHOTS
from ..harness.session_ports import LocalSessions
from ..harness.snapshot_port import (
    ChangedFile,
    PreparedWorkspace,
    SnapshotTaken,
    WorkspaceChanges,
)
from ..identifiers import is_session_id
from ..repository import Git, GitUnavailable, UserRepository
from ..repository.base import Base, base_files, check_out, drop_ref, keep_ref
from ..repository.snapshot_repository import SnapshotRepository
from ..repository.snapshots import SnapshotMissing, Snapshots
from ..repository.workspace_scan import ScanLimits, SnapshotRefused

if TYPE_CHECKING:
    from ..repository.tree_changes import TreeChanges

REPOSITORY_NAME: Final = "repository.json"
"""The attachment of a session that works on a person's repository: its base."""
KEPT_FOLDER: Final = ".repositories"
"""Where a base of sessions notes which repositories keep a ref for which session."""
_MARK: Final = "restored"
_REFERRED_S: Final = 3600.0
"""After this long, in seconds, no worker is about to refer to a snapshot that it took."""
_MAX_NOTE: Final = 1 << 16

_log = get_logger("agentforge.snapshots")


class SessionSnapshots:
    """Keeps the workspaces of a store's sessions. Implements `harness.snapshot_port`."""

    def __init__(
        self,
        store: LocalSessions,
        *,
        git: Git | None = None,
        fs: FileSystem | None = None,
        clock: Clock = utc_now,
        limits: ScanLimits | None = None,
        lock_timeout_s: float = 60.0,
    ) -> None:
        """Name what is kept; nothing happens yet.

        Args:
            store: Where the sessions are.
            git: The program; that of PATH by default.
            fs: The file system.
            clock: The time.
            limits: How much a workspace may hold.
            lock_timeout_s: How long to wait for another process at the same snapshots, in seconds.
        """
        self._store = store
        self._git = git if git is not None else Git()
        self._fs: FileSystem = fs if fs is not None else OsFileSystem()
        self._clock = clock
        self._limits = limits if limits is not None else ScanLimits()
        self._lock_timeout_s = lock_timeout_s

    def of(self, session_id: str) -> Snapshots:
        """Return the snapshots of a session, which need not have any."""
        directory = self._store.session_directory(session_id)
        repository = SnapshotRepository(
            directory / SNAPSHOTS,
            self._store.workspace_path(session_id),
            git=self._git,
            fs=self._fs,
            lock_timeout_s=self._lock_timeout_s,
        )
        return Snapshots(repository, clock=self._clock, limits=self._limits)

    def base_of(self, session_id: str) -> Base | None:
        """Return what a session works on; None where that is no repository.

        Raises:
            SnapshotMissing: What the session notes of it can't be read.
        """
        data = self._store.read_attachment(session_id, REPOSITORY_NAME)
        if data is None:
            return None
        try:
            return Base.decode(data)
        except ValueError as error:
            directory = self._store.session_directory(session_id)
            raise SnapshotMissing(REPOSITORY_NAME, directory=directory) from error

    # ----------------------------------------------------------------------------------- the port

    def attachments(
        self, repository: Path, revision: str, *, with_uncommitted: bool
    ) -> dict[str, bytes]:
        """Look up a base; see the port.

        Raises:
            NotARepository: There is no checkout of one.
            UnknownRevision: It has no such commit.
            GitUnavailable: There is no git that can be used.
        """
        user = UserRepository.at(repository, self._git)
        base = Base.of(user, revision, with_uncommitted=with_uncommitted)
        return {REPOSITORY_NAME: base.encode()}

    @contextmanager
    def begun_files(self, attachments: Mapping[str, bytes]) -> Iterator[tuple[Path, str]]:
        """Have the files that a session will begin with, in a temporary folder; and whose they are.

        Args:
            attachments: What `attachments` returned.

        Raises:
            BaseUnavailable: They can't be checked out.
        """
        base = Base.decode(attachments[REPOSITORY_NAME])
        also = ", with what is not committed" if base.with_uncommitted else ""
        with base_files(base, base.user_repository(self._git)) as folder:
            yield folder, f"{base.work_tree} at {base.revision} ({base.commit[:12]}){also}"

    def prepare(self, session_id: str) -> PreparedWorkspace | None:
        """Check out the base of a session that has one; see `repository.base.check_out`."""
        base = self.base_of(session_id)
        if base is None:
            return None
        user = base.user_repository(self._git)
        self._note_ref(session_id, base)
        first = check_out(self.of(session_id), base, user, session_id)
        return PreparedWorkspace(base.commit, base.revision, first.id, base.with_uncommitted)

    def settle(
        self,
        session_id: str,
        snapshot: str,
        *,
        mark: int,
        parent_id: str | None = None,
        more: Collection[str] = (),
    ) -> None:
        """Make a workspace what a snapshot says, once for each mark; see the port.

        Raises:
            SnapshotMissing: Neither the session nor its parent has the snapshot.
            RestoreFailed: Something in the workspace can't be replaced.
        """
        snapshots = self.of(session_id)
        place = snapshots.repository.directory / _MARK
        with suppress(FileNotFoundError, ValueError):
            if int(place.read_text()) >= mark:
                return
        if parent_id is not None:
            self._take_over(session_id, snapshots, snapshot, parent_id, more)
        snapshots.restore(snapshot)
        with AtomicFileWriter(place, fs=self._fs) as file:
            file.write(f"{mark}\n")

    def _take_over(
        self,
        session_id: str,
        snapshots: Snapshots,
        snapshot: str,
        parent_id: str,
        more: Collection[str],
    ) -> None:
        """Make a fork's repository with its parent's snapshot."""
        base = self.base_of(session_id)
        if base is None:
            snapshots.repository.make()
        else:
            self._note_ref(session_id, base)
            keep_ref(base.user_repository(self._git), session_id, base.commit)
            snapshots.repository.make(objects=Path(base.objects), object_format=base.object_format)
        try:
            snapshots.get(snapshot)
        except SnapshotMissing:
            self.of(parent_id).copy_to(snapshots, snapshot, more)

    def take(self, session_id: str, label: str) -> SnapshotTaken:
        """Keep the workspace as it is; see the port and the module.

        Raises:
            RepositoryError: The session works on a repository, and git failed.
            DurableError: It works on one, and the disk failed.
        """
        if not self._store.workspace_path(session_id).is_dir():
            return SnapshotTaken()
        snapshots = self.of(session_id)
        try:
            snapshots.repository.make()
            taken = snapshots.take(label)
        except SnapshotRefused as error:
            return self._unkept(session_id, error)
        except (AgentForgeError, OSError) as error:
            if self.base_of(session_id) is not None:
                raise
            return self._unkept(session_id, error)
        return SnapshotTaken() if taken is None else SnapshotTaken(snapshot=taken.id)

    def empty(self, session_id: str) -> SnapshotTaken:
        """Keep a workspace that holds nothing; see the port."""
        snapshots = self.of(session_id)
        try:
            snapshots.repository.make()
            return SnapshotTaken(snapshot=snapshots.take_empty("empty").id)
        except (AgentForgeError, OSError) as error:
            return self._unkept(session_id, error)

    def _unkept(self, session_id: str, error: Exception) -> SnapshotTaken:
        log = _log.info if isinstance(error, GitUnavailable) else _log.warning
        log("snapshot.not_taken", session_id=session_id, error=str(error))
        return SnapshotTaken(unkept=_first_sentence(str(error)))

    def require(self, session_id: str, snapshot: str) -> None:
        """Raise unless there is such a snapshot.

        Raises:
            SnapshotMissing: There is none.
            NoSnapshots: The session has none at all.
        """
        self.of(session_id).get(snapshot)

    def changes(
        self,
        session_id: str,
        before: str | None,
        after: str | None,
        *,
        patch: bool,
        paths: Sequence[str],
    ) -> WorkspaceChanges:
        """Compare two snapshots; see the port.

        Raises:
            NoSnapshots: The session has none.
            SnapshotMissing: One of them is not there.
            SnapshotRefused: The workspace as it is now can't be kept, and so not be compared.
        """
        snapshots = self.of(session_id)
        if before is None and after is None and not snapshots.repository.exists:
            if not self._store.workspace_path(session_id).is_dir():
                return WorkspaceChanges(())
            snapshots.repository.make()
        first = snapshots.empty_tree() if before is None else before
        second = snapshots.tree_now() if after is None else after
        return _as_workspace(snapshots.changes(first, second, patch=patch, paths=paths))

    def sweep(self, session_id: str, wanted: Collection[str]) -> None:
        """Remove the snapshots that nothing refers to; see the port.

        Where there are many files of objects, they are packed into one.
        """
        snapshots = self.of(session_id)
        if not snapshots.repository.exists:
            return
        try:
            snapshots.keep_only(wanted, older_than_s=_REFERRED_S)
            snapshots.pack()
        except (AgentForgeError, OSError) as error:
            _log.warning("snapshot.not_swept", session_id=session_id, error=str(error))

    def disk_bytes(self, session_id: str) -> int:
        """Return what the snapshots of a session take up on the disk, in bytes."""
        return self.of(session_id).repository.disk_bytes()

    # ------------------------------------------------------------------- refs of deleted sessions

    def _note_ref(self, session_id: str, base: Base) -> None:
        """Note, before it is made, that a person's repository has a ref for a session."""
        folder = self._store.base_path / KEPT_FOLDER
        make_durable_directory(self._fs, folder)
        with AtomicFileWriter(folder / f"{session_id}.json", fs=self._fs) as file:
            file.write(json.dumps({"schema_version": 1, "work_tree": base.work_tree}))

    def forget_deleted(self) -> None:
        """Remove the refs of sessions that are neither in the store nor in its trash.

        What can't be removed, since its repository is not there or git fails, stays noted, and is
        tried again.
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
        if work_tree.is_dir():  # else the repository went, and the ref with it
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
    """Return the sessions that a prune put into the trash, from where they may come back."""
    from ..prune.trash import list_trash

    try:
        return {one.session_id for one in list_trash(base)}
    except (AgentForgeError, DurableError, OSError) as error:
        _log.warning("snapshot.trash_unreadable", base=str(base), error=str(error))
        return {session_id for _, session_id in _notes(base / KEPT_FOLDER)}


def _as_workspace(found: TreeChanges) -> WorkspaceChanges:
    files = tuple(
        ChangedFile(
            os.fsdecode(one.path),
            one.kind,
            one.old_mode,
            one.new_mode,
            one.insertions,
            one.deletions,
        )
        for one in found.files
    )
    return WorkspaceChanges(files, found.patch)


def _first_sentence(text: str) -> str:
    """Return an error's first sentence for the history, where its advice comes too late."""
    return text.split(". ", 1)[0][:500].encode("utf-8", "backslashreplace").decode()
