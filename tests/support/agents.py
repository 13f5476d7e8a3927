"""Agents of few words, gates that run nothing, a small specification, and workers on one base."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from attrs import define, field

from agentforge_sessions.base.files import FileSystem, OsFileSystem
from agentforge_sessions.harness import (
    PersonAnswer,
    PhaseResult,
    Question,
    QuestionAnswered,
    QuestionEnded,
    SessionContext,
    SessionManager,
    SessionStore,
)
from agentforge_sessions.harness.domain.history_events import QuestionRejected
from agentforge_sessions.workflows.agents.port import AgentAnswer, AgentRequest, TokenUsage
from agentforge_sessions.workflows.builtin import TDFLOW
from agentforge_sessions.workflows.gate_port import GateExecution, GatePlaces, GateUnavailable
from agentforge_sessions.workflows.job import AgentWork
from agentforge_sessions.workflows.runner import WorkflowRunner

SPEC: Final = """\
schema_version: 1
metadata: {spec_id: small, title: Small, version: "1.0.0", status: approved}
components:
  - component_id: adder
    location: adder.py
    tests: [tests/]
    description: Adds.
    entities:
      - name: add
        kind: function
        methods:
          - {name: add, signature: "(a: int, b: int) -> int", description: The sum.}
    acceptance_criteria:
      - {id: AC-01, text: Two numbers are added.}
"""
TESTS: Final = """\
from adder import add


def test_ac_01_two_numbers_are_added():
    assert add(1, 2) == 3
