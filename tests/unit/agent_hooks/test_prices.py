"""What tokens cost by the table, and by what a person's configuration says instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.agents.programs.prices import Prices
from agentforge_sessions.agents.programs.tokens import Charged, Tokens, UsageByModel
from agentforge_sessions.base.settings.spending import Limit, read_spending

MILLION = Tokens(*[1_000_000] * 5)


@pytest.mark.parametrize(
    ("model", "dollars"),
    [
        ("claude-opus-4-5", 5 + 0.5 + 6.25 + 25 + 25),
        ("claude-opus-4-5-20251101", 5 + 0.5 + 6.25 + 25 + 25),
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", 5 + 0.5 + 6.25 + 25 + 25),
        ("anthropic/claude-opus-5-5", 4 + 0.2 + 5 + 20 + 20),
        ("claude-sonnet-5-5[1m]", 2 + 0.1 + 2.5 + 10 + 10),
        ("gemini-3.1-pro-preview-customtools", 2 + 0.2 + 2 + 12 + 12),
        ("gpt-5.1-codex", 1.25 + 0.125 + 1.25 + 10 + 10),
        ("gpt-5-2025-08-07", 1.25 + 0.125 + 1.25 + 10 + 10),
    ],
)
def test_a_model_and_its_dated_variants_have_the_price_of_the_table(
    model: str, dollars: float
) -> None:
    assert Prices({}).nano_usd(model, MILLION) == round(dollars * 10**9)


@pytest.mark.parametrize("model", ["", "model-a", "gpt-5.99", "gpt-5-huge", "claude-opus-9"])
def test_the_price_of_another_model_is_unknown_and_not_nothing(model: str) -> None:
    prices = Prices({})
    assert prices.nano_usd(model, MILLION) is None
    cost = prices.cost_of(UsageByModel({model: Tokens(10), "gpt-5": Tokens(800)}), Charged())
    assert (cost.models, cost.unpriced) == ({"gpt-5": 1_000}, 10)
    assert cost.by == f"prices {prices.dated}"


def configure(tmp_path: Path, text: str) -> dict[str, str]:
    (tmp_path / "agentforge").mkdir()
    (tmp_path / "agentforge" / "config.toml").write_text(text)
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_a_person_overrides_prices_and_sets_limits_and_weights(tmp_path: Path) -> None:
    environment = configure(
        tmp_path,
        "[budget]\nday_usd = 2.5\nday_tokens = 1000\nsession_usd = 1\ncache_read = 0.1\n"
        '[prices."gpt-5"]\ninput = 1\ncache_read = 0\ncache_write = 0\noutput = 3\n',
    )
    found = read_spending(environment)
    assert found.problems == ()
    assert found.limits == {"day": Limit(1_000, 2_500_000), "session": Limit(None, 1_000_000)}
    assert found.weights == {"cache_read": 0.1}
    assert Prices(found.prices).nano_usd("gpt-5", MILLION) == 7 * 10**9


def test_what_can_not_be_used_is_left_out_alone_and_said(tmp_path: Path) -> None:
    found = read_spending(
        configure(
            tmp_path,
            "[budget]\nday_usd = -1\nweek_usd = 3\nperson_usd = 7\n"
            '[prices]\n"a" = 3\n"b" = {input = 1}\n',
        )
    )
    assert found.limits == {"person": Limit(None, 7_000_000)}
    assert found.prices == {}
    assert [one.partition(": ")[2].partition(":")[0] for one in found.problems] == [
        "budget.day_usd",
        "budget.week_usd",
        'prices."a"',
        'prices."b"',
    ]


def test_without_the_sections_or_a_file_nothing_is_set(tmp_path: Path) -> None:
    assert read_spending({"XDG_CONFIG_HOME": str(tmp_path)}) == ({}, {}, {}, ())
    (problem,) = read_spending(configure(tmp_path, "[budget\n")).problems
    assert str(tmp_path) in problem
