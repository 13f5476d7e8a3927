"""From an empty home, `install` and a first prompt are all that a session needs to begin."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable
from typing import Final

import pytest

from agentforge_sessions.harness import SessionContext, SessionStore
from agentforge_sessions.harness.store.sessions_place import OwnSessions, sessions_directory
from tests.e2e.real_agents.test_installed import agentforge
from tests.support.real_agents import Workplace

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(400)]

PROMPT: Final = "Make a calculator"


RUN: Final[dict[str, Callable[[Workplace, str], object]]] = {
    "claude-code": Workplace.claude,
    "codex": Workplace.codex,
    "opencode": Workplace.opencode,
    "gemini": Workplace.gemini,
}
ANOTHER: Final = "Another task"
COMMAND: Final[dict[str, Callable[[Workplace, str, str], object]]] = {
    "claude-code": lambda place, name, rest: place.claude(f"/agentforge:{name} {rest}"),
    "codex": lambda place, name, rest: place.codex(f"agentforge:{name} {rest}"),
    "opencode": lambda place, name, rest: place.opencode(
        rest, "--command", f"agentforge/{name}", fails=True
    ),
    "gemini": lambda place, name, rest: place.gemini(f"/agentforge:{name} {rest}"),
}
"""How the person gives the command: as the program's own, or, in Codex, as a prompt."""


def sessions_of(place: Workplace) -> list[SessionContext]:
    """Return the sessions of the repository, the oldest first."""
    base = sessions_directory(place.project, {"HOME": str(place.home)})
    assert base is not None
    store = SessionStore(base, own=OwnSessions(base, environment={"HOME": str(place.home)}))
    found = [store.load(one) for one in sorted(store.list_sessions())]
    return [one for one in found if one is not None]


@pytest.fixture
def repository(place: Workplace) -> Workplace:
    """A repository in which nothing of ours is."""
    (place.project / ".agentforge").rmdir()
    command = ["git", "init", "--quiet", "--initial-branch=main", str(place.project)]
    subprocess.run(command, check=True, capture_output=True)
    return place


def prepare(place: Workplace, name: str) -> None:
    if name == "opencode":
        place.configure_opencode()
    if name == "gemini":
        place.configure_gemini()
    agentforge(place, "install", name)


@pytest.mark.parametrize("name", RUN)
def test_the_first_prompt_begins_a_session_in(name: str, repository: Workplace) -> None:
    prepare(repository, name)
    repository.model.script.add({"text": "made", "usage": {"input": 40, "output": 2}})
    RUN[name](repository, PROMPT)
    (session,) = sessions_of(repository)
    assert [PROMPT in (one or "") for one in (session.goal, session.title)] == [True, True]
    assert session.tags == ("branch:main",)
    assert session.token_budget.tokens_used > 0
    assert not (repository.project / ".agentforge").exists()
    assert session.session_id in agentforge(repository, "list")


@pytest.mark.parametrize("name", RUN)
def test_a_command_of_the_program_begins_another_session_and_reaches_no_model_in(
    name: str, repository: Workplace
) -> None:
    prepare(repository, name)
    COMMAND[name](repository, "new", ANOTHER)
    (session,) = sessions_of(repository)
    assert ANOTHER in (session.goal or "")
    assert ANOTHER not in json.dumps(repository.model.requests)


@pytest.mark.parametrize("name", RUN)
def test_a_command_of_the_program_extends_the_budget_and_reaches_no_model_in(
    name: str, repository: Workplace
) -> None:
    prepare(repository, name)
    COMMAND[name](repository, "new", ANOTHER)
    COMMAND[name](repository, "budget", "234567")
    (session,) = sessions_of(repository)
    if name in ("gemini", "opencode"):  # what a command expands to may be a stranger's words
        assert session.token_budget.total_budget == 1_000_000
        code = hashlib.sha256(f"{session.session_id} 234567".encode()).hexdigest()[:6]
        COMMAND[name](repository, "budget", f"234567 {code}")
        (session,) = sessions_of(repository)
    assert session.token_budget.total_budget == 1_234_567
    assert "234567" not in json.dumps(repository.model.requests)
