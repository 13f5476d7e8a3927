"""What keeping a workspace of 10,000 files costs, against git's own look and commit at the same.

python -m benchmarks.snapshots [--quick] [--json] [--check] [--only GROUPS] [--dir FOLDER]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import structlog

from agentforge_sessions.harness import PhaseResult, SessionManager, SessionStore
from agentforge_sessions.repository.snapshots.snapshots import Snapshots
from agentforge_sessions.wiring.workspaces.session_snapshots import SessionSnapshots
from benchmarks.measure import Candidate, Row, compare, row, table

TARGET = 1.5
"""The most that a snapshot may take, in times of what git takes for the same."""
PHASE_MS = 50.0
"""The most that snapshots may add to a phase, at p50, in milliseconds."""
SMALL = 100
_FILE = b"%06d: the quick brown fox jumps over the lazy dog, again and again and again\n"


def fill(folder: Path, files: int) -> None:
    """Write so many files of 2 kB, a hundred in a folder."""
    for number in range(files):
        path = folder / f"{number // 100:03}" / f"{number:06}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_FILE % number * 25)


def git(folder: Path, *words: str) -> None:
    """Run git as a person does, without hooks and configuration of this machine's."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder.parent),
        "GIT_CONFIG_NOSYSTEM": "1",
        **{
            f"GIT_{who}_{what}": "a@b"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
    }
    subprocess.run(
        ["git", "-C", folder, *words], check=True, stdout=subprocess.DEVNULL, env=environment
    )


class Work:
    """A phase executor that changes one file of the workspace."""

    def __init__(self, store: SessionStore, files: int) -> None:
        self.store = store
        self.files = files
        self.numbers = itertools.count()

    def execute(self, _: str, *, session_id: str, **__: object) -> PhaseResult:
        """Change one file."""
        workspace = self.store.workspace_path(session_id)
        if not workspace.exists():
            fill(workspace, self.files)
        (workspace / "000" / "000000.txt").write_text(f"{next(self.numbers)}\n")
        return PhaseResult(success=True, exit_code=0)


def phases(store: SessionStore, files: int, *, kept: bool) -> Callable[[], object]:
    """Return what runs one more phase of a session, with or without snapshots."""
    snapshots = SessionSnapshots(store) if kept else None
    manager = SessionManager(store, executor=Work(store, files), snapshots=snapshots)
    manager.create("work", "one")
    manager.run_phase("")

    def once() -> None:
        manager.advance_phase("next")
        manager.run_phase("")

    return once


class Ground:
    """A checkout of so many files, and a session of it."""

    def __init__(self, folder: Path, files: int, rounds: int) -> None:
        self.folder, self.files, self.rounds = folder, files, rounds
        self.numbers = itertools.count()
        self.checkout = folder / "checkout"
        fill(self.checkout, files)
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "base")):
            git(self.checkout, *words)
        self.store = SessionStore(folder / "sessions")
        keeper = SessionSnapshots(self.store)
        begun = keeper.attachments(self.checkout, "HEAD", with_uncommitted=False)
        manager = SessionManager(self.store, snapshots=keeper)
        session = manager.create("work", "one", attachments=begun)
        self.snapshots: Snapshots = keeper.of(session.session_id)
        self.workspace = self.store.workspace_path(session.session_id)
        self.first = self.snapshots.list()[0].id

    def change(self, tree: Path) -> Callable[[], object]:
        """Return what changes one file."""
        file = tree / "000" / "000000.txt"
        return lambda: file.write_text(f"{next(self.numbers)}\n")

    def against(
        self, group: str, reference: str, candidates: dict[str, Candidate], **more: float
    ) -> list[Row]:
        """Compare with what git takes for the same."""
        timed = compare(candidates, rounds=self.rounds, budget_s=30)
        base = timed.pop(reference)
        rows = [row(group, self.files, reference, base)]
        return rows + [
            row(
                group, self.files, name, one, reference=(reference, base), target=more.get("target")
            )
            for name, one in timed.items()
        ]

    def unchanged(self) -> list[Row]:
        """A workspace in which nothing changed."""
        candidates = {
            "git status": Candidate(lambda: git(self.checkout, "status", "--porcelain")),
            "snapshot": Candidate(lambda: self.snapshots.take("unchanged")),
        }
        return self.against("unchanged", "git status", candidates, target=TARGET)

    def one_changed(self) -> list[Row]:
        """One in which one file changed."""
        commit = ("commit", "-qam", "one")
        candidates = {
            "git commit -a": Candidate(
                lambda: git(self.checkout, *commit), self.change(self.checkout)
            ),
            "snapshot": Candidate(lambda: self.snapshots.take("one"), self.change(self.workspace)),
        }
        return self.against("one changed", "git commit -a", candidates, target=TARGET)

    def all_back(self) -> list[Row]:
        """All files made again: in their place, or as a new folder."""
        there = self.folder / "there"

        def clear() -> None:
            shutil.rmtree(there, ignore_errors=True)

        clone = ("clone", "-q", "--no-local", str(self.checkout), str(there))
        candidates = {
            "git clone": Candidate(lambda: git(self.folder, *clone), clear),
            "rewind": Candidate(
                lambda: self.snapshots.restore(self.first), self.change(self.workspace)
            ),
            "export": Candidate(lambda: self.snapshots.export(self.first, there), clear),
        }
        return self.against("all back", "git clone", candidates)

    def phase(self) -> list[Row]:
        """What a phase costs in a workspace of a hundred files, of which it changes one."""
        candidates = {
            "without snapshots": Candidate(phases(self.store, SMALL, kept=False)),
            "with snapshots": Candidate(phases(self.store, SMALL, kept=True)),
        }
        timed = compare(candidates, rounds=self.rounds, budget_s=30)
        rows = [row("phase", SMALL, name, one) for name, one in timed.items()]
        added = rows[1].p50_ms - rows[0].p50_ms
        rows[1].note = f"adds {added:.1f} ms"
        rows[1].reference, rows[1].target = f"{PHASE_MS:g} ms more", 1.0
        rows[1].ratio = added / PHASE_MS
        return rows


GROUPS = {
    "unchanged": Ground.unchanged,
    "one changed": Ground.one_changed,
    "all back": Ground.all_back,
    "phase": Ground.phase,
}


def main() -> int:
    """Measure, and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="10 rounds instead of 50")
    parser.add_argument("--json", action="store_true", help="write JSON")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a target is missed")
    parser.add_argument("--only", help=f"these groups, with commas: {', '.join(GROUPS)}")
    parser.add_argument("--files", type=int, default=10_000, help="how many files; 10,000")
    parser.add_argument("--dir", default=".benchmarks", help="where; .benchmarks by default")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    Path(given.dir).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=given.dir, prefix="snapshots-") as folder:
        ground = Ground(Path(folder).resolve(), given.files, 10 if given.quick else 50)
        wanted = given.only.split(",") if given.only else list(GROUPS)
        rows = [one for name in wanted for one in GROUPS[name](ground)]
    if given.json:
        print(json.dumps([one.as_fields() for one in rows], indent=1))
    else:
        print(table(rows))
    return 1 if given.check and any(one.met is False for one in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
