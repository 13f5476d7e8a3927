"""The shell script before the hook: it calls the hook wherever that may have something to do."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import pytest

GUARD = Path(str(resources.files("agentforge_sessions.agents.setup") / "hook.sh"))
SHELLS = [(one, *more) for one, *more in (["sh"], ["bash", "--posix"]) if shutil.which(one)]
EVENT = b'{"hook_event_name": "PreToolUse"}'
OFF = "[agents]\ncreate = false\n"
HOSTILE = ("a b", "-rf", "new\nline", "$(touch made)", "`touch made`", "*", "'\"", "über", ".x")


class Person:
    """A person whose hook writes what it was called with and what it read."""

    def __init__(self, folder: Path, shell: Sequence[str]) -> None:
        self.folder = folder
        self.shell = shell
        self.home = folder / "home"
        self.work = folder / "work"
        for one in (self.home, self.work):
            one.mkdir()
        self.hook = folder / "the hook"
        self.hook.write_text('#!/bin/sh\nprintf "%s:" "$1"\ncat\n')
        self.hook.chmod(0o755)

    def configure(self, text: str) -> None:
        path = self.home / ".config" / "agentforge" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def is_called(self, folder: Path, event: bytes = EVENT, **environment: str) -> bool:
        done = subprocess.run(
            [*self.shell, str(GUARD), str(self.hook), "codex"],
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.home), **environment},
            input=event,
            capture_output=True,
            check=True,
            timeout=60,
        )
        assert done.stderr == b""
        assert done.stdout.rstrip() in (b"", b"codex:" + event)
        return done.stdout != b""


@pytest.fixture(params=SHELLS, ids=lambda one: one[0])
def person(tmp_path: Path, request: pytest.FixtureRequest) -> Person:
    return Person(tmp_path, request.param)


def made(folder: Path, *, repository: bool = True) -> Path:
    """Make a folder, and a repository of it."""
    (folder / ".git" if repository else folder).mkdir(parents=True)
    return folder


def test_outside_of_repositories_the_hook_is_not_called(person: Person) -> None:
    assert not person.is_called(person.work)
    assert not person.is_called(Path("/"))


@pytest.mark.parametrize("name", [".git", ".agentforge"])
def test_in_a_repository_or_a_project_the_hook_is_called_wherever_in_it(
    person: Person, name: str
) -> None:
    (person.work / name).mkdir()
    inside = person.work / "one" / "two"
    inside.mkdir(parents=True)
    assert person.is_called(person.work)
    assert person.is_called(inside)
    (person.folder / "link").symlink_to(inside)
    assert person.is_called(person.folder / "link")


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("is_off", [False, True])
def test_the_name_of_a_folder_does_nothing(person: Person, name: str, is_off: bool) -> None:
    plain = made(person.work / "plain" / name, repository=False)
    repository = made(person.work / "repository" / name)
    if is_off:
        person.configure(OFF)
        (person.home / ".local/state/agentforge/projects" / "other-0123").mkdir(parents=True)
    assert not person.is_called(plain)
    assert person.is_called(repository) is (not is_off or name != "-rf")
    assert not [one for one in person.folder.rglob("made") if one.name == "made"]


@pytest.mark.parametrize("content", ["gitdir: /elsewhere\n", None])
def test_a_git_file_or_a_broken_link_counts_as_a_repository(
    person: Person, content: str | None
) -> None:
    git = person.work / ".git"
    git.symlink_to("/nowhere") if content is None else git.write_text(content)
    person.configure(OFF)
    assert person.is_called(person.work)


def test_the_folder_of_the_project_counts_as_well_as_the_working_directory(person: Person) -> None:
    project = made(person.folder / "project")
    assert person.is_called(person.work, CLAUDE_PROJECT_DIR=str(project))
    assert person.is_called(person.work, CLAUDE_PROJECT_DIR=f"{project}/")
    assert not person.is_called(person.work, CLAUDE_PROJECT_DIR="project")


def test_where_the_person_lets_no_session_begin_the_hook_is_called_only_for_theirs(
    person: Person,
) -> None:
    project = made(person.work / "Project-1.x")
    person.configure(f'# mine\n[privacy.codex]\nhides = ["*"]\n{OFF}token_budget = 5\n')
    assert not person.is_called(project)
    (person.home / ".local/state/agentforge/projects" / "Project-1.x-0123").mkdir(parents=True)
    assert person.is_called(project)
    assert not person.is_called(project, XDG_STATE_HOME=str(person.folder / "state"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[agents]\ncreate = true\n",
        "[agents]\n# create = false\n",
        "[other]\ncreate = false\n",
        "[agents]\ntoken_budget = 5\n[other]\ncreate = false\n",
        f'{OFF}[store]\nurl = "postgresql://host/db"\n',
        f'directory = "elsewhere"\n{OFF}',
        f"[briefing]\ntext = '''\n{OFF}'''\n",
    ],
)
def test_any_other_configuration_leaves_it_to_the_hook(person: Person, text: str) -> None:
    person.configure(text)
    assert person.is_called(made(person.work / "project"))


def test_a_projects_file_can_not_keep_the_hook_from_being_called(person: Person) -> None:
    project = made(person.work / "project")
    (project / ".agentforge").mkdir()
    (project / ".agentforge" / "config.toml").write_text(OFF)
    person.configure(OFF)
    assert person.is_called(project)


@pytest.mark.parametrize("name", ["SESSION", "BASE", "STORE", "CONFIG"])
def test_a_variable_of_ours_calls_the_hook_anywhere(person: Person, name: str) -> None:
    assert person.is_called(person.work, **{f"AGENTFORGE_{name}": "x"})


def test_a_call_of_our_own_runner_needs_no_hook(person: Person) -> None:
    assert not person.is_called(made(person.work / "project"), AGENTFORGE_CALL="1")


def test_a_command_of_ours_is_passed_on_where_no_session_begins_by_itself(person: Person) -> None:
    project = made(person.work / "project")
    person.configure(OFF)
    prompt = (
        b'{"prompt": "agentforge:new \\"%s $(touch made) \\\\ \xc3\xbc\\" ", "x": "'
        + b"y" * 200_000
        + b'"}'
    )
    assert person.is_called(project, prompt)
    assert not person.is_called(project, prompt.replace(b"agentforge:", b"agentforge "))
