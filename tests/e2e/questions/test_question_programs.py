"""Real processes that ask, answer, are interrupted and are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge_sessions.harness import SessionManager, SessionState, SessionStore
from agentforge_sessions.questions import QuestionSessions, SessionStatus, UserAnswer
from tests.support.mcp_processes import wait_until
from tests.support.python_path import python_path
from tests.support.signals import usual_signals

ROOT = Path(__file__).parents[3]
WORKER = """
import sys
import structlog
from agentforge_sessions.wiring.bootstrap import build_manager
from agentforge_sessions.harness import Question

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
manager = build_manager("sessions")
if len(sys.argv) > 1:
    manager.load(sys.argv[1])
else:
    print(manager.create("spec", "clarify").session_id, flush=True)
question = Question(prompt="Which?", title="Which", options=["this", "that"])
reply = manager.ask([question], pause=True, on_waiting=lambda _: print("waits", flush=True))
print(reply.outcome, *reply.answers[0].selected, flush=True)
"""
SUSPENDED = """
import os, signal, sys
import structlog
from agentforge_sessions.wiring.bootstrap import build_manager
from agentforge_sessions.harness import PhaseWaits

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
manager = build_manager("sessions")
print(manager.create("spec", "clarify").session_id)
try:
    manager.run_phase(sys.argv[1], deadline_s=120)
