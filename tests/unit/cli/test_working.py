from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from agentforge_sessions.entrypoints.cli.output.output import Output
from agentforge_sessions.entrypoints.cli.output.progress import LiveRunView
from agentforge_sessions.harness import PhaseResult, SessionState
from agentforge_sessions.sandbox import SandboxUnavailable
from agentforge_sessions.workflows import Job, Verdict, load_workflow
from tests.unit.cli.conftest import CommandLine

FAILED = PhaseResult(success=False, exit_code=3, stderr="boom\x1b[31m\nlast line", duration_s=0.5)
DONE = PhaseResult(success=True, exit_code=0, duration_s=0.25)


def only(agentforge: CommandLine) -> str:
    (session_id,) = agentforge.store.list_sessions()
    return session_id


def test_run_tells_each_phase_and_how_it_ended(agentforge: CommandLine, workflow: Path) -> None:
    agentforge.executor.default = DONE
    ended = agentforge("run", workflow)
    session_id = only(agentforge)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (
        f"Running two in session {session_id}\n"
        "[1/2] one: running, attempt 1\n"
        "[1/2] one: succeeded (0.25 s, 100 tokens)\n"
        "[2/2] two: running, attempt 1\n"
        "[2/2] two: succeeded (0.25 s, 200 tokens)\n"
        "\n"
        "state      completed\n"
        f"session    {session_id}\n"
        f"file       {agentforge.store.session_path(session_id)}\n"
        f"workspace  {agentforge.store.workspace_path(session_id)}\n"
        "budget     ███████░░░░░░░░░░░░░░░░░ 30 %  300 of 1,000 tokens\n"
        f"next       agentforge --base {agentforge.base} show {session_id}\n"
    )


def test_a_phase_is_drawn_as_running_however_short_it_is(
    agentforge: CommandLine, workflow: Path
) -> None:
    told, output, manager = io.StringIO(), Output(), agentforge.begin()
    output._console = Console(file=told, force_terminal=True, width=100)
    view, run = LiveRunView(manager, output), load_workflow(workflow)
    with view.shown():
        view.run_started(agentforge.new_id(manager), Job.of(run), resumed=False)
        view.phase_started(run.phases[0], attempt=1, round_number=1, position=1, total=2)
        view.phase_finished(run.phases[0], Verdict(gate="script", passed=True, summary=""), DONE)
    assert "running" in told.getvalue()


