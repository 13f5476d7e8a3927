"""What the command line takes from a project's configuration, and how it shows its faults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge_sessions.entrypoints.cli.main import run
from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.jail import Jail, JailError, JailPolicy
from tests.support.repositories import new_checkout, write_files
from tests.support.trusting import trusted
from tests.unit.cli.conftest import Ended

Command = Callable[..., Ended]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, which is the working directory."""
    for variable in ("AGENTFORGE_BASE", "AGENTFORGE_CONFIG", "AGENTFORGE_QUESTIONS"):
        monkeypatch.delenv(variable, raising=False)
    root = tmp_path / "project"
    (root / ".agentforge").mkdir(parents=True)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def agentforge(capsys: pytest.CaptureFixture[str]) -> Command:
    def command(*words: str) -> Ended:
        code = run(words)
        out, err = capsys.readouterr()
        return Ended(code, out, err)

    return command


def configure(project: Path, text: str) -> Path:
    return trusted(project, text)


def begin(base: Path) -> str:
    manager = SessionManager(SessionStore(base))
    return manager.create("spec", "red", token_budget=10).session_id


def test_sessions_are_where_the_configuration_says(
    project: Path, agentforge: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(project, '[sessions]\ndirectory = "data/sessions"\n')
    session_id = begin(project / "data" / "sessions")
    assert session_id in agentforge("list").out
    (project / "deep").mkdir()
    monkeypatch.chdir(project / "deep")
    assert session_id in agentforge("list").out
    paused = agentforge("session", "pause", session_id)
    assert paused.code == 0
    assert "--base" not in agentforge("show", session_id).out


def test_an_option_beats_the_environment_which_beats_the_configuration(
    project: Path, agentforge: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(project, '[sessions]\ndirectory = "configured"\n')
    ids = {name: begin(project / name) for name in ("configured", "environment", "option")}
    assert ids["configured"] in agentforge("list").out
    monkeypatch.setenv("AGENTFORGE_BASE", "environment")
    assert ids["environment"] in agentforge("list").out
    assert ids["option"] in agentforge("--base", "option", "list").out


def test_faults_are_shown_with_their_lines_and_nothing_is_begun(
    project: Path, agentforge: Command
) -> None:
    configure(project, "[sessions]\ndirectory = 3\ndirectry = 'x'\n")
    ended = agentforge("list")
    assert ended.code == 7
    assert ended.err.splitlines() == [
        ".agentforge/config.toml:2: sessions.directory: expected text, found 3",
        ".agentforge/config.toml:3: sessions.directry: there is no such key; "
        "did you mean 'directory'?",
        "error: 2 faults in .agentforge/config.toml; nothing was begun",
    ]
    document = agentforge("list", "--json").document["error"]
    assert document["type"] == "InvalidConfiguration"
    assert len(document["faults"]) == 2
    assert agentforge("list", "--help").code == 0


def finding(agentforge: Command) -> dict[str, str]:
    checks = agentforge("doctor", "--json").document["checks"]
    (found,) = (one for one in checks if one["name"] == "configuration")
    return dict(found)


def test_doctor_shows_the_configuration_and_its_faults(project: Path, agentforge: Command) -> None:
    assert "none; everything is the default" in finding(agentforge)["message"]
    configure(project, "[sessions]\ndirectory = 'data'\n[questions]\nmax_sessions = 4\n")
    found = finding(agentforge)
    assert (found["status"], found["message"]) == (
        "ok",
        ".agentforge/config.toml: sessions, questions",
    )
    configure(project, "[sesions]\n[questions]\nmax_sessions = 0\n[context]\nmax_tokens = 'x'\n")
    found = finding(agentforge)
    assert found["status"] == "fail"
    for fault in ("line 1: sesions", "line 3: questions.max_sessions", "line 5: context.max_token"):
        assert fault in found["message"]


WORKFLOW = """\
schema_version: 1
name: touch
workflow_type: work
phases:
  - {name: only, script: work.py}
"""


def test_a_run_takes_repository_isolation_and_jail_of_the_configuration(
    project: Path, agentforge: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        Jail(JailPolicy()).check()
    except JailError as error:
        pytest.skip(str(error))
    capsys.readouterr()
    new_checkout(tmp_path / "work", {"a.txt": "committed\n"})
    write_files(tmp_path / "work", {"a.txt": "not committed\n"})
    script = '#!/bin/sh\nset -e\ncat a.txt > seen\necho "$GIVEN $KEPT" >> seen\n'
    write_files(project, {"work.py": script, "flow.yaml": WORKFLOW, "tools/x": "x"})
    text = (
        "[run]\nisolation = 'jail'\n[repository]\nuse = true\npath = '../work'\n"
        "with_uncommitted = true\n[jail]\nenvironment = ['GIVEN', 'UNSET']\n"
        "mounts = ['tools']\ntimeout_s = 30\n"
    )
    configure(project, text)

    def seen(*words: str) -> str:
        ended = agentforge("run", "flow.yaml", "--json", *words)
        assert ended.code == 0, ended.err
        session_id = ended.document["session_id"]
        return (SessionStore().workspace_path(session_id) / "seen").read_text()

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GIVEN", "given")
        environment.setenv("KEPT", "kept")
        assert seen() == "not committed\ngiven \n"
    assert seen("--repo", str(tmp_path / "work")).startswith("committed\n")
    alone = agentforge("run", "flow.yaml", "--repo", "none")
    assert alone.code == 1
    assert "a.txt" in alone.out
    told = agentforge("run", "flow.yaml", "--base", "nowhere")
    assert "Repository, as .agentforge/config.toml says:" in told.err
    configure(project, text.replace("'GIVEN', 'UNSET'", "'HOME'"))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HOME", str(tmp_path))
        refused = agentforge("run", "flow.yaml")
    assert "environment: HOME is the jail's own" in refused.err


def test_run_takes_the_configured_workflow(
    project: Path, agentforge: Command, tmp_path: Path
) -> None:
    missing = agentforge("run")
    assert missing.code == 2
    assert "workflow in [run]" in missing.err
    configure(project, "[run]\nworkflow = 'flow.yaml'\n")
    (project / "flow.yaml").write_text("schema_version: 1\n")
    assert "flow.yaml:1: name: is missing" in agentforge("run").err
    assert f"{tmp_path}/other.yaml" in agentforge("run", f"{tmp_path}/other.yaml").err


def test_the_configured_agent_is_taken_and_said(project: Path, agentforge: Command) -> None:
    missing = agentforge("run", "spec", "ledger")
    assert missing.code == 2
    assert "agent in [run]" in missing.err
    configure(project, "[run]\nagent = 'recorded:no-such-directory'\n")
    configured = agentforge("run", "spec", "ledger")
    assert configured.code == 2
    assert "Agent, as .agentforge/config.toml says: recorded:no-such-directory" in configured.err
    given = agentforge("run", "spec", "ledger", "--agent", "recorded:none-either")
    assert "none-either" in given.err
    assert "no-such-directory" not in given.err


def test_examples_are_listed_and_found_by_name(
    project: Path, agentforge: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "2000")
    listed = agentforge("run", "--example", "--json").document["examples"]
    assert [one["name"] for one in listed] == ["flaky", "hello", "interval-scheduler"]
    shown = agentforge("run", "--example").out.splitlines()
    assert [line.split()[0] for line in shown] == ["EXAMPLE", *(one["name"] for one in listed)]
    unknown = agentforge("run", "--example", "hallo")
    assert unknown.code == 2
    assert "there are flaky, hello, interval-scheduler" in unknown.err
