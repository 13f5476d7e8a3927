"""A worker that is killed, at whatever instant, loses nothing that it was told is saved."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.harness import SessionStore, UnreadableSession
from tests.crash import _story
from tests.crash._nursery import Nursery
from tests.support.soak import SOAKING

KILLS = 300 if SOAKING else 8
STEP = 1 if SOAKING else 9
"""At every so many of the places it is killed; always at the first, the last, and in a write."""
LONGEST_LIFE_S = 0.08
IDS = [_story.id_of(number) for number in range(4)]
KILLED = -9


# ------------------------------------------------------------------------------- what is checked


def unreadable(base: Path) -> list[str]:
    """Read every session in the base; say what is not as its revision says."""
    store = SessionStore(base)
    wrong = [str(one.error) for one in store.summaries() if isinstance(one, UnreadableSession)]
    for name in store.list_sessions():
        session = store.load(name)
        assert session is not None
        wrong += _story.problems(session)
    return wrong


def leftovers(base: Path) -> list[str]:
    """Name everything in the base that no session and no caller has there."""
    return [
        str(found.relative_to(base))
        for found in base.rglob("*")
        if (found.name.startswith(".") and found.name not in {".gitkeep", ".prune"})
        or (found.parent == base and found.name != ".gitkeep" and not found.is_dir())
    ]


def save_create_and_delete(base: Path) -> None:
    """Do what comes next in the base: save each session once, create one, delete one."""
    store = SessionStore(base)
    for name in store.list_sessions():
        session = store.load(name)
        assert session is not None
        _story.go_on(session)
        store.save(session)
    store.save(_story.begin(_story.NEXT))
    assert store.delete(_story.NEXT)


# -------------------------------------------------------------------- killed at any time whatever


class Ledger:
    """What the worker was told is done, and so must be there."""

    def __init__(self) -> None:
        self.revisions: dict[str, int] = {}
        self.deleting: str | None = None
        self.acknowledged = 0

    def write(self, told: list[dict[str, Any]]) -> None:
        for one in told:
            if one["did"] == "saved":
                assert one["entries"] == one["revision"]
                self.revisions[one["id"]] = one["revision"]
                self.acknowledged += 1
            elif one["did"] == "deleting":
                self.deleting = one["id"]
            elif one["did"] == "deleted":
                self.deleting = None
                del self.revisions[one["id"]]
                self.acknowledged += 1

    def differences(self, base: Path) -> list[str]:
        """Compare with the disk; at most the one change in flight may be there or not."""
        store = SessionStore(base)
        wrong = []
        in_flight = 0
        for name in IDS:
            session = store.load(name)
            known = self.revisions.get(name, 0)
            found = session.revision if session is not None else 0
            if found == known:
                continue
            if found == known + 1 or (found == 0 and self.deleting == name):
                in_flight += 1
            else:
                wrong.append(f"{name}: revision {known} was acknowledged, {found} is on disk")
        if in_flight > 1:
            wrong.append(f"{in_flight} sessions are not as acknowledged, one can be in flight")
        return wrong

    def read(self, base: Path) -> None:
        """Begin anew from what the disk has."""
        store = SessionStore(base)
        self.deleting = None
        self.revisions = {
            name: session.revision for name in IDS if (session := store.load(name)) is not None
        }


def test_a_worker_killed_at_any_instant_loses_no_acknowledged_change(
    nursery: Nursery, tmp_path: Path
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    rng = random.Random(seed)
    base = tmp_path / "sessions"
    ledger = Ledger()
    found: Counter[str] = Counter()
    kill = -1
    while (kill := kill + 1) < KILLS or (not ledger.acknowledged and kill < 20 * KILLS):
        where = f"seed {seed}, kill {kill}"
        worker = nursery.start("save_until_killed", base=str(base), seed=rng.random(), ids=IDS)
        told: list[dict[str, Any]] = []
        while not told:  # it has begun
            time.sleep(0.001)
            told = nursery.heard()
        time.sleep(rng.uniform(0, LONGEST_LIFE_S))
        nursery.kill(worker)
        assert nursery.wait(worker) == KILLED, where
        told += nursery.heard()
        assert not any("failed" in one for one in told), f"{where}: {told[-1]}"
        ledger.write(told)

        if base.exists():
            found["kills that left a half-written file"] += bool(list(base.glob("*/.*")))
            found["kills that left a half-made or half-deleted directory"] += any(
                name.startswith(".discarded-") for name in os.listdir(base)
            )
        assert unreadable(base) == [], where
        assert ledger.differences(base) == [], where
        save_create_and_delete(base)
        assert leftovers(base) == [], where
        ledger.read(base)
    assert ledger.acknowledged, "the workers were killed before they did anything"
    print(f"{kill} kills, {ledger.acknowledged} acknowledged changes, {dict(found)}")


# ------------------------------------------------------------- killed at each system call in turn


def points(calls: list[str]) -> Iterator[tuple[int, str]]:
    """Go through places between, and within, the calls of an operation."""
    places = [
        (number, moment)
        for number, name in enumerate(calls, start=1)
        for moment in (("before", "in", "after") if name == "writev" else ("before", "after"))
    ]
    for index, (number, moment) in enumerate(places, start=1):
        if index % STEP == 1 % STEP or index == len(places) or moment == "in":
            yield number, moment


def killed_everywhere(
    nursery: Nursery, tmp_path: Path, operation: str, prepare: Callable[[Path], None]
) -> Iterator[tuple[str, Path]]:
    """Repeat an operation in fresh bases, killed a little later each time.

    Yields, in the order of the calls, where it was killed and the base that it left.
    """
    rehearsal = tmp_path / "rehearsal"
    (tmp_path / "more").touch()  # so that each base is made in a folder that has something in it
    prepare(rehearsal)
    (told,) = nursery.finish(
        nursery.start("one_operation", base=str(rehearsal), operation=operation, last=None)
    )
    calls: list[str] = told["calls"]
    assert "fsync" in calls
    count = 0
    for last, moment in points(calls):
        where = f"{operation}, killed {moment} call {last} of {len(calls)}, {calls[last - 1]}"
        base = tmp_path / f"{last}-{moment}"
        prepare(base)
        child = nursery.start(
            "one_operation", base=str(base), operation=operation, last=last, moment=moment
        )
        assert nursery.wait(child) == KILLED, where
        assert nursery.heard() == [], where
        count += 1
        yield where, base
    print(f"{operation}: {count} kills at {len(calls)} system calls")


def revision_on_disk(base: Path) -> int:
    """Return the victim's revision; 0 if it is not there."""
    session = SessionStore(base).load(_story.VICTIM)
    return 0 if session is None else session.revision


