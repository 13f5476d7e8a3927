"""A package of somebody else adds a store, an executor, an agent, an observer and a command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.person import persons_folders

SAMPLE = Path(__file__).parents[1] / "plugin_package"
WORKFLOW = """\
schema_version: 1
name: one
workflow_type: spec
phases:
  - name: first
    code: print(1)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages into which the sample's wheel was installed."""
    built = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built)]
    subprocess.run(command, cwd=SAMPLE, check=True, capture_output=True, timeout=100)
    packages = tmp_path_factory.mktemp("packages")
    with zipfile.ZipFile(next(built.iterdir())) as wheel:
        wheel.extractall(packages)
    return packages


class Person:
    """Somebody with a folder and a configuration of their own."""

    def __init__(self, folder: Path, packages: Path) -> None:
        self.folder = folder
        self._packages = packages
        (folder / "one.yaml").write_text(WORKFLOW)

    def agentforge(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": os.environ["PATH"],
            **persons_folders(),
            "PYTHONPATH": str(self._packages),
            "COLUMNS": "200",
            **variables,
        }
        return subprocess.run(
            [sys.executable, "-m", "agentforge_sessions.entrypoints.cli", *words],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def json(self, *words: str, **variables: str) -> dict[str, object]:
        done = self.agentforge("--json", *words, **variables)
        found: dict[str, object] = json.loads(done.stdout)
        return found

    def configured(self, text: str) -> dict[str, str]:
        """Write a configuration of the person's own; return the variable that names it."""
        path = self.folder / "own.toml"
        path.write_text(text)
        return {"AGENTFORGE_CONFIG": str(path)}


@pytest.fixture
def person(tmp_path: Path, installed: Path) -> Person:
    return Person(tmp_path, installed)


def test_sessions_are_in_the_store_of_a_plugin_and_run_by_its_executor(person: Person) -> None:
    shelf = person.folder / "shelf"
    store = f"shelf://{shelf}"
    done = person.agentforge("--store", store, "run", "one.yaml", "--isolation", "echo")
    assert done.returncode == 0, done.stderr
    (session,) = [one.name for one in shelf.iterdir() if one.name.startswith("session_")]
    assert "echo: print(1)" in (shelf / session / "session.yaml").read_text()
    listed = person.agentforge("--store", store, "list")
    assert session[-6:] in listed.stdout


def test_an_executor_that_nobody_installed_is_refused_before_a_session_begins(
    person: Person,
) -> None:
    done = person.agentforge("run", "one.yaml", "--isolation", "echoes")
    assert done.returncode == 2
    assert "no executor 'echoes'; there are sandbox, jail, echo" in done.stderr
    assert "No session is there" in person.agentforge("list").stdout


def test_a_workflow_file_can_not_choose_the_executor_of_a_plugin(person: Person) -> None:
    (person.folder / "one.yaml").write_text(WORKFLOW + "isolation: echo\n")
    done = person.agentforge("run", "one.yaml")
    assert done.returncode != 0
    assert "expected one of sandbox, jail, found echo" in done.stderr


def test_doctor_names_the_plugins_and_can_make_the_agent_of_one(person: Person) -> None:
    variables = person.configured('[run]\nagent = "parrot:hello"\n')
    done = person.agentforge("--json", "doctor", **variables)
    found = {one["name"]: one for one in json.loads(done.stdout)["checks"]}
    assert "parrot (agents) of agentforge-sample 1.0" in found["plugins"]["message"]
    assert found["agent"]["message"].startswith("a parrot that says hello")


def test_an_observer_of_a_plugin_gets_what_happens(person: Person) -> None:
    file = person.folder / "ledger"
    variables = person.configured(f'[[observers]]\nplugin = "ledger"\nfile = "{file}"\n')
    done = person.agentforge("run", "one.yaml", "--isolation", "echo", **variables)
    assert done.returncode == 0, done.stderr
    assert "session.completed" in file.read_text().split()


def test_an_observer_that_nobody_installed_is_a_fault_of_the_configuration(person: Person) -> None:
    variables = person.configured('[[observers]]\nplugin = "pager"\n')
    done = person.agentforge("run", "one.yaml", "--isolation", "echo", **variables)
    assert "there is no 'pager'; installed packages add ledger" in done.stderr
    assert done.returncode != 0


def test_a_command_of_a_plugin_is_listed_and_runs(person: Person) -> None:
    assert "Added by agentforge-sample 1.0." in person.agentforge("--help").stdout
    done = person.agentforge("greet", "you")
    assert (done.returncode, done.stdout) == (0, "Hello you\n")


def test_a_repository_that_python_looks_in_adds_nothing(person: Person, installed: Path) -> None:
    """With `python -m` the working directory is on the path: a clone's metadata lies there."""
    for one in installed.iterdir():
        one.rename(person.folder / one.name)
    try:
        done = person.agentforge("greet", "you", PYTHONPATH="")
        assert done.returncode == 2
        assert "there is no command 'greet'" in done.stderr
    finally:
        for name in ("agentforge_sample.py", "agentforge_sample-1.0.dist-info"):
            (person.folder / name).rename(installed / name)
