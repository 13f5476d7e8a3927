"""Many workers in one base: nobody overwrites anybody, nobody sees half of anything."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from agentforge_sessions.harness import SessionStore
from tests.crash import _story
from tests.crash._nursery import Nursery
from tests.support.listing import names_in
from tests.support.soak import SOAKING

BEGIN_AFTER_S = 0.15


def soon() -> float:
    """Return when the workers begin, all at once."""
    return time.monotonic() + BEGIN_AFTER_S


def test_artifacts_that_eight_workers_add_to_one_session_are_all_there_once(
    nursery: Nursery, tmp_path: Path
) -> None:
    workers, count = 8, 200 if SOAKING else 10
    base = tmp_path / "sessions"
    session = _story.begin(_story.SHARED)
    SessionStore(base).save(session)
    history = list(session.history)

    shared = {"base": str(base), "here": str(tmp_path / "here"), "workers": workers}
    (tmp_path / "here").mkdir()
    pids = [
        nursery.start("add_artifacts", worker=worker, count=count, **shared)
        for worker in range(workers)
    ]
    told = nursery.finish(*pids)

    assert sum(one["conflicts"] for one in told) > 0, "the workers never met"
    found = SessionStore(base).load(_story.SHARED)
    assert found is not None
    assert Counter(artifact.path for artifact in found.artifacts) == Counter(
        f"out/{worker}/{number}.txt" for worker in range(workers) for number in range(count)
    )
    assert found.revision == 1 + workers * count
    assert found.history == history
    for worker in range(workers):  # and each worker's in the order in which it added them
        own = [a.path for a in found.artifacts if a.path.startswith(f"out/{worker}/")]
        assert own == [f"out/{worker}/{number}.txt" for number in range(count)]


def test_sessions_that_twenty_workers_create_at_once_all_appear(
    nursery: Nursery, tmp_path: Path
) -> None:
    workers, count = 20, 5
    base = tmp_path / "not" / "there" / "yet"
    stop = tmp_path / "stop"

    start = soon()
    watcher = nursery.start("watch", base=str(base), start=start, stop=str(stop))
    pids = [
        nursery.start("create_sessions", base=str(base), start=start, worker=worker, count=count)
        for worker in range(workers)
    ]
    nursery.finish(*pids)
    stop.touch()
    (watched,) = nursery.finish(watcher)

    assert watched["wrong"] == []
    store = SessionStore(base)
    expected = sorted(
        _story.id_of(1_000 * w + number) for w in range(workers) for number in range(count)
    )
    assert store.list_sessions() == expected
    for name in expected:
        assert store.load(name) == _story.at(name, 1)
        assert store.read_attachment(name, "plan.yaml") == b"plan"
    assert names_in(base) == [".gitkeep", *expected]


def test_of_workers_that_create_the_same_session_exactly_one_is_the_first(
    nursery: Nursery, tmp_path: Path
) -> None:
    workers, count = 6, 25
    base = tmp_path / "sessions"

    start = soon()
    pids = [
        nursery.start("create_the_same_session", base=str(base), start=start, count=count)
        for _ in range(workers)
    ]
    told = nursery.finish(*pids)

    assert Counter(number for one in told for number in one["first"]) == Counter(range(count))
    for number in range(count):
        assert SessionStore(base).load(_story.id_of(number)) == _story.at(_story.id_of(number), 1)


def test_a_deletion_at_a_revision_loses_no_save_and_nobody_sees_half_a_session(
    nursery: Nursery, tmp_path: Path
) -> None:
    workers, count = 4, 80 if SOAKING else 10  # what they report has to fit a line
    base = tmp_path / "sessions"
    stop = tmp_path / "stop"

    start = soon()
    deleter = nursery.start(
        "create_and_delete", base=str(base), start=start, count=count, stop=str(stop)
    )
    watcher = nursery.start("watch", base=str(base), start=start, stop=str(stop))
    savers = [
        nursery.start(
            "save_what_is_there", base=str(base), start=start, worker=worker, stop=str(stop)
        )
        for worker in range(workers)
    ]
    told = {one["pid"]: one for one in nursery.finish(deleter, watcher, *savers)}

    deleted: dict[str, int] = told[deleter]["deleted"]
    assert len(deleted) == count
    assert told[watcher]["wrong"] == []
    assert told[watcher]["seen"] > 0
    newest: dict[str, int] = dict.fromkeys(deleted, 1)  # the creation's
    for saver in savers:
        assert told[saver]["wrong"] == []
        for name, revision in told[saver]["acknowledged"].items():
            newest[name] = max(newest[name], revision)
    # A save that was acknowledged was seen by the deletion: none is newer than what was deleted.
    assert newest == deleted
    assert max(newest.values()) > 1, "the workers never met"
    assert names_in(base) == [".gitkeep"]
