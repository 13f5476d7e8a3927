"""What stands around the questions: who asks, the clock, messages, the way to the next session."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from agentforge_sessions.base.files.process_owner import Owner
from agentforge_sessions.entrypoints.terminal.drafts.session_text import (
    asked_text,
    asker_name,
    head_text,
)
from agentforge_sessions.entrypoints.terminal.text import folder_name, running
from agentforge_sessions.questions import Asker
from tests.support.question_queue import CHECKS, NAME, STORAGE, FakeQueue
from tests.unit.terminal.conftest import Sitting

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0:00"),
        (0, "0:00"),
        (59.9, "0:59"),
        (61, "1:01"),
        (3599, "59:59"),
        (3600, "1:00:00"),
        (9005, "2:30:05"),
        (172_799, "47:59:59"),
        (172_800, "2 d"),
    ],
)
def test_a_running_time_is_written_as_a_clock_shows_it(seconds: float, text: str) -> None:
    assert running(seconds) == text


def test_a_long_folder_loses_its_beginning_and_whatever_is_no_text() -> None:
    assert folder_name("/home/ada/shop", 20) == "/home/ada/shop"
    assert folder_name("/home/ada/shop", 9) == "…ada/shop"
    assert folder_name("/a\x1b[31m\n/b", 20) == "/a /b"


async def test_the_clock_runs_and_the_time_left_runs_out(
    sitting: Sitting, queue: FakeQueue
) -> None:
    async with sitting(STORAGE, waited_s=65, limit_s=600) as person:
        assert "time left" in person.sees()
        assert "8:55" in person.sees()
        queue.now += timedelta(seconds=5)
        await person.waits_for("8:50")
        await person.press("enter")
        assert "waiting 1:10 · 8:50 left" in person.sees()
        queue.now += timedelta(seconds=55)
        await person.waits_for("waiting 2:05 · 7:55 left")


async def test_without_a_limit_there_is_no_time_left(sitting: Sitting) -> None:
    async with sitting(STORAGE, waited_s=65) as person:
        assert "left" not in person.sees()
        await person.press("enter")
        assert "waiting 1:05" in person.sees()
        assert "left" not in person.sees()


async def test_the_folder_of_the_asker_is_told(sitting: Sitting, queue: FakeQueue) -> None:
    queue.ask(STORAGE, waited_s=9, folder="/home/ada/shop")
    queue.ask(STORAGE, folder="/srv/\x1b[31mother")
    async with sitting() as person:
        await person.waits_for("Asked from /home/ada/shop")
        await person.press("down")
        await person.waits_for("Asked from /srv/other")
        await person.press("up", "enter")
        assert "Storage · asked from /home/ada/shop" in person.sees()


def _asker(session: str | None = None) -> Asker:
    return Asker(process=Owner(pid=4711), session=Path(session) if session else None)


@pytest.mark.parametrize(
    ("asker", "name"),
    [
        (_asker(), "process 4711"),
        (_asker("/a/session_20260301_093000_123456"), "agent session 093000_123456"),
        (_asker("/a/session_20260301_093000_12ab56cd"), "agent session 093000_12ab56cd"),
        (_asker("/a/session_\x1b[31m"), "an agent session"),
    ],
)
def test_who_asks_is_named_by_the_process_or_the_agent_session(asker: Asker, name: str) -> None:
    assert asker_name(asker) == name


@pytest.mark.parametrize(
    ("asker", "folder", "width", "text"),
    [
        (None, None, 80, ""),
        (None, "/home/ada/shop", 80, "asked from /home/ada/shop"),
        (_asker(), None, 80, "asked by process 4711"),
        (_asker(), "/home/ada/shop", 80, "asked by process 4711 from /home/ada/shop"),
        (_asker(), "/home/ada/shop", 36, "asked by process 4711 from …ada/shop"),
        (_asker(), "/home/ada/shop", 5, "asked by process 4711 from …"),
    ],
)
def test_who_asked_and_from_where_are_one_line(
    asker: Asker | None, folder: str | None, width: int, text: str
) -> None:
    queue = FakeQueue()
    queue.ask(STORAGE, folder=folder, asker=asker)
    (waiting,) = queue.listing().waiting
    assert asked_text(waiting, width) == text


async def test_who_asks_is_told_in_the_queue_and_above_the_question(
    sitting: Sitting, queue: FakeQueue
) -> None:
    agent = _asker("/base/session_20260301_093000_123456")
    queue.ask(STORAGE, waited_s=9, folder="/home/ada/shop", asker=agent)
    queue.ask(CHECKS, asker=_asker())
    async with sitting() as person:
        await person.waits_for("Asked by agent session 093000_123456 from /home/ada/shop")
        await person.press("down")
        await person.waits_for("Asked by process 4711")
        await person.press("up", "enter")
        told = "Storage · asked by agent session 093000_123456 from /home/ada/shop"
        assert told in person.sees()


def test_the_first_line_fits_into_80_columns_with_all_that_there_may_be() -> None:
    queue = FakeQueue()
    queue.ask(STORAGE, waited_s=9000, limit_s=10800)
    (waiting,) = queue.listing().waiting
    lines = {
        width: head_text(waiting, "Question 1 of 2", now=queue.now, others=2, width=width)
        for width in (100, 78, 40)
    }
    whole = "Question 1 of 2 · session 00000001 · waiting 2:30:00 · 30:00 left"
    assert lines == {100: f"{whole} · 2 more waiting", 78: f"{whole} · 2 more", 40: whole}


async def test_messages_cover_nothing(sitting: Sitting, queue: FakeQueue) -> None:
    queue.ask(STORAGE)
    async with sitting() as person:
        await person.press("enter", "1")
        before = person.sees().splitlines()
        queue.ask(CHECKS)
        await person.waits_for("New: Checks")
        after = [line for line in person.sees().splitlines() if not line.startswith(" New: ")]
        assert {line for line in before if line.strip()} - {before[0]} <= set(after)
        await person.press("question_mark")
        queue.ask(STORAGE)
        seen = await person.waits_for("New: Storage")
        assert "Everything works without a mouse." in seen


async def test_at_most_three_messages_are_shown_each_once(sitting: Sitting) -> None:
    async with sitting(STORAGE) as person:
        for text in ("one", "two", "two", "three", "four"):
            person.app.say(f"Message {text}")
        await person.waits_for("Message four")
        lines = [one.strip() for one in person.sees().splitlines() if "Message" in one]
    assert lines == ["Message two", "Message three", "Message four"]


async def test_one_key_leads_to_the_next_session_and_one_back(
    sitting: Sitting, queue: FakeQueue
) -> None:
    first, second, third = (queue.ask(one) for one in (STORAGE, CHECKS, NAME))
    async with sitting() as person:
        await person.press("enter", "3", "]")
        assert f"session {second[:8]}" in await person.waits_for("1 Checks")
        await person.press("]")
        await person.waits_for(f"session {third[:8]}")
        await person.press("escape", "]")
        assert "(•) 3 Redis" in await person.waits_for(f"session {first[:8]}")
        await person.press("[")
        await person.waits_for(f"session {third[:8]}")
        await person.press("escape", "escape")
        assert f"▸ {third[:8]}" in await person.waits_for("3 waiting")


async def test_with_no_other_session_it_stays(sitting: Sitting) -> None:
    async with sitting(STORAGE) as person:
        await person.press("enter", "3", "]")
        assert f"session {person.which[:8]}" in await person.waits_for(
            "No other session is waiting."
        )
        assert "(•) 3 Redis" in person.sees()


async def test_a_session_that_is_opened_before_the_queue_is_read_shows_its_true_age(
    sitting: Sitting, queue: FakeQueue
) -> None:
    which = queue.ask(STORAGE, waited_s=300, folder="/home/ada/shop")
    async with sitting(first=which) as person:
        await person.waits_for("waiting 5:00")
        await person.waits_for("asked from /home/ada/shop")