"""
CODE: Final = "def add(a: int, b: int) -> int:\n    return a + b\n"
BETTER: Final = '"""Adds."""\n\n\n' + CODE
WRONG: Final = "def add(a: int, b: int) -> int:\n    return a - b  # wrong\n"


def block(path: str, content: str) -> str:
    return f"````python:{path}\n{content}````\n"


RED: Final = "The tests.\n\n" + block("tests/test_adder.py", TESTS)
GREEN: Final = block("adder.py", CODE)
REFACTOR: Final = block("adder.py", BETTER)
GOOD: Final = {"red": [RED], "green": [GREEN], "refactor": [REFACTOR]}

Said = str | AgentAnswer | Exception | Callable[[AgentRequest], "str | AgentAnswer"]


@define
class ScriptedAgent:
    """Says what it was given for each phase, in turn, the last for ever; remembers who asked."""

    script: Mapping[str, Sequence[Said]] = field(factory=lambda: dict(GOOD))
    usage: TokenUsage | None = field(factory=lambda: TokenUsage(input_tokens=100, output_tokens=50))
    requests: list[AgentRequest] = field(factory=list)
    spoken: dict[str, int] = field(factory=dict)
    description: str = "scripted"

    def answer(self, request: AgentRequest) -> AgentAnswer:
        self.requests.append(request)
        lines = self.script[request.phase]
        number = self.spoken.get(request.phase, 0)
        self.spoken[request.phase] = number + 1
        said = lines[min(number, len(lines) - 1)]
        if callable(said):
            said = said(request)
        if isinstance(said, Exception):
            raise said
        if isinstance(said, str):
            return AgentAnswer(text=said, usage=self.usage)
        return said


@define
class FakeGates:
    """Tells tests by their names; those of a component that is `wrong` or missing fail."""

    runs: list[dict[str, bytes]] = field(factory=list)
    before: Callable[[], object] = lambda: None
    duration_s: float = 0.25
    problem: str | None = None

    places: GatePlaces = field(factory=GatePlaces)

    def prepare(self, *, kit: bool) -> None:
        if self.problem is not None and kit:
            raise GateUnavailable(self.problem)

    def run(
        self,
        code: str,
        *,
        files: Mapping[str, bytes],
        report: str,
        deadline_s: float | None = None,
        kit: bool = False,
    ) -> GateExecution:
        self.before()
        assert report not in files
        self.runs.append(dict(files))
        tests = []
        for path, data in files.items():
            if "test" not in path:
                continue
            tests += [
                _outcome(f"{path}::{name}", files, data)
                for name in re.findall(r"def (test_\w+)", data.decode())
            ]
        told = {
            "schema_version": 1,
            "framework": "pytest",
            "code": 0,
            "collected": [test["id"] for test in tests],
            "tests": tests,
            "errors": [],
            "stopped": [],
            "tampered": [],
            "component": {"asked": True, "executed": "adder.py" in files, "origin": None},
        }
        return GateExecution(
            result=PhaseResult(success=True, exit_code=0, duration_s=self.duration_s),
            report=json.dumps(told).encode(),
        )


def _outcome(name: str, files: Mapping[str, bytes], test: bytes) -> dict[str, Any]:
    code = files.get("adder.py")
    one: dict[str, Any] = {"id": name, "outcome": "passed", "when": "call", "duration_s": 0.0}
    one["reached"] = True
    error = {"kinds": [], "message": "", "missing": False, "name": None, "where": [name, 5]}
    if b"broken test" in test:
        error |= {"exception": "NameError", "kinds": ["NameError"], "message": "no such name"}
    elif code is None:
        error |= {"exception": "MissingImplementation", "missing": True, "message": "add"}
    elif b"wrong" in code:
        error |= {"exception": "AssertionError", "kinds": ["AssertionError"], "message": "-1 == 3"}
    else:
        return one
    return {**one, "outcome": "failed", "error": error, "text": "E   assert"}


def rejected(reason: str | None) -> QuestionEnded:
    return QuestionRejected(question_id="", reason=reason)


@define
class FakePerson:
    """A channel whose person answers what it was given, or nothing yet; remembers what was put."""

    answers: list[tuple[str, ...] | QuestionEnded | None] = field(factory=list)
    asked: dict[str, Sequence[Question]] = field(factory=dict)
    ids: dict[str, str] = field(factory=dict)
    withdrawn: dict[str, str] = field(factory=dict)

    def id_for(self, key: str) -> str:
        return self.ids.setdefault(key, f"q-{len(self.ids) + 1}")

    def check(self, questions: Sequence[Question]) -> None:
        pass

    def put(
        self,
        question_id: str,
        questions: Sequence[Question],
        *,
        call_id: str | None,
        session: str | None = None,
    ) -> None:
        self.asked.setdefault(question_id, questions)

    def withdraw(self, question_id: str, reason: str) -> None:
        self.withdrawn[question_id] = reason

    def wait(self, question_id: str, timeout_s: float | None) -> QuestionEnded | None:
        assert question_id in self.asked
        found = self.answers.pop(0) if self.answers else None
        if isinstance(found, tuple):
            return QuestionAnswered(
                question_id=question_id,
                text="; ".join(found),
                answers=tuple(
                    PersonAnswer(question_index=index, text=one) for index, one in enumerate(found)
                ),
            )
        return None if found is None else replace(found, question_id=question_id)


@define
class Tick:
    """A clock that goes on by a second at each look."""

    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@define
class AgentGround:
    """A base directory, and workers that come and go on it."""

    base: Path
    agent: ScriptedAgent = field(factory=ScriptedAgent)
    gates: FakeGates = field(factory=FakeGates)
    person: FakePerson | None = None
    clock: Tick = field(factory=Tick)

    def worker(self, fs: FileSystem | None = None, **more: Any) -> WorkflowRunner:
        """A new process, as far as the session can tell."""
        disk = fs if fs is not None else OsFileSystem()
        store = SessionStore(self.base, fs=disk)
        return WorkflowRunner(
            SessionManager(store, channel=self.person, clock=self.clock),
            self.gates,
            fs=disk,
            lock_timeout_s=0,
            monotonic=lambda: 0.0,
            **more,
        )

    def start(self, work: AgentWork | None = None, **more: Any) -> Any:
        return self.worker().start(work or tdflow_work(), self.agent, **more)

    def resume(self, **more: Any) -> Any:
        return self.worker().resume(self.session_id, self.agent, **more)

    @property
    def session_id(self) -> str:
        (only,) = SessionStore(self.base).list_sessions()
        return only

    @property
    def session(self) -> SessionContext:
        found = SessionStore(self.base).load(self.session_id)
        assert found is not None
        return found

    def manager(self) -> SessionManager:
        manager = SessionManager(SessionStore(self.base), clock=self.clock)
        manager.load(self.session_id)
        return manager

    def actions(self) -> list[str]:
        return [
            f"{entry.action} {entry.phase}" if entry.phase else entry.action
            for entry in self.session.history
        ]

    def files(self) -> dict[str, str]:
        root = SessionStore(self.base).workspace_path(self.session_id)
        return {
            str(path.relative_to(root)): path.read_text()
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }


def tdflow_work(**more: Any) -> AgentWork:
    return AgentWork(workflow=TDFLOW, name="adder", specification=SPEC.encode(), **more)
