"""AC-013 … AC-016: the token budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.harness import InvalidSession, SessionManager, SessionState, SessionStore


def test_ac_013_record_tokens_updates_usage_and_utilization(
    manager: SessionManager, base: Path
) -> None:
    session = manager.create(token_budget=10_000)

    manager.record_tokens(1_500)
    manager.record_tokens(1_000)

    assert session.token_budget.tokens_used == 2_500
    assert session.token_budget.tokens_remaining == 7_500
    assert session.token_budget.utilization_percent == pytest.approx(25.0)
    found = SessionStore(base).load(session.session_id)
    assert found is not None
    assert found.token_budget == session.token_budget


def test_ac_013_what_was_spent_is_recorded_over_the_budget_too(manager: SessionManager) -> None:
    session = manager.create(token_budget=100)

    manager.record_tokens(250)

    assert session.token_budget.tokens_used == 250
    assert session.token_budget.tokens_remaining == -150
    assert session.token_budget.utilization_percent == pytest.approx(250.0)


@pytest.mark.parametrize("tokens", [0, -1, 1.5, True, "12", None])
def test_ac_013_what_is_no_count_is_refused_and_changes_nothing(
    manager: SessionManager, tokens: object
) -> None:
    session = manager.create()

    with pytest.raises(InvalidSession):
        manager.record_tokens(tokens)  # type: ignore[arg-type]

    assert session.token_budget.tokens_used == 0
    assert session.revision == 1


@pytest.mark.parametrize(
    ("budget", "spent", "warns"),
    [(1000, 799, False), (1000, 800, True), (1000, 1001, True), (3, 2, False), (7, 6, True)],
)
def test_ac_014_the_warning_begins_at_80_percent(
    manager: SessionManager, budget: int, spent: int, warns: bool
) -> None:
    session = manager.create(token_budget=budget)

    state = manager.record_tokens(spent)

    assert state.is_warning is bool(state) is warns
    assert session.token_budget.is_warning is warns


def test_ac_014_the_warning_stays_exact_with_huge_budgets(manager: SessionManager) -> None:
    budget = 5 * 10**17
    manager.create(token_budget=budget)

    assert manager.record_tokens(budget // 5 * 4 - 1).is_warning is False
    assert manager.record_tokens(1).is_warning is True


def test_ac_015_can_continue_is_false_when_the_next_step_would_exceed_the_budget(
    manager: SessionManager,
) -> None:
    manager.create(token_budget=1_000)
    manager.record_tokens(900)

    assert manager.can_continue(100) is True
    assert manager.can_continue(101) is False
    assert manager.can_continue() is True
    manager.record_tokens(100)
    assert manager.can_continue() is False
    assert manager.can_continue(0) is True


def test_ac_015_can_continue_is_false_when_the_session_is_not_active(
    manager: SessionManager,
) -> None:
    session = manager.create()
    assert manager.can_continue() is True

    manager.pause()
    assert session.state is SessionState.PAUSED
    assert manager.can_continue() is False
    manager.resume()
    manager.complete()
    assert manager.can_continue(0) is False


def test_ac_016_extend_budget_raises_the_total_and_lets_the_work_go_on(
    manager: SessionManager, base: Path
) -> None:
    session = manager.create(token_budget=1_000)
    manager.record_tokens(1_000)
    assert manager.can_continue() is False

    manager.extend_budget(500)

    assert session.token_budget.total_budget == 1_500
    assert session.token_budget.tokens_used == 1_000
    assert manager.can_continue(500) is True
    assert manager.can_continue(501) is False
    last = session.history[-1]
    assert (last.action, last.details) == ("budget_extended", "by 500 to 1500 tokens")
    assert SessionStore(base).load(session.session_id) == session


@pytest.mark.parametrize("tokens", [0, -5, 2.0, 2**63])
def test_ac_016_an_extension_that_is_none_is_refused(
    manager: SessionManager, tokens: object
) -> None:
    session = manager.create(token_budget=1_000)

    with pytest.raises(InvalidSession):
        manager.extend_budget(tokens)  # type: ignore[arg-type]

    assert session.token_budget.total_budget == 1_000
    assert [entry.action for entry in session.history] == ["session_created"]
