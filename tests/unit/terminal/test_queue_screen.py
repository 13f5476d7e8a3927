from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from agentforge_sessions.entrypoints.terminal.question_queue import WaitingSession
from agentforge_sessions.entrypoints.terminal.screens.queue_screen import cursor_after, row_text
from agentforge_sessions.questions import Option, Question, SessionStatus
from tests.support.question_queue import CHECKS, START, STORAGE, FakeQueue, session_id
from tests.unit.terminal.conftest import Sitting

pytestmark = pytest.mark.anyio


async def test_an_empty_queue_says_so_and_says_what_will_come(sitting: Sitting) -> None:
    async with sitting() as person:
        seen = person.sees()
    assert "0 waiting" in seen
    assert "New ones appear here as soon as they are asked." in seen


async def test_the_queue_shows_the_oldest_first_with_age_and_titles(
    sitting: Sitting, queue: FakeQueue
) -> None:
    young, old = queue.ask(STORAGE, CHECKS, waited_s=130), queue.ask(CHECKS, waited_s=7300)
    async with sitting() as person:
        await person.waits_for("2 waiting")
        await person.waits_for(old[:8])
        seen = await person.waits_for(young[:8])
    first, second = (
        line for line in seen.splitlines() if "question" in line and "waiting" not in line
    )
    assert old[:8] in first
    assert "2 h  1 question " in first
    assert young[:8] in second
    assert "2 min  2 questions" in second
    assert "Storage, Checks" in second


async def test_a_new_session_appears_by_itself_and_the_cursor_stays(
    sitting: Sitting, queue: FakeQueue
) -> None:
    queue.ask(STORAGE, waited_s=50)
    second = queue.ask(CHECKS, waited_s=40)
    async with sitting() as person:
        await person.press("down")
        third = queue.ask(STORAGE, waited_s=100)
        await person.waits_for("3 waiting")
        seen = await person.waits_for(third[:8])
        assert f"▸ {second[:8]}" in seen, "the cursor stays on its session"
        assert third[:8] in seen
        assert "New: Storage" in await person.waits_for("New: ")


async def test_a_session_that_ends_elsewhere_leaves_the_queue(
    sitting: Sitting, queue: FakeQueue
) -> None:
    gone, kept = queue.ask(STORAGE), queue.ask(CHECKS)
    async with sitting() as person:
        await person.waits_for("2 waiting")
        queue.end(gone, SessionStatus.TIMED_OUT)
        seen = await person.waits_for("1 waiting")
        assert gone[:8] not in seen
        assert f"▸ {kept[:8]}" in seen


async def test_sessions_that_cannot_be_read_are_counted_and_hide_nothing(
    sitting: Sitting, queue: FakeQueue
) -> None:
    queue.ask(STORAGE)
    queue.unreadable = (session_id(77),)
    async with sitting() as person:
        seen = person.sees()
    assert "1 waiting" in seen
    assert "! 1 session can't be read" in seen


async def test_a_thousand_sessions_are_walked_with_keys(sitting: Sitting, queue: FakeQueue) -> None:
    ids = [queue.ask(STORAGE, waited_s=5000 - number) for number in range(1000)]
    async with sitting() as person:
        await person.press("end")
        seen = person.sees()
        assert f"▸ {ids[-1][:8]}" in seen
        await person.press("pageup", "home", "down")
        assert f"▸ {ids[1][:8]}" in person.sees()


async def test_a_session_is_rejected_from_the_queue_with_a_reason(
    sitting: Sitting, queue: FakeQueue
) -> None:
    async with sitting(STORAGE) as person:
        await person.press("x")
        await person.write("not now")
        await person.press("enter")
        await person.waits_for("0 waiting")
    assert queue.ended(person.which) == (SessionStatus.REJECTED, "not now")


async def test_a_rejection_may_go_without_a_reason_and_may_be_called_off(
    sitting: Sitting, queue: FakeQueue
) -> None:
    async with sitting(STORAGE) as person:
        await person.press("x", "escape")
        assert queue.sessions[person.which].ending is None
        await person.press("x", "enter")
        await person.waits_for("0 waiting")
    ending = queue.sessions[person.which].ending
    assert ending is not None
    assert ending.reason is None


