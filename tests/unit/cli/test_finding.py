"""search, and what list is narrowed by besides states and ages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.harness import SessionContext
from agentforge_sessions.questions import Asker, Question, QuestionSessions, UserAnswer
from tests.support.ids import sid
from tests.unit.cli.conftest import CommandLine, Ended

Search = Callable[..., Ended]


@pytest.fixture
def questions(tmp_path: Path, agentforge: CommandLine) -> QuestionSessions:
    return QuestionSessions(tmp_path / "questions", clock=lambda: agentforge.now)


@pytest.fixture
def search(agentforge: CommandLine, tmp_path: Path) -> Search:
    def go(*arguments: object) -> Ended:
        return agentforge("search", *arguments, "--questions", tmp_path / "questions")

    return go


def begin(agentforge: CommandLine, name: str, **fields: Any) -> str:
    """Begin a session of this name, which carries what its user gives it."""
    session = SessionContext.create(
        "spec", "red", session_id=sid(name), now=agentforge.now, **fields
    )
    agentforge.store.save(session)
    return session.session_id


def ask(questions: QuestionSessions, prompt: str, *, session: Path | None = None) -> str:
    question = Question(title="Storage", prompt=prompt, options=["Redis", "SQLite"])
    return questions.create_session([question], asker=Asker.current(session=session))


def found(ended: Ended) -> list[str]:
    assert ended.code == 0, ended.err
    return [one["session_id"] for one in ended.document["matches"]]


def test_search_shows_where_the_words_are(agentforge: CommandLine, search: Search) -> None:
    session_id = begin(agentforge, "a", goal="Make it fast", title="Parser", tags=["speed"])
    agentforge.manager(session_id).add_history("noted", "the lock is\ttaken \x1b[31mtoo late")
    agentforge.later(minutes=5)
    ended = search("LOCK", "parser")
    lines = ended.out.splitlines()
    assert lines[0].split() == [session_id, *["active", "spec", "red", "speed", "5", "min", "ago"]]
    assert lines[1].split(None, 1) == ["title", "Parser"]
    assert lines[2].split(None, 2) == ["history", "2", "the lock is taken \\x1b[31mtoo late"]
    assert (ended.code, ended.err, len(lines)) == (0, "", 3)
    assert search("lock").out.splitlines()[1].split() == ["Parser"]


def test_search_marks_the_words_in_a_terminal(
    agentforge: CommandLine, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(agentforge, "a", goal="find the needle here")
    assert "\x1b" not in search("needle").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "mneedle\x1b[0m" in search("needle").out


def test_search_finds_questions_among_the_sessions_the_last_changed_first(
    agentforge: CommandLine, search: Search, questions: QuestionSessions
) -> None:
    first = begin(agentforge, "a", goal="Move the queue to Redis")
    agentforge.later(minutes=1)
    answered = ask(questions, "Where is the queue kept?")
    answer = UserAnswer(question_index=0, custom_text="in etcd, of course")
    agentforge.later(minutes=1)
    questions.save_session_answers(answered, [answer])
    agentforge.later(minutes=1)
    last = begin(agentforge, "b", goal="Drain the queue")
    assert found(search("queue", "--json")) == [last, answered, first]
    assert found(search("queue", "redis", "--json")) == [answered, first]
    ended = search("etcd", "course", "--json")
    (match,) = ended.document["matches"]
    assert (match["kind"], match["status"], match["agent_session"]) == (
        "question",
        "completed",
        None,
    )
    (passage,) = match["passages"]
    assert passage["place"] == "answer"
    marked = [passage["text"][begin:end] for begin, end in passage["marks"]]
    assert marked == ["etcd", "course"]
    lines = search("etcd").out.splitlines()
    assert lines[0].startswith(f"{answered}  question  ")
    assert lines[1].split(None, 2) == ["answer", "1", "in etcd, of course"]


def test_filters_leave_the_questions_of_the_sessions_that_fit(
    agentforge: CommandLine, search: Search, questions: QuestionSessions
) -> None:
    tagged = begin(agentforge, "a", goal="one", tags=["billing"])
    other = begin(agentforge, "b", goal="the needle", tags=["other"])
    of_tagged = ask(questions, "which needle?", session=agentforge.base / tagged)
    ask(questions, "which needle?", session=agentforge.base / other)
    ask(questions, "which needle?")
    assert len(found(search("needle", "--json"))) == 4
    assert found(search("needle", "--json", "--tag", "billing")) == [of_tagged]
    assert found(search("needle", "--json", "--tag", "none")) == []
    agentforge.later(days=2)
    assert found(search("needle", "--json", "--younger-than", "1d")) == []
    assert len(found(search("needle", "--json", "--older-than", "1d"))) == 4


def test_search_says_when_there_is_more_and_when_there_is_nothing(
    agentforge: CommandLine, search: Search, questions: QuestionSessions
) -> None:
    for name in "abc":
        begin(agentforge, name, goal="the needle")
    ask(questions, "which needle?")
    ended = search("needle", "--limit", 2)
    assert "more are found; --limit 4" in ended.err
    document = search("needle", "--limit", 3, "--json").document
    assert (document["more"], len(document["matches"])) == (True, 3)
    assert search("needle", "--limit", 4, "--json").document["more"] is False
    ended = search("no such", "hay")
    assert ended.code == 0
    assert ended.out.startswith('Nothing has "no such" hay in ')
    refused = search(" ")
    assert refused.code == 2
    assert "nothing to search for" in refused.err


def test_search_names_what_cannot_be_read(
    agentforge: CommandLine, search: Search, questions: QuestionSessions, tmp_path: Path
) -> None:
    good, bad = begin(agentforge, "a", goal="the needle"), begin(agentforge, "b")
    agentforge.corrupt(bad)
    torn = ask(questions, "which needle?")
    (tmp_path / "questions" / torn / "request.json").write_text("{")
    ended = search("needle", "--json")
    assert found(ended) == [good]
    assert [one["session_id"] for one in ended.document["unreadable"]] == [bad]
    assert [one["session_id"] for one in ended.document["unreadable_questions"]] == [torn]
    out = search("needle").out
    assert f"{bad}  unreadable  " in out
    assert f"{torn}  unreadable  " in out


def test_list_and_search_narrow_by_tags_and_parent(agentforge: CommandLine, search: Search) -> None:
    parent = begin(agentforge, "p", goal="the needle")
    both = begin(agentforge, "a", goal="the needle", tags=["x", "y"], parent_id=parent)
    one = begin(agentforge, "b", goal="the needle", tags=["x"], parent_id=parent)
    for options, expected in (
        (["--tag", "x"], {both, one}),
        (["--tag", "x", "--tag", "y"], {both}),
        (["--parent", parent], {both, one}),
        (["--parent", parent[10:]], {both, one}),
        (["--parent", parent, "--tag", "z"], set()),
    ):
        listed = agentforge("list", "--json", *options).document["sessions"]
        assert {one["session_id"] for one in listed} == expected, options
        assert set(found(search("needle", "--json", *options))) == expected, options
    agentforge.store.delete(parent)
    assert len(agentforge("list", "--json", "--parent", parent).document["sessions"]) == 2
    assert agentforge("list", "--parent", "nosuch").code == 3


def test_a_list_and_a_search_are_narrowed_by_a_part_of_the_title(
    agentforge: CommandLine, search: Search
) -> None:
    nightly = begin(agentforge, "a", title="Nightly import", goal="move rows")
    begin(agentforge, "b", title="Weekly report", goal="move rows")
    begin(agentforge, "c", goal="nightly rows")
    listed = agentforge("list", "--title", "NIGHT", "--json").document["sessions"]
    assert [one["session_id"] for one in listed] == [nightly]
    found = search("rows", "--title", "night", "--json").out
    assert found.count('"session_id"') == 1
    assert nightly in found
    refused = agentforge("list", "--title", "ab")
    assert refused.code != 0
    assert "too short to search for" in refused.err
