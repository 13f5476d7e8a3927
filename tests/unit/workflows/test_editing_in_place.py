"""A session whose agent edits in place: rules, prompts, cost, and kills at changes of the disk."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import define, evolve, field

from agentforge_sessions.agents.running import RecordedAgent, Recorder
from agentforge_sessions.entrypoints.pages.session_page import session_report
from agentforge_sessions.entrypoints.pages.values.material import PageSource
from agentforge_sessions.harness import PhaseResult, SessionState, SessionStore
from agentforge_sessions.workflows import TDFLOW, AgentChoice, AgentWork, RunOutcome
from agentforge_sessions.workflows.agents.port import (
    AgentAnswer,
    AgentRequest,
    EditedFile,
    WorkspaceChange,
)
from agentforge_sessions.workflows.gate_port import CommandExecution, CommandRequest
from agentforge_sessions.workflows.ports import StopCause
from agentforge_sessions.workflows.run.base_record import BASE_STEP
from agentforge_sessions.workflows.run.step_journal import StepJournal
from agentforge_sessions.workflows.workflow import FileGroup, Gate, Input, Phase, Workflow
from tests.support.agents import (
    BETTER,
    CODE,
    SPEC,
    TESTS,
    AgentGround,
    ScriptedAgent,
    tdflow_work,
)
from tests.support.soak import SOAKING
from tests.unit.workflows.fakes import DyingFileSystem, Killed

EDITS: Final = evolve(TDFLOW, agent_mode="edit")


def edit(*files: tuple[str, str], text: str = "", **more: Any) -> AgentAnswer:
    change = WorkspaceChange(
        written=[EditedFile(path=path, content=content.encode()) for path, content in files], **more
    )
    return AgentAnswer(text=text, change=change)


GOOD: Final = {
    "red": [edit(("tests/test_adder.py", TESTS))],
    "green": [edit(("adder.py", CODE))],
    "refactor": [edit(("adder.py", BETTER))],
}


@pytest.fixture
def ground(tmp_path: Path) -> AgentGround:
    return AgentGround(tmp_path / "sessions", agent=ScriptedAgent(script=dict(GOOD)))


def work(workflow: Workflow = EDITS, **more: Any) -> AgentWork:
    return evolve(tdflow_work(), workflow=workflow, **more)


def steps(ground: AgentGround) -> StepJournal:
    return StepJournal(SessionStore(ground.base), ground.session_id)


def test_what_was_edited_is_taken_as_an_answers_files_are(ground: AgentGround) -> None:
    outcome = ground.start(work())
    assert outcome.state is SessionState.COMPLETED, outcome.reason
    assert ground.files() == {"adder.py": BETTER, "tests/test_adder.py": TESTS}
    assert [one.path for one in ground.session.artifacts][:1] == ["tests/test_adder.py"]
    prompt = ground.agent.requests[1].prompt
    assert "How you work" in prompt
    assert "Form of your answer" not in prompt
    assert "- adder.py" in prompt
    assert "assert add(1, 2) == 3" not in prompt  # it reads the files for itself


def test_the_rules_of_an_answers_files_hold_for_an_edit(ground: AgentGround) -> None:
    refused = [("docs/x.md", "no place for it")]
    ground.agent.script = {
        **GOOD,
        "green": [
            edit(("adder.py", CODE), ("tests/test_adder.py", "pass\n"), refused=refused),
            edit(("adder.py", CODE + "\n")),
        ],
    }
    outcome = ground.start(work())
    assert outcome.state is SessionState.COMPLETED, outcome.reason
    assert ground.files()["tests/test_adder.py"] == TESTS
    verdict = steps(ground).read("0002-green-1.verdict.json")
    assert verdict is not None
    assert verdict["facts"]["put_back"] == ["docs/x.md", "tests/test_adder.py"]
    assert verdict["facts"]["written"] == ["adder.py"]
    second = ground.agent.requests[2].prompt
    assert "Put back, tests/test_adder.py: 'tests/test_adder.py' is one of the tests" in second
    assert "Put back, docs/x.md: no place for it" in second


def test_an_agent_that_changes_nothing_is_told_so(ground: AgentGround) -> None:
    ground.agent.script = {
        **GOOD,
        "red": [
            edit(text="```python:tests/test_adder.py\npass\n```", dropped=["build/x"]),
            *GOOD["red"],
        ],
    }
    assert ground.start(work()).state is SessionState.COMPLETED
    assert ground.files()["tests/test_adder.py"] == TESTS
    assert "ignore them: build/x" in ground.agent.requests[1].prompt


def test_questions_contests_and_usage_are_said_beside_the_edit(ground: AgentGround) -> None:
    said = """\
