from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual import events

from agentforge_sessions.base.files import WriteError
from agentforge_sessions.entrypoints.terminal.drafts.draft_store import DraftStore
from agentforge_sessions.questions import (
    Option,
    Question,
    SessionStatus,
    UserAnswer,
    format_elaborate_request,
    format_rephrase_request,
)
from tests.support.question_queue import CHECKS, NAME, STORAGE, FakeQueue
from tests.unit.terminal.conftest import Person, Sitting

pytestmark = pytest.mark.anyio


def one(**answer: Any) -> tuple[UserAnswer, ...]:
    """The answer to the first question alone."""
    return (UserAnswer(question_index=0, **answer),)


async def test_one_option_is_chosen_and_sent_only_after_the_review(
    sitting: Sitting, queue: FakeQueue
) -> None:
    async with sitting(STORAGE) as person:
        await person.press("enter", "up", "enter")
        seen = await person.waits_for("Review of 1 answer")
        assert "→ PostgreSQL" in seen
        assert queue.sessions[person.which].ending is None, (
            "nothing is sent before the person says so"
        )
        await person.sends("enter", "v", "s")
    assert person.answers == one(selected_option="PostgreSQL")


async def test_enter_alone_never_sends(sitting: Sitting, queue: FakeQueue) -> None:
    async with sitting(STORAGE, CHECKS) as person:
        for _ in range(12):
            await person.press("enter")
        assert queue.sessions[person.which].ending is None


async def test_several_options_are_chosen_in_any_order_and_sent_in_that_of_the_question(
    sitting: Sitting,
) -> None:
    async with sitting(CHECKS) as person:
        await person.press("enter", "3", "1", "2", "3", "1", "2")
        seen = person.sees()
        assert "[x] 1 Types" in seen
        assert "[ ] 2 Lint" in seen
        assert "2 chosen" in seen
        await person.sends("enter", "s")
    assert person.answers == one(selected_options=("Types (recommended)", "Tests [recommended]"))


async def test_recommended_options_are_marked_under_the_cursor_and_preselected_when_shown(
    sitting: Sitting, drafts: DraftStore
) -> None:
    async with sitting(STORAGE, CHECKS) as person:
        await person.press("enter")
        seen = person.sees()
        assert "▸ (•) 2 SQLite  ★ recommended" in seen
        assert "recommended option is preselected" in seen
        await person.press("v")
        seen = person.sees()
        assert "→ SQLite (recommended)  (preselected)" in seen
        assert "1 question without an answer" in seen, "what was not shown is not chosen"
        await person.press("escape", "right")
        seen = person.sees()
        assert "▸ [x] 1 Types  ★ recommended" in seen
        assert "[ ] 2 Lint" in seen
        assert "[x] 3 Tests  ★ recommended" in seen
        await person.press("v")
        assert "All answered, 2 of them preselected" in person.sees()
        await person.press("escape", "escape")
        assert "draft" not in await person.waits_for("1 waiting"), (
            "nothing of the person's is in it"
        )
    assert drafts.load(person.which) is None


async def test_what_was_preselected_and_taken_back_stays_so(sitting: Sitting) -> None:
    async with sitting(CHECKS, STORAGE) as person:
        await person.press("enter", "1", "3", "right", "left")
        assert "[x]" not in person.sees()
        await person.press("v")
        assert "! no answer" in person.sees()


@pytest.mark.parametrize("keys", [["2"], ["space"], ["enter", "left"]])
async def test_choosing_the_preselected_option_confirms_it(
    sitting: Sitting, keys: list[str]
) -> None:
    async with sitting(STORAGE, STORAGE) as person:
        await person.press("enter", *keys)
        assert "(•) 2 SQLite" in person.sees()
        assert "preselected" not in person.sees()
        await person.press("v")
        assert "→ SQLite (recommended)\n" in person.sees()


async def test_one_key_takes_what_is_recommended_for_this_question(sitting: Sitting) -> None:
    async with sitting(CHECKS, NAME) as person:
        await person.press("enter", "1", "2", "r")
        seen = person.sees()
        assert "[x] 1 Types" in seen
        assert "[ ] 2 Lint" in seen
        assert "2 chosen." in seen
        await person.press("right", "escape", "r")
        await person.waits_for("No option of this question is recommended.")
        await person.sends("v", "s", "y")
    assert person.answers == one(selected_options=("Types (recommended)", "Tests [recommended]"))


