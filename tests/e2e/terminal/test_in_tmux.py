"""The program in a real terminal, with nothing but a keyboard."""

from __future__ import annotations

import shutil

import pytest

from agentforge_sessions.entrypoints.terminal import drafts_directory
from agentforge_sessions.entrypoints.terminal.drafts.draft_store import DraftStore
from agentforge_sessions.questions import QuestionSessions, SessionStatus, UserAnswer
from tests.e2e.terminal.conftest import LATE, Tmux, until
from tests.support.question_queue import CHECKS, STORAGE

pytestmark = pytest.mark.skipif(
    shutil.which("tmux") is None, reason="tmux is not installed, and it is the terminal here"
)


def only(sessions: QuestionSessions) -> str:
    (one,) = sessions.list_sessions()
    return one.session_id


def test_a_person_answers_at_a_keyboard_and_the_terminal_is_as_before(
    tmux: Tmux, questions: QuestionSessions
) -> None:
    which = only(questions)
    tmux.start()
    tmux.waits_for(f"▸ {which[:8]}")
    # all in one go, as over a slow line
    tmux.types("Enter", "3", "Enter", "3", "o", "f", "i", "x", "e", "d", "Escape", "v")
    tmux.waits_for("Review of 2 answers", "→ Redis", "→ Other: fixed")
    tmux.picture("terminal-review.svg")
    tmux.types("s")
    tmux.waits_for("0 waiting")
    assert questions.wait_for_answers(which, timeout_s=0).answers == (
        UserAnswer(question_index=0, selected_option="Redis"),
        UserAnswer(
            question_index=1, selected_options=("Types (recommended)",), custom_text="fixed"
        ),
    )
    tmux.types("q")
    seen = tmux.waits_for("ended with 0")
    assert "waiting" not in seen, "the screen is the shell's again"
    assert tmux("display-message", "-p", "#{alternate_on} #{mouse_any_flag}").split() == ["0", "0"]


def test_questions_of_others_come_and_go_while_one_watches(
    tmux: Tmux, questions: QuestionSessions
) -> None:
    # A message would lie over the picture for seconds, had this one come while one watches.
    late = questions.create_session([CHECKS], session_id=LATE)
    tmux.start()
    tmux.waits_for("2 waiting", late[:8])
    tmux.picture("terminal-queue.svg")
    tmux.types("Enter")
    tmux.waits_for("(•) 2 SQLite  ★ recommended", "1 more waiting")
    tmux.types("1")
    tmux.waits_for("(•) 1 PostgreSQL")
    tmux.picture("terminal-question.svg")
    tmux.types("Escape")
    tmux.waits_for("2 waiting")
    questions.reject_session(late, "changed my mind")
    tmux.waits_for("1 waiting")
    later = questions.create_session([CHECKS])
    tmux.waits_for("2 waiting", later[:8])


def test_escape_and_the_key_after_it_are_two_keys(tmux: Tmux, questions: QuestionSessions) -> None:
    """In one write, as tmux sends them; together they would be Alt with the key, or Enter alone."""
    which = only(questions)
    tmux.start()
    tmux.waits_for(f"▸ {which[:8]}")
    tmux.types("Enter", "x", "n", "o", "Escape", "Enter", "3", "Escape", "q")
    tmux.waits_for("ended with 0")
    assert questions.get(which).status is SessionStatus.PENDING, "the rejection was called off"
    draft = DraftStore(drafts_directory(questions.base_dir)).load(which)
    assert draft is not None
    assert [one.picked for one in draft.replies] == [(1,), (0,)], "Enter and 3, on the questions"


def test_a_session_that_another_answers_meanwhile_says_so_and_keeps_what_was_typed(
    tmux: Tmux, questions: QuestionSessions
) -> None:
    which = only(questions)
    tmux.start(which[:8])
    tmux.waits_for("Question 1 of 2")
    tmux.types("o", "h", "a", "l", "f")
    tmux.waits_for("half")
    questions.save_session_answers(which, [UserAnswer(question_index=0, selected_option="Redis")])
    tmux.waits_for("was answered elsewhere", "→ Other: half")
    kept = DraftStore(drafts_directory(questions.base_dir)).unsent_path_of(which)
    assert "half" in kept.read_text(encoding="utf-8")


def test_what_was_typed_survives(tmux: Tmux, questions: QuestionSessions) -> None:
    which = only(questions)
    drafts = DraftStore(drafts_directory(questions.base_dir))
    tmux.start()
    tmux.waits_for("1 waiting")
    tmux.types("Enter", "o", "h", "a", "l", "f")
    tmux.waits_for("half")
    tmux("kill-session")  # every process of it gets SIGHUP, as when SSH goes away
    until(lambda: drafts.load(which) is not None, lambda: "the draft never came to the disk")
    tmux.start(which[:6])
    tmux.waits_for("Question 1 of 2", "half")
    tmux.types("o", "-", "w", "a", "y", "C-q")
    seen = " ".join(tmux.waits_for("ended with 0").split())
    assert "What you typed for 1 session is kept in" in seen
    draft = drafts.load(which)
    assert draft is not None
    assert draft.replies[0].text == "half-way"
    assert questions.get(which).status is SessionStatus.PENDING


def test_hostile_questions_do_nothing_to_a_real_terminal(
    tmux: Tmux, questions: QuestionSessions
) -> None:
    from attrs import evolve

    questions.reject_session(only(questions))
    hostile = "\x1b]0;pwned\x07\x1b[?1049l\x1b[2J&#27;]0;pwned&#7; \x9b31m harmless"
    questions.create_session([evolve(STORAGE, title=hostile, prompt=hostile)])
    tmux.start()
    tmux.waits_for("1 waiting")
    tmux.types("Enter")
    tmux.waits_for("PostgreSQL", "harmless")
    assert tmux("display-message", "-p", "#{alternate_on}").strip() == "1"
    assert "pwned" not in tmux("display-message", "-p", "#{pane_title}")
