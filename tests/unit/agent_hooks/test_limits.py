"""A person's limits: for a session, a project, a day, and all their agents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.agents.ledger import Payer, opened
from agentforge_sessions.base.data_folder import state_folder
from agentforge_sessions.base.settings.spending import Amount
from agentforge_sessions.harness import SessionState
from tests.support.agent_conversations import Conversation, Project
from tests.support.person import persons_folders

DOLLAR = 500_000
"""So many input tokens of the model below cost a dollar."""


class Priced(Conversation):
    """A conversation with a model whose price is known."""

    def spend(self, tokens: int, *, name: str | None = None, blocks: int = 1) -> None:
        self._messages += 1
        usage = {"input_tokens": tokens}
        message = {"id": f"{self.name}-{self._messages}", "model": "claude-sonnet-5-5"}
        self.write({"type": "assistant", "message": {**message, "usage": usage}}, name=name)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def talk(project: Project, tmp_path: Path) -> Priced:
    return conversation(project, tmp_path)


def conversation(
    project: Project, tmp_path: Path, name: str = "conversation-1", limits: str = ""
) -> Priced:
    talk = Priced(project, name)
    folder = tmp_path / "config"
    talk.environment = {"XDG_CONFIG_HOME": str(folder), "XDG_STATE_HOME": str(tmp_path / "state")}
    (folder / "agentforge").mkdir(parents=True, exist_ok=True)
    if limits:
        (folder / "agentforge" / "config.toml").write_text(f"[budget]\n{limits}\n")
    return talk


def spent(talk: Priced, session_id: str = "") -> dict[str, Amount]:
    project = talk.project
    day = project.clock().astimezone().date().isoformat()
    payer = Payer(session_id, str(project.store.base_path), day)
    with opened({**persons_folders(), **talk.environment}) as ledger:
        return ledger.spent(payer)


def extend(talk: Priced, scope: str, more: Amount, session_id: str = "") -> None:
    project = talk.project
    day = project.clock().astimezone().date().isoformat()
    payer = Payer(session_id, str(project.store.base_path), day)
    with opened({**persons_folders(), **talk.environment}) as ledger:
        ledger.extend(scope, payer, more)


@pytest.mark.parametrize("scope", ["session", "project", "day", "person"])
def test_a_limit_in_dollars_warns_once_stops_and_goes_on_once_extended(
    project: Project, tmp_path: Path, scope: str
) -> None:
    session_id = project.begin(budget=100 * DOLLAR)
    talk = conversation(project, tmp_path, limits=f"{scope}_usd = 2")
    talk.start()
    talk.spend(DOLLAR * 17 // 10)
    _, after = talk.use_tool()
    line = after["hookSpecificOutput"]["additionalContext"]
    assert line.startswith("AgentForge: 85 % of a limit is spent: $1.70 of $2.00 for ")
    assert talk.use_tool() == ({}, {})
    talk.spend(DOLLAR)
    before, _ = talk.use_tool()
    assert before["continue"] is False
    assert f"session budget {session_id} --of {scope} --extend 5usd" in before["stopReason"]
    assert project.session(session_id).state is SessionState.PAUSED
    entries = len(project.session(session_id).history)
    for _ in range(2):
        assert talk.prompt("go on")["decision"] == "block"
    assert len(project.session(session_id).history) == entries
    extend(talk, scope, Amount(micro_usd=5_000_000), session_id)
    assert talk.prompt("go on") == {}
    assert project.session(session_id).state is SessionState.ACTIVE
    assert talk.use_tool() == ({}, {})


def test_limits_in_tokens_count_over_the_sessions_of_a_project(
    project: Project, tmp_path: Path
) -> None:
    first = project.begin(budget=10_000)
    talk = conversation(project, tmp_path, limits="project_tokens = 1000")
    talk.start()
    talk.spend(600)
    talk.use_tool()
    project.open(first).complete()
    second = project.begin(budget=10_000)
    other = conversation(project, tmp_path, "conversation-2")
    other.start()
    other.spend(500)
    before, _ = other.use_tool()
    assert "1,100 tokens of 1,000 tokens for this project" in before["stopReason"]
    assert project.session(second).token_budget.tokens_used == 500


def test_another_project_has_its_own_limit_and_shares_the_days(tmp_path: Path) -> None:
    one, other = Project(tmp_path / "one"), Project(tmp_path / "other")
    for number, project in enumerate((one, other)):
        project.begin(budget=10_000)
        talk = conversation(project, tmp_path, f"talk-{number}", "day_tokens = 1000\n")
        talk.start()
        talk.spend(400)
        assert talk.use_tool()[0] == {}
    found = {scope: one.tokens for scope, one in spent(talk).items()}
    assert found == {"project": 400, "day": 800, "person": 800}
    talk.spend(250)
    assert "1,050 tokens of 1,000 tokens for today" in talk.use_tool()[0]["stopReason"]


def test_the_next_day_begins_with_nothing_spent(project: Project, tmp_path: Path) -> None:
    session_id = project.begin(budget=10_000)
    talk = conversation(project, tmp_path, limits="day_tokens = 1000")
    talk.start()
    talk.spend(1_200)
    assert talk.use_tool()[0]["continue"] is False
    project.clock.advance(86_400)
    assert talk.prompt("good morning") == {}
    assert project.session(session_id).state is SessionState.ACTIVE
    assert spent(talk)["day"] == Amount()
    assert spent(talk)["person"].tokens == 1_200


def test_a_charge_that_was_not_written_is_made_up_for_by_the_next(
    project: Project, talk: Priced
) -> None:
    session_id = project.begin(budget=10_000)
    talk.start()
    talk.spend(100)
    talk.use_tool()
    with broken_ledger(talk):
        talk.spend(200)
        assert talk.use_tool() == ({}, {})
    talk.spend(50)
    talk.use_tool()
    assert spent(talk)["day"].tokens == 350
    assert project.session(session_id).token_budget.tokens_used == 350


@contextmanager
def broken_ledger(talk: Priced) -> Iterator[None]:
    file = state_folder({**persons_folders(), **talk.environment}) / "spending.db"
    sound = file.read_bytes()
    file.write_bytes(b"no database" * 100)
    yield
    file.write_bytes(sound)


def test_cached_tokens_count_by_the_weights_of_the_configuration(
    project: Project, tmp_path: Path
) -> None:
    session_id = project.begin(budget=100_000)
    talk = conversation(project, tmp_path, limits="cache_read = 0.1\ncache_write = 1.25")
    talk.start()
    usage: dict[str, Any] = {"input_tokens": 1_000, "output_tokens": 10}
    usage |= {"cache_read_input_tokens": 50_000, "cache_creation_input_tokens": 400}
    talk.write({"type": "assistant", "message": {"id": "m", "model": "x", "usage": usage}})
    talk.use_tool()
    session = project.session(session_id)
    assert session.token_budget.tokens_used == 1_000 + 10 + 5_000 + 500
    assert session.history[-1].data["total"] == 51_410
