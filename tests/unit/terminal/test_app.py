"""A session that ends while somebody answers it: it is said, and nothing typed is lost."""

from __future__ import annotations

import pytest

from agentforge_sessions.entrypoints.terminal.drafts.draft_store import DraftStore
from agentforge_sessions.entrypoints.terminal.question_queue import SessionEnding
from agentforge_sessions.questions import SessionStatus
from tests.support.question_queue import CHECKS, STORAGE, FakeQueue
from tests.unit.terminal.conftest import Person, Sitting, flat, unsent

pytestmark = pytest.mark.anyio

HOW = [
    (SessionStatus.COMPLETED, "was answered elsewhere"),
    (SessionStatus.REJECTED, "was rejected elsewhere"),
    (SessionStatus.TIMED_OUT, "nobody answered in time"),
    (SessionStatus.ABANDONED, "nobody waits for the answer any more"),
    (None, "was deleted"),
]


async def _begin(person: Person) -> None:
    await person.press("enter", "o")
    await person.write("half a thought")


@pytest.mark.parametrize(("status", "words"), HOW)
async def test_the_end_is_told_with_what_was_typed_and_where_it_is_kept(
    sitting: Sitting,
    queue: FakeQueue,
    drafts: DraftStore,
    status: SessionStatus | None,
    words: str,
) -> None:
    which = queue.ask(STORAGE)
    queue.ask(CHECKS)
    async with sitting() as person:
        await _begin(person)
        queue.end(which, status, "because")
        seen = flat(await person.waits_for("This session has ended"))
        assert words in seen
        assert "None of your answers was sent" in seen
        assert "→ Other: half a thought" in seen
        if status is not None:
            assert "(because)" in seen
        kept = drafts.unsent_path_of(which)
        assert "half a thought" in kept.read_text(encoding="utf-8")
        assert "Which **database**" in kept.read_text(encoding="utf-8")
        assert drafts.load(which) is None
        await person.press("escape")
        assert "1 waiting" in person.sees()


async def test_what_is_typed_when_the_end_comes_does_not_close_the_message(
    sitting: Sitting, queue: FakeQueue
) -> None:
    async with sitting(STORAGE) as person:
        await _begin(person)
        queue.end(person.which, SessionStatus.COMPLETED)
        await person.waits_for("This session has ended")
        await person.write("more\nand x q")
        await person.press("tab")
        assert "This session has ended" in person.sees()


async def test_the_end_of_a_session_without_an_answer_yet_is_told_too(
    sitting: Sitting, queue: FakeQueue, drafts: DraftStore
) -> None:
    async with sitting(STORAGE) as person:
        await person.press("enter")
        queue.end(person.which, SessionStatus.TIMED_OUT)
        seen = await person.waits_for("This session has ended")
        assert "had chosen" not in seen
        assert not drafts.unsent_path_of(person.which).exists()


async def test_the_end_comes_through_windows_and_keeps_the_reason_being_typed(
    sitting: Sitting, queue: FakeQueue, drafts: DraftStore
) -> None:
    async with sitting(STORAGE) as person:
        await person.press("enter", "x")
        await person.write("because of the")
        queue.end(person.which, SessionStatus.ABANDONED)
        seen = await person.waits_for("This session has ended")
        assert "Being typed: because of the" in seen
        assert "because of the" in unsent(drafts, person.which)
        await person.press("escape")
        assert "0 waiting" in person.sees()


async def test_the_end_comes_through_the_review(sitting: Sitting, queue: FakeQueue) -> None:
    async with sitting(STORAGE) as person:
        await person.press("enter", "1", "v")
        queue.end(person.which, SessionStatus.COMPLETED)
        seen = await person.waits_for("This session has ended")
        assert "→ PostgreSQL" in seen


async def test_an_answer_that_comes_too_late_is_told_as_not_sent(
    sitting: Sitting, queue: FakeQueue, drafts: DraftStore
) -> None:
    async with sitting(STORAGE) as person:
        await person.press("enter", "1", "v")
        # the other's answer is on disk; the news of it has not come yet
        queue.sessions[person.which].ending = _completed(queue)
        await person.press("s")
        seen = flat(await person.waits_for("This session has ended"))
        assert "was answered elsewhere" in seen
        assert "None of your answers was sent" in seen
    assert person.answers == ()
    assert "PostgreSQL" in unsent(drafts, person.which)


