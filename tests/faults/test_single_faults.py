"""One system call fails: the error says so, and nothing else is different.

Every call of a save, a first save (into a base that is there, or is not), a deletion, a load and a
listing is made to fail in turn, with one of the errnos that a disk is known for, in the soak with
each of them.
"""

from __future__ import annotations

import copy
import errno
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from agentforge_sessions.harness import (
    SessionContext,
    SessionInUse,
    SessionManager,
    SessionStore,
    SessionSummary,
    UnreadableSession,
    WriteError,
)
from agentforge_sessions.harness.disk_errors import ReadError, RemovalError
from agentforge_sessions.prune import PRIVATE
from tests.support.clock import FakeClock, FakeTokens
from tests.support.filesystem import FaultyFileSystem, calls, every_call_from, nth_call
from tests.support.soak import SOAKING

ERRNOS: Final = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EDQUOT)
EACH: Final = [(number,) for number in ERRNOS] if SOAKING else [ERRNOS]
"""The errnos that the calls of an operation fail with, one after the other."""

STEP: Final = 1 if SOAKING else 7
"""Of the pairs of calls that fail, one in so many."""


def named(numbers: tuple[int, ...]) -> str:
    return " ".join(errno.errorcode[number] for number in numbers)


class Case:
    """A manager with a session in a base of its own, and what the base must look like."""

    def __init__(self, top: Path, *, sessions: int = 1) -> None:
        self.base = top / "new" / "sessions"
        self.fs = FaultyFileSystem()
        self.manager = SessionManager(
            SessionStore(self.base, fs=self.fs, token=FakeTokens(), lock_timeout_s=0.2),
            clock=FakeClock(),
        )
        for _ in range(sessions):
            self.manager.release()
            self.manager.create("tdflow", "red", goal="two\nlines")
        self.before = copy.deepcopy(self.manager.current_session)
        self.fs.begin()

    def stored(self, session: SessionContext) -> SessionContext | None:
        return SessionStore(self.base).load(session.session_id)

    def names(self) -> list[str]:
        """Everything below the base, less what only a first creation or deletion makes."""
        if not self.base.exists():
            return []
        return sorted(
            str(path.relative_to(self.base))
            for path in self.base.rglob("*")
            if path.name != ".gitkeep" and PRIVATE not in path.parts
        )


def every_call(
    tmp_path: Path, act: Callable[[Case], object], *, sessions: int, step: int = 1
) -> Iterator[Case]:
    """Give a fresh case for each (or one in `step`) system call of the act when nothing fails."""
    (tmp_path / "more").touch()  # so that each case finds its folder as the first one did
    whole = Case(tmp_path / "whole", sessions=sessions)
    act(whole)
    assert len(whole.fs.trace) > 3
    for number in range(0, len(whole.fs.trace), step):
        top = tmp_path / str(number)
        case = Case(top, sessions=sessions)
        case.number = number  # type: ignore[attr-defined]
        yield case
        assert case.fs.open_descriptors == {}, number
        shutil.rmtree(top)


def plan_for(case: Case, errnos: tuple[int, ...]) -> int:
    """Have the call that the case is about fail with one of the errnos; return which."""
    index: int = case.number  # type: ignore[attr-defined]
    number = errnos[index % len(errnos)]
    case.fs.begin(nth_call(index, number))
    return number


def attempt(act: Callable[[], object]) -> Exception | None:
    try:
        act()
    except Exception as error:
        return error
    return None


ABSORBED_BY_A_SAVE: Final = {"close", "listdir"}
ABSORBED_BY_A_FIRST_SAVE: Final = {"close", "fstat", "listdir"}


@pytest.mark.parametrize("errnos", EACH, ids=named)
def test_a_save_whose_nth_call_fails_leaves_the_old_session(
    tmp_path: Path, errnos: tuple[int, ...]
) -> None:
    failures = 0
    for case in every_call(tmp_path, lambda c: c.manager.add_history("noted"), sessions=1):
        before = case.before
        session = case.manager.current_session
        assert session is not None
        names = case.names()
        number = plan_for(case, errnos)

        error = attempt(lambda m=case.manager: m.add_history("noted"))  # type: ignore[misc]

        [failed] = case.fs.failed
        case.fs.begin()
        assert case.names() == names
        assert case.stored(session) == session
        if error is None:
            assert failed.operation in ABSORBED_BY_A_SAVE
            assert not failed.path.endswith(".tmp")
            assert session.revision == 2
            continue
        failures += 1
        assert isinstance(error, WriteError), (failed, error)
        assert error.errno == number
        assert isinstance(error.cause, OSError)
        assert not error.visible
        assert error.path in {
            case.manager.store.session_path(session.session_id),
            case.manager.store.session_path(session.session_id).parent,
        }
        assert str(error.path) in str(error)
        assert session == before
        case.manager.add_history("again")
        assert session.history[-1].action == "again"
        assert case.stored(session) == session
        assert case.names() == names
    assert failures >= 10


