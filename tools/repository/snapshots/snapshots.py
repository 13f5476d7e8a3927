"""Snapshots of a workspace: taken, listed, compared, restored, removed.

A snapshot is a commit whose tree has the workspace's files byte for byte; its message holds a name
and the manifest. Its parent is the base of the work, so that git can merge it. An unchanged
workspace makes no new snapshot.

Guarantees: a snapshot whose id was returned survives the death of the process and a power failure,
if the disk honours its syncs; a kill at any instant leaves the earlier ones unchanged.

The module is long because all operations share one order of locks, objects and refs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final, NamedTuple

from ...base.clock import Clock, utc_now
from ...base.errors import ErrorKind, reason_of
from ...base.files.trees import TreeChanges
from ..errors import GitFailed, RepositoryError, SnapshotRefused
from ..git.git_objects import COMMIT, TREE, commit_content, sync_refs, write_refs
from .chosen_files import bring_to
from .manifest import WorkspaceManifest
from .snapshot_packs import (
    NewPack,
    disk_bytes,
    end_history,
    fetch_packs,
    history_ends,
    note_packs,
    packs_here,
    require_whole,
    take_pack,
    write_pack,
)
from .snapshot_repository import (
    BASE_REF,
    LATEST_REF,
    MANY_LOOSE,
    SNAPSHOT_REFS,
    LockedRepository,
    NoSnapshots,
    SnapshotRepository,
)
from .snapshot_restore import RestoreFailed, restore_in_place, restore_to
from .tree_changes import changes_between
from .workspace_index import LookedAt, WorkspaceState, forget, look_at, write_state
from .workspace_scan import ScanLimits

_OBJECT_ID: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SUBJECT_CHARS: Final = 120


class SnapshotMissing(RepositoryError, kind=ErrorKind.NOT_FOUND):
    """There is no such snapshot; nothing was changed."""

    message = """snapshot {snapshot!r} is not in {directory}, or objects of it are missing; nothing
    was changed"""
    snapshot: str
    directory: Path


class Snapshot(NamedTuple):
    """A snapshot.

    Attributes:
        id: Its commit.
        tree: The tree of its files.
        parents: The base of the work; empty if it has none.
        taken_at: When it was taken.
        label: Its name.
        manifest: Modes and empty folders.
    """

    id: str
    tree: str
    parents: tuple[str, ...]
    taken_at: datetime
    label: str
    manifest: WorkspaceManifest

    @property
    def state(self) -> WorkspaceState:
        """The content of the workspace."""
        return WorkspaceState(self.tree, self.manifest)


class PackWritten(NamedTuple):
    """The content of a pack of snapshots.

    Attributes:
        snapshots: The snapshots that it and the packs before it complete, oldest first.
        base: The base of the work, or None if it has none.
    """

    snapshots: tuple[str, ...]
    base: str | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Snapshots:
    """The snapshots of one workspace.

    Attributes:
        repository: Their repository.
        clock: Returns the time.
        limits: The limits of a workspace's content.
    """

    repository: SnapshotRepository
    clock: Clock = field(default=utc_now, kw_only=True)
    limits: ScanLimits = field(default_factory=ScanLimits, kw_only=True)

    # -------------------------------------------------------------------------------------- taking

    def take(self, label: str) -> Snapshot | None:
        """Store the workspace's current state; None if there is no workspace.

        Nothing may work in the workspace meanwhile.

        Args:
            label: Its name, on one line.

        Raises:
            NoSnapshots: The repository does not exist.
            SnapshotRefused: The workspace holds what can't be stored; nothing was stored.
            GitUnavailable: There is no usable git.
            GitFailed: It could not be stored.
        """
        with self.repository.locked() as locked:
            looked = self._look(locked)
            if looked is None:
                return None
            written = write_state(locked, looked)
            snapshot = self._latest(locked)
            if snapshot is None or snapshot.state != written.state:
                snapshot = self._commit(locked, written.state, label)
            elif not looked.found.same:
                self._sync_refs(snapshot.id)
            written.keep()
            return snapshot

    def _look(self, locked: LockedRepository) -> LookedAt | None:
        try:
            return look_at(locked, self.limits)
        except OSError as error:
            raise SnapshotRefused(
                self.repository.workspace, [f"it can't be read: {reason_of(error)}"]
            ) from error

    def _latest(self, locked: LockedRepository) -> Snapshot | None:
        try:
            commit = (self.repository.directory / LATEST_REF).read_text("ascii").strip()
        except (OSError, ValueError):
            return None
        try:
            return self._read(locked, [_checked(commit)])[0]
        except RepositoryError:
            return None  # the next snapshot does not need it

    def _commit(self, locked: LockedRepository, state: WorkspaceState, label: str) -> Snapshot:
        moment = self.clock().replace(microsecond=0)
        subject = " ".join(label.encode("ascii", "replace").decode().split())[:_SUBJECT_CHARS]
        parents = (self.repository.base_commit(),) if self.repository.has_base else ()
        message = subject.encode() + b"\n\n" + state.manifest.encode() + b"\n"
        content = commit_content(state.tree, parents, at_s=int(moment.timestamp()), message=message)
        commit = locked.objects.write(COMMIT, content)
        locked.objects.sync()
        refs = [(SNAPSHOT_REFS + commit, commit), (LATEST_REF, commit)]  # the latest is retained
        write_refs(self.repository.fs, self.repository.directory, refs)
        return Snapshot(
            commit, state.tree, parents, moment.astimezone(UTC), subject, state.manifest
        )

    def _sync_refs(self, snapshot: str) -> None:
        """Make a snapshot's refs durable, in case its taker was killed at the end."""
        sync_refs(
            self.repository.fs, self.repository.directory, [SNAPSHOT_REFS + snapshot, LATEST_REF]
        )

    def take_empty(self, label: str) -> Snapshot:
        """Store an empty workspace, whatever the workspace holds now.

        Raises:
            NoSnapshots: The repository does not exist.
            GitFailed: It could not be stored.
        """
        with self.repository.locked() as locked:
            empty = locked.objects.write(TREE, b"")
            return self._commit(locked, WorkspaceState(empty, WorkspaceManifest()), label)

    def begin(self, commit: str) -> None:
        """Make a commit the base of the work: the parent of every snapshot.

        Raises:
            GitFailed: It is missing.
        """
        with self.repository.locked() as locked:
            locked.git("update-ref", BASE_REF, _checked(commit))

    # -------------------------------------------------------------------------------------- looking

    def get(self, snapshot: str) -> Snapshot:
        """Return a snapshot.

        Raises:
            SnapshotMissing: There is none of this id.
            NoSnapshots: The repository does not exist.
        """
        with self.repository.locked() as locked:
            return self._read(locked, [_checked(snapshot)])[0]

    def list(self) -> list[Snapshot]:
        """Return all snapshots, oldest first; none if the repository does not exist."""
        if not self.repository.exists:
            return []
        with self.repository.locked() as locked:
            found = self._read(locked, self._ids(locked))
        return sorted(found, key=_by_age)

    def ids(self) -> Sequence[str]:
        """Return the ids of all snapshots; none if the repository does not exist."""
        if not self.repository.exists:
            return []
        with self.repository.locked() as locked:
            return self._ids(locked)

    def _ids(self, locked: LockedRepository) -> Sequence[str]:
        """Return all ids: each snapshot has a ref, a file unless somebody packed the refs."""
        directory = self.repository.directory
        if (directory / "packed-refs").exists():
            output = locked.git("for-each-ref", "--format=%(objectname)", SNAPSHOT_REFS)
            return output.stdout.decode().split()
        try:
            names = os.listdir(directory / SNAPSHOT_REFS)
        except FileNotFoundError:
            return []
        return sorted(name for name in names if _OBJECT_ID.fullmatch(name))

    def _read(self, locked: LockedRepository, names: Sequence[str]) -> Sequence[Snapshot]:
        if not names:
            return []
        loose = {name: locked.objects.read(name, COMMIT) for name in names}
        asked = "".join(f"{name}\n" for name in names if loose[name] is None).encode()
        rest = locked.git("cat-file", "--batch", stdin=asked).stdout if asked else b""
        found = []
        for name in names:
            content = loose[name]
            if content is not None:
                found.append(self._parsed(name, content))
                continue
            head, _, rest = rest.partition(b"\n")
            parts = head.split()
            if len(parts) != 3 or parts[1] != b"commit":
                raise SnapshotMissing(name, directory=self.repository.directory)
            size = int(parts[2])
            found.append(self._parsed(parts[0].decode(), rest[:size]))
            rest = rest[size + 1 :]
        return found

    def _parsed(self, commit: str, data: bytes) -> Snapshot:
        head, _, message = data.partition(b"\n\n")
        subject, _, rest = message.partition(b"\n\n")
        fields = [line.split(b" ", 1) for line in head.splitlines()]
        try:
            stamp = next(value for name, value in fields if name == b"committer").split()[-2]
            return Snapshot(
                id=commit,
                tree=next(value for name, value in fields if name == b"tree").decode(),
                parents=tuple(value.decode() for name, value in fields if name == b"parent"),
                taken_at=datetime.fromtimestamp(int(stamp), UTC),
                label=subject.decode("utf-8", "replace"),
                manifest=WorkspaceManifest.decode(rest.strip()),
            )
        except (StopIteration, ValueError, IndexError) as error:
            raise SnapshotMissing(commit, directory=self.repository.directory) from error

    def tree_now(self) -> str:
        """Return the tree of the workspace's current state; nothing refers to it.

        While someone works in the workspace, the tree may show a state in between.

        Raises:
            SnapshotRefused: It holds what can't be stored.
            NoSnapshots: The repository does not exist.
        """
        with self.repository.locked() as locked:
            looked = self._look(locked)
            if looked is None:
                return locked.objects.write(TREE, b"")
            written = write_state(locked, looked)
            written.keep()
            return written.state.tree

    def empty_tree(self) -> str:
        """Return the empty tree, which every repository can have."""
        with self.repository.locked() as locked:
            return locked.objects.write(TREE, b"")

    def changes(
        self, before: str, after: str, *, patch: bool = False, paths: Sequence[str] = ()
    ) -> TreeChanges:
        """Compare two snapshots, commits or trees.

        Args:
            before: An id.
            after: An id.
            patch: Whether to return the changed lines, too.
            paths: Only these files, and the files in these folders.

        Raises:
            SnapshotMissing: One of them is missing.
        """
        with self.repository.locked() as locked:
            try:
                return changes_between(
                    locked, _checked(before), _checked(after), patch=patch, paths=paths
                )
            except GitFailed as error:
                if "object" not in error.output and "not a tree" not in error.output:
                    raise
                missing = f"{before}..{after}"
                raise SnapshotMissing(missing, directory=self.repository.directory) from error

    # ---------------------------------------------------------------------------------- restoring

    def restore(self, snapshot: str) -> None:
        """Restore the workspace to a snapshot, file by file.

        A kill leaves it in between; the same call then completes it. Nothing may work in the
        workspace meanwhile. In a person's work tree only files that the snapshots have are touched;
        save its present state before.

        Raises:
            SnapshotMissing: There is no such snapshot; nothing was changed.
            SnapshotRefused: The work tree holds what can't be stored; nothing was changed.
            RestoreFailed: Something in the workspace can't be replaced.
        """
        with self.repository.locked() as locked:
            state = self._read(locked, [_checked(snapshot)])[0].state
            if self.repository.choice is None:
                restore_in_place(locked, state)
                return
            looked = self._look(locked)
            if looked is None:
                raise RestoreFailed(self.repository.workspace, "the folder is missing")
            bring_to(locked, write_state(locked, looked).state, state)

    def export(self, snapshot: str, folder: Path) -> None:
        """Write a snapshot as a new folder, which appears complete.

        Raises:
            SnapshotMissing: There is no such snapshot.
            RestoreFailed: There is something at the path, or it can't be written.
        """
        with self.repository.locked() as locked:
            restore_to(locked, self._read(locked, [_checked(snapshot)])[0].state, folder)

    # ------------------------------------------------------------------------- removing and copying

    def keep_only(self, wanted: Collection[str], *, older_than_s: float = 0.0) -> Sequence[str]:
        """Remove all snapshots but these and the newest; return the removed ones.

        Args:
            wanted: The ids that something refers to.
            older_than_s: Snapshots younger than this stay in any case, in seconds.
        """
        with self.repository.locked() as locked:
            left = [one for one in self._ids(locked) if one not in wanted]
            if not left:
                return []
            latest = self._latest(locked)
            until = self.clock().timestamp() - older_than_s
            gone = [
                one.id
                for one in self._read(locked, left)
                if one.taken_at.timestamp() <= until and (latest is None or one.id != latest.id)
            ]
            return self._remove(locked, gone, older_than_s=older_than_s)

    def pack(self, *, many: int = MANY_LOOSE) -> bool:
        """Put the objects of snapshots into one pack if many of them are loose.

        Returns:
            Whether they were packed.
        """
        with self.repository.locked() as locked:
            if locked.repository.loose_objects() <= many:
                return False
            locked.git("repack", "-q", "-d", "-l")
            return True

    def remove(self, snapshots: Collection[str]) -> Sequence[str]:
        """Remove snapshots and what only they hold; return those that existed."""
        with self.repository.locked() as locked:
            there = [one for one in self._ids(locked) if one in snapshots]
            return self._remove(locked, there)

    def _remove(
        self, locked: LockedRepository, ids: Sequence[str], *, older_than_s: float = 0.0
    ) -> Sequence[str]:
        if not ids:
            return []
        lines = [f"delete {SNAPSHOT_REFS}{one}\n" for one in ids]
        latest = self._latest(locked)
        if latest is not None and latest.id in ids:
            lines.append(f"delete {LATEST_REF}\n")
        locked.git("update-ref", "--stdin", stdin="".join(lines).encode())
        until = f"{int(older_than_s)}.seconds.ago" if older_than_s else "now"
        forget(locked)  # its tree may be among what is removed
        locked.git("prune", f"--expire={until}")
        return ids

    def copy_to(self, other: Snapshots, snapshot: str, more: Collection[str] = ()) -> None:
        """Store a snapshot in another workspace's repository, with its base.

        Args:
            other: The other workspace's snapshots.
            snapshot: The snapshot.
            more: Further snapshots to copy, as far as they exist.

        Raises:
            SnapshotMissing: There is no such snapshot.
            GitFailed: It could not be stored; the other repository has nothing of it, or all.
        """
        target = other.repository
        with self.repository.locked() as locked:
            found = self._read(locked, [_checked(snapshot)])[0]
            copied = [one for one in self._ids(locked) if one in more or one == found.id]
            shared = self._shared(locked)
            pack = target.directory / f"copy-{target.token()}.aside"
            with target.locked() as theirs:
                end_history(theirs, history_ends(self.repository.directory))
                try:
                    with pack.open("xb") as file:
                        write_pack(locked, copied, shared, file)
                        target.fs.fsync(file.fileno())
                    take_pack(theirs, pack, target.token())
                finally:
                    pack.unlink(missing_ok=True)
                refs = [f"update {SNAPSHOT_REFS}{one} {one}\n" for one in copied]
                refs.append(f"update {LATEST_REF} {found.id}\n")
                refs += [f"update {BASE_REF} {one}\n" for one in found.parents[:1]]
                theirs.git("update-ref", "--stdin", stdin="".join(refs).encode())

    def _shared(self, locked: LockedRepository) -> Sequence[str]:
        """Return the commits that the copy finds among the person's objects."""
        if not self.repository.has_base:
            return []
        alternates = self.repository.directory / "objects" / "info" / "alternates"
        if not alternates.is_file():
            return []
        chain = locked.git("rev-list", "--max-count=2", "--first-parent", BASE_REF)
        return [one for one in chain.stdout.decode().split() if self._is_theirs(locked, one)]

    def _is_theirs(self, locked: LockedRepository, commit: str) -> bool:
        """Return whether a commit is a person's: ours are marked as snapshots."""
        try:
            self._read(locked, [commit])
        except SnapshotMissing:
            return True
        return False

    # ----------------------------------------------------------------- to and from other machines

    def write_pack(
        self, known: Collection[str], target: IO[bytes], *, boundary: str | None
    ) -> PackWritten | None:
        """Write the snapshots that other machines lack into an open file, as one pack.

        Args:
            known: The snapshots that they have.
            target: The file.
            boundary: The person's base commit of the work, whose history stays here.

        Returns:
            The pack's content; None if they lack nothing, and nothing was written.

        Raises:
            GitFailed: Objects are missing.
            NoSnapshots: The repository does not exist.
        """
        with self.repository.locked() as locked:
            ids = self._ids(locked)
            new = [one for one in ids if one not in known]
            if not new:
                return None
            write_pack(locked, new, set(ids) - set(new), target, boundary=boundary)
            if len(new) > 1:
                new = [one.id for one in sorted(self._read(locked, new), key=_by_age)]
            base = self.repository.base_commit() if self.repository.has_base else None
            return PackWritten(tuple(new), base)

    def disk_bytes(self, known: Collection[str]) -> int:
        """Return how many bytes the snapshots take on the disk that other machines lack.

        Raises:
            GitFailed: Objects are missing.
        """
        with self.repository.locked() as locked:
            ids = self._ids(locked)
            return disk_bytes(locked, set(ids).difference(known), set(ids).intersection(known))

    def packs_here(self) -> Collection[str]:
        """Return the names of the packs that were imported, or recorded."""
        return packs_here(self.repository.directory)

    def note_pack(self, name: str) -> None:
        """Record that all of a pack is here.

        Raises:
            WriteError: The disk or its permissions.
        """
        with self.repository.locked() as locked:
            note_packs(locked, [name])

    def take_in(
        self, packs: Sequence[NewPack], *, base: str | None = None, boundary: str | None = None
    ) -> None:
        """Import the snapshots of packs: all of them, or none.

        Args:
            packs: The packs, in the order in which they were written; those already here are
                skipped.
            base: The base of the work, or None.
            boundary: The person's commit behind which history is not in them, or None.

        Raises:
            NoSnapshots: The repository does not exist.
            GitFailed: Objects are missing, or a pack is invalid.
            WriteError: The disk or its permissions.
        """
        directory = self.repository.directory
        with self.repository.locked() as locked:
            here = packs_here(directory)
            new = [one for one in packs if one.name not in here]
            if not new:
                return
            known = self._ids(locked)
            fetch_packs(locked, new, boundary=None if self.repository.has_alternates else boundary)
            ids = list(dict.fromkeys(_checked(each) for one in new for each in one.snapshots))
            require_whole(locked, ids, known)
            refs = [(SNAPSHOT_REFS + one, one) for one in ids]
            refs.append((LATEST_REF, ids[-1]))
            if base is not None:
                refs.append((BASE_REF, _checked(base)))
            write_refs(self.repository.fs, directory, refs)
            note_packs(locked, [one.name for one in new])

    def at(self, repository: SnapshotRepository) -> Snapshots:
        """Return the snapshots of another workspace, with the same clock and limits."""
        return Snapshots(repository, clock=self.clock, limits=self.limits)


def _by_age(snapshot: Snapshot) -> tuple[datetime, str]:
    return snapshot.taken_at, snapshot.id


def _checked(commit: str) -> str:
    if _OBJECT_ID.fullmatch(commit) is None:
        raise SnapshotMissing(commit, directory=Path())
    return commit


__all__ = ["NewPack", "NoSnapshots", "PackWritten", "Snapshot", "SnapshotMissing", "Snapshots"]
