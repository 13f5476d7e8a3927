"""Whoever is killed, and when: what was saved is told, to each receiver, in order, and once more
at the most under the same id."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge_sessions.harness import SessionStore
from agentforge_sessions.harness.events.receiver_files import FOLDER
from agentforge_sessions.harness.session_domain import SessionContext
from tests.crash import _told_tasks
from tests.crash._nursery import Nursery
from tests.support.soak import SOAKING

STEP = 1 if SOAKING else 17
"""At every so many of the places it is killed."""
KILLED = -9
pytestmark = pytest.mark.timeout(1800 if SOAKING else 120)


def places(calls: list[str]) -> Iterator[tuple[int, str]]:
    found = [
        (number, moment)
        for number, name in enumerate(calls, start=1)
        for moment in (("before", "in", "after") if name == "writev" else ("before", "after"))
    ]
    yield from found[::STEP]


def to_tell(session: SessionContext) -> list[str]:
    """Return what the receivers are to be told of a session, as its history says it."""
    wanted = {"session_paused": "session.paused", "session_aborted": "session.aborted"}
    actions = [entry.action for entry in session.history[1:]]
    return [wanted.get(action, "session.recorded") for action in actions]


def taken(base: Path, receiver: str) -> tuple[list[str], list[str]]:
    """Return what a receiver took: the ids, and the names of those that are not repeated."""
    path = base.parent / receiver
    lines = path.read_text().splitlines() if path.exists() else []
    ids, names = [], []
    for event_id, event in map(json.loads, lines):
        if event_id not in ids:
            names.append(event["type"])
        ids.append(event_id)
    return ids, names


def leftovers(base: Path) -> list[str]:
    return [
        one.name
        for one in (base / FOLDER).rglob("*")
        if one.is_file() and not one.name.startswith("cursor-") and one.name != ".gitignore"
    ]


@pytest.mark.parametrize("operation", ["apart", "together", "remove"])
def test_a_kill_at_any_call_of_a_save_or_of_telling_loses_no_event(
    nursery: Nursery, tmp_path: Path, operation: str
) -> None:
    rehearsal = tmp_path / "rehearsal" / "sessions"
    _told_tasks.prepare(rehearsal)
    (told,) = nursery.finish(
        nursery.start("change_and_tell", base=str(rehearsal), operation=operation, last=None)
    )
    calls: list[str] = told["calls"]
    kills = untold = repeated = 0
    for last, moment in places(calls):
        where = f"{operation}, killed {moment} call {last} of {len(calls)}, {calls[last - 1]}"
        base = tmp_path / f"{last}-{moment}" / "sessions"
        session_id = _told_tasks.prepare(base)
        child = nursery.start(
            "change_and_tell", base=str(base), operation=operation, last=last, moment=moment
        )
        assert nursery.wait(child) == KILLED, where
        kills += 1
        session = SessionStore(base).load(session_id)
        # It is removed after both.
        wanted = ["session.paused", "session.aborted"] if session is None else to_tell(session)
        untold += any(taken(base, name)[1] != wanted for name in _told_tasks.RECEIVERS)

        for sender in _told_tasks.senders(base):
            sender.deliver()

        for name in _told_tasks.RECEIVERS:
            ids, names = taken(base, name)
            assert names == wanted, f"{where}: {name}"
            assert len(ids) <= len(wanted) + 1, f"{where}: {name}"
            repeated += len(ids) > len(wanted)
        SessionStore(base).delete(session_id)
        for sender in _told_tasks.senders(base):
            sender.deliver()
        assert leftovers(base) == [], where
    assert untold, "no kill left anything to tell"
    print(f"{operation}: {kills} kills, {untold} left something to tell, {repeated} repeated")
