"""Telling the person: what is on, to whom, and nothing that fails the asking."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from structlog.testing import capture_logs

from agentforge_sessions.base.person_notification import plain, run_command
from agentforge_sessions.questions import Notifier, Option, Question, QuestionSession
from agentforge_sessions.questions.config import NotifyConfig
from tests.support.promptness import given_time
from tests.support.questions import DATABASE, build

HOSTILE = Question(
    prompt="Run $(touch /tmp/x)?\x1b]0;evil\x07\n`id` <b>&",
    title="a\x1b[2J\nb",
    options=(Option(label="yes"), Option(label="no")),
)


class Terminal(io.StringIO):
    def __init__(self, *, tty: bool = True) -> None:
        super().__init__()
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty


class Commands:
    """Runs nothing, and remembers."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.ran: list[tuple[list[str], bytes, dict[str, str]]] = []

    def __call__(self, command: Sequence[str], data: bytes, environment: Mapping[str, str]) -> int:
        self.ran.append((list(command), data, dict(environment)))
        return self.code


@pytest.fixture
def session(tmp_path: Path) -> QuestionSession:
    sessions = build(tmp_path / "q")
    return sessions.get(sessions.create_session([HOSTILE, DATABASE]))


def tell(session: QuestionSession, terminal: Terminal, **config: object) -> Commands:
    commands = Commands()
    notifier = Notifier(
        NotifyConfig(**config),  # type: ignore[arg-type]
        Path("q"),
        terminal=terminal,
        run=commands,
        which=lambda name: f"/bin/{name}",
        environment={"PATH": "/bin"},
    )
    notifier.notify(session)
    notifier.wait()
    return commands


def test_by_default_the_bell_rings_and_the_title_is_set(session: QuestionSession) -> None:
    terminal = Terminal()
    assert tell(session, terminal).ran == []
    assert terminal.getvalue() == "\x1b]2;Question: a [2J b\x1b\\\a"


@pytest.mark.parametrize(
    ("config", "written"),
    [
        ({"bell": False}, "\x1b]2;Question: a [2J b\x1b\\"),
        ({"title": False}, "\a"),
        ({"bell": False, "title": False}, ""),
    ],
)
def test_bell_and_title_are_switched_one_by_one(
    session: QuestionSession, config: dict[str, bool], written: str
) -> None:
    terminal = Terminal()
    tell(session, terminal, **config)
    assert terminal.getvalue() == written


def test_what_is_no_terminal_is_not_written_to(session: QuestionSession) -> None:
    terminal = Terminal(tty=False)
    tell(session, terminal)
    assert terminal.getvalue() == ""
    gone = Terminal()
    gone.close()
    with capture_logs() as logs:
        tell(session, gone)
    assert [one["event"] for one in logs] == ["question.not_told"]


def test_a_desktop_notification_escapes_what_it_shows(session: QuestionSession) -> None:
    commands = tell(session, Terminal(), desktop=True)
    assert [command for command, _, _ in commands.ran] == [
        [
            "/bin/notify-send",
            "--app-name=agentforge",
            "--",
            "a [2J b",
            "Run $(touch /tmp/x)? ]0;evil `id` &lt;b&gt;&amp;",
        ]
    ]


def test_a_missing_notify_send_is_told_in_the_log(session: QuestionSession) -> None:
    notifier = Notifier(NotifyConfig(desktop=True), Path("q"), which=lambda _: None)
    with capture_logs() as logs:
        notifier.notify(session)
    assert [one["error"] for one in logs] == ["notify-send is missing"]


def test_a_command_gets_the_question_as_data_and_never_as_words_of_its_line(
    session: QuestionSession,
) -> None:
    ((command, data, environment),) = tell(session, Terminal(), on_question="say it").ran
    assert command == ["sh", "-c", "say it"]
    assert json.loads(data)["questions"][0]["prompt"] == HOSTILE.prompt
    assert environment == {
        "PATH": "/bin",
        "AGENTFORGE_QUESTION_ID": session.session_id,
        "AGENTFORGE_QUESTION_TITLE": "a [2J b",
        "AGENTFORGE_QUESTION_PROMPT": "Run $(touch /tmp/x)? ]0;evil `id` <b>&",
        "AGENTFORGE_QUESTION_COUNT": "2",
        "AGENTFORGE_QUESTIONS": os.path.abspath("q"),
    }


def test_a_real_command_runs(session: QuestionSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    notifier = Notifier(
        NotifyConfig(on_question=f'cat > "{out}"; echo "$AGENTFORGE_QUESTION_ID" >> "{out}"'),
        tmp_path,
    )
    notifier.notify(session)
    notifier.wait()
    *document, last = out.read_text().splitlines()
    assert json.loads("\n".join(document))["sessionId"] == session.session_id
    assert last.endswith(session.session_id)


@pytest.mark.parametrize("command", ["exit 3", "kill -9 $$"])
def test_a_command_that_fails_is_told_in_the_log(session: QuestionSession, command: str) -> None:
    with capture_logs() as logs:
        notifier = Notifier(NotifyConfig(on_question=command), Path("q"))
        notifier.notify(session)
        notifier.wait()
    assert [(one["event"], one["by"]) for one in logs] == [("question.not_told", "on_question")]


def test_a_command_that_takes_too_long_is_killed_with_all_it_started(tmp_path: Path) -> None:
    leader = tmp_path / "leader"
    tell = f"echo $$ > {leader}.part; mv {leader}.part {leader}"
    script = f"(while :; do sleep 0.05; done) & {tell}; wait"

    def attempt(limit_s: float) -> None:
        with pytest.raises(subprocess.TimeoutExpired):
            run_command(["sh", "-c", script], b"x" * 200_000, os.environ, timeout_s=limit_s)

    given_time(attempt, 0.5, lambda _: leader.exists())
    # The kernel was told; until it has ended them a moment may pass.
    until = time.monotonic() + 60
    while alive := members(int(leader.read_text())):
        assert time.monotonic() < until, alive
        time.sleep(0.01)


def members(group: int) -> list[psutil.Process]:
    """The processes of a group that have not ended."""
    found = []
    for one in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getpgid(one.pid) == group and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
    return found


def test_a_command_that_can_not_start_is_told_in_the_log(session: QuestionSession) -> None:
    def refuse(*_: object) -> int:
        raise FileNotFoundError("sh")

    with capture_logs() as logs:
        notifier = Notifier(NotifyConfig(on_question="x"), Path("q"), run=refuse)
        notifier.notify(session)
        notifier.wait()
    assert [one["event"] for one in logs] == ["question.not_told"]


def test_plain_text_is_short_and_on_one_line() -> None:
    assert plain("a\x00b\u202ec\n d", 80) == "a b c d"
    assert plain("x" * 100, 10) == "x" * 9 + "…"
    assert sys.maxunicode
