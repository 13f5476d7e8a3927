"""From an empty home, `install` and a first prompt are all that a session needs to begin."""

from __future__ import annotations

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


def in_opencode(place: Workplace, prompt: str) -> None:
    place.configure_opencode()
    place.opencode(prompt)


def in_gemini(place: Workplace, prompt: str) -> None:
    place.configure_gemini()
    place.gemini(prompt)


RUN: Final[dict[str, Callable[[Workplace, str], object]]] = {
    "claude-code": Workplace.claude,
    "codex": Workplace.codex,
    "opencode": in_opencode,
    "gemini": in_gemini,
}


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


@pytest.mark.parametrize("name", RUN)
def test_the_first_prompt_begins_a_session_in(name: str, repository: Workplace) -> None:
    if name == "opencode":
        repository.configure_opencode()
    if name == "gemini":
        repository.configure_gemini()
    agentforge(repository, "install", name)
    repository.model.script.add({"text": "made", "usage": {"input": 40, "output": 2}})
    RUN[name](repository, PROMPT)
    (session,) = sessions_of(repository)
    assert [PROMPT in (one or "") for one in (session.goal, session.title)] == [True, True]
    assert session.tags == ("branch:main",)
    assert session.token_budget.tokens_used > 0
    assert not (repository.project / ".agentforge").exists()
    assert session.session_id in agentforge(repository, "list")