Thinking.

```agentforge:contest
- {test: test_ac_01_two_numbers_are_added, reason: It is wrong.}
```

```agentforge:usage
input_tokens: 7
output_tokens: 3
```
"""
    ground.agent.script = {**GOOD, "green": [edit(("adder.py", "wrong\n"), text=said)]}
    outcome = ground.start(work())
    assert outcome.cause is StopCause.PERSON
    assert "no implementation can pass" in (outcome.reason or "")
    (answered,) = [entry for entry in ground.session.history if "agent_answered" in entry.action][
        1:
    ]
    assert answered.data is not None
    assert answered.data["usage"] == {"input": 7, "output": 3}


def test_without_a_word_of_its_cost_it_is_estimated_from_what_was_written(
    ground: AgentGround,
) -> None:
    ground.start(work())
    stored = steps(ground).read("0002-green-1.1.answer.json")
    assert stored is not None
    assert stored["usage"]["estimated"]
    assert stored["usage"]["output_tokens"] == -(-len(CODE) // 3)


def test_what_was_put_back_is_played_again(ground: AgentGround, tmp_path: Path) -> None:
    ground.agent.script = {
        **GOOD,
        "green": [
            edit(("adder.py", CODE), refused=[("tests/test_adder.py", "it is fixed")]),
            *GOOD["green"],
        ],
    }
    ground.worker().start(work(), Recorder(ground.agent, tmp_path / "kept"))
    other = AgentGround(tmp_path / "other", agent=RecordedAgent(tmp_path / "kept"))  # type: ignore[arg-type]
    assert other.start(work()).state is SessionState.COMPLETED
    assert put_back(ground) == put_back(other) != []


def put_back(ground: AgentGround) -> list[str]:
    """What the history says was put back, without what it cost."""
    details = [entry.details or "" for entry in ground.session.history]
    return [one.partition("\n")[2] for one in details if "put back" in one]


def test_recordings_are_played_in_either_mode(ground: AgentGround, tmp_path: Path) -> None:
    recorder = Recorder(ground.agent, tmp_path / "kept")
    outcome = ground.worker().start(work(), recorder)
    assert outcome.state is SessionState.COMPLETED
    for name, workflow in (("edit", EDITS), ("answer", TDFLOW)):
        other = AgentGround(tmp_path / name, agent=RecordedAgent(tmp_path / "kept"))  # type: ignore[arg-type]
        outcome = other.start(work(workflow))
        assert outcome.state is SessionState.COMPLETED, outcome.reason
        assert other.files() == ground.files()


def test_the_next_request_names_the_state_of_the_last_answer_that_is_in_force(
    ground: AgentGround,
) -> None:
    def answer(request: AgentRequest) -> AgentAnswer:
        return evolve(
            GOOD[request.phase][0], state=f"state of {request.phase} after {request.state}"
        )

    ground.agent.script = {phase: [answer] for phase in GOOD}
    assert ground.start(work()).state is SessionState.COMPLETED
    states = [request.state for request in ground.agent.requests]
    assert states[:2] == [None, "state of red after None"]
    assert states[2] == "state of green after state of red after None"


# ------------------------------------------------------------------------------------------- kills


def finish(ground: AgentGround, fs: DyingFileSystem) -> RunOutcome:
    """A worker that takes the session up where the last one left it."""
    runner = ground.worker(fs)
    if not SessionStore(ground.base).list_sessions():
        return runner.start(work(), ground.agent)
    if ground.session.state.is_terminal:
        return runner.outcome(ground.session_id)
    return runner.resume(ground.session_id, ground.agent)


def changes_to_die_at(changes: int, *, after: bool) -> range:
    """Every eighth in all, since after one is as before the next; a soak dies at each."""
    return range(0 if SOAKING else 8 * after, changes, 1 if SOAKING else 16)


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_any_change_of_the_disk_it_ends_the_same(tmp_path: Path, after: bool) -> None:
    script: Any = {
        **GOOD,
        "green": [
            edit(("adder.py", CODE), ("tests/test_adder.py", "pass\n"), deleted=["x.py"]),
            edit(("adder.py", CODE)),
        ],
    }

    def answers(request: AgentRequest) -> AgentAnswer:
        lines = script[request.phase]
        return lines[min(request.turn, len(lines)) - 1]  # type: ignore[no-any-return]

    def new(name: str) -> AgentGround:
        agent = ScriptedAgent(script={phase: [answers] for phase in script})
        return AgentGround(tmp_path / name, agent=agent)

    whole = new("whole")
    fs = DyingFileSystem()
    assert finish(whole, fs).state is SessionState.COMPLETED
    names = steps(whole).names()
    for die_at in changes_to_die_at(fs.changes, after=after):
        ground = new(f"{die_at}")
        with suppress(Killed):
            finish(ground, DyingFileSystem(die_at=die_at, after=after))
        assert finish(ground, DyingFileSystem()).state is SessionState.COMPLETED, die_at
        assert ground.files() == whole.files(), die_at
        assert steps(ground).names() == names, die_at
        calls = [(one.phase, one.turn) for one in ground.agent.requests]
        assert len(calls) <= len(whole.agent.requests) + 1, die_at


# ------------------------------------------------------------------------------- gates by command


@define
class Commands:
    """A project's tests: one for each line `name outcome` of its files called tests/…"""

    runs: list[tuple[CommandRequest, dict[str, str]]] = field(factory=list)

    def prepare(self, requests: Iterable[CommandRequest]) -> None:
        list(requests)

    def run(
        self,
        request: CommandRequest,
        *,
        files: Mapping[str, bytes],
        folder: Path | None = None,
        left_out: Collection[str] = (),
    ) -> CommandExecution:
        assert folder is not None
        seen = {
            str(path.relative_to(folder)): path.read_text()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and str(path.relative_to(folder)) not in left_out
        }
        seen |= {path: data.decode() for path, data in files.items()}
        self.runs.append((request, seen))
        lines = [
            line.split(" ", 1)
            for path, text in seen.items()
            if path.startswith("tests/")
            for line in text.splitlines()
        ]
        code = seen.get("adder.py", "")
        cases = [(name, outcome if outcome != "code" else code.strip()) for name, outcome in lines]
        bad = [name for name, outcome in cases if outcome != "good"]
        report = "".join(
            f'<testcase name="{name}">{"" if name not in bad else "<failure/>"}</testcase>'
            for name, _ in cases
        )
        result = PhaseResult(success=not bad, exit_code=int(bool(bad)), stdout="what it said")
        reports = {"r.xml": f"<testsuite>{report}</testsuite>".encode()}
        return CommandExecution(result=result, reports=reports)