async def test_what_is_recommended_is_taken_when_asked_for_and_leaves_choices_alone(
    sitting: Sitting,
) -> None:
    async with sitting(STORAGE, CHECKS) as person:
        await person.press("enter", "3", "a")
        seen = await person.waits_for("Review of 2 answers")
        assert "→ Redis" in seen
        await person.sends("s")
    assert person.answers == (
        UserAnswer(question_index=0, selected_option="Redis"),
        UserAnswer(
            question_index=1, selected_options=("Types (recommended)", "Tests [recommended]")
        ),
    )


async def test_free_text_answers_in_place_of_an_option(sitting: Sitting) -> None:
    async with sitting(STORAGE) as person:
        await person.press("enter", "1", "o")
        await person.write("a plain file,\nit's enough")
        seen = person.sees()
        assert "(•) o Other" in seen
        assert "( ) 1 PostgreSQL" in seen
        await person.press("tab")
        assert "→ Other: a plain file," in await person.waits_for("Review of 1 answer")
        await person.sends("s")
    assert person.answers == one(custom_text="a plain file,\nit's enough")


async def test_free_text_stands_beside_several_options(sitting: Sitting) -> None:
    async with sitting(CHECKS) as person:
        await person.press("enter", "1", "2", "3", "o")
        await person.write("docs")
        await person.sends("tab", "s")
    assert person.answers == one(selected_options=("Lint",), custom_text="docs")


async def test_text_that_an_option_replaced_is_kept_and_the_review_says_it_is_not_sent(
    sitting: Sitting,
) -> None:
    async with sitting(STORAGE) as person:
        await person.press("enter", "o")
        await person.write("maybe a file")
        await person.press("escape", "1")
        assert "not part of your answer" in " ".join(person.sees().split())
        await person.press("v")
        assert "typed for Other and not sent: maybe a file" in person.sees()
        await person.sends("s")
    assert person.answers == one(selected_option="PostgreSQL")


async def test_a_question_without_options_is_answered_in_words(sitting: Sitting) -> None:
    async with sitting(NAME) as person:
        await person.press("enter")
        await person.write("fjord")
        await person.sends("tab", "s")
    assert person.answers == one(custom_text="fjord")


async def test_going_back_shows_what_was_answered_and_lets_it_be_changed(sitting: Sitting) -> None:
    async with sitting(STORAGE, CHECKS) as person:
        await person.press("enter", "1", "enter", "2", "left")
        seen = person.sees()
        assert "▸ (•) 1 PostgreSQL" in seen
        assert "▸ 1 Storage   ✓ 2 Checks" in seen
        await person.press("3", "right", "enter")
        await person.press("up", "up", "enter")  # the first row of the review
        assert "(•) 3 Redis" in await person.waits_for("Question 1 of 2")
        await person.sends("v", "s")
    assert [answer.selected_option for answer in person.answers] == ["Redis", None]


async def test_a_choice_is_taken_back_by_choosing_it_again(sitting: Sitting) -> None:
    async with sitting(STORAGE) as person:
        await person.press("enter", "1", "1")
        assert "(•)" not in person.sees()


async def test_an_answer_with_gaps_is_sent_after_a_yes_and_leaves_them_out(
    sitting: Sitting, queue: FakeQueue
) -> None:
    async with sitting(STORAGE, STORAGE, CHECKS) as person:
        await person.press("enter", "1", "v", "s")
        assert "2 questions without an answer" in person.sees()
        await person.press("n")
        assert queue.sessions[person.which].ending is None
        await person.sends("s", "y")
    assert person.answers == (
        UserAnswer(question_index=0, selected_option="PostgreSQL"),
        UserAnswer(question_index=2, selected_options=()),
    )


async def test_with_no_answer_at_all_nothing_is_sent(sitting: Sitting, queue: FakeQueue) -> None:
    async with sitting(CHECKS) as person:
        await person.press("enter", "1", "3", "v", "s")
        await person.waits_for("Nothing is answered yet, so nothing was sent.")
        assert queue.sessions[person.which].ending is None


