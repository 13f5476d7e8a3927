"""What a task begins with: its check, its agent, its login, its budget; decided without a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import typer

from agentforge_sessions.agents.running.logins import (
    LOGINS,
    adapted,
    login_files,
    login_missing,
    login_problem,
    variables_of,
)
from agentforge_sessions.base.settings.configuration import (
    Configuration,
    GateConfiguration,
    ProjectFacts,
    RunConfiguration,
)
from agentforge_sessions.entrypoints.cli.options import parse_tokens
from agentforge_sessions.entrypoints.cli.running.task_choices import (
    find_agent,
    find_check,
    shown_folders,
)
from agentforge_sessions.workflows import InvalidWorkflow
from agentforge_sessions.workflows.builtin import UNCHECKED, task_workflow
from agentforge_sessions.workflows.workflow import Gate

NOTHING = Configuration()
PYTEST = "[project]\nname = 'x'\n[tool.pytest.ini_options]\n"


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_toml", ".toml").replace("_json", ".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "command", "report"),
    [
        ({"pyproject_toml": PYTEST}, "pytest -q", "junit"),
        (
            {"pyproject_toml": PYTEST, ".venv__pyvenv.cfg": ""},
            ".venv/bin/python -m pytest -q",
            "junit",
        ),
        ({"package_json": '{"scripts": {"test": "node --test"}}'}, None, "tap"),
        ({"package_json": '{"scripts": {"test": "./run"}}'}, "npm test", "exit-code"),
        ({"Makefile": "check:\n\ttrue\n"}, "make check", "exit-code"),
    ],
)
def test_the_check_is_what_the_build_files_say(
    tmp_path: Path, files: dict[str, str], command: str | None, report: str
) -> None:
    found = find_check(NOTHING, write(tmp_path, **files), None)
    assert found.gate.report == report
    assert command is None or found.gate.command == command
    assert found.because is not None


def test_no_check_is_found_where_nothing_says_it(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="--check none"):
        find_check(NOTHING, tmp_path, None)
    assert find_check(NOTHING, tmp_path, "none").gate is UNCHECKED


@pytest.mark.parametrize(
    ("named", "report"),
    [("npm test", "exit-code"), ("uv run pytest", "junit"), ("node --test-reporter=tap", "tap")],
)
def test_a_named_check_beats_everything_and_is_read_as_far_as_it_says(
    tmp_path: Path, named: str, report: str
) -> None:
    write(tmp_path, pyproject_toml=PYTEST)
    configured = Configuration(gate=GateConfiguration(command="make"))
    found = find_check(configured, tmp_path, named, timeout_s=7.0)
    assert (found.gate.command, found.gate.report) == (named, report)
    assert (found.gate.deadline_s, found.because) == (7.0, None)


def test_the_configuration_beats_what_was_detected(tmp_path: Path) -> None:
    write(tmp_path, pyproject_toml=PYTEST)
    gate = GateConfiguration(command="make", report="exit-code", timeout_s=9.0)
    found = find_check(Configuration(gate=gate), tmp_path, None)
    assert (found.gate.command, found.gate.deadline_s) == ("make", 9.0)
    facts = Configuration(project=ProjectFacts(test="make it"))
    assert find_check(facts, tmp_path, None).gate.command == "make it"


def test_imports_of_a_python_project_begin_in_its_source(tmp_path: Path) -> None:
    write(tmp_path, pyproject_toml=PYTEST, src__pkg__a="")
    assert find_check(NOTHING, tmp_path, "none").import_root == "src"
    assert find_check(NOTHING, write(tmp_path / "b", package_json="{}"), "none").import_root is None


def test_installed_packages_are_shown_unless_the_configuration_says_what_is(
    tmp_path: Path,
) -> None:
    shown = shown_folders(NOTHING, tmp_path, ("node_modules",))
    assert (shown.root, shown.jail.mounts) == (tmp_path, ("node_modules",))
    assert "jail" in shown.given
    own = Configuration(given=("jail",))
    assert shown_folders(own, tmp_path, ("node_modules",)) is own


def on_path(*names: str) -> dict[str, str]:
    return {name: f"/bin/{name}" for name in names}


@pytest.mark.parametrize(
    ("configured", "there", "named", "found"),
    [
        (None, ["codex"], None, "codex"),
        (None, ["codex"], "aider x", "aider x"),
        ("claude:opus", ["codex"], None, "claude:opus"),
        ("claude -p", ["codex"], None, "claude"),
        ("llm -m x", ["codex"], None, "codex"),
    ],
)
def test_the_agent_is_the_named_one_the_configured_one_or_the_one_on_path(
    configured: str | None, there: list[str], named: str | None, found: str
) -> None:
    configuration = Configuration(run=RunConfiguration(agent=configured))
    assert find_agent(configuration, named, on_path=on_path(*there).get) == found


def test_a_configured_command_is_taken_if_it_edits() -> None:
    run = RunConfiguration(agent="aider x", agent_mode="edit")
    assert find_agent(Configuration(run=run), None, on_path=on_path("codex").get) == "aider x"


def test_of_several_programs_the_person_takes_one() -> None:
    there = on_path("opencode", "claude").get
    asked: list[Sequence[str]] = []

    def choose(names: Sequence[str]) -> str:
        asked.append(names)
        return names[1]

    assert find_agent(NOTHING, None, on_path=there, choose=choose) == "opencode"
    assert asked == [["claude", "opencode"]]
    with pytest.raises(typer.BadParameter, match="nobody can be asked"):
        find_agent(NOTHING, None, on_path=there)
    with pytest.raises(typer.BadParameter, match="no agent program is on PATH"):
        find_agent(NOTHING, None, on_path=on_path().get)


def test_a_program_gets_the_variables_that_log_it_in_and_no_other() -> None:
    environment = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "ANTHROPIC_BASE_URL": ""}
    assert variables_of("claude:opus", environment) == ("ANTHROPIC_API_KEY",)
    assert variables_of("codex", environment) == ("OPENAI_API_KEY",)
    assert variables_of("aider x", environment) == ()


def test_a_program_finds_its_key_and_its_model_where_it_looks_for_them() -> None:
    given = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
    variables, files = adapted("codex:m", given)
    assert variables == {**given, "CODEX_API_KEY": "k"}
    assert files == {"config.toml": 'openai_base_url = "http://127.0.0.1:1/v1"\n'}
    assert adapted("codex", {**given, "CODEX_API_KEY": "own"})[0]["CODEX_API_KEY"] == "own"
    _, files = adapted("gemini", {"GEMINI_API_KEY": "k"})
    assert "gemini-api-key" in files[".gemini/settings.json"]
    assert "oauth-personal" in adapted("gemini", {}, by_file=True)[1][".gemini/settings.json"]
    assert adapted("claude", {"ANTHROPIC_API_KEY": "k"}) == ({"ANTHROPIC_API_KEY": "k"}, {})


def test_a_program_without_a_login_is_named_before_it_is_asked() -> None:
    home = {"HOME": "/nowhere"}
    assert login_missing("claude", ("ANTHROPIC_API_KEY",), home) is None
    said = login_missing("claude:opus", ("ANTHROPIC_MODEL",), home) or ""
    assert "~/.claude/.credentials.json is not there" in said
    assert "claude setup-token" in said
    assert login_missing("opencode", (), home) is None, "its provider may need no key"
    assert login_missing("sh agent.sh", (), home) is None


def test_a_login_file_is_found_in_an_absolute_folder_alone(tmp_path: Path) -> None:
    write(tmp_path, auth_json="login")
    elsewhere = {"HOME": "/nowhere", "CODEX_HOME": str(tmp_path)}
    found = login_files("codex:m", ("OPENAI_BASE_URL",), elsewhere)
    assert found == (f"{tmp_path}/auth.json", {"auth.json": b"login"}, "")
    assert login_files("codex", ("CODEX_API_KEY",), elsewhere) is None
    assert login_files("sh agent.sh", (), elsewhere) is None
    for home in ({}, {"HOME": "."}, {"HOME": "/nowhere", "CODEX_HOME": "."}):
        found = login_files("codex", (), home)
        assert found is not None
        assert (found.files, found.problem) == ({}, "is not there")


@pytest.mark.parametrize(
    ("program", "output"),
    [
        ("claude", "Invalid API key · Please run /login"),
        ("claude", "Not logged in · Please run /login"),
        ("claude", "Failed to authenticate. API Error: 401 OAuth token has expired"),
        ("codex", '{"type":"error","message":"unexpected status 401 Unauthorized: "}'),
        ("gemini", "Please set an Auth method in your settings.json or specify GEMINI_API_KEY"),
        ("opencode", '{"name":"ProviderAuthError","data":{}}'),
    ],
)
def test_a_program_that_says_that_it_is_not_logged_in_is_understood(
    program: str, output: str
) -> None:
    problem = login_problem(program, output)
    assert problem is not None
    assert output[-30:] in problem
    assert "set" in problem


def test_other_failures_are_not_about_the_login() -> None:
    assert login_problem("claude", "the model is overloaded (529)") is None
    assert login_problem("sh", "401 Unauthorized") is None
    assert set(LOGINS) == {"claude", "codex", "gemini", "opencode"}


@pytest.mark.parametrize(
    ("text", "number"), [("1", 1), ("200000", 200_000), ("200k", 200_000), ("2M", 2_000_000)]
)
def test_a_budget_may_end_in_k_or_m(text: str, number: int) -> None:
    assert parse_tokens(text) == number


@pytest.mark.parametrize("text", ["", "0", "0k", "-1", "1.5k", "k", "1kk", "²"])
def test_a_budget_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="200k"):
        parse_tokens(text)


def test_the_phases_of_a_task() -> None:
    check = Gate(kind="tests_pass", command="npm test", report="exit-code")
    plain = task_workflow(check)
    assert plain.names == ("work",)
    assert not any(gate.in_sandbox for gate in plain.gates)
    assert plain.edits
    whole = task_workflow(check, plan=True, tests_first=True)
    assert whole.names == ("plan", "red", "work")
    assert [one.kind for one in whole.gates] == ["plan", "tests_fail", "tests_pass"]
    assert whole.gates[-1].tests_unchanged
    assert not task_workflow(UNCHECKED).command_gates
    with pytest.raises(InvalidWorkflow):
        task_workflow(UNCHECKED, tests_first=True)
