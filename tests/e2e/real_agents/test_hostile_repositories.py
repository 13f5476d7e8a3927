"""The real agent programs in repositories of a stranger: nothing of ours acts, nothing is said.

The hook is the person's own, installed for all of their projects; the repositories are not.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.foreign_sessions import OVERRIDE, cloned, somebody_elses_project
from tests.support.hostile_repositories import Trap, hostile_clone
from tests.support.real_agents import HOOK, Workplace
from tests.support.scripted_model import scripted_model
from tests.support.trusting import trusted

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(600)]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    with scripted_model([]) as model:
        yield Workplace(tmp_path, model)


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path / "PWNED", 9)


def of_claude(place: Workplace) -> None:
    place.install("claude-code")
    place.claude("Say hello")


def of_codex(place: Workplace) -> None:
    place.hook_codex(f"{HOOK} codex")
    place.codex("Say hello")


def of_opencode(place: Workplace) -> None:
    place.configure_opencode()
    place.install("opencode")
    place.opencode("Say hello")


def of_gemini(place: Workplace) -> None:
    place.configure_gemini()
    place.install("gemini")
    place.gemini("Say hello")


PROGRAMS: Final[dict[str, Callable[[Workplace], None]]] = {
    "claude": of_claude,
    "codex": of_codex,
    "opencode": of_opencode,
    "gemini": of_gemini,
}


def plain(place: Workplace, trap: Trap) -> None:
    """Every key that acts, in the folder that the program works in."""
    hostile_clone(place.project, trap.configuration())


def by_a_link(place: Workplace, trap: Trap) -> None:
    """The data folder is a link to one that the person trusts."""
    other = place.project.parent / "other"
    text = f'[agents]\ncreate = true\ngate = true\n[gate]\ncommand = "{trap.command}"\n'
    hostile_clone(other, text)
    trusted(other, environment=place.environment())
    os.rmdir(place.project / ".agentforge")
    (place.project / ".agentforge").symlink_to(other / ".agentforge")


def above(place: Workplace, trap: Trap) -> None:
    """The configuration is in the folder above the one that the program works in."""
    hostile_clone(place.project, trap.configuration())
    place.project = place.project / "src"
    place.project.mkdir()


def changed_since(place: Workplace, trap: Trap) -> None:
    """The person trusted it, and it has changed since, as by a pull."""
    hostile_clone(place.project, '[agents]\ntoken_budget = 9\n[gate]\ncommand = "true"\n')
    trusted(place.project, environment=place.environment())
    hostile_clone(place.project, trap.configuration())


def a_work_tree(place: Workplace, trap: Trap) -> None:
    """A linked work tree of a repository whose own configuration the person trusts."""
    top = hostile_clone(place.project, trap.configuration())
    who = ("-c", "user.name=Eve", "-c", "user.email=eve@localhost")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "one")):
        subprocess.run(["git", "-C", str(top), *who, *words], check=True, capture_output=True)
    tree = place.project.parent / "tree"
    command = ["git", "-C", str(top), "worktree", "add", "-q", str(tree)]
    subprocess.run(command, check=True, capture_output=True)
    trusted(top, "[gate]\ncommand = 'true'\n", environment=place.environment())
    place.project = tree


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("prepare", [plain, by_a_link, above, changed_since, a_work_tree])
def test_a_strangers_repository_makes_nothing_happen_in(
    prepare: Callable[[Workplace, Trap], None], name: str, place: Workplace, trap: Trap
) -> None:
    prepare(place, trap)
    place.model.script.add({"text": "hello"})
    PROGRAMS[name](place)
    assert place.model.requests
    assert not trap.mark.exists()
    assert not (trap.mark.parent / "outside").exists()
    sent = json.dumps(place.model.requests)
    assert "session briefing" not in sent
    assert str(trap.mark) not in sent
    made = [*place.project.rglob("session.yaml"), *place.home.rglob("session.yaml")]
    budgets = [re.findall(r"total_budget: (\d+)", one.read_text()) for one in made]
    assert budgets in ([], [["1000000"]])


@pytest.mark.parametrize("name", PROGRAMS)
def test_with_trust_all_of_it_works_in(name: str, place: Workplace, trap: Trap) -> None:
    text = f'[agents]\ncreate = true\ngate = true\n[gate]\ncommand = "{trap.command}"\n'
    hostile_clone(place.project, text)
    trusted(place.project, environment=place.environment())
    place.model.script.add({"text": "hello"}, {"text": "done"})
    PROGRAMS[name](place)
    assert trap.mark.exists()
    assert list(place.project.rglob("session.yaml"))


def clone_into(place: Workplace, *, spent: bool) -> None:
    theirs, _ = somebody_elses_project(place.project.parent / "elsewhere", spent=spent)
    shutil.rmtree(place.project)
    cloned(theirs, place.project)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_session_that_came_with_a_clone_stops_and_says_nothing_in(
    name: str, place: Workplace
) -> None:
    clone_into(place, spent=True)
    place.model.script.add({"text": "hello"})
    PROGRAMS[name](place)
    assert place.model.requests
    sent = json.dumps(place.model.requests)
    assert OVERRIDE not in sent
    assert "session briefing" not in sent


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_adopted_session_reaches_the_model_as_a_record_in(name: str, place: Workplace) -> None:
    clone_into(place, spent=False)
    command = [Path(sys.executable).with_name("agentforge"), "session", "adopt", "--all", "--yes"]
    subprocess.run(command, cwd=place.project, env=place.environment(), check=True, timeout=120)
    place.model.script.add({"text": "hello"})
    PROGRAMS[name](place)
    sent = json.dumps(place.model.requests, ensure_ascii=False)
    assert "Nothing in it asks you for anything" in sent
    begins = sent.index(OVERRIDE)
    assert sent.rindex("~~~", 0, begins) < begins < sent.index("~~~", begins)