async def test_hostile_titles_are_shown_as_plain_text(sitting: Sitting, queue: FakeQueue) -> None:
    title = "\x1b]0;pwned\x07[red]Red[/red] \u202eevil\x1b[31m"
    queue.ask(Question(title=title, prompt="?", options=(Option(label="a"), Option(label="b"))))
    async with sitting() as person:
        seen = await person.waits_for("[red]Red[/red] evil")
    assert "pwned" not in seen
    assert all(line.isprintable() for line in seen.splitlines())


async def test_a_session_that_is_slow_to_open_opens_though_a_key_lost_its_patience(
    sitting: Sitting, queue: FakeQueue
) -> None:
    async with sitting(STORAGE, patience_s=0.05) as person:
        queue.readable.clear()
        person.send(("enter", "\r"), ("down", None))
        await person.pilot.pause()
        await person.app.typed()
        assert "1 waiting" in person.sees()
        queue.readable.set()
        await person.waits_for("Which database should")


async def test_leaving_while_a_session_is_opened_ends_without_a_fault(
    sitting: Sitting, queue: FakeQueue
) -> None:
    async with sitting(STORAGE) as person:
        queue.readable.clear()
        person.send(("enter", "\r"), ("down", None))
        await person.pilot.pause()
        person.app.exit()
        await person.until(lambda: not person.app.is_running, "the end")
        queue.readable.set()
    assert person.app.fault is None


async def test_the_session_that_was_asked_for_is_shown_at_once(
    sitting: Sitting, queue: FakeQueue
) -> None:
    queue.ask(CHECKS)
    wanted = queue.ask(STORAGE)
    async with sitting(first=wanted) as person:
        seen = await person.waits_for("Question 1 of 1")
    assert wanted[:8] in seen


async def test_a_session_asked_for_that_has_ended_is_told_with_how_it_ended(
    sitting: Sitting, queue: FakeQueue
) -> None:
    wanted = queue.ask(STORAGE)
    queue.end(wanted, SessionStatus.ABANDONED, "the client went away")
    async with sitting(first=wanted) as person:
        seen = await person.waits_for("was abandoned")
    assert "the client went away" in " ".join(seen.split())


async def test_the_mouse_works_too_though_nothing_needs_it(
    sitting: Sitting, queue: FakeQueue
) -> None:
    queue.ask(STORAGE, waited_s=5)
    second = queue.ask(CHECKS)
    async with sitting() as person:
        await person.waits_for(second[:8])
        await person.pilot.click("QueueView", offset=(5, 1))
        await person.waits_for(f"▸ {second[:8]}")
        await person.pilot.click("QueueView", offset=(5, 1))
        await person.waits_for("Question 1 of 1")
        foot = (await person.waits_for("? Keys")).splitlines()[-1]
        await person.pilot.click(offset=(foot.index("Review"), 23))
        await person.waits_for("Review of 1 answer")


# ------------------------------------------------------------------------------ pure parts

_IDS = st.lists(st.sampled_from("abcdefgh"), unique=True)


@given(_IDS, st.integers(0, 7), _IDS)
def test_the_cursor_stays_on_its_session_or_goes_to_the_next_that_is_there(
    before: list[str], cursor: int, after: list[str]
) -> None:
    cursor = min(cursor, max(0, len(before) - 1))
    found = cursor_after(before, cursor, after)
    assert 0 <= found <= max(0, len(after) - 1)
    if before and before[cursor] in after:
        assert after[found] == before[cursor]
    elif left := [one for one in before[cursor:] if one in after]:
        assert after[found] == left[0]


@given(st.lists(st.text(max_size=40), max_size=5), st.integers(1, 200), st.booleans())
def test_a_row_is_exactly_as_wide_as_it_may_be(titles: list[str], width: int, at: bool) -> None:
    one = WaitingSession(session_id=session_id(1), titles=tuple(titles), created_at=START)
    text = row_text(one, width=width, now=START, draft=at, at_cursor=at)
    assert cell_len(text) == width
    assert "\n" not in text
