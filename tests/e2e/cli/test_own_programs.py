"""A person's own program on the command line: run, cut off, signalled, gone back over."""

from __future__ import annotations

import signal
from pathlib import Path
from subprocess import Popen
from typing import Final

import pytest

from agentforge_sessions.harness import SessionState, SessionStore
from tests.e2e.cli.conftest import Installed

PROGRAM: Final = """
import asyncio
import os
from pathlib import Path

from agentforge_sessions import AsyncSession, Session, session


def paid(text: str) -> str:
    with open("calls", "a") as calls:
        calls.write(f"{text}\\n")
    return text.upper()


def die(text: str) -> str:
    if not Path("live").exists():
        os.kill(os.getpid(), 9)
    return paid(text)


def fail(text: str) -> str:
    raise RuntimeError(f"no {text}")


@session("report", budget=1_000)
def report(s: Session, topic: str, times: int = 1) -> str:
    first = s.step("outline", paid, topic, spend=100)
    return s.step("publish", die, first) * times


@session("approval")
def approval(s: Session) -> str:
    draft = s.step("draft", paid, "draft")
    print("waiting", flush=True)
    return f"{draft}, {s.wait_for('approved')}"


@session("impatient", patience_s=0.0)
def impatient(s: Session) -> None:
    s.wait_for("approved")


@session("dear", budget=50)
def dear(s: Session) -> str:
    return s.step("outline", paid, "dear", spend=100)


@session("later")
async def later(s: AsyncSession, topic: str) -> str:
    await asyncio.sleep(0)
    return await s.step("outline", paid, topic)


def plain(s: Session, topic: str) -> str:
    return s.step("outline", fail if topic == "paper" else paid, topic)
"""


@pytest.fixture
def home(agentforge: Installed) -> Path:
    (agentforge.directory / "reports.py").write_text(PROGRAM)
    return agentforge.directory


def calls(home: Path) -> list[str]:
    found = home / "calls"
    return found.read_text().splitlines() if found.exists() else []


def only_session(agentforge: Installed) -> str:
    [session_id] = agentforge.store.list_sessions()
    return session_id


def wait_for_line(process: Popen[str], line: str) -> None:
    assert process.stdout is not None
    assert any(one == f"{line}\n" for one in process.stdout)


def test_a_program_that_was_killed_goes_on_and_pays_for_nothing_twice(
    cold: Installed, agentforge: Installed, home: Path
) -> None:
    killed = cold("session", "run", "reports:report", "ai", "2", "--key", "AI")
    assert killed.code == -signal.SIGKILL
    session_id = only_session(agentforge)
    assert agentforge("show", session_id, "--json").document["interrupted"] is True
    (home / "live").touch()
    ended = agentforge("session", "run", "reports:report", "ai", "2", "--key", "AI", "--json")
    assert ended.code == 0, ended.err
    assert f"Session {session_id} goes on after 1 recorded step: " in ended.err
    assert ended.document["state"] == "completed"
    assert [one["step"] for one in ended.document["program"]["steps"]] == ["outline#1", "publish#1"]
    assert calls(home) == ["ai", "AI"]
    third = agentforge("session", "run", "reports:report", "ai", "2", "--key", "AI")
    assert (third.code, third.out) == (0, f"Session {session_id} is completed.\n")
    assert "has finished, with 2 recorded steps" in third.err
    assert calls(home) == ["ai", "AI"]
    other = agentforge("session", "run", "reports:report", "else", "--key", "AI")
    assert other.code == 5, "other arguments of a key in use"


def test_ctrl_c_leaves_a_program_that_a_signal_lets_go_on(
    agentforge: Installed, home: Path
) -> None:
    process = agentforge.started("session", "run", "reports:approval")
    wait_for_line(process, "waiting")
    session_id = only_session(agentforge)
    assert agentforge("session", "run", "reports:approval").code == 5, "one leads it"
    assert agentforge("session", "rewind", session_id, "draft", "--yes").code == 5
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.endswith("To go on: agentforge session run reports:approval\n")
    assert agentforge.store.load(session_id).state is SessionState.ACTIVE  # type: ignore[union-attr]
    assert agentforge("session", "signal", session_id, "approved", "--value", '"yes"').code == 0
    assert agentforge("session", "run", "reports:approval").code == 0
    assert calls(home) == ["draft"]


def test_back_before_a_step_and_a_fork_of_its_own(agentforge: Installed, home: Path) -> None:
    (home / "live").touch()
    agentforge("session", "run", "reports:report", "ai", "--key", "AI")
    session_id = only_session(agentforge)
    assert agentforge("session", "rewind", session_id, "publish", "--yes").code == 6, "it has ended"
    forked = agentforge("session", "fork", session_id, "publish", "--json").document
    again = agentforge("session", "run", "reports:report", "ai", "--key", forked["key"], "--json")
    assert again.document["session_id"] == forked["session_id"]
    assert again.document["program"]["recorded"] == 2
    assert calls(home) == ["ai", "AI", "AI"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("reports:later", "soon"), 0, "begins"),
        (("reports:plain", "text", "--key", "own"), 0, "begins"),
        (("reports:plain", "paper"), 1, "RuntimeError: no paper"),
        (("reports:impatient",), 10, "still waits for the signal 'approved'"),
        (("reports:dear",), 11, "reserves 100 tokens"),
        (("reports",), 2, "names no function"),
        (("nowhere:main",), 2, "there is no module nowhere"),
        (("reports:nothing",), 2, "has no attribute 'nothing'"),
        (("reports:report",), 2, "missing a required argument: 'topic'"),
        (("reports:report", "ai", "two"), 2, "'two' is no JSON"),
    ],
)
def test_how_a_program_ends_is_an_exit_code(
    agentforge: Installed, home: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    ended = agentforge("session", "run", *words)
    assert (ended.code, said in ended.err) == (code, True), ended.err
    assert ("To go on: agentforge session run reports:" in ended.err) is (code in {1, 10, 11})


def test_the_session_is_where_the_command_line_says(agentforge: Installed, home: Path) -> None:
    words = ("--base", "elsewhere", "session", "run", "reports:plain")
    assert agentforge(*words, "text").code == 0
    assert len(SessionStore(home / "elsewhere").list_sessions()) == 1
    assert agentforge.store.list_sessions() == []
    failed = agentforge(*words, "paper")
    assert failed.err.endswith(
        "To go on: agentforge --base elsewhere session run reports:plain paper\n"
    )