@pytest.mark.parametrize("key", ["e", "d"])
async def test_more_detail_or_other_words_are_asked_for_in_place_of_an_answer(
    sitting: Sitting, key: str
) -> None:
    async with sitting(STORAGE, CHECKS) as person:
        await person.press("enter", "1", key)
        await person.write("what of backups")
        await person.press("enter")
        assert "? 1 Storage   ▸ 2 Checks" in await person.waits_for("Question 2 of 2")
        await person.press("3", "v")
        seen = person.sees()
        assert "what of backups" in seen
        assert "your choice is not sent" in seen
        await person.sends("s")
    request = {
        "e": format_elaborate_request(0, STORAGE.title, STORAGE.prompt, "what of backups"),
        "d": format_rephrase_request(0, STORAGE.title, "what of backups"),
    }[key]
    assert request.endswith("\nThe person adds: what of backups")
    first, second = person.answers
    assert first == UserAnswer(question_index=0, custom_text=request)
    assert second.selected_options == ("Types (recommended)",)


async def test_a_wish_without_words_is_the_request_to_the_letter_and_can_be_taken_back(
    sitting: Sitting,
) -> None:
    async with sitting(STORAGE) as person:
        await person.press("enter", "e", "enter")
        await person.press("escape")
        assert "Instead of an answer you ask" in person.sees()
        await person.press("e")
        assert "Instead of an answer you ask" not in person.sees()
        await person.sends("e", "enter", "s")
    assert person.answers == one(
        custom_text=format_elaborate_request(0, STORAGE.title, STORAGE.prompt)
    )


async def test_a_whole_session_is_rejected_from_a_question(
    sitting: Sitting, queue: FakeQueue
) -> None:
    async with sitting(STORAGE) as person:
        await person.press("enter", "x")
        await person.write("wrong project")
        await person.sends("enter")
    assert queue.ended(person.which) == (SessionStatus.REJECTED, "wrong project")


async def test_labels_are_sent_to_the_letter_whatever_is_shown_of_them(
    sitting: Sitting, queue: FakeQueue
) -> None:
    label = "\x1b[31mRed\x1b[0m\n (recommended) "
    which = queue.ask(Question(title="t", prompt="p", options=(Option(label=label),)))
    async with sitting() as person:
        await person.press("enter", "1")
        assert "(•) 1 Red  ★ recommended" in person.sees()
        await person.sends("v", "s")
    assert queue.sessions[which].answers[0].selected_option == label


# --------------------------------------------------------------------------------- the keys


async def test_the_keys_are_at_the_foot_of_every_screen_in_80_columns(sitting: Sitting) -> None:
    async with sitting(STORAGE) as person:
        await foot_has(person, "Answer", "Leave", "Reject", "Keys")
        await person.press("enter")
        await foot_has(
            person,
            *("Next", "Choose", "Other", "Back", "Review", "Detail", "Reject", "Queue", "? Keys"),
        )
        await person.press("o")
        await foot_has(person, "tab Continue")
        await person.press("escape", "v")
        await foot_has(person, "Send", "Change", "Reject", "Back", "Keys")


async def foot_has(person: Person, *words: str) -> None:
    """See words in the last line, which is made anew a moment after the rest of the screen."""
    await person.waits_for(lambda seen: all(word in seen.splitlines()[-1] for word in words))


async def test_all_keys_are_told_by_one_key(sitting: Sitting) -> None:
    async with sitting(STORAGE) as person:
        await person.press("enter", "question_mark")
        assert "Everything works without a mouse." in person.sees()
        await person.press("end", "pagedown", "pagedown", "pagedown")
        assert "Ctrl+Q       leave" in person.sees()
        await person.press("question_mark")
        assert "Question 1 of 1" in person.sees()


def keys(text: str) -> list[tuple[str, str | None]]:
    return [(one, one) for one in text]


async def test_a_burst_of_keys_types_into_the_text_and_runs_no_command(sitting: Sitting) -> None:
    async with sitting(STORAGE) as person:
        await person.burst(("enter", "\r"), *keys("ofixed"), ("tab", "\t"), *keys("s"))
        await person.waits_for("0 waiting")
    assert person.answers == one(custom_text="fixed")


async def test_keys_find_their_way_also_when_the_window_had_lost_the_focus(
    sitting: Sitting,
) -> None:
    async with sitting(STORAGE) as person:
        person.app.post_message(events.AppBlur())
        await person.settles()
        await person.burst(("enter", "\r"), *keys("3vs"))
        await person.waits_for("0 waiting")
    assert person.answers == one(selected_option="Redis")