def test_forced_colour_in_a_pipe_is_not_redrawn(
    agentforge: CommandLine, workflow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = agentforge("run", workflow).out
    assert "[2/2] two: succeeded" in out
    assert "\x1b[" in out
    assert "\x1b[2K" not in out


def test_run_in_json_is_one_document(agentforge: CommandLine, workflow: Path) -> None:
    agentforge.executor.default = PhaseResult(
        success=True, exit_code=0, stdout="out", files_created=("a.txt",), duration_s=0.25
    )
    document = agentforge("run", workflow, "--json").document
    session_id = only(agentforge)
    assert document["session_id"] == session_id
    assert document["state"] == "completed"
    assert document["reason"] is None
    assert document["phases_done"] == ["one", "two"]
    assert document["phases"][1] == {
        "name": "two",
        "state": "succeeded",
        "attempt": 1,
        "duration_s": 0.25,
        "tokens": 200,
    }
    assert document["last_result"]["stdout"] == "out"
    assert [one["path"] for one in document["artifacts"]] == ["a.txt", "a.txt"]
    assert document["next"] == f"agentforge --base {agentforge.base} session artifacts {session_id}"


def test_a_phase_that_fails_ends_with_1_and_the_way_on(
    agentforge: CommandLine, workflow: Path
) -> None:
    agentforge.executor.results = [DONE, FAILED]
    ended = agentforge("run", workflow)
    session_id = only(agentforge)
    assert ended.code == 1
    assert "[2/2] two: failed: exit code 3, expected 0 (0.50 s, 200 tokens)\n" in ended.out
    assert "stderr of two:\n    boom\\x1b[31m\n    last line\n" in ended.out
    assert "state      paused\n" in ended.out
    assert "reason     phase 'two' failed at attempt 1 of 2" in ended.out
    following = f"agentforge --base {agentforge.base} resume {session_id}"
    assert ended.out.endswith(f"next       {following}\n")


def test_resume_goes_on_where_it_ended(agentforge: CommandLine, workflow: Path) -> None:
    agentforge.executor.results = [DONE, FAILED]
    agentforge("run", workflow)
    session_id = only(agentforge)
    document = agentforge("resume", session_id[-8:], "--json").document
    assert document["state"] == "completed"
    assert document["phases"] == [
        {"name": "one", "state": "succeeded", "attempt": 1, "duration_s": 0.25, "tokens": 100},
        {"name": "two", "state": "succeeded", "attempt": 2, "duration_s": 0.5, "tokens": 400},
    ]


@pytest.mark.parametrize("command", [["resume"], ["session", "retry"]])
def test_an_agent_for_a_session_of_scripts_is_refused(
    agentforge: CommandLine, workflow: Path, command: list[str]
) -> None:
    agentforge.executor.results = [DONE, FAILED]
    agentforge("run", workflow)
    refused = agentforge(*command, only(agentforge), "--agent", "claude -p")
    assert refused.code == 2
    assert "its workflow runs scripts" in refused.err
    assert agentforge("resume", only(agentforge)).code == 0


def test_after_the_last_attempt_retry_is_named_and_goes_beyond(
    agentforge: CommandLine, workflow: Path
) -> None:
    agentforge.executor.results = [DONE, FAILED, FAILED]
    agentforge("run", workflow)
    session_id = only(agentforge)
    ended = agentforge("resume", session_id)
    assert ended.code == 1
    assert ended.out.endswith(f"retry {session_id}\n")
    refused = agentforge("resume", session_id)
    assert refused.code == 6
    assert f"`agentforge session retry {session_id}`" in refused.err
    assert refused.out == ""
    done = agentforge("session", "retry", session_id, "--reason", "fixed the host")
    assert done.code == 0
    assert "[2/2] two: running, attempt 3\n" in done.out
    session = agentforge.session(session_id)
    assert "attempt 3: fixed the host" in [one.details for one in session.history]


def test_retry_of_what_did_not_fail_is_refused(agentforge: CommandLine, workflow: Path) -> None:
    agentforge.executor.results = [KeyboardInterrupt()]
    agentforge("run", workflow)
    ended = agentforge("session", "retry", only(agentforge), "--json")
    assert ended.code == 6
    assert ended.document["error"]["type"] == "NothingToRetry"


def test_a_budget_that_is_too_small_names_the_extension(
    agentforge: CommandLine, workflow: Path
) -> None:
    agentforge.executor.before = lambda session_id: None
    text = workflow.read_text().replace("token_budget: 1000", "token_budget: 250")
    workflow.write_text(text)
    ended = agentforge("run", workflow)
    session_id = only(agentforge)
    assert ended.code == 11
    command = f"session budget {session_id} --extend 50"
    assert ended.out.endswith(f"{command}\n")
    assert agentforge("resume", session_id, "--json").document["error"]["missing"] == 50
    agentforge(*command.split())
    assert agentforge("resume", session_id).code == 0


def test_ctrl_c_keeps_the_session_and_says_how_to_go_on(
    agentforge: CommandLine, workflow: Path
) -> None:
    agentforge.executor.results = [DONE, KeyboardInterrupt()]
    ended = agentforge("run", workflow)
    session_id = only(agentforge)
    assert ended.code == 130
    assert ended.err == (
        f"interrupted; session {session_id} is kept with all that was recorded. "
        f"To go on: agentforge --base {agentforge.base} resume {session_id}\n"
    )
    assert agentforge("resume", session_id).code == 0
    session = agentforge.session(session_id)
    assert session.state is SessionState.COMPLETED


def test_ctrl_c_in_json_names_the_session(agentforge: CommandLine, workflow: Path) -> None:
    agentforge.executor.results = [KeyboardInterrupt()]
    ended = agentforge("run", workflow, "--json")
    assert ended.code == 130
    error = ended.document["error"]
    assert (error["type"], error["session_id"]) == ("Interrupted", only(agentforge))


def test_a_sandbox_that_can_not_run_is_told_and_the_session_kept(
    agentforge: CommandLine, workflow: Path
) -> None:
    agentforge.executor.results = [SandboxUnavailable("no memory", "buy some")]
    ended = agentforge("run", workflow)
    assert ended.code == 9
    assert ended.err == (
        f"The session is kept. To go on: agentforge --base {agentforge.base} "
        f"resume {only(agentforge)}\n"
        "error: the sandbox cannot run code: no memory. No code ran; buy some\n"
    )


def test_a_session_that_is_paused_while_it_runs_ends_with_1_and_its_result_kept(
    agentforge: CommandLine, workflow: Path
) -> None:
    text = workflow.read_text().replace("token_budget: 1000", "token_budget: 300")
    workflow.write_text(text.replace("tokens: 100", "tokens: 260").replace("200", "30"))

    def pause(session_id: str) -> None:
        agentforge.executor.before = None
        agentforge.manager(session_id).pause("lunch")

    agentforge.executor.before = pause
    ended = agentforge("run", workflow)
    session_id = only(agentforge)
    assert ended.code == 1
    assert "[1/2] one: succeeded" in ended.out
    assert "reason     paused while it ran: lunch\n" in ended.out
    assert ended.out.endswith(f" resume {session_id}\n"), "the next phase fits the budget"
    assert agentforge("resume", session_id, "--json").document["phases_done"] == ["one", "two"]


def test_a_session_that_is_ended_while_it_runs_is_a_conflict(
    agentforge: CommandLine, workflow: Path
) -> None:
    agentforge.executor.before = lambda session_id: agentforge.manager(session_id).abort() and None
    ended = agentforge("run", workflow)
    assert ended.code == 5
    assert ended.err.startswith("error: session "), "nobody can go on with it"
    assert agentforge("run", workflow, "--json").document["error"]["type"] == "SessionConflict"


def test_a_phase_that_somebody_else_retried_is_a_conflict_and_the_session_kept(
    agentforge: CommandLine, workflow: Path
) -> None:
    agentforge.executor.before = lambda one: agentforge.manager(one).retry_phase() and None
    ended = agentforge("run", workflow)
    assert ended.code == 5
    assert ended.err.startswith("The session is kept. To go on: agentforge --base ")


def test_a_session_that_is_being_run_is_not_run_twice(
    agentforge: CommandLine, workflow: Path
) -> None:
    codes = []

    def again(session_id: str) -> None:
        agentforge.executor.before = None
        codes.append(agentforge("resume", session_id).code)

    agentforge.executor.before = again
    assert agentforge("run", workflow).code == 0
    assert codes == [5]


@pytest.mark.parametrize("content", [None, "phases: [", "schema_version: 1\nname: x\n"])
def test_a_workflow_that_can_not_be_used_begins_no_session(
    agentforge: CommandLine, tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "bad.yaml"
    if content is not None:
        path.write_text(content)
    ended = agentforge("run", path, "--json")
    assert ended.code == 7
    error = ended.document["error"]
    assert (error["type"], error["path"]) == ("InvalidWorkflow", str(path))
    assert error["faults"]
    assert agentforge.store.list_sessions() == []


def test_a_session_that_no_workflow_began_can_not_be_resumed(agentforge: CommandLine) -> None:
    ended = agentforge("resume", agentforge.new(), "--json")
    assert ended.code == 6
    assert ended.document["error"]["type"] == "NotAWorkflowSession"


def test_a_long_output_of_a_failed_phase_is_told_by_its_end(
    agentforge: CommandLine, workflow: Path
) -> None:
    lines = "\n".join(f"line {number}" for number in range(100))
    agentforge.executor.results = [PhaseResult(success=False, exit_code=1, stdout=lines)]
    out = agentforge("run", workflow).out
    assert "stdout of one (the last 12 lines):\n    line 88\n" in out
    assert "line 87" not in out


@pytest.mark.parametrize(
    "words",
    [
        ["--agent", "claude -p"],
        ["--spec", "spec.yaml"],
        ["--about", "notes"],
        ["--budget", "100"],
        ["--dry-run"],
        ["--role", "a reviewer"],
    ],
    ids=lambda words: words[0],
)
def test_an_option_of_an_agents_workflow_is_refused_by_name_for_scripts(
    agentforge: CommandLine, workflow: Path, words: list[str]
) -> None:
    refused = agentforge("run", workflow, *words)
    assert refused.code == 2
    assert f"Invalid value for {words[0]}: is of an agent's work" in refused.err
    assert f"{workflow} runs scripts" in refused.err
    assert agentforge.store.list_sessions() == []


def test_an_option_of_scripts_is_refused_by_name_for_an_agents_workflow(
    agentforge: CommandLine, workflow: Path
) -> None:
    workflow.write_text("schema_version: 1\nname: two\nrole: A reviewer.\nphases: []\n")
    refused = agentforge("run", "--isolation", "jail", workflow)
    assert refused.code == 2
    assert "Invalid value for --isolation: is of scripts, and an agent works in" in refused.err


def test_a_specification_alone_is_run_as_tdflow_does(
    agentforge: CommandLine, workflow: Path
) -> None:
    workflow.write_text("schema_version: 1\ncomponents: []\n")
    assert agentforge("run", workflow, "--json").document["error"]["type"] == "InvalidSpecification"
    refused = agentforge("run", "--title", "x", workflow)
    assert (refused.code, "is a specification" in refused.err) == (2, True)


def test_a_file_with_a_commands_name_is_run_where_it_has_a_path(
    agentforge: CommandLine, workflow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workflow.parent)
    for name in ("tdflow", "WORKFLOW.yaml"):
        workflow.with_name(name).write_bytes(workflow.read_bytes())
    assert agentforge("run", "./tdflow").code == 0
    assert agentforge("run", "WORKFLOW.yaml").code == 0
    assert len(agentforge.store.list_sessions()) == 2


def test_the_help_of_a_workflow_file_keeps_the_options_of_scripts_and_of_agents_apart(
    agentforge: CommandLine,
) -> None:
    shown = agentforge("run", "WORKFLOW.yaml", "--help").out
    scripts, agents, both = shown.split("Options", 3)[1:]
    assert ("--isolation" in scripts, "--agent-mode" in agents) == (True, True)
    assert all(name in both for name in ("--repo", "--title", "--json"))
