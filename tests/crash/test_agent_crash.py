"""An agent's work whose workers are killed at any instant ends as if nobody had been killed.

Run as a module, this file forks such workers on request.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge_sessions.harness import QuestionEnded, SessionManager, SessionState, SessionStore
from agentforge_sessions.questions import QuestionSessions
from agentforge_sessions.wiring.phases.question_channel import QuestionSessionChannel
from agentforge_sessions.workflows.agents.port import AgentAnswer, AgentRequest, TokenUsage
from agentforge_sessions.workflows.run.step_journal import STEPS
from agentforge_sessions.workflows.runner import WorkflowRunner
from tests.crash._forked_workers import KILLED, Workers, serve
from tests.support.agents import GREEN, RED, REFACTOR, WRONG, FakeGates, block, tdflow_work
from tests.support.soak import SOAKING

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

KILLS = 300 if SOAKING else 8
LEAST_HIT = 5 if SOAKING else 2
ASK = "```agentforge:questions\n- {prompt: 'How wide?', title: Width, options: [a, b]}\n```\n"
SCRIPT = {
    ("red", 1, 1): ASK,
    ("red", 1, 2): "No files this time.",
    ("red", 2, 1): RED,
    ("green", 1, 1): block("adder.py", WRONG),
    ("green", 2, 1): GREEN,
    ("refactor", 1, 1): REFACTOR,
}


# ------------------------------------------------------------------------------------- the worker


class LoggingAgent:
    """Answers by the request alone, and tells of each call in a log that no session knows of."""

    description = "logging"

    def __init__(self, log: Path) -> None:
        self._log = log

    def answer(self, request: AgentRequest) -> AgentAnswer:
        key = (request.phase, request.turn, request.call)
        with self._log.open("a") as log:
            log.write(f"{'.'.join(map(str, key))}\n")
        time.sleep(0.002)
        return AgentAnswer(
            text=SCRIPT[key], usage=TokenUsage(input_tokens=10, output_tokens=len(SCRIPT[key]))
        )


class Person(QuestionSessionChannel):
    """Question sessions on disk, whose person answers as soon as a worker waits."""

    def id_for(self, key: str) -> str:
        return super().id_for(key.partition("/")[2])  # the same in each session

    def wait(self, question_id: str, timeout_s: float | None) -> QuestionEnded | None:
        self.answer(question_id, ["a"])
        return super().wait(question_id, timeout_s)


def work(base: Path, log: Path) -> None:
    store = SessionStore(base)
    runner = WorkflowRunner(
        SessionManager(store, channel=Person(base.parent / "questions")),
        FakeGates(),
        lock_timeout_s=5,
        monotonic=lambda: 0.0,
    )
    ids = store.list_sessions()
    agent = LoggingAgent(log)
    if ids:
        runner.resume(ids[0], agent)
    else:
        runner.start(tdflow_work(), agent)


# --------------------------------------------------------------------------------------- the test


@pytest.fixture
def workers() -> Iterator[Workers]:
    with Workers("tests.crash.test_agent_crash") as one:
        yield one


class Place:
    """One session's life: a base and a log of the agent's calls."""

    def __init__(self, directory: Path) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        self.base = directory / "sessions"
        self.log = directory / "log"
        self.store = SessionStore(self.base)

    def calls(self) -> list[str]:
        """The agent's calls, in their order."""
        return self.log.read_text().split("\n")[:-1] if self.log.exists() else []

    def _directory(self) -> Path | None:
        ids = self.store.list_sessions()
        return self.base / ids[0] if ids else None

    def answered(self) -> set[str]:
        """The calls whose answers are stored, as the log names them."""
        directory = self._directory()
        turns = {"0001-red-1": "red.1", "0002-red-2": "red.2", "0003-green-1": "green.1"}
        turns |= {"0004-green-2": "green.2", "0005-refactor-1": "refactor.1"}
        found = set()
        if directory is not None:
            for path in (directory / STEPS).glob("[0-9]*.answer.json"):
                attempt, call, _, _ = path.name.rsplit(".", 3)
                found.add(f"{turns[attempt]}.{call}")
        return found

    def is_complete(self) -> bool:
        directory = self._directory()
        session = self.store.load(directory.name) if directory else None
        return session is not None and session.state is SessionState.COMPLETED

    def story(self) -> tuple[object, ...]:
        """Everything that must be the same however often a worker was killed."""
        directory = self._directory()
        assert directory is not None
        session = self.store.load(directory.name)
        assert session is not None
        root = directory / "workspace"
        hidden = [path for path in directory.rglob(".*") if path.is_file()]
        questions = QuestionSessions(self.base.parent / "questions")
        return (
            [
                (one.session_id, one.status, one.answers is None)
                for one in questions.list_sessions()
            ],
            session.state,
            [(one.action, one.phase, one.details) for one in session.history],
            [(one.path, one.artifact_type, one.phase) for one in session.artifacts],
            session.token_budget,
            session.revision,
            {
                str(path.relative_to(root)): path.read_bytes()
                for path in sorted(root.rglob("*"))
                if path.is_file()
            },
            sorted(path.name for path in (directory / STEPS).iterdir()),
            hidden,
        )


def test_killed_work_ends_as_if_undisturbed_and_no_stored_answer_is_asked_for_again(
    workers: Workers, tmp_path: Path
) -> None:
    seed = int(os.environ.get("AGENTFORGE_SEED", "20261122"))
    rng = random.Random(seed)
    times = []
    for _ in range(3):
        calm = Place(tmp_path / "calm")
        begun = time.monotonic()
        assert workers.run(calm.base, calm.log) == 0
        times.append(time.monotonic() - begun)
    whole_s = sorted(times)[1]
    assert calm.is_complete()
    story = calm.story()
    needed = calm.calls()
    assert needed == [".".join(map(str, key)) for key in SCRIPT]

    kills = sessions = again = 0
    hit: set[int] = set()
    while kills < KILLS or (len(hit) < LEAST_HIT and kills < 10 * KILLS):
        sessions += 1
        place = Place(tmp_path / "killed")
        patience = 1.0
        while not place.is_complete():
            answered = place.answered()
            before = len(place.calls())
            left_s = whole_s * (1.2 - len(answered) / len(SCRIPT))
            life_s = rng.uniform(0, left_s) * patience
            code = workers.run(place.base, place.log, life_s=life_s)
            assert code in {0, KILLED}, f"seed {seed}"
            assert not set(place.calls()[before:]) & answered, f"seed {seed}: asked again"
            # A machine that became slower must not keep us here for ever.
            patience = 1.0 if len(place.answered()) > len(answered) else patience * 1.2
            if code == KILLED:
                kills += 1
                hit.add(len(place.answered()))
            elif not answered:  # the whole run was quicker than it was when it was measured
                whole_s *= 0.9
        assert place.story() == story, f"seed {seed}"
        assert set(place.calls()) == set(needed)
        again += len(place.calls()) - len(needed)
    print(
        f"{kills} kills over {sessions} sessions, run {whole_s * 1000:.0f} ms; kills with n "
        f"answers stored: {sorted(hit)}; {again} calls were cut off and made again"
    )
    assert len(hit) >= LEAST_HIT, "the kills did not spread over the run"


if __name__ == "__main__":
    serve(work)
