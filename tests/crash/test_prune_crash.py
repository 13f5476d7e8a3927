"""A prune that is killed, at whatever instant, leaves every session whole or accounted for."""

from __future__ import annotations

import hashlib
import os
import random
import threading
import time
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentforge_sessions.prune import TarArchiver, list_trash, read_audit, restore_from_trash
from agentforge_sessions.prune.domain import PruneResult
from agentforge_sessions.sandbox import prune_sessions
from agentforge_sessions.sandbox.prune_target import SandboxTarget, restore_session
from agentforge_sessions.sandbox.session_workspaces.session_metadata import (
    SessionMetadata,
    encode_metadata,
)
from tests.crash._nursery import Nursery
from tests.support.soak import SOAKING

KILLS = 200 if SOAKING else 12
SESSIONS = 40 if SOAKING else 12
KILLED = -9
MODES = ("removed", "trashed", "archived")
SHARES = {"removed": 1, "trashed": 3, "archived": 4}
"""The kills of a mode are the whole count by this."""
STEPS = dict.fromkeys(MODES, 1) if SOAKING else {"removed": 23, "trashed": 23, "archived": 101}
"""At every so many of the system calls it is killed, and at the last."""
FILE_CLOCK_NS = {"removed": 10**19, "trashed": 0, "archived": 10**19}
"""By these clocks all metadata changed long ago, or a moment ago: else the calls would differ."""
DAY_S = 86_400.0
_LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class Place:
    """A root of old workspaces whose content follows from their ids, and what must hold of it."""

    def __init__(self, top: Path, mode: str) -> None:
        self.root = top / "root"
        self.archives = top / "archives"
        self.mode = mode
        self.made: set[str] = set()
        self.root.mkdir(parents=True)

    # what is there

    def fill(self, ids: list[str]) -> None:
        for session_id in ids:
            made = self.root / session_id
            made.mkdir(mode=0o700)
            (made / "src" / "deep").mkdir(parents=True)
            (made / "src" / "deep" / "link").symlink_to(self.root)
            for name, content in self.expected(session_id).items():
                (made / name).write_bytes(content)
            self.made.add(session_id)

    @staticmethod
    def expected(session_id: str) -> dict[str, bytes]:
        metadata = SessionMetadata(
            session_id=session_id, created_at=_LONG_AGO, updated_at=_LONG_AGO
        )
        return {
            ".metadata.json": encode_metadata(metadata),
            "work.txt": session_id.encode() * 20,
            "src/deep/module.py": session_id.encode() * 200,
            **{f"src/{number}.txt": session_id.encode() for number in range(3)},
        }

    def whole(self, session: Path) -> bool:
        """Whether a session, wherever it is, holds all that it should."""
        try:
            contents = {
                name: (session / name).read_bytes() for name in self.expected(session.name[:36])
            }
        except OSError:
            return False
        return (
            contents == self.expected(session.name[:36])
            and (session / "src" / "deep" / "link").is_symlink()
        )

    def visible(self) -> list[str]:
        return sorted(name for name in os.listdir(self.root) if name != ".prune")

    # what is asked

    def request(self) -> dict[str, object]:
        return {
            "root": str(self.root),
            "grace_s": DAY_S if self.mode == "trashed" else None,
            "archives": str(self.archives) if self.mode == "archived" else None,
        }

    def prune(self) -> PruneResult:
        return prune_sessions(
            24,
            self.root,
            trash_for=timedelta(seconds=DAY_S) if self.mode == "trashed" else None,
            archiver=TarArchiver(directory=self.archives) if self.mode == "archived" else None,
        )

    # what must be true

    def check(self, where: str) -> None:
        """After a kill: what is visible is whole, what is gone is accounted for."""
        visible = self.visible()
        assert set(visible) <= self.made, where
        for name in visible:
            assert self.whole(self.root / name), f"{where}: half of {name} is visible"
        gone = self.made - set(visible)
        audit = read_audit(self.root / ".prune" / "audit.jsonl")
        announced = {line["session_id"] for line in audit if line["event"] == "removing"}
        assert gone <= announced, f"{where}: {len(gone - announced)} are gone without a word"
        if self.mode == "trashed":
            assert {one.session_id for one in list_trash(self.root)} >= gone, where
            self._check_trash(where, gone)
        if self.mode == "archived":
            for name in gone:
                self._check_archive(where, name)

    def _check_trash(self, where: str, gone: set[str]) -> None:
        trash = self.root / ".prune" / "trash"
        for name in gone:
            (hidden,) = trash.glob(f"{name}~*")
            assert self.whole(hidden), f"{where}: half of {name} is in the trash"

    def _check_archive(self, where: str, name: str) -> None:
        archives = list(self.archives.glob(f"sandbox-{name}-*.tar.zst"))
        assert archives, f"{where}: {name} has no archive"
        for archive in archives:
            said = archive.with_name(archive.name + ".sha256").read_text().split()[0]
            assert hashlib.sha256(archive.read_bytes()).hexdigest() == said, where

    def finish(self, where: str) -> None:
        """The next prune completes what the killed one began."""
        before = set(self.visible())
        result = self.prune()
        assert dict(result.errors) == {}, where
        assert set(result.deleted_sessions) == before, where
        assert self.visible() == [], where
        private = self.root / ".prune"
        for kind in ("going", "coming"):
            assert not (private / kind).exists() or os.listdir(private / kind) == [], where
        if self.archives.is_dir():
            begun = [name for name in os.listdir(self.archives) if name.startswith(".")]
            assert begun == [], f"{where}: what a killed writer left was not swept"
        self.check(where)
        audit = read_audit(private / "audit.jsonl")
        done = {
            line["session_id"]
            for line in audit
            if line["event"] in {"removed", "trashed", "finished"}
        }
        announced = {line["session_id"] for line in audit if line["event"] == "removing"}
        assert announced == self.made, where
        if self.mode != "trashed":  # one killed after its rename is in the trash, and needs no more
            left = {line["session_id"] for line in audit if line["event"] == "unfinished"}
            assert not left - done, where


