"""What `agentforge doctor` says of what the configuration names: jail, gate and agent."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from agentforge_sessions.base.data_folder import configuration_folder
from agentforge_sessions.jail import Jail, JailError, JailPolicy
from tests.support.agent_commands import put_command
from tests.support.trusting import trusted
from tests.unit.cli.conftest import CommandLine


class Project:
    """A project that is the working directory."""

    def __init__(self, folder: Path, agentforge: CommandLine) -> None:
        self.folder, self._agentforge = folder, agentforge

    def findings(
        self, configuration: str, *, is_trusted: bool = True
    ) -> dict[str, tuple[str, str]]:
        """Return what doctor says of jail, gate and agent: status and message."""
        file = self.folder / ".agentforge" / "config.toml"
        file.write_text(configuration)
        if is_trusted:
            trusted(file)
        checks = self._agentforge("doctor", "--json").document["checks"]
        return {
            one["name"]: (one["status"], one["message"])
            for one in checks
            if one["name"] in {"jail", "gate", "agent"}
        }


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agentforge: CommandLine) -> Project:
    folder = tmp_path / "project"
    (folder / ".agentforge").mkdir(parents=True)
    (folder / "tools").mkdir()
    monkeypatch.delenv("AGENTFORGE_CONFIG", raising=False)
    monkeypatch.chdir(folder)
    return Project(folder, agentforge)


@pytest.fixture
def jailed(project: Project) -> Project:
    """The project, on a machine that makes jails."""
    try:
        Jail(JailPolicy()).check()
    except JailError as error:
        pytest.skip(str(error))
    return project


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs of the test's own, before those of the machine."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_what_no_configuration_names_is_not_tried(project: Project) -> None:
    assert set(project.findings("")) == {"jail"}
    assert set(project.findings("[gate]\ntimeout_s = 3\n")) == {"jail"}


def test_a_jail_that_nothing_needs_yet_is_a_warning(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTFORGE_BWRAP", "nowhere")
    status, message = project.findings("")["jail"]
    assert status == "warn"
    assert "AGENTFORGE_BWRAP names 'nowhere'" in message
    assert "--no-jail: its commands can then read, change and send all that you can" in message
    assert project.findings("[run]\nagent_mode = 'edit'\n")["jail"][0] == "fail"


def test_what_the_person_has_not_trusted_is_not_tried(project: Project, path: Path) -> None:
    ran = project.folder / "ran"
    for name in ("codex", "runner"):
        put_command(path, name, f": > {ran}")
    text = (
        "[gate]\ncommand = 'runner'\n[run]\nagent = 'codex'\nisolation = 'jail'\n"
        "agent_mode = 'edit'\n[jail]\nread = ['/']\n"
    )
    assert set(project.findings(text)) == {"jail", "gate", "agent"}
    ran.unlink(missing_ok=True)
    assert set(project.findings(f"{text}# changed by another\n", is_trusted=False)) == {"jail"}
    assert not ran.exists()


@pytest.mark.parametrize("named", ["[run]\nisolation = 'jail'\n", "[run]\nagent_mode = 'edit'\n"])
def test_doctor_makes_the_jail_that_is_configured(jailed: Project, named: str) -> None:
    assert jailed.findings(f"{named}[jail]\nmounts = ['tools']\n") == {
        "jail": ("ok", "a jail was made as configured, and a command ran in it")
    }


@pytest.mark.parametrize(
    ("jail", "said"),
    [
        ("read = ['/nosuch/folder']", "/nosuch/folder"),
        ("mounts = ['nosuch']", "nosuch"),
        ("environment = ['HOME']", "HOME is the jail's own"),
    ],
)
def test_doctor_says_why_the_configured_jail_can_not_be_made(
    jailed: Project, jail: str, said: str
) -> None:
    found = jailed.findings(f"[run]\nisolation = 'jail'\n[jail]\n{jail}\n")
    status, message = found["jail"]
    assert (status, said in message) == ("fail", True), message


def test_doctor_looks_for_the_gate_and_runs_no_test(jailed: Project, tmp_path: Path) -> None:
    found = jailed.findings(f"[gate]\ncommand = 'touch {tmp_path}/ran'\n")
    assert found["gate"] == ("ok", "touch is there in the jail; the tests were not run")
    assert found["jail"][0] == "ok"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("command", "said"),
    [("nosuch-runner -q", "'nosuch-runner'"), ("pytest 'open", "No closing quotation")],
)
def test_doctor_says_that_the_gate_can_not_be_run(jailed: Project, command: str, said: str) -> None:
    status, message = jailed.findings(f'[gate]\ncommand = "{command}"\n')["gate"]
    assert (status, said in message) == ("fail", True), message


def test_program_of_the_gate_that_no_jail_may_show_is_a_failure(
    jailed: Project, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / ".ssh"
    secret.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    (path / "runner").symlink_to(put_command(secret, "runner", "exit 0"))
    status, message = jailed.findings("[gate]\ncommand = 'runner'\n")["gate"]
    assert (status, "may not be shown" in message) == ("fail", True), message


def test_doctor_says_whether_the_agent_can_be_asked(project: Project, path: Path) -> None:
    ran = project.folder / "ran"
    put_command(path, "my-agent", f": > {ran}")
    text = "[run]\nagent = 'my-agent --quiet'\n"
    said = ("ok", "my-agent: can be asked, and was asked nothing")
    assert project.findings(text)["agent"] == said
    (path / "my-agent").unlink()
    status, message = project.findings(text)["agent"]
    assert (status, "there is no program my-agent" in message) == ("fail", True)
    assert not ran.exists()


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("recorded:nosuch", "nosuch"),
        ("command 'open", "No closing quotation"),
        ("anthropic:m@http://127.0.0.1:9/v1", "it can't be reached"),
    ],
)
def test_agent_that_can_not_be_asked_is_a_failure(
    project: Project, monkeypatch: pytest.MonkeyPatch, agent: str, said: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    status, message = project.findings(f'[run]\nagent = "{agent}"\n')["agent"]
    assert (status, said in message) == ("fail", True), message


def test_doctor_tries_an_agent_that_edits_in_its_jail(
    jailed: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    edits = "[run]\nagent_mode = 'edit'\n"
    found = jailed.findings(f"{edits}agent = '{shutil.which('true')}'\n")
    assert found["agent"][0] == "ok"
    assert "editing in a jail, sealed" in found["agent"][1]
    found = jailed.findings(f"{edits}agent = 'nosuch-agent'\n")
    assert (found["jail"][0], found["agent"][0]) == ("ok", "fail")
    found = jailed.findings(f"{edits}agent = 'true'\nagent_environment = ['NOT_SET']\n")
    assert (found["agent"][0], "NOT_SET" in found["agent"][1]) == ("fail", True)
    found = jailed.findings(f"{edits}agent = 'openai:m'\n")
    assert (found["agent"][0], "can't edit files in place" in found["agent"][1]) == ("fail", True)


def test_privacy_that_can_not_be_used_is_said_with_the_name_that_is_wrong(
    project: Project, agentforge: CommandLine
) -> None:
    path = configuration_folder() / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {}
    try:
        for said in ("claude-cod", "claude"):
            path.write_text(f'[privacy.codex]\nhides = ["{said}"]\n')
            checks = agentforge("doctor", "--json").document["checks"]
            found[said] = [one for one in checks if one["name"] == "privacy"]
    finally:
        path.unlink()
    (fault,) = found["claude-cod"]
    assert fault["status"] == "fail"
    assert "'claude-cod' is none of claude-code, codex, gemini" in fault["message"]
    assert found["claude"] == []