async def test_a_pasted_text_goes_where_the_keys_before_it_lead(sitting: Sitting) -> None:
    async with sitting(STORAGE) as person:
        for event in (
            events.Key("enter", "\r"),
            events.Key("o", "o"),
            events.Paste("two\nlines"),
            events.Key("tab", "\t"),
            events.Key("s", "s"),
        ):
            person.app.post_message(event)
        await person.waits_for("0 waiting")
    assert person.answers == one(custom_text="two\nlines")


async def test_a_burst_of_keys_types_into_a_reason(sitting: Sitting, queue: FakeQueue) -> None:
    async with sitting(STORAGE) as person:
        await person.burst(("enter", "\r"), *keys("xa1"), ("enter", "\r"))
        await person.waits_for("0 waiting")
    ending = queue.sessions[person.which].ending
    assert ending is not None
    assert ending.reason == "a1"


# ------------------------------------------------------------------------- what goes wrong


async def test_answers_that_the_disk_refuses_are_kept_and_can_be_sent_again(
    sitting: Sitting, queue: FakeQueue
) -> None:
    which = queue.ask(STORAGE)
    queue.refuses = WriteError(
        path=Path("answers.json"), operation="write", cause=OSError(28, "No space left on device")
    )
    async with sitting() as person:
        await person.press("enter", "1", "v", "s")
        seen = await person.waits_for("Not sent")
        assert "No space left on device" in " ".join(seen.split())
        await person.press("escape")
        assert "→ PostgreSQL" in person.sees()
        queue.refuses = None
        await person.sends("s")
    assert queue.sessions[which].answers


async def test_sending_twice_sends_once(sitting: Sitting, queue: FakeQueue) -> None:
    async with sitting(STORAGE) as person:
        await person.press("enter", "1", "v")
        await person.burst(*keys("ss"))
        await person.waits_for("0 waiting")
        assert "Not sent" not in person.sees()
    assert len(person.answers) == 1
    assert queue.submissions == 1


# ------------------------------------------------------------------------------- the drafts


async def _type_something(person: Person) -> None:
    await person.press("enter", "o")
    await person.write("half a thought")


async def test_a_draft_waits_in_the_queue_and_is_there_on_coming_back(sitting: Sitting) -> None:
    async with sitting(STORAGE) as person:
        await _type_something(person)
        await person.press("escape", "escape")
        assert "draft" in await person.waits_for("1 waiting")
        await person.press("enter")
        assert "half a thought" in person.sees()


async def test_what_is_typed_is_on_disk_without_leaving(
    sitting: Sitting, drafts: DraftStore
) -> None:
    async with sitting(STORAGE) as person:
        await _type_something(person)

        def kept() -> bool:
            found = drafts.load(person.which)
            return found is not None and found.replies[0].text == "half a thought"

        await person.until(kept, "the draft is on disk while the screen is open")


async def test_what_is_typed_with_the_key_that_leaves_right_behind_it_is_kept(
    sitting: Sitting, drafts: DraftStore
) -> None:
    async with sitting(STORAGE) as person:
        person.send(("enter", "\r"), *keys("ohalf"), ("ctrl+q", "\x11"))
        await person.until(lambda: not person.app.is_running, "the end")
    found = drafts.load(person.which)
    assert found is not None
    assert found.replies[0].text == "half"


async def test_a_draft_is_there_at_the_next_start_and_gone_once_it_is_sent(
    sitting: Sitting, queue: FakeQueue, drafts: DraftStore
) -> None:
    which = queue.ask(STORAGE)
    async with sitting() as person:
        await _type_something(person)
    async with sitting() as person:
        assert "draft" in person.sees().splitlines()[2]
        await person.press("enter")
        assert "half a thought" in person.sees()
        await person.sends("v", "s")
        await person.until(lambda: drafts.load(which) is None, "the draft is dropped")


async def test_a_draft_that_cannot_be_written_is_told_and_kept_here(
    sitting: Sitting, queue: FakeQueue, drafts: DraftStore
) -> None:
    queue.ask(STORAGE)
    drafts.directory.write_text("in the way")
    async with sitting() as person:
        await _type_something(person)
        seen = await person.waits_for("not on disk")
        assert "half a thought" in seen
    assert any("half a thought" in one for one in person.app.drafts.lost)
