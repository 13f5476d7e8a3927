"""A place in the feed of sessions that are kept one by one, as a text from anywhere."""

from __future__ import annotations

import base64
import json
import random
import zlib
from pathlib import Path

import pytest

from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.harness.events.session_feed import (
    Passed,
    decode_positions,
    encode_positions,
)
from tests.support.sessions import session_id as an_id


def packed(document: object) -> str:
    data = zlib.compress(json.dumps(document).encode())
    return "f1." + base64.urlsafe_b64encode(data).decode()


def test_a_place_is_read_as_it_was_written() -> None:
    positions = {an_id(one): Passed(one, one * 7) for one in range(50)}
    assert decode_positions(encode_positions(positions)) == positions
    assert decode_positions(encode_positions({})) == {}


@pytest.mark.parametrize(
    "document",
    [
        *([], None, 7, {"x": [1, 2]}, {"../x": [1, 2]}, {an_id(1): [1]}, {an_id(1): [1, 2, 3]}),
        *({an_id(1): [-1, 0]}, {an_id(1): [1.5, 0]}, {an_id(1): ["1", 0]}, {an_id(1): [True, 0]}),
        {an_id(1): [1, -1]},
    ],
)
def test_what_says_no_place_is_refused(document: object) -> None:
    with pytest.raises(ValueError):
        decode_positions(packed(document))


def test_what_unpacks_to_more_than_any_store_has_is_refused() -> None:
    bomb = "f1." + base64.urlsafe_b64encode(zlib.compress(b" " * (1 << 27), 9)).decode()
    with pytest.raises(ValueError):
        decode_positions(bomb)


def test_a_place_is_short_for_each_session() -> None:
    chance = random.Random(1)
    positions = {
        f"session_20261124_{chance.randrange(10**6):06}_{chance.randrange(10**6):06}": Passed(
            chance.randrange(200), chance.randrange(2**32)
        )
        for _ in range(1_000)
    }
    assert len(encode_positions(positions)) / len(positions) < 40


def test_a_session_that_did_not_change_is_not_read_again(base: Path) -> None:
    manager = SessionManager(base)
    for _ in range(3):
        manager.create()
        manager.complete()
    read: list[str] = []

    class Counting(SessionStore):
        def load(self, session_id: str):  # type: ignore[no-untyped-def]
            read.append(session_id)
            return super().load(session_id)

        def _feed_source(self) -> SessionStore:
            return self

    place = Counting(base).end_of_feed()
    read.clear()
    feed = Counting(base).open_feed(place)
    assert list(feed.look()) == []
    assert read == []
    session_id = manager.create().session_id
    assert [one.event.session_id for one in feed.look()] == [session_id]
    assert read == [session_id]


def test_a_history_that_was_cut_short_is_told_from_its_new_end(base: Path) -> None:
    """As where a session was brought back from a copy of before."""
    manager = SessionManager(base)
    session_id = manager.create().session_id
    file = base / session_id / "session.yaml"
    before = file.read_bytes()
    manager.add_history("lost")
    feed = SessionStore(base).open_feed()
    for one in feed.look():
        feed.passed(one)
    file.write_bytes(before)
    assert list(feed.look()) == []
    other = SessionManager(base)
    other.open(session_id)
    other.add_history("new")
    assert [one.number for one in feed.look()] == [2]