@pytest.mark.parametrize("errnos", EACH, ids=named)
@pytest.mark.parametrize("sessions", [0, 1], ids=["into a new base", "into a base"])
def test_a_first_save_whose_nth_call_fails_leaves_no_session(
    tmp_path: Path, errnos: tuple[int, ...], sessions: int
) -> None:
    failures = 0

    def create(case: Case) -> SessionContext:
        case.manager.release()
        return case.manager.create("tdflow", "red")

    for case in every_call(tmp_path, create, sessions=sessions):
        names = case.names()
        number = plan_for(case, errnos)

        error = attempt(lambda c=case: create(c))  # type: ignore[misc]

        [failed] = case.fs.failed
        case.fs.begin()
        created = case.manager.current_session
        if error is None:
            assert failed.operation in ABSORBED_BY_A_FIRST_SAVE
            assert created is not None
            assert case.stored(created) == created
            continue
        failures += 1
        assert isinstance(error, WriteError), (failed, error)
        assert error.errno == number
        assert not error.visible
        assert error.path.is_relative_to(case.base)
        assert str(error.path) in str(error)
        assert created is None
        assert case.names() == names
        again = case.manager.create("tdflow", "red")
        assert case.stored(again) == again
        assert len(case.names()) == len(names) + 2
    assert failures >= 10


@pytest.mark.parametrize("errnos", EACH, ids=named)
@pytest.mark.parametrize("revision", [None, 2], ids=["any revision", "this revision"])
def test_a_deletion_whose_nth_call_fails_deletes_all_or_nothing(
    tmp_path: Path, errnos: tuple[int, ...], revision: int | None
) -> None:
    seen = set()

    def delete(case: Case) -> bool:
        assert case.before is not None
        return case.manager.store.delete(case.before.session_id, expected_revision=revision)

    step = 1 if SOAKING or revision is None else 3  # the calls of the two differ in the first few
    for case in every_call(tmp_path, prepare_and(delete), sessions=1, step=step):
        session_id = fill(case)
        number = plan_for(case, errnos)

        error = attempt(lambda c=case: delete(c))  # type: ignore[misc]

        [failed] = case.fs.failed
        case.fs.begin()
        seen.add(type(error))
        there = case.manager.store.load(session_id)
        if isinstance(error, WriteError | ReadError | SessionInUse):
            assert there is not None
            assert (case.base / session_id / "workspace" / "deep" / "file").exists()
            if isinstance(error, WriteError):
                assert error.errno == number
            assert delete(case) is True
        else:
            assert error is None or isinstance(error, RemovalError), (failed, error)
            assert there is None
            assert case.manager.store.list_sessions() == []
            if error is None:
                audited = "/.prune/audit." in failed.path  # the line that follows
                assert failed.operation in {"close", "listdir"} or audited
            else:
                assert error.path.parent == case.base
            case.manager.release()
            case.manager.create()  # sweeps
            case.manager.store.delete(case.manager.store.list_sessions()[0])
        assert case.names() == []
    assert seen >= {type(None), WriteError, RemovalError}


def fill(case: Case) -> str:
    """Give the session a workspace; return its id."""
    assert case.before is not None
    session_id = case.before.session_id
    deep = case.manager.store.workspace_path(session_id) / "deep"
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    case.manager.add_history("filled")
    case.fs.begin()
    return session_id


def prepare_and(act: Callable[[Case], object]) -> Callable[[Case], object]:
    def both(case: Case) -> object:
        fill(case)
        return act(case)

    return both


@pytest.mark.parametrize("errnos", EACH, ids=named)
def test_a_load_whose_nth_call_fails_says_so_and_changes_nothing(
    tmp_path: Path, errnos: tuple[int, ...]
) -> None:
    failures = 0

    def load(case: Case) -> SessionContext | None:
        assert case.before is not None
        return case.manager.load(case.before.session_id)

    for case in every_call(tmp_path, load, sessions=1):
        held = case.manager.current_session
        number = plan_for(case, errnos)

        error = attempt(lambda c=case: load(c))  # type: ignore[misc]

        [failed] = case.fs.failed
        if error is None:
            assert failed.operation == "close"
            continue
        failures += 1
        assert isinstance(error, ReadError), (failed, error)
        assert isinstance(error.cause, OSError)
        assert error.cause.errno == number
        assert str(error.path) in str(error)
        assert case.manager.current_session is held
        case.fs.begin()
        assert load(case) == case.before
    assert failures >= 3