INPUTS: Final = [
    Input(target="tests/old", content=b"fine good\nold-bug bad\n"),
    Input(target="other.py", content=b"other\n"),
]
COMMANDED: Final = EDITS.with_command("run the tests")
PLAN: Final = {
    "red": [edit(("tests/new", "AC-01:adds code\n"))],
    "green": [edit(("adder.py", "good\n"))],
    "refactor": [edit(("adder.py", "good\n\n"))],
}


def commanded(ground: AgentGround, commands: Commands, **more: Any) -> RunOutcome:
    given = work(more.pop("workflow", COMMANDED), inputs=INPUTS)
    return ground.worker(commands=commands).start(given, ground.agent, **more)


def test_the_base_is_run_once_and_kept(ground: AgentGround) -> None:
    commands = Commands()
    ground.agent.script = {
        **PLAN,
        "red": [edit(("tests/new", "AC-01:adds good\n")), *PLAN["red"]],
    }
    outcome = commanded(ground, commands)
    assert outcome.state is SessionState.COMPLETED, outcome.reason
    seen = [files for _, files in commands.runs]
    assert len(seen) == 6  # the base, two attempts at red, green, refactor, verify
    assert seen[0] == {one.target: one.content.decode() for one in INPUTS}
    assert [name for name in steps(ground).names() if name == BASE_STEP]
    first, second, green = (request.prompt for request in ground.agent.requests[:3])
    said = "Before anything was written, `run the tests` ended with 1: of 2 tests 1 passed, 1 fail"
    for prompt in (first, second, green):
        assert said in " ".join(prompt.split())
        assert "These failed: old-bug." in prompt
        assert "`run the tests`" in prompt
    assert "passes before there is an implementation" in second
    red = steps(ground).read("0002-red-2.verdict.json")
    assert red is not None
    assert red["facts"]["failed_before"] == ["old-bug"]
    assert red["facts"]["tests"] == ["AC-01:adds"]