def _completed(queue: FakeQueue) -> SessionEnding:
    return SessionEnding(status=SessionStatus.COMPLETED, at=queue.now)


async def test_a_draft_left_in_the_queue_is_kept_and_told_when_its_session_ends(
    sitting: Sitting, queue: FakeQueue, drafts: DraftStore
) -> None:
    async with sitting(STORAGE) as person:
        await _begin(person)
        await person.press("escape", "escape")
        queue.end(person.which, SessionStatus.TIMED_OUT)
        seen = flat(await person.waits_for("Your draft"))
        assert "has timed out" in seen
    assert "half a thought" in unsent(drafts, person.which)


async def test_a_draft_whose_session_ended_between_two_sittings_is_told_at_the_next(
    sitting: Sitting, queue: FakeQueue, drafts: DraftStore
) -> None:
    which = queue.ask(STORAGE)
    async with sitting() as person:
        await _begin(person)
    queue.end(which, SessionStatus.COMPLETED)
    async with sitting() as person:
        await person.waits_for("Your draft")
    assert "half a thought" in unsent(drafts, which)


async def test_a_draft_whose_session_is_gone_keeps_its_words(
    sitting: Sitting, queue: FakeQueue, drafts: DraftStore
) -> None:
    which = queue.ask(STORAGE)
    async with sitting() as person:
        await _begin(person)
    queue.forget(which)
    async with sitting() as person:
        await person.waits_for("Your draft")
    assert "half a thought" in unsent(drafts, which)


@pytest.mark.parametrize("in_the_way", [False, True])
async def test_a_draft_that_cannot_be_read_is_told_and_not_deleted_when_its_session_ended(
    sitting: Sitting, queue: FakeQueue, drafts: DraftStore, in_the_way: bool
) -> None:
    which = queue.ask(STORAGE)
    queue.end(which, SessionStatus.COMPLETED)
    path = drafts.path_of(which)
    aside = path.with_suffix(".unreadable")
    path.parent.mkdir()
    path.write_text("torn: half a thought")
    if in_the_way:
        aside.mkdir()
    kept = path if in_the_way else aside
    async with sitting() as person:
        await person.waits_for("can't be used")
        await person.press("t")
        await person.waits_for("Colours")
    assert kept.read_text() == "torn: half a thought"


async def test_if_even_that_cannot_be_kept_it_is_told_after_the_end(
    sitting: Sitting, queue: FakeQueue, drafts: DraftStore
) -> None:
    which = queue.ask(STORAGE)
    drafts.directory.write_text("in the way")
    async with sitting() as person:
        await person.press("enter", "1")
        queue.end(which, SessionStatus.COMPLETED)
        seen = flat(await person.waits_for("This session has ended"))
        assert "could not be kept" in seen
        assert "→ PostgreSQL" in seen
    assert any("→ PostgreSQL" in one for one in person.app.drafts.lost)


async def test_ones_own_answer_is_not_told_as_somebody_elses(sitting: Sitting) -> None:
    async with sitting(STORAGE) as person:
        await person.press("enter", "1", "v", "s")
        seen = await person.waits_for("0 waiting")
        await person.waits_for("Sent: session")
        assert "has ended" not in seen


async def test_a_session_that_was_just_answered_elsewhere_is_not_opened(
    sitting: Sitting, queue: FakeQueue
) -> None:
    async with sitting(STORAGE) as person:
        queue.sessions[person.which].ending = _completed(queue)
        await person.press("enter")
        await person.waits_for("was answered elsewhere")
        await person.waits_for("0 waiting")


async def test_a_fault_of_the_application_is_no_traceback_and_loses_no_draft(
    sitting: Sitting, queue: FakeQueue, drafts: DraftStore
) -> None:
    which = queue.ask(STORAGE)
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 (the pilot raises it when it ends)
        async with sitting() as person:
            await person.press("enter", "1")
            person.app.call_later(lambda: 1 / 0)
            await person.pilot.pause()
    assert isinstance(person.app.fault, ZeroDivisionError)
    assert person.app.drafts.save_all() == (which,)
    found = drafts.load(which)
    assert found is not None
    assert found.replies[0].picked == (0,)
