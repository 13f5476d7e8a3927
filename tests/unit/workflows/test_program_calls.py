"""A program that calls agents, gates and people: each call carried out once, by any worker."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

from agentforge_sessions.base.files import FileSystem, OsFileSystem
from agentforge_sessions.harness import Question, SessionManager, SessionState, SessionStore
from agentforge_sessions.harness.ports import Unanswered
from agentforge_sessions.workflows.agents.port import (
    AgentAnswer,
    AgentCrashed,
    AgentRequest,
    AgentUnavailable,
    TokenUsage,
)
from agentforge_sessions.workflows.builtin import program_workflow
from agentforge_sessions.workflows.job import AgentWork
from agentforge_sessions.workflows.ports import RunObserver, RunOutcome, StopCause
from agentforge_sessions.workflows.runner import WorkflowRunner
from tests.support.agents import (
    CODE,
    GREEN,
    RED,
    SPEC,
    TESTS,
    WRONG,
    AgentGround,
    FakePerson,
    ScriptedAgent,
    block,
)
from tests.support.executors import WaitingExecutor
from tests.support.soak import SOAKING
from tests.unit.workflows.fakes import DyingFileSystem, Killed


def agent(prompt: str, **more: Any) -> str:
    return f"agent {json.dumps({'prompt': prompt, **more})}"


def gate(**more: Any) -> str:
    return f"gate {json.dumps(more)}"


WRITE_TESTS = agent("Write the tests.", name="red", writes=["tests"])
WRITE_CODE = agent("Write the code.", name="green", writes=["code"])
RED_GATE = gate(kind="tests_fail")
GREEN_GATE = gate(kind="tests_pass")
TDFLOW = (WRITE_TESTS, RED_GATE, WRITE_CODE, GREEN_GATE)


class Remembering(WaitingExecutor):
    """Remembers what its programs were given, in order, over all its processes."""

    def __init__(self) -> None:
        super().__init__()
        self.given: dict[int, object] = {}

    def resume(self, program: bytes, answers: Any, **more: Any) -> Any:
        self.given |= answers
        return super().resume(program, answers, **more)


@define
class ProgramGround(AgentGround):
    """Workers whose executor runs programs of lines."""

    executor: Remembering = field(factory=Remembering)

    def worker(self, fs: FileSystem | None = None, **more: Any) -> WorkflowRunner:
        disk = fs if fs is not None else OsFileSystem()
        manager = SessionManager(
            SessionStore(self.base, fs=disk),
            executor=self.executor,
            channel=self.person,
            clock=self.clock,
        )
        return WorkflowRunner(
            manager, self.gates, fs=disk, lock_timeout_s=0, monotonic=lambda: 0.0, **more
        )

    def run(self, *lines: str, spec: bool = True, fs: FileSystem | None = None, **more: Any) -> Any:
        """Run a program of these calls, or other lines of `WaitingExecutor`."""
        calls = [f"call {one}" if one.startswith(("agent", "gate")) else one for one in lines]
        workflow = program_workflow("build", "\n".join(calls), of_component=spec)
        document = SPEC.encode() if spec else None
        work = AgentWork(workflow=workflow, name="adder", specification=document)
        return self.worker(fs, **more).start(work, self.agent)

    def given(self, number: int) -> Any:
        """What the program was given for a request."""
        return self.executor.given[number]

    def refusal(self, number: int) -> str:
        failed = self.given(number)
        assert isinstance(failed, Unanswered)
        return failed.reason


@pytest.fixture
def ground(tmp_path: Path) -> ProgramGround:
    return ProgramGround(tmp_path / "sessions")


def test_program_has_agents_write_and_gates_judge(ground: ProgramGround) -> None:
    outcome = ground.run(*TDFLOW, "exit 0")
    assert outcome.state is SessionState.COMPLETED, outcome.reason
    assert ground.given(1)["written"] == ["tests/test_adder.py"]
    assert (ground.given(2)["passed"], ground.given(2)["counts"]["failed"]) == (True, 1)
    assert ground.given(3)["written"] == ["adder.py"]
    assert ground.given(4)["passed"]
    assert ground.files()["adder.py"] == CODE
    assert ground.session.token_budget.tokens_used == 2 * 150
    assert [one.path for one in ground.session.artifacts] == ["tests/test_adder.py", "adder.py"]
    asked = [(one.phase, one.turn, one.call) for one in ground.agent.requests]
    assert asked == [("red", 1, 1), ("green", 1, 1)]
    assert "Write the code." in ground.agent.requests[1].prompt


def test_history_has_each_call_and_what_became_of_it(ground: ProgramGround) -> None:
    ground.run(WRITE_TESTS, RED_GATE, "exit 0")
    said = [one.details for one in ground.session.history if one.action == "program_call"]
    assert said == [
        "request 1: agent red: wrote tests/test_adder.py",
        "request 2: gate tests_fail passed: 1 test collected, run, and failing for want of the "
        "implementation",
    ]


def test_program_goes_round_until_its_gate_is_passed(ground: ProgramGround) -> None:
    ground.agent = ScriptedAgent({"red": [RED], "green": [block("adder.py", WRONG), GREEN]})
    ground.run(*TDFLOW, WRITE_CODE, GREEN_GATE, "exit 0")
    assert (ground.given(4)["passed"], ground.given(6)["passed"]) == (False, True)
    assert any("-1 == 3" in piece for piece in ground.given(4)["evidence"])
    assert [one.turn for one in ground.agent.requests] == [1, 1, 2]


def test_tests_are_fixed_once_their_red_gate_was_passed(ground: ProgramGround) -> None:
    other = block("tests/test_adder.py", "def test_ac_01_nothing():\n    pass\n")
    ground.agent = ScriptedAgent({"red": [RED, other], "green": [GREEN]})
    ground.run(WRITE_TESTS, RED_GATE, WRITE_TESTS, WRITE_CODE, GREEN_GATE, "exit 0")
    assert ground.given(5)["summary"] == "1 test files are not those of the red phase"


def test_program_that_fails_pauses_and_only_retry_runs_it_again(ground: ProgramGround) -> None:
    outcome = ground.run(WRITE_TESTS, "exit 3")
    assert (outcome.state, outcome.cause) == (SessionState.PAUSED, StopCause.FAILED)
    assert outcome.stop.needs_retry
    assert "exit code 3" in outcome.reason


# ------------------------------------------------------------------------------------ the person


def test_question_ends_the_process_and_its_answer_goes_on_at_that_line(
    ground: ProgramGround,
) -> None:
    ground.person = FakePerson()
    outcome = ground.run(WRITE_TESTS, "ask Go on?", WRITE_CODE, "exit 0")
    assert (outcome.state, outcome.cause) == (SessionState.PAUSED, StopCause.PERSON)
    assert outcome.waiting_for == outcome.stop.question_id == "q-1"
    ground.person.answers = [("yes",)]
    assert ground.resume().state is SessionState.COMPLETED
    assert ground.given(2) == "yes"
    assert [one.phase for one in ground.agent.requests] == ["red", "green"]


def test_run_that_waits_says_so_and_goes_on_with_the_answer(ground: ProgramGround) -> None:
    asked: list[tuple[str, str]] = []

    class Watching(RunObserver):
        def questions_asked(self, asked_as: str, questions: Sequence[Question]) -> None:
            asked.extend((asked_as, one.prompt) for one in questions)

    ground.person = FakePerson([None, ("yes",), None, ("yes",)])
    outcome = ground.run(
        "ask Go on?", "ask And now?", "exit 0", answers_timeout_s=60.0, observer=Watching()
    )
    assert outcome.state is SessionState.COMPLETED
    assert asked == [("q-1", "Go on?"), ("q-2", "And now?")]


def test_program_that_sleeps_ends_the_process_until_that_moment(ground: ProgramGround) -> None:
    outcome = ground.run("sleep 2026-01-02T00:00:00+00:00", "exit 0")
    assert (outcome.state, outcome.cause) == (SessionState.PAUSED, StopCause.TIME)
    ground.clock.now = outcome.stop.wake_at
    assert ground.resume().state is SessionState.COMPLETED


# ------------------------------------------------------------------------------------ the deaths


def test_wherever_a_worker_dies_the_next_one_pays_for_no_answer_twice(tmp_path: Path) -> None:
    die_at, killed = 0, True
    while killed:
        ground = ProgramGround(tmp_path / f"at-{die_at}")
        try:
            ground.run(*TDFLOW, "exit 0", fs=DyingFileSystem(die_at=die_at))
            killed = False
        except Killed:
            pass
        die_at += 1 if SOAKING else 7
        if not SessionStore(ground.base).list_sessions():
            continue  # it died before it began
        if ground.session.state is not SessionState.COMPLETED:
            assert ground.resume().state is SessionState.COMPLETED, die_at
        # An agent whose answer was not stored yet is called again, with the same prompt.
        assert len(ground.agent.requests) <= 3, die_at
        assert len({one.prompt for one in ground.agent.requests}) == 2, die_at
        assert len(ground.gates.runs) <= 3, die_at
        assert ground.session.token_budget.tokens_used == 2 * 150, die_at
        assert ground.files() == {"adder.py": CODE, "tests/test_adder.py": TESTS}, die_at
    assert die_at > 150


def test_answer_of_a_killed_run_is_not_paid_twice(ground: ProgramGround) -> None:
    def kill() -> None:
        raise Killed

    ground.gates.before = kill
    with pytest.raises(Killed):
        ground.run(*TDFLOW, "exit 0")
    ground.gates.before = lambda: None
    assert ground.resume().state is SessionState.COMPLETED
    assert [one.phase for one in ground.agent.requests] == ["red", "green"]
    assert ground.session.token_budget.tokens_used == 2 * 150


# ------------------------------------------------------------------------------- side by side


@define
class MeetingAgent:
    """Answers once as many as it names are asked at the same time."""

    meeting: threading.Barrier
    description: str = "meeting"
    failing: str = ""

    def answer(self, request: AgentRequest) -> AgentAnswer:
        self.meeting.wait(timeout=30)
        if request.phase == self.failing:
            raise AgentUnavailable(agent="meeting", problem="it is off")
        text = block(f"{request.phase}.py", "x = 1\n")
        return AgentAnswer(text=text, usage=TokenUsage(input_tokens=1, output_tokens=1))


def test_agents_called_together_work_side_by_side(ground: ProgramGround) -> None:
    ground.agent = MeetingAgent(threading.Barrier(2))  # type: ignore[assignment]
    together = f"call {agent('A', name='a')} | {agent('B', name='b')}"
    outcome = ground.run(together, "exit 0", spec=False)
    assert outcome.state is SessionState.COMPLETED, outcome.reason
    assert sorted(ground.files()) == ["a.py", "b.py"]
    assert ground.session.token_budget.tokens_used == 4


def test_answer_of_one_is_stored_when_another_is_not_available(ground: ProgramGround) -> None:
    ground.agent = MeetingAgent(threading.Barrier(2), failing="b")  # type: ignore[assignment]
    together = f"call {agent('A', name='a')} | {agent('B', name='b')}"
    outcome = ground.run(together, "exit 0", spec=False)
    assert (outcome.state, outcome.cause) == (SessionState.PAUSED, StopCause.AGENT)
    ground.agent = ScriptedAgent({"b": [block("b.py", "x = 2\n")]})
    assert ground.resume().state is SessionState.COMPLETED
    assert [one.phase for one in ground.agent.requests] == ["b"]


# -------------------------------------------------------------------------- what is not carried out


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ('shell {"command": "rm -r /"}', "'shell' can't be called; there are agent, gate"),
        ('agent {"prompt": "x", "command": "sh"}', "agent takes no 'command'"),
        ('gate {"command": "sh"}', "gate takes no 'command'"),
        ('gate {"kind": "script"}', "gate: kind is 'script', and none of files, suite"),
        ('gate {"kind": ["tests_pass"]}', "gate: kind is ['tests_pass'], and none of"),
        ("agent {}", "agent: prompt is missing"),
        ("agent []", "the arguments of a call are an object"),
        ("agent {", "the arguments of a call are an object"),
        ('agent {"prompt": "x", "name": "../x"}', "agent: name is '../x', which is no name"),
        ('agent {"prompt": "x", "writes": ["../x"]}', "is not inside the workspace"),
        ('agent {"prompt": "x", "writes": "x"}', "agent: writes is no list of 1 to 200 paths"),
        ('agent {"prompt": "x", "writes": ["code"]}', "the work has no component"),
        ('agent {"prompt": "x", "gate": "suite"}', "no command for them (--gate)"),
        ('gate {"kind": "suite"}', "no command for them (--gate)"),
        ('gate {"kind": "files", "tests_unchanged": true}', "no tests_fail was passed before"),
    ],
)
def test_call_that_is_not_carried_out_is_an_error_in_the_program(
    ground: ProgramGround, call: str, reason: str
) -> None:
    outcome = ground.run(f"call {call}", "exit 0", spec=False)
    assert outcome.state is SessionState.COMPLETED, outcome.reason
    assert reason in ground.refusal(1)
    assert ground.agent.requests == []


def test_file_beyond_what_the_call_may_write_is_not_taken(ground: ProgramGround) -> None:
    ground.agent = ScriptedAgent({"agent": [block("other.py", "x = 1\n")]})
    ground.run(agent("Write.", writes=["src/"]), "exit 0", spec=False)
    assert "'other.py' is none of the files that phase agent may write: src/" in ground.refusal(1)
    assert ground.files() == {}


def test_agent_that_fails_is_an_error_in_the_program(ground: ProgramGround) -> None:
    crashed = AgentCrashed(agent="scripted", exit_code=1, answered=True)
    ground.agent = ScriptedAgent({"agent": [crashed]})
    ground.run(agent("Write."), "exit 0", spec=False)
    assert "ended with exit code 1" in ground.refusal(1)


def test_program_whose_session_names_no_agent_waits_for_one(ground: ProgramGround) -> None:
    workflow = program_workflow("build", f"call {agent('Write.')}\nexit 0")
    outcome = ground.worker().start(AgentWork(workflow=workflow, name="build"))
    assert outcome.cause is StopCause.AGENT
    assert outcome.reason is not None
    assert "name one with --agent" in outcome.reason
    ground.agent = ScriptedAgent({"agent": [block("a.py", "x = 1\n")]})
    assert ground.resume().state is SessionState.COMPLETED


def test_spent_budget_stops_the_program_at_its_call(ground: ProgramGround) -> None:
    run: Callable[..., RunOutcome] = ground.run
    ground.agent.usage = TokenUsage(input_tokens=400_000, output_tokens=99_000)
    outcome = run(*TDFLOW, "exit 0")
    assert (outcome.state, outcome.cause) == (SessionState.PAUSED, StopCause.BUDGET)
    manager = ground.manager()
    manager.extend_budget(1_000_000)
    assert ground.resume().state is SessionState.COMPLETED
    assert [one.phase for one in ground.agent.requests] == ["red", "green"]
