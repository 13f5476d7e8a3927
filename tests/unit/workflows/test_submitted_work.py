"""What a worker does of what a submission asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.base.settings.worker_configuration import WorkerConfiguration
from agentforge_sessions.workflows.agents.choice import parse_agent
from agentforge_sessions.workflows.agents.port import AgentChoice
from agentforge_sessions.workflows.submitted_work import (
    AgentNotAllowed,
    RepositoryNotAllowed,
    granted,
    require_repository,
    served_by,
)

NAMED = ["claude", "codex:o9", "openai", "anthropic:m@http://127.0.0.1:9/v1"]


def allowed(**given: Any) -> WorkerConfiguration:
    return WorkerConfiguration(**{"agents": NAMED, **given})


@pytest.mark.parametrize(
    "text",
    ["claude", "claude:opus", "codex:o9", "openai:gpt", "anthropic:m@http://127.0.0.1:9/v1"],
)
def test_an_agent_of_the_list_is_asked(text: str) -> None:
    assert granted(parse_agent(text), allowed()).value == text


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("codex", "codex"),
        ("codex:other", "codex"),
        ("gemini", "gemini"),
        ("anthropic:m", "anthropic"),
        # The worker's own key would be sent to where the submitter says.
        ("openai:gpt@http://127.0.0.1:9/v1", "openai"),
        ("anthropic:m@http://127.0.0.1:99/v1", "anthropic"),
        ("recorded:/etc", "recorded"),
        ("claude -p", "command"),
        ("touch /tmp/x", "command"),
    ],
)
def test_any_other_is_refused_with_what_it_needs(text: str, needs: str) -> None:
    with pytest.raises(AgentNotAllowed) as refused:
        granted(parse_agent(text), allowed())
    assert refused.value.needs == needs
    assert "[worker]" in str(refused.value)


def test_a_directory_of_recordings_stands_for_itself_alone() -> None:
    rules = allowed(agents=["recorded", "recorded:/srv/answers"])
    assert granted(parse_agent("recorded:/srv/answers"), rules).value == "/srv/answers"
    with pytest.raises(AgentNotAllowed):
        granted(parse_agent("recorded:/srv/others"), rules)


def test_a_worker_that_allows_nothing_asks_nobody() -> None:
    for text in ("claude", "openai:m", "recorded:/x", "true"):
        with pytest.raises(AgentNotAllowed):
            granted(parse_agent(text), WorkerConfiguration())


def test_a_command_line_is_run_where_that_is_allowed_and_shows_none_of_its_words() -> None:
    choice = parse_agent("my-agent --token hunter2")
    with pytest.raises(AgentNotAllowed) as refused:
        granted(choice, allowed())
    assert "hunter2" not in str(refused.value)
    assert granted(choice, allowed(agent_commands=True)).value == "my-agent --token hunter2"


def test_network_and_variables_are_the_workers_own_whatever_was_asked_for() -> None:
    asked = AgentChoice(
        kind="program", value="claude", network=True, environment=["AWS_SECRET_ACCESS_KEY"]
    )
    found = granted(asked, allowed())
    assert (found.network, found.environment) == (False, ())
    own = allowed(agent_network=True, agent_environment=["ANTHROPIC_API_KEY"])
    modest = AgentChoice(kind="program", value="claude")
    found = granted(modest, own)
    assert (found.network, found.environment) == (True, ("ANTHROPIC_API_KEY",))


def test_what_needs_what_is_never_in_the_words_of_a_submission() -> None:
    """It is part of a queue's name, which has to be short and that of some workers."""
    for value in ("x" * 500, "a\0b", "default"):
        with pytest.raises(AgentNotAllowed) as refused:
            granted(AgentChoice(kind="program", value=value), allowed())
        assert refused.value.needs == "other"


def test_a_worker_serves_what_it_is_allowed() -> None:
    rules = allowed(agent_commands=True, repositories=["/srv"])
    assert served_by(rules) == (
        *("claude", "codex", "openai", "anthropic"),
        *("command", "repository"),
    )
    assert served_by(WorkerConfiguration()) == ()


def test_a_repository_below_one_of_the_folders_may_be_begun_from(tmp_path: Path) -> None:
    for path in (tmp_path / "mine", tmp_path / "mine" / "deep" / "er"):
        require_repository(str(path), [tmp_path / "mine"])


def test_any_other_repository_is_refused_also_behind_a_link_or_dots(tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    mine.mkdir()
    theirs.mkdir()
    (mine / "link").symlink_to(theirs)
    for path in (theirs, mine / "link", mine / ".." / "theirs", tmp_path / "mine2", tmp_path):
        with pytest.raises(RepositoryNotAllowed) as refused:
            require_repository(str(path), [mine])
        assert refused.value.needs == "repository"
    with pytest.raises(RepositoryNotAllowed):
        require_repository(str(mine), [])