@pytest.mark.parametrize("errnos", EACH, ids=named)
def test_a_listing_whose_nth_call_fails_goes_on(tmp_path: Path, errnos: tuple[int, ...]) -> None:
    for case in every_call(tmp_path, lambda c: list(c.manager.store.summaries()), sessions=3):
        plan_for(case, errnos)

        found = list(case.manager.store.summaries())

        assert case.fs.failed
        assert len(found) == 3
        # What fails once is tried again by the careful reader.
        assert all(isinstance(one, SessionSummary) for one in found)


def test_a_listing_over_a_broken_disk_names_every_session(tmp_path: Path) -> None:
    case = Case(tmp_path, sessions=3)
    case.fs.begin(every_call_from(0, errno.EIO, ["pread"]))

    found = list(case.manager.store.summaries())

    assert [one.session_id for one in found] == case.manager.store.list_sessions()
    assert all(isinstance(one, UnreadableSession) for one in found)
    assert all(
        isinstance(one, UnreadableSession) and isinstance(one.error, ReadError) for one in found
    )


def test_a_save_in_which_two_calls_fail_never_lies(tmp_path: Path) -> None:
    """What the error says is in place is in place, and memory says the same."""
    whole = Case(tmp_path / "whole")
    whole.manager.add_history("noted")
    numbers = count()
    visible = 0
    for first in range(len(whole.fs.trace)):
        for second in range(first + 1 + first % STEP, len(whole.fs.trace) + 6, STEP):
            top = tmp_path / str(next(numbers))
            case = Case(top)
            session = case.manager.current_session
            assert session is not None
            case.fs.begin(calls({first, second}, errno.EIO))
            error = attempt(lambda m=case.manager: m.add_history("noted"))  # type: ignore[misc]
            assert case.stored(session) == session, (first, second)
            assert case.fs.open_descriptors == {}
            tidy_failed = any(call.operation == "unlink" for call in case.fs.failed)
            assert tidy_failed or case.names() == whole.names(), (first, second)
            if error is None:
                assert session.revision == 2
            else:
                assert isinstance(error, WriteError)
                visible += error.visible
                assert (session.revision == 2) is error.visible
                if not error.visible:
                    assert session == case.before
            case.fs.begin()
            case.manager.add_history("again")
            assert case.stored(session) == session
            assert [p for p in case.names() if "tmp" in p] == []
            shutil.rmtree(top)
    assert visible > 0


@pytest.mark.parametrize("operation", ["writev", "fsync", "rename", "open", "mkdir"])
def test_a_disk_that_stays_full_is_told_at_every_save_until_it_is_not(
    tmp_path: Path, operation: str
) -> None:
    case = Case(tmp_path)
    session = case.manager.current_session
    assert session is not None
    for _ in range(3):
        case.fs.begin(every_call_from(0, errno.ENOSPC, [operation]))
        if operation == "mkdir":
            error = attempt(SessionManager(case.manager.store, clock=FakeClock()).create)
        else:
            error = attempt(lambda: case.manager.add_history("noted"))
        assert isinstance(error, WriteError)
        assert error.errno == errno.ENOSPC
        assert session == case.before
        assert case.stored(session) == session
    case.fs.begin()
    case.manager.add_history("noted")
    assert case.stored(session) == session
    assert session.revision == 2


@pytest.mark.parametrize("size", [1, 7, 511])
def test_writes_that_take_few_bytes_at_a_time_still_make_a_whole_file(
    tmp_path: Path, size: int
) -> None:
    case = Case(tmp_path / "short")
    case.fs.largest_write = size
    session = case.manager.current_session
    assert session is not None
    for number in range(3):
        case.manager.add_history("noted", f"number {number}\nof three")
    written = case.manager.store.session_path(session.session_id).read_bytes()
    assert case.stored(session) == session
    assert len([call for call in case.fs.trace if call.operation == "writev"]) > 3

    straight = Case(tmp_path / "straight")
    for number in range(3):
        straight.manager.add_history("noted", f"number {number}\nof three")
    other = straight.manager.store.session_path(session.session_id).read_bytes()
    assert written == other


def test_a_disk_that_takes_no_byte_is_an_error_and_no_endless_loop(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.fs.largest_write = 0

    with pytest.raises(WriteError) as caught:
        case.manager.add_history("noted")

    assert caught.value.errno == errno.EIO
    assert case.manager.current_session == case.before


def test_a_base_that_vanishes_under_a_first_save_is_a_write_error(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.manager.release()
    shutil.rmtree(case.base)
    case.base.mkdir()
    (case.base / ".gitkeep").touch()

    def vanish(call: object) -> None:
        if getattr(call, "operation", "") == "open":
            case.fs.before = None
            shutil.rmtree(case.base)

    case.fs.before = vanish
    with pytest.raises(WriteError) as caught:
        case.manager.create()

    assert caught.value.errno == errno.ENOENT
    assert case.manager.current_session is None
    assert case.manager.create().revision == 1
