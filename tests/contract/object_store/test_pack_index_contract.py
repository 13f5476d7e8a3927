"""One suite for everything that knows the packs and places of sessions.

An implementation takes part by an entry in `INDEXES`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from attrs import define, evolve

from agentforge_sessions.fleet.objects.pack_index import (
    KeepsPacks,
    Pack,
    PackIndex,
    PackKind,
    PackPlace,
)
from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import LocalSessions, SessionContext, SessionManager
from agentforge_sessions.testing import MemorySessions
from tests.contract.conftest import database, migrated, server
from tests.support.memory_packs import MemoryPacks
from tests.support.sessions import session_id as an_id

__all__ = ["database", "migrated", "server"]
S, OTHER = an_id(1), an_id(2)


@define
class Kept:
    index: PackIndex
    sessions: LocalSessions


def memory(request: pytest.FixtureRequest, base: Path) -> Kept:
    sessions = MemorySessions(base)

    def has_ended(session_id: str) -> bool:
        session = sessions.load(session_id)
        return session is not None and session.state.is_terminal

    return Kept(MemoryPacks(sessions.exists, has_ended), sessions)


def postgres(request: pytest.FixtureRequest, base: Path) -> Kept:
    found: Database = request.getfixturevalue("database")
    store = PostgresStore(found, base)
    assert isinstance(store, KeepsPacks)
    return Kept(store.pack_index(), store)


INDEXES: Final[dict[str, Callable[[pytest.FixtureRequest, Path], Kept]]] = {
    "memory": memory,
    "postgres": postgres,
}


@pytest.fixture(params=list(INDEXES))
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    found = INDEXES[request.param](request, tmp_path / "base")
    for session_id in (S, OTHER):
        found.sessions.save(SessionContext.create(session_id=session_id))
    return found


def pack(number: int, *snapshots: str, kind: PackKind = "workspace", of: str = S) -> Pack:
    digest = f"{number:064x}"
    return Pack(f"{of}/{digest}.pack", digest, 100 + number, kind, snapshots or (f"{number:040x}",))


def test_it_is_what_the_port_asks_for(kept: Kept) -> None:
    assert isinstance(kept.index, PackIndex)


def test_packs_come_in_the_order_in_which_they_were_added(kept: Kept) -> None:
    assert kept.index.packs(S, "workspace") == []
    packs = [pack(3), evolve(pack(1, "a" * 40, "b" * 40), base="c" * 40), pack(2)]
    for one in [*packs, packs[0]]:
        kept.index.add(S, one)
    kept.index.add(S, pack(4, kind="agent"))
    kept.index.add(OTHER, pack(5, of=OTHER))
    found = kept.index.packs(S, "workspace")
    assert found == packs
    assert sorted(one.number for one in found) == [one.number for one in found]
    assert kept.index.packs(S, "agent") == [pack(4, kind="agent")]
    assert kept.index.named([one.key for one in packs] + ["x/y"]) == {one.key for one in packs}


def test_a_session_is_taken_up_by_one_place_after_the_other(kept: Kept) -> None:
    index = kept.index
    assert index.place(S) is None
    assert index.take_up(S, "here", "one", former=None)
    first = index.place(S)
    assert first == PackPlace("here", "one", 1)
    assert not index.take_up(S, "there", "two", former=None)
    assert index.take_up(S, "there", "two", former=first)
    assert not index.take_up(S, "here", "one", former=first)
    second = index.place(S)
    assert second == PackPlace("there", "two", 2)
    assert index.take_up(S, "here", "one", former=second)
    assert not index.take_up(S, "there", "two", former=first)
    assert index.place(OTHER) is None


@pytest.mark.parametrize("known", [False, True])
def test_of_those_that_take_it_up_at_once_one_does(kept: Kept, known: bool) -> None:
    if known:
        kept.index.take_up(S, "before", "host", former=None)
    former = kept.index.place(S)
    barrier = threading.Barrier(4)
    done: list[bool] = []

    def take(number: int) -> None:
        barrier.wait()
        done.append(kept.index.take_up(S, f"place {number}", "host", former=former))

    threads = [threading.Thread(target=take, args=(one,)) for one in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [False, False, False, True]


def test_packs_are_put_into_one_where_the_session_is_worked_in_and_nowhere_else(kept: Kept) -> None:
    index = kept.index
    for number in (1, 2, 3):
        index.add(S, pack(number))
    first = [one.number for one in index.packs(S, "workspace")[:2]]
    whole = pack(9, f"{1:040x}", f"{2:040x}")
    assert not index.replace(S, first, whole, place="here")
    index.take_up(S, "here", "one", former=None)
    assert not index.replace(S, first, whole, place="there")
    assert index.packs(S, "workspace") == [pack(1), pack(2), pack(3)]
    assert index.replace(S, first, whole, place="here")
    assert index.packs(S, "workspace") == [pack(3), whole]
    assert index.named([pack(1).key, whole.key]) == {whole.key}


def test_packs_and_places_go_with_their_session(kept: Kept) -> None:
    index = kept.index
    index.add(S, pack(1))
    index.add(OTHER, pack(2, of=OTHER))
    index.take_up(S, "here", "one", former=None)
    kept.sessions.delete(S)
    assert index.packs(S, "workspace") == []
    assert index.place(S) is None
    assert index.named([pack(1).key, pack(2, of=OTHER).key]) == {pack(2, of=OTHER).key}
    for act in (
        lambda: index.add(S, pack(3)),
        lambda: index.take_up(S, "here", "one", former=None),
    ):
        with pytest.raises(Exception, match=r"(?i)session"):
            act()


def test_what_went_elsewhere_or_ended_is_released(kept: Kept) -> None:
    index, sessions = kept.index, kept.sessions
    index.add(S, pack(1, "a" * 40))
    index.add(S, pack(2, "b" * 40, kind="agent"))
    index.take_up(S, "here", "one", former=None)
    index.take_up(OTHER, "here", "one", former=None)
    both = [S, OTHER, an_id(3)]
    assert index.released(both, "here") == {}
    assert index.released(both, "there") == {S: {"a" * 40, "b" * 40}, OTHER: frozenset()}
    manager = SessionManager(sessions)
    manager.open(S)
    manager.complete()
    assert index.released(both, "here") == {S: {"a" * 40, "b" * 40}}


def test_what_adds_and_what_removes_wait_for_each_other(kept: Kept) -> None:
    entered = threading.Event()
    order: list[str] = []

    def remove() -> None:
        entered.wait(30)
        with kept.index.exclusive(S):
            order.append("removed")

    thread = threading.Thread(target=remove)
    thread.start()
    with kept.index.exclusive(S):
        entered.set()
        kept.index.add(S, pack(1))
        order.append("added")
    thread.join()
    assert order == ["added", "removed"]
