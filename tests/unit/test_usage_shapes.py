"""The usage of a call is recognized in what each SDK returns, with its cost."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Usage as AgentsUsage
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response
from openai.types.responses.response_usage import ResponseUsage
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage, RunUsage

from agentforge_sessions.agents.programs.tokens import Tokens
from agentforge_sessions.base.settings.spending import Amount, Spending
from agentforge_sessions.entrypoints.durable.usage import Usage, usage_of

NO_SETTINGS = Spending()
PRICES = Spending(prices={"gpt-5": (2.0, 0.2, 2.5, 10.0), "m": (1.0, 0.1, 1.25, 5.0)})

CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1_790_000_000,
    "model": "gpt-5-2025-08-07",
    "choices": [],
    "usage": {
        "prompt_tokens": 1_000,
        "completion_tokens": 300,
        "total_tokens": 1_300,
        "prompt_tokens_details": {"cached_tokens": 400, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 200, "audio_tokens": 0},
    },
}
RESPONSE_USAGE = {
    "input_tokens": 1_000,
    "input_tokens_details": {"cached_tokens": 400, "cache_write_tokens": 100},
    "output_tokens": 300,
    "output_tokens_details": {"reasoning_tokens": 200},
    "total_tokens": 1_300,
}
ANTHROPIC = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-20250514",
    "usage": {
        "input_tokens": 500,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 400,
        "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 300,
        "service_tier": "standard",
    },
}
GOOGLE = {
    "prompt_token_count": 900,
    "cached_content_token_count": 400,
    "candidates_token_count": 100,
    "thoughts_token_count": 200,
    "tool_use_prompt_token_count": 100,
    "total_token_count": 1_300,
}
OPENROUTER = {
    **CHAT,
    "model": "openai/gpt-5",
    "usage": {**CHAT["usage"], "cost": 0.00123, "cost_details": {"upstream_inference_cost": None}},
}
LITELLM = {
    **CHAT,
    "model": "claude-sonnet-4",
    "usage": {
        "prompt_tokens": 1_000,
        "completion_tokens": 300,
        "total_tokens": 1_300,
        "prompt_tokens_details": {"cached_tokens": 400, "cache_creation_tokens": 100},
        "completion_tokens_details": None,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 400,
    },
}


def as_object(value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**{name: as_object(one) for name, one in value.items()})
    return value


def found(value: object, spending: Spending = NO_SETTINGS) -> Usage:
    usage = usage_of(value, spending=spending)
    assert usage is not None
    return usage


THOUGHT = Tokens(600, 400, 0, 100, 200)


@pytest.mark.parametrize(
    ("value", "kinds", "model"),
    [
        (ChatCompletion.model_validate(CHAT), THOUGHT, "gpt-5-2025-08-07"),
        (CHAT, THOUGHT, "gpt-5-2025-08-07"),
        (CompletionUsage.model_validate(CHAT["usage"]), THOUGHT, ""),
        (ResponseUsage.model_validate(RESPONSE_USAGE), Tokens(500, 400, 100, 100, 200), ""),
        (
            Response.model_construct(model="gpt-5", usage=ResponseUsage(**RESPONSE_USAGE)),
            Tokens(500, 400, 100, 100, 200),
            "gpt-5",
        ),
        (RESPONSE_USAGE, Tokens(500, 400, 100, 100, 200), ""),
        (AgentsUsage(requests=1, input_tokens=10, output_tokens=5), Tokens(10, 0, 0, 5), ""),
        (as_object(ANTHROPIC), Tokens(500, 400, 100, 300), "claude-sonnet-4-20250514"),
        (ANTHROPIC["usage"], Tokens(500, 400, 100, 300), ""),
        (
            as_object({"model_version": "gemini-2.5-pro", "usage_metadata": GOOGLE}),
            Tokens(600, 400, 0, 100, 200),
            "gemini-2.5-pro",
        ),
        (
            {
                "modelVersion": "gemini-2.5-pro",
                "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 1},
            },
            Tokens(9, 0, 0, 1),
            "gemini-2.5-pro",
        ),
        (as_object(LITELLM), Tokens(500, 400, 100, 300), "claude-sonnet-4"),
        (
            RunUsage(
                input_tokens=1_000,
                cache_read_tokens=400,
                cache_write_tokens=100,
                output_tokens=300,
                output_reasoning_tokens=200,
            ),
            Tokens(500, 400, 100, 100, 200),
            "",
        ),
        (
            ModelResponse(
                parts=[TextPart("a")], usage=RequestUsage(input_tokens=2), model_name="gpt-5"
            ),
            Tokens(2),
            "gpt-5",
        ),
        (
            SimpleNamespace(usage=lambda: RunUsage(input_tokens=3, output_tokens=1)),
            Tokens(3, 0, 0, 1),
            "",
        ),
        (
            SimpleNamespace(
                usage_metadata={
                    "input_tokens": 10,
                    "output_tokens": 5,
                    "total_tokens": 15,
                    "input_token_details": {"cache_read": 4},
                    "output_token_details": {"reasoning": 2},
                },
                response_metadata={"model_name": "gpt-5"},
            ),
            Tokens(6, 4, 0, 3, 2),
            "gpt-5",
        ),
    ],
)
def test_the_usage_of_each_sdk_is_split_by_kind(value: object, kinds: Tokens, model: str) -> None:
    usage = found(value)
    assert usage.kinds == kinds
    assert usage.model == model
    assert usage.amount.tokens == kinds.total


def test_the_result_of_an_agent_has_its_usage_and_model() -> None:
    result = asyncio.run(Agent(TestModel(model_name="gpt-5")).run("Say something."))
    usage = found(result)
    assert usage.kinds.total == result.usage.total_tokens > 0
    assert usage.model == "gpt-5"


def test_a_known_model_has_a_cost_by_the_table() -> None:
    usage = found(ChatCompletion.model_validate(CHAT), PRICES)
    assert usage.amount == Amount(1_300, round(600 * 2 + 400 * 0.2 + 100 * 10 + 200 * 10))
    assert usage.by.startswith("prices 20")
    assert usage.unpriced == 0
    assert found(ANTHROPIC).amount.micro_usd > 0


def test_an_unknown_price_is_said_and_the_tokens_count() -> None:
    unknown = {"model": "no-such-model", "usage": {"prompt_tokens": 3, "completion_tokens": 4}}
    assert found(unknown) == Usage(Tokens(3, 0, 0, 4), Amount(7, 0), "no-such-model", 7, "")
    assert found({"input_tokens": 5}).unpriced == 5


def test_a_model_that_the_usage_does_not_name_can_be_given() -> None:
    usage = usage_of(RESPONSE_USAGE, model="m", spending=PRICES)
    assert usage is not None
    assert usage.amount.micro_usd == 500 + 40 + 125 + 1_500


@pytest.mark.parametrize(
    ("value", "micro_usd"),
    [
        (ChatCompletion.model_validate(OPENROUTER), 1_230),
        ({**OPENROUTER, "usage": {"prompt_tokens": 1, "cost": 0}}, 0),
        (
            {
                "usage": {
                    "prompt_tokens": 1,
                    "cost": 0.001,
                    "is_byok": True,
                    "cost_details": {"upstream_inference_cost": 0.02},
                }
            },
            21_000,
        ),
        (SimpleNamespace(**LITELLM, _hidden_params={"response_cost": 0.0042}), 4_200),
        (RunUsage(input_tokens=1, cost=Decimal("0.0001")), 100),
        ({"total_cost_usd": 0.5, "usage": ANTHROPIC["usage"]}, 500_000),
        ({"prompt_tokens": 1, "cost": {"total_cost": 0.25}}, 250_000),
    ],
)
def test_the_cost_that_a_response_names_replaces_the_table(value: object, micro_usd: int) -> None:
    usage = found(value, PRICES)
    assert usage.amount.micro_usd == micro_usd
    assert (usage.by, usage.unpriced) == ("program", 0)


@pytest.mark.parametrize("cost", [True, -1, float("nan"), float("inf"), 10**9, "1", Decimal("NaN")])
def test_a_cost_that_is_none_is_not_taken(cost: object) -> None:
    assert found({"prompt_tokens": 1, "model": "m", "cost": cost}, PRICES).amount.micro_usd == 1


def test_cached_tokens_count_by_the_weights_of_the_person() -> None:
    weights = Spending(weights={"cache_read": 0.1, "cache_write": 1.25})
    assert found(ANTHROPIC, weights).amount.tokens == 500 + 40 + 125 + 300


def test_an_amount_and_a_usage_are_taken_as_given() -> None:
    assert found(Amount(3, 4)).amount == Amount(3, 4)
    assert found(found(CHAT)) == found(CHAT)


class Hostile:
    @property
    def usage(self) -> object:
        raise RuntimeError

    @property
    def input_tokens(self) -> object:
        raise RuntimeError


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        "text",
        [1],
        {},
        {"usage": None},
        {"input_tokens": "7"},
        {"input_tokens": True},
        SimpleNamespace(usage=SimpleNamespace()),
        SimpleNamespace(usage=lambda: None),
        ChatCompletionChunk.model_construct(usage=None),
        Hostile(),
    ],
)
def test_what_has_no_usage_is_none(value: object) -> None:
    assert usage_of(value, spending=NO_SETTINGS) is None


def test_counts_that_can_not_be_are_not_taken() -> None:
    odd = {"input_tokens": -5, "output_tokens": 10**30, "cache_read_tokens": 4}
    assert found(odd).kinds == Tokens()
    assert found({"input_tokens": 3, "cache_read_tokens": 9}).kinds == Tokens(0, 3)


def test_no_sdk_is_loaded() -> None:
    code = (
        "import json, sys; from agentforge_sessions.entrypoints.durable.usage import usage_of;"
        "usage_of({'prompt_tokens': 1});"
        "print(json.dumps([one for one in sys.modules if one.split('.')[0] in"
        " ('openai', 'anthropic', 'google', 'litellm', 'pydantic', 'pydantic_ai', 'agents')]))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert json.loads(ran.stdout) == []