def ids(rng: random.Random, count: int) -> list[str]:
    return [str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(count)]


class Watcher:
    """Looks at the root all the time: what has a session's name must be a whole session."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.wrong: list[str] = []
        self.looks = 0

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.is_set():
            for name in self._place.visible()[:5]:
                path = self._place.root / name
                whole = self._place.whole(path)
                if not whole and path.exists():  # still visible after we found it not whole
                    self.wrong.append(name)
                self.looks += 1
            self._stop.wait(0.001)


@pytest.mark.timeout(3600 if SOAKING else 120)
@pytest.mark.parametrize("mode", MODES)
def test_a_prune_killed_at_any_instant_leaves_nothing_half_visible_and_is_completed(
    nursery: Nursery, tmp_path: Path, mode: str
) -> None:
    seed = int(os.environ.get("AGENTFORGE_SEED", "20260301"))
    rng = random.Random(f"{seed} {mode}")
    found: Counter[str] = Counter()
    count = 0

    def place() -> Place:
        nonlocal count
        count += 1
        made = Place(tmp_path / str(count), mode)
        made.fill(ids(rng, SESSIONS))
        return made

    def run(one: Place, life: float | None) -> int:
        pid = nursery.start("prune_root", **one.request())
        told = nursery.heard()
        while not told:
            time.sleep(0.0005)
            told = nursery.heard()
        if life is not None:
            time.sleep(life)
            nursery.kill(pid)
        code = nursery.wait(pid)
        told += nursery.heard()
        assert not any("failed" in line for line in told), told
        return code

    times = []
    for _ in range(3):
        one = place()
        began = time.monotonic()
        assert run(one, None) == 0
        times.append(time.monotonic() - began)
        one.finish("undisturbed")
    whole_s = sorted(times)[1]
    while found["kills"] < KILLS // SHARES[mode]:
        one = place()
        where = f"seed {seed}, {mode}, root {count}"
        with Watcher(one) as watcher:
            code = run(one, rng.uniform(0, whole_s))
        assert watcher.wrong == [], where
        assert code in {0, KILLED}, where
        left = len(one.visible())
        one.check(where)
        if code == KILLED:
            found["kills"] += 1
            found["nothing had gone"] += left == SESSIONS
            found["all had gone"] += left == 0
            found["some had gone"] += 0 < left < SESSIONS
        else:  # it was quicker than it was when it was measured
            whole_s *= 0.9
        going = one.root / ".prune" / "going"
        found["left out of sight"] += going.exists() and bool(os.listdir(going))
        one.finish(where)
    print(f"{mode}: {dict(found)} over {count} roots, a whole prune takes {whole_s * 1e3:.0f} ms")


@pytest.mark.timeout(3600 if SOAKING else 120)
@pytest.mark.parametrize("mode", MODES)
def test_a_prune_killed_at_any_system_call_is_completed_by_the_next(
    nursery: Nursery, tmp_path: Path, mode: str
) -> None:
    rng = random.Random(mode)
    rehearsal = Place(tmp_path / "rehearsal", mode)
    rehearsal.fill(ids(rng, 3))
    clock = FILE_CLOCK_NS[mode]
    task = nursery.start("prune_root", file_clock_ns=clock, **rehearsal.request())
    told = nursery.finish(task)
    calls = told[-1]["calls"]
    shown = []
    kills = 0
    for last in sorted({*range(1, calls + 1, STEPS[mode]), calls}):
        for moment in ("before", "after"):
            where = f"{mode}, killed {moment} call {last} of {calls}"
            one = Place(tmp_path / f"{last}-{moment}", mode)
            one.fill(ids(rng, 3))
            pid = nursery.start(
                "prune_root", last=last, moment=moment, file_clock_ns=clock, **one.request()
            )
            assert nursery.wait(pid) == KILLED, where
            nursery.heard()
            kills += 1
            shown.append(len(one.visible()))
            one.check(where)
            one.finish(where)
    assert shown == sorted(shown, reverse=True), "what was gone must stay so"
    assert shown[0] == 3
    assert shown[-1] == 0
    print(f"{mode}: {kills} kills at {calls} system calls")


def test_what_a_killed_prune_put_away_can_be_brought_back(nursery: Nursery, tmp_path: Path) -> None:
    for mode in ("trashed", "archived"):
        rng = random.Random(mode)
        for last in range(30, 400, 60 if SOAKING else 120):
            one = Place(tmp_path / f"{mode}-{last}", mode)
            one.fill(ids(rng, 3))
            pid = nursery.start("prune_root", last=last, **one.request())
            nursery.wait(pid)
            nursery.heard()
            for name in sorted(one.made - set(one.visible())):
                if mode == "trashed":
                    restore_from_trash(SandboxTarget(one.root), name)
                else:
                    (archive,) = one.archives.glob(f"sandbox-{name}-*.tar.zst")
                    restore_session(archive, one.root)
            assert set(one.visible()) == one.made, f"{mode} {last}"
            assert all(one.whole(one.root / name) for name in one.made), f"{mode} {last}"