def test_a_base_that_says_nothing_stops_before_anybody_is_asked(ground: AgentGround) -> None:
    ground.agent.script = dict(PLAN)
    broken = evolve(COMMANDED, phases=COMMANDED.phases).with_command("run", report="exit-code")
    outcome = commanded(ground, Commands(), workflow=broken)
    assert outcome.cause is StopCause.FAILED
    assert "on the base, before anything was written" in (outcome.reason or "")
    assert "what it said" in (outcome.reason or "")
    assert ground.agent.requests == []
    mended = Commands()
    runner = ground.worker(commands=mended)
    again = runner.resume(ground.session_id, ground.agent)
    assert again.cause is StopCause.FAILED
    assert len(mended.runs) == 1


def test_red_is_judged_on_the_base_whatever_the_session_wrote_of_the_component(
    ground: AgentGround,
) -> None:
    """Tests that are written again see the file that the base had, not what became of it."""
    ground.agent.script = {**PLAN, "green": [edit(("adder.py", "still wrong\n"))]}
    commands = Commands()
    inputs = [*INPUTS, Input(target="adder.py", content=b"before\n")]
    given = work(COMMANDED, inputs=inputs)
    outcome = ground.worker(commands=commands).start(given, ground.agent)
    assert outcome.phases_done == ("red",)
    assert ground.files()["adder.py"] == "still wrong\n"
    base = steps(ground).read(BASE_STEP)
    assert base is not None
    assert list(base["files"]) == ["adder.py"]
    ground.agent.script = {**PLAN, "red": [edit(("tests/new", "AC-01:again code\n"))]}
    commands.runs.clear()
    again = ground.worker(commands=commands).retry(
        ground.session_id, None, ground.agent, back_to="red"
    )
    assert again.state is SessionState.COMPLETED, again.reason
    red, green = (files for _, files in commands.runs[:2])
    assert red["adder.py"] == "before\n"
    assert green["adder.py"] == "good\n"


def test_the_base_keeps_all_files_that_are_the_components_own(ground: AgentGround) -> None:
    ground.agent.script = {**PLAN, "green": [edit(("adder.py", "good\n"), ("lib/parts.py", "x"))]}
    given = work(
        COMMANDED,
        inputs=[*INPUTS, Input(target="lib/parts.py", content=b"before\n")],
        specification=SPEC.replace("tests: [", "other_files: [lib/]\n    tests: [").encode(),
    )
    outcome = ground.worker(commands=Commands()).start(given, ground.agent)
    assert outcome.state is SessionState.COMPLETED, outcome.reason
    base = steps(ground).read(BASE_STEP)
    assert base is not None
    assert list(base["files"]) == ["lib/parts.py"]
    assert ground.files()["lib/parts.py"] == "x"


