"""Snapshots of workspaces that are nothing but memory."""

from __future__ import annotations

import difflib
import shutil
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Final

from attrs import define, field

from agentforge_sessions.base.clock import Clock, utc_now
from agentforge_sessions.base.errors import AgentForgeError
from agentforge_sessions.base.files.trees import FileChange, TreeChanges
from agentforge_sessions.harness.domain.history_events import WorkspacePrepared
from agentforge_sessions.harness.session_ports import SessionPlaces
from agentforge_sessions.harness.snapshot_port import SnapshotTaken

Tree = dict[str, tuple[str, bytes]]
"""The files of a workspace: mode, as git says it, and content."""
ABSENT: Final = ("000000", b"")
REFERRED: Final = timedelta(hours=1)


class NoSuchSnapshot(AgentForgeError):
    """There is no such snapshot."""


@define
class MemorySnapshots:
    """Keeps workspaces in memory. A `harness.snapshot_port.WorkspaceSnapshots`."""

    places: SessionPlaces
    kept: dict[str, dict[str, tuple[Tree, datetime]]] = field(factory=dict)
    marks: dict[str, int] = field(factory=dict)
    clock: Clock = utc_now
    numbers: count[int] = field(factory=lambda: count(1))

    def attachments(
        self, repository: Path, revision: str, *, with_uncommitted: bool
    ) -> dict[str, bytes]:
        raise NoSuchSnapshot("there are no repositories in memory")

    def prepare(self, session_id: str) -> WorkspacePrepared | None:
        return None

    @property
    def travels(self) -> bool:
        return False

    def take_up(
        self,
        session_id: str,
        last: SnapshotTaken,
        *,
        mark: int | None = None,
        parent_id: str | None = None,
        more: Collection[str] = (),
    ) -> None:
        pass

    def is_here(self, session_id: str) -> bool:
        return True

    def settle(
        self,
        session_id: str,
        snapshot: str,
        *,
        mark: int,
        parent_id: str | None = None,
        more: Collection[str] = (),
    ) -> None:
        if self.marks.get(session_id, -1) >= mark:
            return
        own = self.kept.setdefault(session_id, {})
        if parent_id is not None and snapshot not in own:
            own.update({one: self.kept[parent_id][one] for one in {snapshot, *more}})
        self._write(self.places.workspace_path(session_id), self._tree(session_id, snapshot))
        self.marks[session_id] = mark

    def work_tree(self, session_id: str) -> Path | None:
        return None

    def require_branch(self, session_id: str, tags: Collection[str]) -> None:
        pass

    def bring_back(self, session_id: str, snapshot: str) -> None:
        raise AssertionError("no session of these works in a person's folder")

    def take(self, session_id: str, label: str) -> SnapshotTaken:
        if not self.places.workspace_path(session_id).is_dir():
            return SnapshotTaken()
        return self._keep(session_id, self._now(session_id))

    def empty(self, session_id: str) -> SnapshotTaken:
        return self._keep(session_id, {})

    def require(self, session_id: str, snapshot: str) -> None:
        self._tree(session_id, snapshot)

    def changes(
        self,
        session_id: str,
        before: str | None,
        after: str | None,
        *,
        patch: bool,
        paths: Sequence[str],
    ) -> TreeChanges:
        old = {} if before is None else self._tree(session_id, before)
        new = self._now(session_id) if after is None else self._tree(session_id, after)
        found, lines = [], b""
        for path in sorted(old.keys() | new.keys()):
            if old.get(path) == new.get(path) or (
                paths and not any(path == one or path.startswith(f"{one}/") for one in paths)
            ):
                continue
            (old_mode, was), (new_mode, now) = old.get(path, ABSENT), new.get(path, ABSENT)
            delta = [*difflib.diff_bytes(difflib.unified_diff, was.splitlines(), now.splitlines())]
            changed = delta[2:]
            kind = "added" if path not in old else "deleted" if path not in new else "modified"
            found.append(
                FileChange(
                    path,
                    kind,
                    old_mode,
                    new_mode,
                    sum(one.startswith(b"+") for one in changed),
                    sum(one.startswith(b"-") for one in changed),
                )
            )
            lines += b"\n".join(delta)
        return TreeChanges(tuple(found), lines if patch else b"")

    def sweep(self, session_id: str, wanted: Collection[str]) -> None:
        own = self.kept.get(session_id, {})
        for snapshot, (_, at) in list(own.items()):
            if snapshot not in wanted and self.clock() - at > REFERRED:
                del own[snapshot]

    def disk_bytes(self, session_id: str) -> int:
        trees = [tree for tree, _ in self.kept.get(session_id, {}).values()]
        return sum(100 + len(content) for tree in trees for _, content in tree.values())

    def forget_deleted(self) -> None:
        pass

    def _keep(self, session_id: str, tree: Tree) -> SnapshotTaken:
        snapshot = f"{next(self.numbers):040x}"
        self.kept.setdefault(session_id, {})[snapshot] = (tree, self.clock())
        return SnapshotTaken(snapshot=snapshot)

    def _tree(self, session_id: str, snapshot: str) -> Tree:
        try:
            return self.kept[session_id][snapshot][0]
        except KeyError:
            raise NoSuchSnapshot(f"{session_id} has no snapshot {snapshot}") from None

    def _now(self, session_id: str) -> Tree:
        root = self.places.workspace_path(session_id)
        return {
            str(path.relative_to(root)): (
                "100755" if path.stat().st_mode & 0o100 else "100644",
                path.read_bytes(),
            )
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }

    def _write(self, root: Path, tree: Tree) -> None:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        for path, (mode, content) in tree.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)
            (root / path).chmod(int(mode[-3:], 8))
