"""ask, answer, reject, history: what they do, say and end with."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.entrypoints.cli.asking import parse_line
from agentforge_sessions.entrypoints.cli.main import run
from agentforge_sessions.questions import QuestionSessions, SessionStatus, UserAnswer
from agentforge_sessions.questions.files.wire import question_document
from tests.support.questions import ANSWERS, DATABASE, QUESTIONS
from tests.support.trusting import trusted
from tests.unit.cli.conftest import Terminal

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> QuestionSessions:
    monkeypatch.chdir(tmp_path)
    return QuestionSessions()


@pytest.fixture
def cli(
    sessions: QuestionSessions, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Run:
    def go(*arguments: str, stdin: str | None = None) -> tuple[int, str, str]:
        if stdin is not None:
            monkeypatch.setattr(
                sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
            )
        capsys.readouterr()  # what the test itself has logged
        code = run(list(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return go


def only(sessions: QuestionSessions) -> Any:
    (found,) = sessions.list_sessions()
    return found


# ---------------------------------------------------------------------------------------- ask


def test_ask_without_waiting_tells_the_id(cli: Run, sessions: QuestionSessions) -> None:
    code, out, _ = cli(
        "questions", "ask", "Which  database shall it be, then?", "-o", "PostgreSQL=a server",
        "-o", "SQLite", "--no-wait", "--call-id", "c",
    )  # fmt: skip
    found = only(sessions)
    assert (code, out) == (0, f"{found.session_id}\n")
    assert found.call_id == "c"
    (question,) = found.questions
    assert question.prompt == "Which  database shall it be, then?"
    assert question.title == "Which database shall it…"
    assert [(one.label, one.description) for one in question.options] == [
        ("PostgreSQL", "a server"),
        ("SQLite", None),
    ]


def in_a_moment(sessions: QuestionSessions, act: Callable[[str], object]) -> threading.Thread:
    def work() -> None:
        for changed in sessions.changes():
            if changed and sessions.pending():
                act(sessions.pending()[0].session_id)
                return

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_ask_waits_and_tells_the_answer(cli: Run, sessions: QuestionSessions) -> None:
    answer = [UserAnswer(question_index=0, selected_option="b")]
    person = in_a_moment(sessions, lambda one: sessions.save_session_answers(one, answer))
    code, out, err = cli("questions", "ask", "Which?", "-o", "a", "-o", "b")
    person.join()
    assert (code, out) == (0, "Here are the user's answers:\n\n1. Which?\n→ b\n")
    assert only(sessions).session_id in err


def test_ask_in_json_tells_it_whole(cli: Run, sessions: QuestionSessions) -> None:
    person = in_a_moment(sessions, lambda one: sessions.save_session_answers(one, ANSWERS))
    document = json.dumps({"questions": [question_document(one) for one in QUESTIONS]})
    code, out, err = cli("questions", "ask", "--json", stdin=document)
    person.join()
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert found["status"] == "completed"
    assert found["text"].startswith("Here are the user's answers:")
    assert found["answers"][1]["selectedOptions"] == ["Search", "Auth"]


def test_ask_ends_with_1_when_it_is_rejected(cli: Run, sessions: QuestionSessions) -> None:
    person = in_a_moment(sessions, lambda one: sessions.reject_session(one, "no"))
    code, out, _ = cli("questions", "ask", "Which?", "-o", "a", "-o", "b", "--json")
    person.join()
    assert code == 1
    assert json.loads(out)["error"]["reason"] == "no"


@pytest.mark.parametrize(
    ("reason", "line"),
    [('only "big" ones', 'Rejection reason: "only "big" ones"'), (None, "No reason provided.")],
)
def test_the_reason_of_a_rejection_reaches_the_one_who_asked(
    cli: Run, sessions: QuestionSessions, reason: str | None, line: str
) -> None:
    person = in_a_moment(sessions, lambda one: sessions.reject_session(one, reason))
    code, out, _ = cli("questions", "ask", "Which?", "-o", "a", "-o", "b")
    person.join()
    assert (code, out) == (1, f"User rejected this question set.\n\n{line}\n")


def test_ask_says_who_waits_and_where_and_not_if_the_question_is_kept(
    cli: Run, sessions: QuestionSessions, tmp_path: Path
) -> None:
    person = in_a_moment(sessions, sessions.reject_session)
    cli("questions", "ask", "Which?", "-o", "a", "-o", "b")
    person.join()
    found = only(sessions)
    assert found.working_directory == str(tmp_path)
    assert found.asker.process.pid == os.getpid()
    for more in (["--no-wait"], ["--keep", "--timeout", "0.1s"]):
        cli("questions", "ask", "Which?", "-o", "a", "-o", "b", *more)
        assert sessions.pending()[-1].asker is None


def test_one_queue_is_shared_when_it_is_asked_for(
    cli: Run, sessions: QuestionSessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUQ_SESSION_DIR", str(tmp_path / "all"))
    _, session_id, _ = cli(
        "questions", "ask", "Which?", "-o", "a", "-o", "b", "--no-wait", "--shared"
    )
    assert sessions.list_sessions() == []
    (found,) = QuestionSessions(tmp_path / "all").list_sessions()
    assert session_id == f"{found.session_id}\n"
    assert session_id[:8] in cli("questions", "history", "--shared")[1]
    assert cli("answer", session_id[:8], "--shared", "-s", "a")[0] == 0
    assert cli("questions", "ask", "--wait-for", session_id[:8], "--shared")[0] == 0
    (found,) = QuestionSessions(tmp_path / "all").list_sessions()
    assert found.answers is not None
    assert found.answers.last_read_at is not None
    code, _, err = cli("questions", "history", "--shared", "--questions", "x")
    assert code == 2
    assert "--questions names another place" in err


@pytest.mark.parametrize(
    ("keep", "status"), [([], SessionStatus.TIMED_OUT), (["--keep"], SessionStatus.PENDING)]
)
def test_ask_ends_with_124_when_nobody_answers(
    cli: Run, sessions: QuestionSessions, keep: list[str], status: SessionStatus
) -> None:
    code, out, err = cli(
        "questions", "ask", "Which?", "-o", "a", "-o", "b", "--timeout", "0.1s", *keep
    )
    assert (code, out) == (124, "")
    assert re.search(r" within \d+\.\d s; ", err), "to the tenth of a second"
    assert only(sessions).status is status


def test_ask_that_is_interrupted_withdraws_the_question(
    cli: Run, sessions: QuestionSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(QuestionSessions, "wait_for_answers", interrupt)
    assert cli("questions", "ask", "Which?", "-o", "a", "-o", "b")[0] == 130
    assert only(sessions).status is SessionStatus.ABANDONED
    code, _, _ = cli("questions", "ask", "Which?", "-o", "a", "-o", "b", "--keep")
    assert code == 130
    assert len(sessions.pending()) == 1


def test_ask_can_wait_for_what_was_asked_before(cli: Run, sessions: QuestionSessions) -> None:
    session_id = sessions.create_session([DATABASE])
    assert cli("questions", "ask", "--wait-for", session_id[:6], "--timeout", "0.1s")[0] == 124
    sessions.save_session_answers(session_id, ANSWERS[:1])
    code, out, _ = cli("questions", "ask", "--wait-for", session_id[:6])
    assert code == 0
    assert "→ PostgreSQL" in out


@pytest.mark.parametrize("more", [["--title", "t"], ["--multi"], ["--call-id", "c"], ["--no-wait"]])
def test_waiting_for_what_was_asked_takes_nothing_that_it_would_ignore(
    cli: Run, sessions: QuestionSessions, more: list[str]
) -> None:
    session_id = sessions.create_session(QUESTIONS)
    sessions.save_session_answers(session_id, ANSWERS)
    assert cli("questions", "ask", "--wait-for", session_id)[0] == 0
    code, out, err = cli("questions", "ask", "--wait-for", session_id, *more)
    assert (code, out) == (2, "")
    assert "--wait-for" in err


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        (["questions", "ask", "--no-wait"], "{"),
        (["questions", "ask", "--no-wait"], "[]"),
        (["questions", "ask", "--no-wait"], "7"),
        (["questions", "ask", "--no-wait"], '[{"prompt": 1}]'),
        (["questions", "ask", "--no-wait"], "[" * 100_000),
        (["questions", "ask", "--no-wait", "-f", "missing.json"], None),
        (["questions", "ask", "p", "-f", "x.json"], None),
        (["questions", "ask", "p", "-o", "only one"], None),
        (["questions", "ask", "-o", "a"], None),
        (["questions", "ask", "p", "--wait-for", "x"], None),
        (["questions", "ask", "p", "-o", "a", "-o", "b", "--no-wait", "--timeout", "1m"], None),
        (["questions", "ask", "p", "-o", "a", "-o", "b", "--questions", ""], None),
        (["answer", "!"], None),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_nothing_is_there(
    cli: Run, sessions: QuestionSessions, arguments: list[str], stdin: str | None
) -> None:
    code, out, err = cli(*arguments, stdin=stdin)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert sessions.list_sessions() == []


def test_every_command_takes_the_directory(cli: Run, tmp_path: Path) -> None:
    option = "--questions"
    there = str(tmp_path / "elsewhere")
    elsewhere = QuestionSessions(there)
    asked = []
    for given in ([option, there], [f"{option}={there}"]):
        code, out, _ = cli("questions", "ask", "Which?", "-o", "a", "-o", "b", "--no-wait", *given)
        assert code == 0
        asked.append(out.strip())
    assert cli("answer", asked[0], "-s", "a", option, there)[0] == 0
    assert cli("questions", "reject", asked[1], option, there)[0] == 0
    assert asked[0][:8] in cli("questions", "history", option, there)[1]
    assert sorted(one.session_id for one in elsewhere.list_sessions()) == sorted(asked)
    assert cli("questions", "abcd", option, there)[0] == 3
    assert cli("questions", "history", option)[0] == 2


@pytest.mark.parametrize("command", [["questions", "history"], ["questions"], ["mcp", "--all"]])
def test_empty_directory_is_refused(cli: Run, tmp_path: Path, command: list[str]) -> None:
    code, _, err = cli(*command, "--questions", "")
    assert (code, "--questions" in err, "the path is empty" in err) == (2, True, True)


def test_label_that_looks_like_an_option_is_a_label(cli: Run, sessions: QuestionSessions) -> None:
    assert (
        cli(
            "questions", "ask", "Which?", "--option=--dir", "-o", "b", "--no-wait", "--title=--dir"
        )[0]
        == 0
    )
    assert only(sessions).questions[0].labels == ("--dir", "b")
    assert cli("answer", only(sessions).session_id, "--select", "--dir")[0] == 0


def test_a_wrong_configuration_ends_with_7(cli: Run, tmp_path: Path) -> None:
    (tmp_path / ".agentforge").mkdir()
    trusted(tmp_path, "[questions]\nmax_session = 3\n")
    code, _, err = cli("questions", "ask", "p", "-o", "a", "-o", "b")
    assert code == 7
    assert "did you mean 'max_sessions'?" in err


# ------------------------------------------------------------------------------------- answer


@pytest.mark.parametrize(
    ("arguments", "answers"),
    [
        (["-s", "1:PostgreSQL", "-s", "2:Search", "-s", "2:Auth", "-t", "2:it's late"], ANSWERS),
        (["-s", "1:postgresql"], ANSWERS[:1]),
        (["-t", "1:own: words"], (UserAnswer(question_index=0, custom_text="own: words"),)),
        (["--none", "2"], (UserAnswer(question_index=1, selected_options=()),)),
    ],
)
def test_answer_by_options(
    cli: Run, sessions: QuestionSessions, arguments: list[str], answers: tuple[UserAnswer, ...]
) -> None:
    session_id = sessions.create_session(QUESTIONS)
    code, out, err = cli("answer", session_id[:5], *arguments)
    assert (code, err) == (0, "")
    assert out.startswith(f"Question session {session_id} was answered.\nHere are the user's")
    assert only(sessions).answers.answers == answers


def test_answer_of_one_question_needs_no_number(cli: Run, sessions: QuestionSessions) -> None:
    session_id = sessions.create_session([DATABASE])
    assert cli("answer", session_id, "-s", "SQLite", "-t", "9: no question 9")[0] == 0
    assert only(sessions).answers.answers == (
        UserAnswer(question_index=0, selected_option="SQLite", custom_text="9: no question 9"),
    )


def test_answer_by_file(cli: Run, sessions: QuestionSessions) -> None:
    session_id = sessions.create_session([DATABASE])
    document = '{"answers": [{"questionIndex": 0, "customText": "x"}]}'
    code, out, _ = cli("answer", session_id, "-f", "-", "--json", stdin=document)
    assert code == 0
    (given,) = json.loads(out)["answers"]
    assert given.pop("timestamp").endswith("Z")
    assert given == {"questionIndex": 0, "customText": "x"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-s", "1:PostgreSQI"], "did you mean 'PostgreSQL'"),
        (["-s", "1:Oracle"], "there are PostgreSQL, SQLite"),
        (["-s", "PostgreSQL"], "write the number of one before it, as in 1:PostgreSQL"),
        (["-s", "3:PostgreSQL"], "there is no question 3, but 1 to 2"),
        (["-s", "1:PostgreSQL", "-s", "1:SQLite"], "Question 0 takes one option"),
        (["--none", "1"], "takes exactly one option"),
        (["--none", "5"], "there is no question 5"),
        (["-t", "1:a", "-t", "1:b"], "has a text"),
        (["-f", "x", "-s", "1:a"], "the file says it all"),
        ([], "there is no terminal to ask at"),
    ],
)
def test_labels_are_checked_before_anything_is_written(
    cli: Run, sessions: QuestionSessions, arguments: list[str], said: str
) -> None:
    session_id = sessions.create_session(QUESTIONS)
    code, out, err = cli("answer", session_id, *arguments, stdin="")
    assert (code, out) == (2, "")
    assert said in err
    assert only(sessions).status is SessionStatus.PENDING


def test_answer_asks_a_person_at_the_terminal(
    cli: Run, sessions: QuestionSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = sessions.create_session(QUESTIONS)

    monkeypatch.setattr(sys, "stdin", Terminal("7\n\n1\n2,1\n"))
    code, out, err = cli("answer", session_id)
    assert code == 0
    assert "   1) PostgreSQL — relational, a server" in out
    assert err.count("That is none of them.") == 2
    assert only(sessions).answers.answers == (
        UserAnswer(question_index=0, selected_option="PostgreSQL"),
        UserAnswer(question_index=1, selected_options=("Search", "Auth")),
    )


def test_a_person_who_goes_away_leaves_the_question(
    cli: Run, sessions: QuestionSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = sessions.create_session(QUESTIONS)

    monkeypatch.setattr(sys, "stdin", Terminal("1\n"))
    assert cli("answer", session_id)[0] == 130
    assert only(sessions).status is SessionStatus.PENDING


def test_what_a_person_types_is_numbers_or_words() -> None:
    single, multi = QUESTIONS
    assert parse_line("2\n", 0, single) == UserAnswer(question_index=0, selected_option="SQLite")
    assert parse_line("1, 2", 0, single) is None
    assert parse_line("0", 0, single) is None
    assert parse_line("3,3,1", 1, multi) == UserAnswer(
        question_index=1, selected_options=("Export", "Auth")
    )
    assert parse_line("1,x", 1, multi) == UserAnswer(question_index=1, custom_text="1,x")
    assert parse_line("²", 0, single) == UserAnswer(question_index=0, custom_text="²")
    assert parse_line("  ", 0, single) is None


# ---------------------------------------------------------------------------- reject, history


def test_reject(cli: Run, sessions: QuestionSessions) -> None:
    session_id = sessions.create_session(QUESTIONS)
    code, out, _ = cli("questions", "reject", session_id[:4], "-r", "not now")
    assert (code, out) == (0, f"Question session {session_id} was rejected.\n")
    assert only(sessions).rejection_reason == "not now"
    for command in (["questions", "reject", session_id], ["answer", session_id, "-s", "1:SQLite"]):
        code, _, err = cli(*command)
        assert code == 6
        assert "it was rejected" in err


def test_history_lists_the_last_asked_first(cli: Run, sessions: QuestionSessions) -> None:
    assert (
        cli("questions", "history")[1] == "No question session is there in .agentforge/questions.\n"
    )
    first = sessions.create_session([DATABASE])
    second = sessions.create_session(QUESTIONS)
    sessions.reject_session(first)
    (sessions.base_dir / "00000000-0000-4000-8000-000000000000").mkdir()
    code, out, err = cli("questions", "history")
    lines = out.splitlines()
    assert code == 0
    assert len(lines) == 2
    assert {line[:8] for line in lines} == {first[:8], second[:8]}
    assert "00000000-0000-4000-8000-000000000000 can't be read" in err
    assert "Database, Features" in out
    code, out, _ = cli("questions", "history", "--status", "rejected", "--json")
    document = json.loads(out)
    assert [one["session_id"] for one in document["sessions"]] == [first]
    assert len(document["unreadable"]) == 1
    assert len(cli("questions", "history", "--limit", "1")[1].splitlines()) == 1


STATES = [
    ("waiting", "pending", "is waiting for an answer"),
    ("answered", "completed", "was answered"),
    ("rejected", "rejected", "was rejected"),
    ("timed out", "timed_out", "has timed out: nobody answered in time"),
    ("abandoned", "abandoned", "was abandoned: nobody waits for the answer any more"),
]


@pytest.mark.parametrize(("word", "name", "told"), STATES)
def test_history_tells_each_state_by_its_word_and_finds_it_by_word_and_name(
    cli: Run, sessions: QuestionSessions, word: str, name: str, told: str
) -> None:
    ids = [sessions.create_session([DATABASE]) for _ in STATES]
    sessions.save_session_answers(ids[1], ANSWERS[:1])
    sessions.reject_session(ids[2])
    sessions.time_out_session(ids[3])
    sessions.abandon_session(ids[4])
    session_id = ids[[one[0] for one in STATES].index(word)]
    for given in (word, name, word.replace(" ", "-")):
        (line,) = cli("questions", "history", "--status", given)[1].splitlines()
        assert line.startswith(f"{session_id[:8]}  {word} ")
    assert cli("questions", "history", session_id)[1].startswith(
        f"Question session {session_id} {told}.\n"
    )
    assert json.loads(cli("questions", "history", session_id, "--json")[1])["status"] == name
    if name != "pending":
        for command in (
            ["answer", session_id, "-s", "SQLite"],
            ["questions", "reject", session_id],
        ):
            code, _, err = cli(*command)
            assert (code, f": it {told}. Nothing was changed" in err) == (6, True)


def test_status_that_does_not_exist_is_told_with_those_that_do(cli: Run) -> None:
    code, _, err = cli("questions", "history", "--status", "done")
    assert code == 2
    assert "waiting, answered, rejected, timed_out, abandoned" in err


def test_session_whose_time_is_over_has_timed_out_before_anybody_writes_it(
    cli: Run, sessions: QuestionSessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[questions]\nsession_timeout_s = 0.001\n")
    monkeypatch.setenv("AGENTFORGE_CONFIG", str(config))
    session_id = sessions.create_session([DATABASE])
    assert "timed out" in cli("questions", "history")[1]
    assert session_id[:8] in cli("questions", "history", "--status", "timed-out")[1]
    assert "No question session is waiting" in cli("questions", "history", "--status", "waiting")[1]
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    code, out, err = cli("answer", session_id)  # and nobody is asked in vain
    assert (code, out, "has timed out" in err) == (6, "", True)
    assert only(sessions).status is SessionStatus.PENDING


def test_history_shows_one_whole(cli: Run, sessions: QuestionSessions) -> None:
    session_id = sessions.create_session(QUESTIONS)
    _, out, _ = cli("questions", "history", session_id[:6])
    assert "   - PostgreSQL — relational, a server" in out
    assert re.search(r"^Asked \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ$", out, re.MULTILINE)
    sessions.save_session_answers(session_id, ANSWERS)
    assert "→ Search" in cli("questions", "history", session_id)[1]
    assert json.loads(cli("questions", "history", session_id, "--json")[1])["status"] == "completed"


def test_ids_that_are_unknown_or_mean_several(cli: Run, sessions: QuestionSessions) -> None:
    for one in ("abcdef01-0000-4000-8000-000000000000", "abcdef01-0000-4000-8000-00000000000f"):
        sessions.create_session(QUESTIONS, session_id=one)
    assert cli("questions", "reject", "fff")[0] == 3
    code, _, err = cli("questions", "reject", "abc")
    assert code == 4
    assert "abcdef01-0000-4000-8000-00000000000f" in err


def test_hostile_text_reaches_no_terminal(cli: Run, sessions: QuestionSessions) -> None:
    from attrs import evolve

    hostile = evolve(DATABASE, prompt="a\x1b[2Jb", title="\x1b]0;x\x07")
    session_id = sessions.create_session([hostile])
    for command in (
        ["questions", "history"],
        ["questions", "history", session_id],
        ["answer", session_id, "-t", "\x1bx"],
    ):
        _, out, err = cli(*command)
        assert "\x1b" not in out + err