def test_a_criterion_without_a_test_of_its_name_fails_a_commands_gate(ground: AgentGround) -> None:
    ground.agent.script = {**PLAN, "red": [edit(("tests/new", "adds code\n")), *PLAN["red"]]}
    assert commanded(ground, Commands()).state is SessionState.COMPLETED
    first = steps(ground).read("0001-red-1.verdict.json")
    assert first is not None
    assert first["summary"] == "1 acceptance criterion has no test"


def test_tests_that_no_component_names_are_fixed_after_red(ground: AgentGround) -> None:
    """Both phases may write everywhere; what was red may not be changed all the same."""
    gate = Gate(kind="tests_fail", command="run the tests")
    free = Workflow(
        name="free",
        workflow_type="free",
        role="You write.",
        agent_mode="edit",
        groups=[FileGroup(name="all", paths=["tests/", "adder.py"])],
        phases=[
            Phase(name="red", prompt="Red.", writes=["all"], gate=gate),
            Phase(
                name="green",
                prompt="Green.",
                writes=["all"],
                gate=evolve(gate, kind="tests_pass", tests_unchanged=True),
            ),
        ],
    )
    ground.agent.script = {
        "red": [edit(("tests/a", "one code\n")), edit(("tests/b", "two code\n"))],
        "green": [
            edit(("adder.py", "bad\n"), ("tests/a", "one good\n")),
            edit(("adder.py", "good\n")),
        ],
    }
    commands = Commands()
    given = AgentWork(workflow=free, name="free", inputs=INPUTS)
    outcome = ground.worker(commands=commands).start(given, ground.agent)
    assert outcome.state is SessionState.COMPLETED, outcome.reason
    green = steps(ground).read("0002-green-1.verdict.json")
    assert green is not None
    assert green["facts"]["put_back"] == ["tests/a"]


@pytest.mark.parametrize("after", [False, True])
def test_killed_while_the_base_is_run_it_is_run_again(tmp_path: Path, after: bool) -> None:
    def finished(ground: AgentGround, fs: DyingFileSystem) -> RunOutcome:
        runner = ground.worker(fs, commands=Commands())
        if not SessionStore(ground.base).list_sessions():
            return runner.start(work(COMMANDED, inputs=INPUTS), ground.agent)
        if ground.session.state.is_terminal:
            return runner.outcome(ground.session_id)
        return runner.resume(ground.session_id, ground.agent)

    def new(name: str) -> AgentGround:
        return AgentGround(tmp_path / name, agent=ScriptedAgent(script=dict(PLAN)))

    whole, fs = new("whole"), DyingFileSystem()
    assert finished(whole, fs).state is SessionState.COMPLETED
    for die_at in changes_to_die_at(fs.changes, after=after):
        ground = new(f"{die_at}")
        with suppress(Killed):
            finished(ground, DyingFileSystem(die_at=die_at, after=after))
        outcome = finished(ground, DyingFileSystem())
        assert outcome.state is SessionState.COMPLETED, (die_at, outcome.reason)
        assert ground.files() == whole.files(), die_at
        assert steps(ground).names() == steps(whole).names(), die_at


def test_what_a_choice_gives_an_agent_is_kept_with_the_session() -> None:
    choice = AgentChoice(kind="command", value="a", network=True, environment=("KEY",))
    made = work(agent=choice).attachments()["agent-work.json"]
    assert json.loads(made)["agent"]["environment"] == ["KEY"]
    assert AgentChoice(**json.loads(made)["agent"]) == choice
    assert b"agent_mode: edit" in work().attachments()["agent-workflow.yaml"]


def test_the_report_shows_what_was_edited(ground: AgentGround) -> None:
    ground.agent.script = {
        **GOOD,
        "red": [edit(("tests/test_adder.py", TESTS), text="My <words>.", dropped=["build/x"])],
    }
    ground.start(work())
    page = session_report(PageSource(ground.session, SessionStore(ground.base)))
    assert "My &lt;words&gt;." in page
    assert "test_ac_01_two_numbers_are_added" in page
    assert "Not taken, since the project's rules ignore it: <code>build/x</code>" in page