except PhaseWaits as waits:
    print(*waits.question_ids, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
PATIENCE_S = 60.0


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for one in processes:
        one.kill()
        one.communicate()


def start(
    started: list[subprocess.Popen[str]], cwd: Path, *arguments: str
) -> subprocess.Popen[str]:
    with usual_signals():
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": python_path(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    started.append(process)
    return process


def ask(started: list[subprocess.Popen[str]], cwd: Path, *arguments: str) -> subprocess.Popen[str]:
    return start(
        started, cwd, "-m", "agentforge_sessions.entrypoints.cli", "questions", "ask", *arguments
    )


def read_that_it_waits(asker: subprocess.Popen[str]) -> None:
    assert asker.stderr is not None
    assert "Waiting for an answer" in asker.stderr.readline()


def cli(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agentforge_sessions.entrypoints.cli", *arguments],
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": python_path(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def waiting(sessions: QuestionSessions) -> str:
    """Return the id of the one question that waits, once it does."""
    return wait_until(sessions.pending, "the question")[0].session_id


@pytest.fixture
def sessions(tmp_path: Path) -> QuestionSessions:
    return QuestionSessions(tmp_path / ".agentforge" / "questions")


def test_one_process_asks_and_another_answers(
    started: list[subprocess.Popen[str]], tmp_path: Path, sessions: QuestionSessions
) -> None:
    asker = ask(started, tmp_path, "Which?", "-o", "this=one", "-o", "that")
    session_id = waiting(sessions)
    answered = cli(tmp_path, "answer", session_id[:8], "-s", "this", "--json")
    assert answered.returncode == 0, answered.stderr
    out, err = asker.communicate(timeout=PATIENCE_S)
    assert (asker.returncode, out) == (
        0,
        "Here are the user's answers:\n\n1. Which?\n→ this — one\n",
    )
    assert session_id in err
    listed = json.loads(cli(tmp_path, "questions", "history", "--json").stdout)
    assert [one["status"] for one in listed["sessions"]] == ["completed"]


@pytest.mark.parametrize(
    ("number", "status", "reason"),
    [
        (signal.SIGTERM, -signal.SIGTERM, "the one who asked was terminated"),
        (signal.SIGINT, 130, None),
    ],
)
def test_an_asker_that_a_signal_ends_withdraws_its_question(
    started: list[subprocess.Popen[str]],
    tmp_path: Path,
    sessions: QuestionSessions,
    number: signal.Signals,
    status: int,
    reason: str | None,
) -> None:
    asker = ask(started, tmp_path, "Which?", "-o", "a", "-o", "b")
    session_id = waiting(sessions)
    read_that_it_waits(asker)
    asker.send_signal(number)
    asker.communicate(timeout=PATIENCE_S)
    assert asker.returncode == status
    record = sessions.get(session_id).record
    assert record.status is SessionStatus.ABANDONED
    assert reason is None or record.end_reason == reason


def test_the_question_of_an_asker_that_was_killed_is_ended_by_who_looks_next(
    started: list[subprocess.Popen[str]], tmp_path: Path, sessions: QuestionSessions
) -> None:
    asker = ask(started, tmp_path, "Which?", "-o", "a", "-o", "b")
    kept = ask(started, tmp_path, "Kept?", "-o", "a", "-o", "b", "--keep")
    for process in (asker, kept):
        read_that_it_waits(process)
        process.kill()
        process.communicate(timeout=PATIENCE_S)
    listed = json.loads(cli(tmp_path, "questions", "history", "--json").stdout)["sessions"]
    assert {one["questions"][0]["prompt"]: one["status"] for one in listed} == {
        "Which?": "abandoned",
        "Kept?": "pending",
    }
    assert [one.questions[0].prompt for one in sessions.pending()] == ["Kept?"]


def test_an_asker_that_is_killed_leaves_a_question_that_can_be_answered(
    started: list[subprocess.Popen[str]], tmp_path: Path, sessions: QuestionSessions
) -> None:
    asker = ask(started, tmp_path, "Which?", "-o", "a", "-o", "b")
    session_id = waiting(sessions)
    asker.kill()
    asker.wait()
    assert cli(tmp_path, "answer", session_id, "-s", "b").returncode == 0
    found = cli(tmp_path, "questions", "ask", "--wait-for", session_id)
    assert found.stdout.endswith("→ b\n")


def test_a_worker_killed_while_it_waits_loses_nothing_and_the_next_finds_the_answer(
    started: list[subprocess.Popen[str]], tmp_path: Path, sessions: QuestionSessions
) -> None:
    worker = start(started, tmp_path, "-c", WORKER)
    assert worker.stdout is not None
    agent_session = worker.stdout.readline().strip()
    question_id = waiting(sessions)
    store = SessionStore(tmp_path / "sessions")
    paused = store.load(agent_session)
    assert paused is not None
    assert paused.state is SessionState.PAUSED
    assert question_id in (paused.history[-2].details or "")
    worker.kill()
    worker.wait()

    second = start(started, tmp_path, "-c", WORKER, agent_session)  # it takes up the question
    assert second.stdout is not None
    assert second.stdout.readline() == "waits\n"
    second.kill()
    second.wait()
    assert len(sessions.list_sessions()) == 1

    answer = UserAnswer(question_index=0, selected_option="that")
    sessions.save_session_answers(question_id, [answer])  # while nobody waits
    third = start(started, tmp_path, "-c", WORKER, agent_session)
    out, err = third.communicate(timeout=PATIENCE_S)
    assert out.splitlines()[-1] == "answered that", err
    manager = SessionManager(store)
    session = manager.load(agent_session)
    assert session is not None
    assert session.state is SessionState.ACTIVE
    asked = [entry.action for entry in session.history if entry.action.startswith("question")]
    assert asked == ["question_asked", "question_answered"]


@pytest.mark.timeout(900)
def test_code_of_a_phase_that_asks_goes_on_in_another_process_after_kill_9(
    tmp_path: Path, sessions: QuestionSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentforge_sessions.wiring.bootstrap import build_manager

    monkeypatch.chdir(tmp_path)
    code = (
        "from agentforge import ask\n"
        "seen = ['before']\n"
        "seen.append(await ask('Which colour?', options=['red', 'blue']))\n"
        "print(seen)\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", SUSPENDED, code],
        env={**os.environ, "PYTHONPATH": python_path(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    session_id, question_id = killed.stdout.split()[:2]
    assert question_id == waiting(sessions)
    sessions.save_session_answers(
        waiting(sessions),
        [UserAnswer(question_index=0, selected_option="red", custom_text="a dark one")],
    )
    with build_manager(tmp_path / "sessions") as manager:
        session = manager.open(session_id)
        result = manager.run_phase(code)
    assert result.stdout == "['before', 'red; a dark one']\n", result.stderr
    assert [entry.action for entry in session.history][1:] == [
        *("phase_suspended", "question_asked", "question_answered"),
        *("phase_resumed", "phase_succeeded"),
    ]
