"""Deleting several at once: nothing of what is promised of one changes."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from types import FrameType
from typing import Any

import pytest

from agentforge_sessions.prune import (
    Disposal,
    PruneEnvironment,
    PruneResult,
    RetentionPolicy,
    prune,
)
from agentforge_sessions.prune.removal.deletion import DELETERS, DeletionPool
from agentforge_sessions.prune.removal.session_lock import batch_size
from agentforge_sessions.sandbox import SandboxTarget
from tests.support.filesystem import Call
from tests.support.promptness import when
from tests.support.prune_sites import Site, Watcher, write_files

OLD = RetentionPolicy(max_age_hours=24)
LONG_S = 60.0
"""Longer than anything here takes; whoever waits so long has failed."""


def ours() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name.startswith("agentforge-prune")]


def waits_in_close(owner: int) -> bool:
    """Whether a thread waits for its deleters to stop."""
    frame: FrameType | None = sys._current_frames()[owner]
    calls = []
    while frame is not None:
        calls.append(frame.f_code)
        frame = frame.f_back
    return DeletionPool.close.__code__ in calls and threading.Event.wait.__code__ in calls


# ---------------------------------------------------------------- the threads


@pytest.mark.parametrize("count", [1, 2, 4])
def test_outcomes_come_in_the_order_of_the_jobs(count: int) -> None:
    def job(number: int) -> Callable[[], str | None]:
        return lambda: None if number % 3 else f"job {number}"

    with DeletionPool(count) as deleters:
        for size in (0, 1, 5, 50):
            outcomes = deleters.all([job(number) for number in range(size)])
            assert outcomes == [None if one % 3 else f"job {one}" for one in range(size)]
    assert ours() == []


def test_as_many_are_done_at_once_as_there_are_deleters() -> None:
    together = threading.Barrier(4)

    def job() -> None:
        together.wait(LONG_S)  # broken, and raised, unless all four are there

    with DeletionPool(4) as deleters:
        assert deleters.all([job] * 8) == [None] * 8


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_only_some_work_ahead_and_all_once_the_owner_waits(ahead: int) -> None:
    owner, ahead_of_it = threading.current_thread(), threading.Semaphore(0)
    together = threading.Barrier(4)
    waiting = threading.Event()
    early = []

    def job() -> None:
        if not waiting.is_set():
            early.append(threading.current_thread())
            ahead_of_it.release()
        together.wait(LONG_S)

    with DeletionPool(4, ahead=ahead) as deleters:
        deleters.begin([job] * 4)
        for _ in range(ahead):
            assert ahead_of_it.acquire(timeout=LONG_S)
        assert not ahead_of_it.acquire(timeout=0.05)
        waiting.set()
        assert deleters.finish() == [None] * 4
    assert len(set(early)) == ahead
    assert owner not in early


def test_no_more_threads_are_started_than_there_are_jobs() -> None:
    with DeletionPool(8) as deleters:
        deleters.all([lambda: None] * 3)
        assert len(ours()) == 2  # whoever waits does the third
    assert ours() == []


def test_of_one_deleter_no_thread_is_started_and_nothing_is_done_ahead() -> None:
    done: list[threading.Thread] = []
    with DeletionPool(1) as deleters:
        assert deleters.alone
        deleters.begin([lambda: done.append(threading.current_thread())] * 3)
        assert done == []
        assert ours() == []
        deleters.finish()
    assert done == [threading.current_thread()] * 3


def test_what_is_begun_is_done_while_nobody_waits() -> None:
    done = threading.Event()
    with DeletionPool(2) as deleters:
        assert not deleters.alone
        deleters.begin([done.set, done.set])
        assert done.wait(LONG_S)
        assert deleters.finish() == [None, None]


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt()], ids=repr)
def test_what_a_job_raises_comes_out(count: int, error: BaseException) -> None:
    def broken() -> None:
        raise error

    with DeletionPool(count) as deleters:
        deleters.begin([broken] * 6)
        with pytest.raises(type(error)) as caught:
            deleters.finish()
        assert caught.value is error
    assert ours() == []


def test_what_a_job_raises_in_another_thread_comes_out() -> None:
    owner, raised = threading.current_thread(), threading.Event()

    def broken() -> None:
        if threading.current_thread() is owner:
            raised.wait(LONG_S)
        else:
            raised.set()
            raise ValueError("broken")

    with DeletionPool(2) as deleters:
        deleters.begin([broken] * 3)
        raised.wait(LONG_S)
        with pytest.raises(ValueError, match="broken"):
            deleters.finish()


def test_closing_drops_what_was_not_begun_and_stops_what_was() -> None:
    begun = threading.Barrier(3)
    done: list[str] = []

    def job() -> None:
        begun.wait(LONG_S)
        while not deleters.cancelled():
            pass
        done.append("stopped")

    deleters = DeletionPool(3, ahead=2)
    deleters.begin([job, job, *[lambda: done.append("begun")] * 20])
    begun.wait(LONG_S)
    deleters.close()
    assert done == ["stopped"] * 2
    assert ours() == []
    deleters.close()  # once more does nothing


def test_a_system_without_more_threads_is_no_reason_to_fail() -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    done = []
    with DeletionPool(4, start=refuse) as deleters:
        deleters.all([lambda: done.append(threading.current_thread())] * 3)
    assert done == [threading.current_thread()] * 3


def test_who_is_interrupted_while_it_closes_still_outlives_its_threads() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        go_on.wait(LONG_S)

    def interrupt(*_: object) -> None:
        go_on.set()
        raise KeyboardInterrupt

    owner = threading.get_ident()
    deleters = DeletionPool(2)
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        deleters.begin([job, job])
        assert begun.wait(LONG_S)
        person = when(lambda: waits_in_close(owner), lambda: os.kill(os.getpid(), signal.SIGUSR1))
        with pytest.raises(KeyboardInterrupt):
            deleters.close()
        person.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert ours() == []


@pytest.mark.parametrize("count", [0, -1])
def test_less_than_one_deleter_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match="deleters"):
        PruneEnvironment(deleters=count)


def test_two_batches_take_half_the_free_descriptors_together() -> None:
    huge = 1 << 30
    assert batch_size(largest=huge, at_once=2) == batch_size(largest=huge) // 2


# ---------------------------------------------------------------- a prune of several deleters


def run(site: Site, deleters: int, **options: Any) -> PruneResult:
    site.deleters = deleters
    return prune(
        SandboxTarget(site.root),
        OLD,
        disposal=Disposal(batch=3),
        outside=site.outside(),
        **options,
    )


@pytest.mark.parametrize("deleters", [1, 2, DELETERS, 9])
def test_any_number_of_deleters_removes_and_tells_the_same(site: Site, deleters: int) -> None:
    old = [site.add(age_hours=60 - number) for number in range(11)]
    young = site.add(age_hours=1)
    stubborn, busy = old[4], old[7]
    site.fs.plan = lambda _, call: (
        errno.EIO
        if (call.operation == "unlink" and stubborn in call.path and "data.txt" in call.path)
        or (call.operation == "rename" and busy in call.path)
        else None
    )
    watcher = Watcher()
    result = run(site, deleters, observer=watcher)
    gone = [name for name in old if name not in {stubborn, busy}]
    assert result.deleted_sessions == gone
    assert result.unfinished_sessions == [stubborn]
    assert set(result.errors) == {stubborn, busy}
    assert [name for event, name in watcher.told if event == "deleted"] == gone
    told = site.events()
    for name in gone:
        assert [event for event, of in told if of == name] == ["removing", "removed"]
    assert [event for event, of in told if of == stubborn] == ["removing", "unfinished"]
    assert [event for event, of in told if of == busy] == ["removing", "kept"]
    assert [of for event, of in told if event == "removed"] == gone
    assert site.sessions() == sorted([busy, young])
    assert len(site.hidden()) == 1
    site.fs.plan = None
    again = run(site, deleters)
    assert (again.finished_sessions, again.deleted_sessions) == ([stubborn], [busy])
    assert site.hidden() == []
    assert ours() == []


def test_the_next_batch_is_held_while_one_is_deleted(site: Site) -> None:
    old = [site.add(age_hours=60 - number) for number in range(6)]
    held = threading.Event()
    waited: list[bool] = []

    def before(call: Call) -> None:
        if call.operation == "rename" and old[3] in call.path:
            held.set()
        if call.operation == "unlink" and old[0] in call.path and not waited:
            waited.append(held.wait(LONG_S))

    site.fs.before = before
    assert run(site, 2).deleted_sessions == old
    assert waited == [True]


@pytest.mark.parametrize("deleters", [1, DELETERS])
def test_each_is_noted_and_renamed_for_good_before_anything_of_it_is_deleted(
    site: Site, deleters: int
) -> None:
    old = [site.add(age_hours=60 - number) for number in range(10)]
    run(site, deleters)
    steps = site.steps()
    audited = [at for at, step in enumerate(steps) if step == "fsync .prune/audit.jsonl"]
    renames = [at for at, step in enumerate(steps) if step == "fsync .prune/going"]
    roots = [at for at, step in enumerate(steps) if step == "fsync base"]
    for name in old:
        locked = steps.index(f"flock {name}")
        hidden = next(
            at for at, step in enumerate(steps) if step.startswith(f"rename .prune/going/{name}~")
        )
        changes = [
            at
            for at, step in enumerate(steps)
            if name in step and step.startswith(("unlink", "rmdir")) and at > locked
        ]
        first, last = changes[0], changes[-1]
        assert any(locked < at < hidden for at in audited)
        assert any(hidden < at < first for at in renames)
        assert any(hidden < at < first for at in roots)
        assert steps[last].startswith(f"rmdir .prune/going/{name}~")


@pytest.mark.parametrize("deleters", [1, 2, DELETERS])
@pytest.mark.parametrize("at", range(0, 60, 7))
def test_an_interruption_anywhere_leaves_what_the_next_prune_finishes(
    site: Site, deleters: int, at: int
) -> None:
    old = [site.add(age_hours=60 - number) for number in range(8)]
    changes = 0

    def interrupt(call: Call) -> None:
        nonlocal changes
        if call.operation in {"unlink", "rmdir", "rename"}:
            changes += 1
            if changes - 1 == at:
                raise KeyboardInterrupt

    site.fs.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        run(site, deleters)
    assert ours() == []
    assert site.fs.open_descriptors == {}
    site.fs.before = None
    left = site.sessions()
    result = run(site, deleters)
    assert dict(result.errors) == {}
    assert sorted(result.deleted_sessions) == left
    assert site.hidden() == []
    announced = {name for event, name in site.events() if event == "removing"}
    assert announced == set(old)


def test_an_interruption_does_not_wait_for_a_session_to_be_deleted(site: Site) -> None:
    files = {f"{number:04}": b"" for number in range(1000)}
    old = [site.add(age_hours=60 - number, files=files) for number in range(2)]
    begun, stopped = threading.Event(), threading.Event()
    deleted = 0

    def before(call: Call) -> None:
        nonlocal deleted
        if call.operation != "unlink":
            return
        if threading.current_thread() is threading.main_thread():
            assert begun.wait(LONG_S)
            raise KeyboardInterrupt
        deleted += 1
        if deleted == 5:
            begun.set()
            assert stopped.wait(2 * LONG_S)

    site.fs.before = before
    owner = threading.get_ident()
    stopper = when(lambda: waits_in_close(owner), stopped.set)
    with pytest.raises(KeyboardInterrupt):
        run(site, 2)
    stopper.join()
    assert deleted == 5
    site.fs.before = None
    assert sorted(run(site, 2).finished_sessions) == sorted(old)


@pytest.mark.parametrize("deleters", [1, DELETERS])
def test_what_others_left_is_finished_and_the_trash_purged(site: Site, deleters: int) -> None:
    for number in range(9):
        write_files(site.private / "going" / f"left-{number}~0", {"a": b"", "b/c": b""})
    site.private.chmod(0o700)
    old = [site.add(age_hours=60 - number) for number in range(9)]
    site.deleters = deleters
    trashed = prune(
        SandboxTarget(site.root),
        OLD,
        disposal=Disposal(grace=timedelta(hours=1)),
        outside=site.outside(),
    )
    assert trashed.finished_sessions == [f"left-{number}" for number in range(9)]
    assert trashed.deleted_sessions == old
    site.clock.advance(3_601)
    result = run(site, deleters)
    assert result.purged_sessions == old
    assert site.hidden("trash") == []
    told = [of for event, of in site.events() if event == "purged"]
    assert told == old


# ---------------------------------------------------------------- what the look has seen


def test_a_session_of_few_files_is_not_listed_again(site: Site) -> None:
    old = site.add(age_hours=30, files={"a": b"x", "b": b"y"})
    deep = site.add(age_hours=30)
    full = site.add(age_hours=30, files={f"{number}": b"" for number in range(17)})
    assert sorted(run(site, 1).deleted_sessions) == [old, deep, full]
    listed = [call.path for call in site.fs.trace if call.operation == "listdir"]
    assert [
        len([path for path in listed if path.endswith(name)]) for name in (old, deep, full)
    ] == [
        1,
        2,
        2,
    ]


@pytest.mark.parametrize("change", ["another", "fewer", "a directory", "a link", "all new"])
def test_what_changed_since_the_look_goes_as_well(site: Site, change: str) -> None:
    old = site.add(age_hours=30, files={"a": b"x", "b": b"y"})
    session = site.root / old
    done = []

    def meddle(call: Call) -> None:
        if call.operation != "rename" or old not in call.path or done:
            return
        done.append(call)
        if change in {"another", "all new"}:
            write_files(session, {"new": b"", "deep/er/file": b""})
        if change in {"fewer", "a directory", "a link", "all new"}:
            (session / "a").unlink()
        if change == "a directory":
            write_files(session, {"a/deep/file": b""})
        if change == "a link":
            (session / "a").symlink_to(site.beside)
        if change == "all new":
            (session / "b").unlink()

    site.fs.before = meddle
    result = run(site, 1)
    assert done
    assert dict(result.errors) == {}
    assert result.deleted_sessions == [old]
    assert site.hidden() == []


# ---------------------------------------------------------------- an observer that fails


class Failing(Watcher):
    """Raises where it is told to."""

    def __init__(self, where: str, error: BaseException) -> None:
        super().__init__()
        self._where = where
        self._error = error

    def _maybe(self, where: str) -> None:
        if where == self._where:
            raise self._error

    def started(self, *args: Any, **fields: Any) -> None:
        self._maybe("started")

    def skipped(self, *args: Any, **fields: Any) -> None:
        self._maybe("skipped")

    def candidate(self, *args: Any, **fields: Any) -> None:
        self._maybe("candidate")

    def deleted(self, *args: Any, **fields: Any) -> None:
        self._maybe("deleted")

    def failed(self, *args: Any, **fields: Any) -> None:
        self._maybe("failed")

    def completed(self, *args: Any, **fields: Any) -> None:
        self._maybe("completed")


@pytest.mark.parametrize("deleters", [1, DELETERS])
@pytest.mark.parametrize(
    "error",
    [OSError(errno.EPIPE, "nobody listens"), ValueError("its own"), KeyboardInterrupt()],
    ids=repr,
)
@pytest.mark.parametrize(
    "where", ["started", "skipped", "candidate", "deleted", "failed", "completed"]
)
def test_what_an_observer_raises_comes_out_as_it_is(
    site: Site, where: str, error: BaseException, deleters: int
) -> None:
    for number in range(7):
        site.add(age_hours=60 - number)
    unreadable = site.add(age_hours=50)
    site.add(age_hours=None)
    refused = lambda _, call: (  # noqa: E731
        errno.EIO if call.operation == "flock" and unreadable in call.path else None
    )
    opened = 0

    def before(call: Call) -> None:
        nonlocal opened
        if call.operation == "flock" and unreadable in call.path:
            opened += 1
            site.fs.plan = refused if opened == 2 else None  # the look is over

    site.fs.before = before
    with pytest.raises(type(error)) as caught:
        run(site, deleters, observer=Failing(where, error))
    assert caught.value is error
    assert caught.value.__cause__ is None
    assert site.fs.open_descriptors == {}
    assert ours() == []
    site.fs.before = site.fs.plan = None
    left = set(site.sessions())
    result = run(site, deleters)
    assert dict(result.errors) == {}
    assert set(result.deleted_sessions) <= left
    assert site.hidden() == []
    with suppress(FileNotFoundError):
        assert os.listdir(site.private / "going") == []
