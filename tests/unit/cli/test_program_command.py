"""`agentforge run PROGRAM.py`: a program as a workflow, begun once and gone on with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from attrs import define, field

from agentforge_sessions.entrypoints.cli.context import CliEnvironment
from agentforge_sessions.entrypoints.cli.main import run
from agentforge_sessions.entrypoints.cli.output.errors import ExitCode
from agentforge_sessions.harness import SessionContext, SessionState, SessionStore
from tests.support.agents import CODE, GOOD, SPEC, FakeGates
from tests.support.executors import WaitingExecutor

TDFLOW = """\
call agent {"prompt": "Write the tests.", "name": "red", "writes": ["tests"]}
call gate {"kind": "tests_fail"}
call agent {"prompt": "Write the code.", "name": "green", "writes": ["code"]}
call gate {"kind": "tests_pass"}
ask Accept it?
exit 0
"""


@define
class Commands:
    """The command line of a person, with an executor that runs programs of lines."""

    folder: Path
    capture: pytest.CaptureFixture[str]
    executor: WaitingExecutor = field(factory=WaitingExecutor)
    err: str = ""

    def __call__(self, *words: str) -> tuple[int, str]:
        outside = CliEnvironment(
            gates=FakeGates(),
            executor=self.executor,
            monotonic=lambda: 0.0,
        )
        code = run(["--base", str(self.folder / "sessions"), *words], outside)
        out, self.err = self.capture.readouterr()
        return code, out

    def program(self, *more: str, text: str = TDFLOW) -> tuple[int, str]:
        path = self.folder / "build.py"
        path.write_text(text)
        return self("run", str(path), "--no-wait", *more)

    @property
    def of_component(self) -> tuple[str, ...]:
        agent = f"recorded:{self.folder / 'recordings'}"
        return "--spec", str(self.folder / "spec.yaml"), "--agent", agent

    @property
    def sessions(self) -> list[SessionContext]:
        store = SessionStore(self.folder / "sessions")
        return [found for one in store.list_sessions() if (found := store.load(one)) is not None]

    def answer(self, text: str) -> None:
        (question,) = {
            entry.event.question_id  # type: ignore[union-attr]
            for session in self.sessions
            for entry in session.history
            if entry.action == "question_asked"
        }
        questions = str(self.folder / "questions")
        code, _ = self("answer", str(question), "--text", text, "--questions", questions)
        assert code == 0, self.err


@pytest.fixture
def agentforge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Commands]:
    recordings = tmp_path / "recordings"
    recordings.mkdir()
    for phase, (text,) in GOOD.items():
        (recordings / f"{phase}-1.md").write_text(text)
    (tmp_path / "spec.yaml").write_text(SPEC)
    yield Commands(tmp_path, capsys)
    structlog.reset_defaults()


def test_program_stops_at_its_question_and_says_how_to_answer(agentforge: Commands) -> None:
    code, out = agentforge.program(*agentforge.of_component)
    assert code == ExitCode.PERSON_NEEDED, agentforge.err
    assert "red: gate agent passed: wrote tests/test_adder.py" in out
    assert "gate tests_pass passed: 1 test passes" in out
    assert "agentforge answer" in out
    (session,) = agentforge.sessions
    assert session.state is SessionState.PAUSED
    assert session.workflow_type == "program"


def test_the_same_program_again_goes_on_at_that_line(agentforge: Commands, tmp_path: Path) -> None:
    agentforge.program(*agentforge.of_component)
    assert agentforge.program()[0] == ExitCode.PERSON_NEEDED
    agentforge.answer("yes")
    code, _ = agentforge.program()
    assert code == 0, agentforge.err
    (session,) = agentforge.sessions
    assert session.state is SessionState.COMPLETED
    assert agentforge.executor.runs[0] == "execute"
    assert agentforge.executor.runs[-1] == "resume {5: 'yes'}"
    workspace = SessionStore(tmp_path / "sessions").workspace_path(session.session_id)
    assert (workspace / "adder.py").read_text() == CODE


def test_resume_goes_on_with_a_program_too(agentforge: Commands) -> None:
    agentforge.program(*agentforge.of_component)
    agentforge.answer("yes")
    (session,) = agentforge.sessions
    assert agentforge("resume", session.session_id)[0] == 0, agentforge.err


def test_changed_program_is_refused_until_a_new_session_is_asked_for(agentforge: Commands) -> None:
    agentforge.program(text="ask One?\nexit 0\n")
    code, _ = agentforge.program(text="ask Two?\nexit 0\n")
    (first,) = agentforge.sessions
    assert code == ExitCode.CONFLICT
    assert f"has changed since session {first.session_id} began" in agentforge.err
    assert agentforge.executor.runs == ["execute"]
    assert agentforge.program("--new", text="ask Two?\nexit 0\n")[0] == ExitCode.PERSON_NEEDED
    assert len(agentforge.sessions) == 2


def test_program_that_ended_begins_a_new_session(agentforge: Commands) -> None:
    for _ in range(2):
        assert agentforge.program(text="exit 0\n")[0] == 0, agentforge.err
    assert len(agentforge.sessions) == 2


def test_program_names_no_command_and_no_agent_of_its_own(agentforge: Commands) -> None:
    text = 'call gate {"kind": "suite", "command": "touch /tmp/x"}\ncall agent {"prompt": "x"}\n'
    code, _ = agentforge.program(text=text)
    assert code == ExitCode.NOT_DONE
    assert "gate takes no 'command'" in agentforge.executor.runs[1]
    (session,) = agentforge.sessions
    assert "name one with --agent" in str(session.history[-1].details)


@pytest.mark.parametrize("word", ["--component", "--example"])
def test_option_of_another_workflow_is_refused(agentforge: Commands, word: str) -> None:
    assert agentforge.program(word, "x", text="exit 0\n")[0] == ExitCode.USAGE


def test_page_and_report_show_what_a_program_called(agentforge: Commands, tmp_path: Path) -> None:
    agentforge.program(*agentforge.of_component)
    (session,) = agentforge.sessions
    _, log = agentforge("session", "log", session.session_id)
    assert "agent red: wrote tests/test_adder.py" in log
    report = tmp_path / "report.html"
    assert agentforge("session", "report", session.session_id, "--out", str(report))[0] == 0
    assert "Write the tests." in report.read_text()
