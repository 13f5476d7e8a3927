"""What is searched for in sessions: one suite for every implementation of `SessionRepository`."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agentforge_sessions.base.search_words import InvalidSearch, SearchWords, TextSource
from agentforge_sessions.harness import (
    InvalidSession,
    SessionContext,
    SessionFilter,
    SessionManager,
    SessionState,
    UnreadableSession,
)
from agentforge_sessions.harness.views.session_search import SessionMatches
from tests.contract.harness.test_session_repository_contract import Kept, kept
from tests.support.clock import START, FakeClock
from tests.support.sessions import session_id as an_id

__all__ = ["kept"]

S, OTHER, THIRD = an_id(1), an_id(2), an_id(3)


def begin(kept: Kept, session_id: str = S, goal: str | None = None, **more: object) -> FakeClock:
    """Keep a session that was created a second after those before it; return its time."""
    clock = FakeClock()
    clock.advance(int(session_id[-6:]))
    session = SessionContext.create("tdflow", "red", session_id=session_id, goal=goal, now=clock())
    for action, details in more.items():
        session.add_history(action, details=str(details), now=clock())
    kept.sessions.save(session)
    return clock


def search(kept: Kept, words: str, **more: object) -> SessionMatches:
    manager = SessionManager(kept.again(), clock=FakeClock())
    return manager.search(words, **more)  # type: ignore[arg-type]


def ids(kept: Kept, words: str, **more: object) -> list[str]:
    return [one.session_id for one in search(kept, words, **more).found]


def test_a_session_is_found_by_words_of_its_goal_its_history_and_its_artifacts(kept: Kept) -> None:
    clock = begin(kept, S, "Make the scheduler fair", noted="the lock is taken too late")
    begin(kept, OTHER, "Make the parser fast", noted="the lock is fine")
    session = kept.get(S)
    session.add_artifact("src/queue_order.py", "created", now=clock())
    kept.sessions.save(session)
    assert ids(kept, "scheduler") == [S]
    assert ids(kept, "LOCK") == [OTHER, S]
    assert ids(kept, "queue_order") == [S]
    assert ids(kept, "scheduler lock queue") == [S]
    assert ids(kept, "scheduler fine") == []
    assert ids(kept, '"is taken"') == [S]
    assert ids(kept, '"taken is"') == []
    (found,) = search(kept, "fair late queue_order").found
    assert [one.place for one in found.passages] == [
        TextSource.GOAL,
        TextSource.HISTORY,
        TextSource.ARTIFACT,
    ]
    assert found.goal == "Make the scheduler fair"
    at = found.passages[1]
    assert [at.text[a:b] for a, b in at.marks] == ["late"]
    assert at.number == 1
    assert found.summary == next(one for one in kept.sessions.summaries() if one[0][0] == S)


def test_a_title_is_searched_first_of_all(kept: Kept) -> None:
    session = SessionContext.create(
        "tdflow", "red", session_id=S, goal="the needle", title="Needles of Straße", now=START
    )
    kept.sessions.save(session)
    for words in ("needle", "STRASSE", "needles straße"):
        (found,) = search(kept, words).found
        assert [one.place for one in found.passages] == [TextSource.TITLE], words
    assert ids(kept, "needle", tags="x") == []


def test_texts_of_the_data_and_the_names_of_notes_are_searched(kept: Kept) -> None:
    clock = begin(kept, S)
    manager = SessionManager(kept.sessions, clock=clock)
    manager.open(S)
    manager.add_history("retrospective")
    manager.pause(reason="the Übersicht is missing")
    assert ids(kept, "retrospective") == [S]
    assert ids(kept, "übersicht") == [S]
    assert ids(kept, "phase_advanced") == []


@pytest.mark.parametrize(
    "words",
    [
        *("timestamp", "details:", "history", "session_id", "null", "revision", "schema_version"),
        *("session_created", "phase:", "completed_at", "docs/session-format.md", "000001"),
    ],
)
def test_nothing_is_found_by_how_a_session_is_kept(kept: Kept, words: str) -> None:
    begin(kept, S, "a goal", noted="an entry\nof two lines")
    assert ids(kept, words) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("one\ntwo  \t three", '"one two three"'),
        ('says "quoted" and \\back', '"quoted'),
        ('says "quoted" and \\back', "\\back"),
        ("STRASSE", "straße"),
        ("Die Straße", "STRASSE"),
        ("K\u212aelvin and \ufb01ne \u017fun", "kkelvin fine sun"),
        ("\u0130stanbul", "i\u0307stanbul"),
        ("Ångström", "ångSTRÖM"),
        ("日本語の説明", "本語"),
        ("Ω and ὈΔΥΣΣΕΎΣ", "ὀδυσσεύσ ω"),
        ("a\u2028b\x1b[31m \x7f", "[31m"),
        ("100% of a_b\\c", "0% a_b"),
        ("it's", "it's"),
        ("\U0001f600 done", "\U0001f600"),
    ],
)
def test_words_are_found_in_whatever_way_they_are_written_down(
    kept: Kept, text: str, words: str
) -> None:
    begin(kept, S, text)
    begin(kept, OTHER, noted=text)
    begin(kept, THIRD, "something else", noted="a_c b% of it")
    assert ids(kept, words) == [OTHER, S]


def test_candidates_hold_all_that_do_and_the_last_changed_comes_first(kept: Kept) -> None:
    for number in range(1, 8):
        begin(kept, an_id(number), "find the needle" if number % 3 else "find the thread")
    words = SearchWords.parse("needle")
    found = [
        one.session_id
        for one in kept.again().candidates(words)
        if not isinstance(one, UnreadableSession)
    ]
    assert [one for one in found if one not in {an_id(3), an_id(6)}] == [
        an_id(7),
        an_id(5),
        an_id(4),
        an_id(2),
        an_id(1),
    ]
    assert found == sorted(found, reverse=True)


def test_a_search_is_narrowed_as_a_listing_is(kept: Kept) -> None:
    for number in (1, 2, 3):
        clock = begin(kept, an_id(number), f"the needle of number {number}")
        manager = SessionManager(kept.sessions, clock=clock)
        manager.open(an_id(number))
        if number == 2:
            manager.pause()
    assert ids(kept, "needle", state="paused") == [OTHER]
    assert ids(kept, "needle", state=["active", "paused"]) == [THIRD, OTHER, S]
    assert ids(kept, "needle", goal="number 3") == [THIRD]
    assert ids(kept, "needle", workflow_type="spec") == []
    assert ids(kept, "needle", older_than=timedelta(days=1)) == []
    wanted = SessionFilter(state=SessionState.PAUSED)
    found = list(kept.sessions.candidates(SearchWords.parse("needle"), wanted))
    assert [one.session_id for one in found] == [OTHER]


def test_a_limit_says_whether_there_are_more(kept: Kept) -> None:
    for number in (1, 2, 3):
        begin(kept, an_id(number), "the needle")
    first = search(kept, "needle", limit=2)
    assert [one.session_id for one in first.found] == [THIRD, OTHER]
    assert first.more
    assert not search(kept, "needle", limit=3).more
    with pytest.raises(InvalidSession, match="limit"):
        search(kept, "needle", limit=0)


@pytest.mark.parametrize("words", ["", "  ", '""', '" "', "a " * 9 + "x" * 1_000])
def test_words_that_are_none_or_too_many_are_refused(kept: Kept, words: str) -> None:
    with pytest.raises(InvalidSearch):
        search(kept, words)


def test_a_session_that_cannot_be_read_is_named_and_hides_no_other(kept: Kept) -> None:
    begin(kept, S, "the needle")
    begin(kept, OTHER, "the needle")
    kept.spoil(S)
    matches = search(kept, "needle")
    assert [one.session_id for one in matches.found] == [OTHER]
    assert [one.session_id for one in matches.unreadable] == [S]


def test_a_session_that_is_deleted_meanwhile_is_left_out(kept: Kept) -> None:
    begin(kept, S, "the needle")
    begin(kept, OTHER, "the needle")
    candidates = kept.sessions.candidates(SearchWords.parse("needle"))
    first = next(candidates)
    kept.again().delete(S)
    assert first.session_id == OTHER
    assert ids(kept, "needle") == [OTHER]
