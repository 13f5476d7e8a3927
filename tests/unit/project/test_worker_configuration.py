"""`[worker]` of a person's own configuration, and of no other file."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.base.settings.configuration import load_configuration
from agentforge_sessions.base.settings.configuration_file import InvalidConfiguration
from agentforge_sessions.base.settings.worker_configuration import (
    WorkerConfiguration,
    load_worker_configuration,
)
from agentforge_sessions.wiring.fleet import worker_allowed

SECTION = """\
[worker]
agents = ["claude", "codex"]
agent_commands = true
agent_jail = false
agent_network = true
agent_environment = ["ANTHROPIC_API_KEY"]
repositories = ["/srv/projects"]
"""


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's own configuration file, which is not there yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "config" / "agentforge" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def test_without_a_word_of_the_person_nothing_is_allowed(person: Path) -> None:
    assert load_worker_configuration() == WorkerConfiguration()
    assert not WorkerConfiguration().agents
    assert not WorkerConfiguration().agent_commands
    assert WorkerConfiguration().agent_jail


def test_what_the_person_says_is_read(person: Path) -> None:
    person.write_text(SECTION)
    assert load_worker_configuration() == WorkerConfiguration(
        agents=("claude", "codex"),
        agent_commands=True,
        agent_jail=False,
        agent_network=True,
        agent_environment=("ANTHROPIC_API_KEY",),
        repositories=(Path("/srv/projects"),),
    )


def test_a_projects_file_has_no_say(
    person: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "clone" / ".agentforge"
    project.mkdir(parents=True)
    (project / "config.toml").write_text(SECTION)
    monkeypatch.chdir(project.parent)
    assert load_worker_configuration() == WorkerConfiguration()
    monkeypatch.setenv("AGENTFORGE_CONFIG", str(project / "config.toml"))
    assert load_worker_configuration() == WorkerConfiguration()
    with pytest.raises(InvalidConfiguration, match="worker"):
        load_configuration()


def test_an_option_comes_before_the_configuration(person: Path) -> None:
    person.write_text(SECTION)
    found = worker_allowed(agents=["codex"], agent_commands=False, repositories=None)
    assert (found.agents, found.agent_commands) == (("codex",), False)
    assert found.repositories == (Path("/srv/projects"),)


def test_all_faults_are_said_at_once(person: Path) -> None:
    person.write_text(
        '[worker]\nagents = "claude"\nagent_environment = ["A=B"]\nrepositories = ["here"]\n'
        "agent_comands = true\n"
    )
    with pytest.raises(InvalidConfiguration) as refused:
        load_worker_configuration()
    said = str(refused.value)
    for words in ("agents: expected a list", "name of a variable", "absolute", "agent_commands"):
        assert words in said