def nothing_there(base: Path) -> None:
    """Let the operation make the base, too."""


def base_with_leftovers(base: Path) -> None:
    """Make a base in which a creation and a deletion were killed before."""
    SessionStore(base).save(_story.begin(_story.BYSTANDER))
    (base / ".discarded-new-0123").mkdir()
    (base / ".discarded-new-0123" / "session.yaml").write_text("cut of")
    (base / ".discarded-4567" / "workspace" / "deep").mkdir(parents=True)
    (base / ".discarded-4567" / "workspace" / "deep" / "file").write_text("x")


@pytest.mark.parametrize("prepare", [nothing_there, base_with_leftovers])
def test_a_creation_killed_at_any_system_call_shows_the_whole_session_or_none(
    nursery: Nursery, tmp_path: Path, prepare: Callable[[Path], None]
) -> None:
    shown = []
    for where, base in killed_everywhere(nursery, tmp_path, "create", prepare):
        assert unreadable(base) == [], where
        revision = revision_on_disk(base)
        assert revision in {0, 1}, where
        plan = SessionStore(base).read_attachment(_story.VICTIM, "plan.yaml")
        assert plan == (b"a plan\n" * 100 if revision else None), where
        shown.append(bool(revision))
        save_create_and_delete(base)
        assert leftovers(base) == [], where
    assert shown == sorted(shown), "what was visible must stay so"
    assert not shown[0]
    assert shown[-1]


def three_saves(base: Path) -> None:
    store = SessionStore(base)
    session = _story.begin(_story.VICTIM)
    store.save(session)
    for _ in range(2):
        _story.go_on(session)
        store.save(session)


def three_saves_and_a_killed_one(base: Path) -> None:
    three_saves(base)
    name = ".session.yaml.new-0011223344556677.tmp"
    (base / _story.VICTIM / name).write_text("# A session of Agent")


@pytest.mark.parametrize("prepare", [three_saves, three_saves_and_a_killed_one])
def test_a_save_killed_at_any_system_call_leaves_the_old_session_or_the_new(
    nursery: Nursery, tmp_path: Path, prepare: Callable[[Path], None]
) -> None:
    shown = []
    for where, base in killed_everywhere(nursery, tmp_path, "save", prepare):
        assert unreadable(base) == [], where
        shown.append(revision_on_disk(base))
        assert shown[-1] in {3, 4}, where
        store = SessionStore(base)
        session = store.load(_story.VICTIM)
        assert session is not None
        _story.go_on(session)
        store.save(session)
        assert leftovers(base) == [], where
    assert shown == sorted(shown), "what was saved must stay so"
    assert shown[0] == 3
    assert shown[-1] == 4


def a_full_session(base: Path) -> None:
    three_saves(base)
    SessionStore(base).save(_story.begin(_story.BYSTANDER))
    workspace = base / _story.VICTIM / "workspace"
    (workspace / "src" / "deep").mkdir(parents=True)
    (workspace / "src" / "deep" / "module.py").write_text("x = 1\n")
    (workspace / "link").symlink_to(base / _story.BYSTANDER)
    (workspace / "notes.txt").write_text("notes")


def test_a_deletion_killed_at_any_system_call_leaves_the_whole_session_or_none(
    nursery: Nursery, tmp_path: Path
) -> None:
    shown = []
    for where, base in killed_everywhere(nursery, tmp_path, "delete", a_full_session):
        assert unreadable(base) == [], where
        revision = revision_on_disk(base)
        assert revision in {0, 3}, where
        if revision:
            files = [path.name for path in sorted((base / _story.VICTIM).rglob("*"))]
            assert files == [
                *("session.yaml", "workspace", "link", "notes.txt", "src", "deep", "module.py"),
            ], where
        shown.append(not revision)
        save_create_and_delete(base)
        assert leftovers(base) == [], where
        assert SessionStore(base).load(_story.BYSTANDER) == _story.at(_story.BYSTANDER, 2), where
    assert shown == sorted(shown), "what was deleted must stay so"
    assert not shown[0]
    assert shown[-1]
