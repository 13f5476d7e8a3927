"""What a call of a model used, from what its SDK returned: tokens by kind, the model, and the cost.

Usage is recognized by its shape, so no SDK is loaded: of OpenAI (chat and responses), Anthropic,
Google, LiteLLM, OpenRouter, LangChain, pydantic-ai, the agents' SDKs of OpenAI and Anthropic, and
dictionaries of the same names; a response counts as its usage.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from numbers import Real
from typing import Final, NamedTuple

from ...agents.programs.meter import count_of, micro_usd_of
from ...agents.programs.prices import Prices
from ...agents.programs.tokens import NO_TOKENS, Charged, Tokens, UsageByModel, split
from ...base.settings.spending import Amount, Spending, read_spending

_USAGE: Final = ("usage", "usage_metadata", "usageMetadata")
_MODEL: Final = (
    *("model", "model_name", "model_version", "modelVersion"),
    *("response_metadata.model_name", "response.model_name"),
)
_COST: Final = ("cost.total_cost", "cost", "total_cost_usd", "_hidden_params.response_cost")
_INPUT: Final = ("prompt_tokens", "input_tokens", "prompt_token_count", "promptTokenCount")
_OUTPUT: Final = (
    *("completion_tokens", "output_tokens", "candidates_token_count", "candidatesTokenCount"),
)
_READ: Final = (
    *("prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens"),
    *("cache_read_input_tokens", "cache_read_tokens", "input_token_details.cache_read"),
    *("cached_content_token_count", "cachedContentTokenCount", "prompt_cache_hit_tokens"),
)
_WRITTEN: Final = (
    *("prompt_tokens_details.cache_write_tokens", "input_tokens_details.cache_write_tokens"),
    *("cache_creation_input_tokens", "cache_write_tokens", "input_token_details.cache_creation"),
)
_THOUGHT: Final = (
    *("completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens"),
    *("output_reasoning_tokens", "output_token_details.reasoning", "details.reasoning_tokens"),
)
_APART: Final = (
    *("thoughts_token_count", "thoughtsTokenCount"),  # of Google: not in what the model said
)
_OF_TOOLS: Final = ("tool_use_prompt_token_count", "toolUsePromptTokenCount")
_OF_ANTHROPIC: Final = ("cache_read_input_tokens", "cache_creation_input_tokens")
_OWN: Final = "program"


class Usage(NamedTuple):
    """What a call used.

    Attributes:
        kinds: The tokens by kind.
        amount: What is charged for it: tokens by the person's weights, and the cost.
        model: The model; empty if it is not known.
        unpriced: The tokens whose price is unknown; the amount has no cost of them.
        by: Whose figure the cost is: "program", "prices DATE", or an empty text for none.
    """

    kinds: Tokens = NO_TOKENS
    amount: Amount = Amount()
    model: str = ""
    unpriced: int = 0
    by: str = ""


def usage_of(value: object, *, model: str = "", spending: Spending | None = None) -> Usage | None:
    """Return the usage that a value is or has; None if it is of no known shape.

    Args:
        value: The usage, or the response.
        model: The model, where the value does not name it.
        spending: The person's prices and weights; those of the configuration if None.
    """
    if isinstance(value, Usage):
        return value
    if isinstance(value, Amount):
        return Usage(amount=value)
    found = _found(value)
    if found is None:
        return None
    usage, kinds = found
    named = _first(value, _MODEL)
    model = named if isinstance(named, str) and named else model
    spending = read_spending() if spending is None else spending
    weights = spending.weights
    weighted = sum(weights.get(kind, 1) * count for kind, count in kinds._asdict().items())
    own = _own_cost(usage, value)
    if own is not None:
        return Usage(kinds, Amount(round(weighted), own), model, 0, _OWN)
    cost = _prices(tuple(spending.prices.items())).cost_of(UsageByModel({model: kinds}), Charged())
    amount = Amount(round(weighted), sum(cost.models.values()))
    return Usage(kinds, amount, model, cost.unpriced, cost.by)


@lru_cache(maxsize=4)
def _prices(own: tuple[tuple[str, tuple[float, ...]], ...]) -> Prices:
    return Prices(dict(own))


def _found(value: object) -> tuple[object, Tokens] | None:
    """Return the usage in a value, and its tokens by kind."""
    usage = _first(value, _USAGE)
    for one in (usage, value):
        kinds = _kinds(one)
        if kinds is not None:
            return one, kinds
    if not callable(usage):
        return None
    usage = usage()  # a method in pydantic-ai 1
    kinds = _kinds(usage)
    return None if kinds is None else (usage, kinds)


def _kinds(usage: object) -> Tokens | None:
    """Return the tokens by kind; None if it is no usage."""
    read, said = _first(usage, _INPUT), _first(usage, _OUTPUT)
    if type(read) is not int and type(said) is not int:
        return None
    cached, written = count_of(_first(usage, _READ)), count_of(_first(usage, _WRITTEN))
    apart, thought = count_of(_first(usage, _APART)), count_of(_first(usage, _THOUGHT))
    total = count_of(read) + count_of(said) + apart + count_of(_first(usage, _OF_TOOLS))
    if _at(usage, "prompt_tokens") is None and _first(usage, _OF_ANTHROPIC) is not None:
        total += cached + written  # Anthropic's input is what no cache had
    output = max(0, count_of(said) - thought)
    return split(total, Tokens(0, cached, written, output, thought + apart))


def _own_cost(usage: object, value: object) -> int | None:
    """Return what a usage or its response says that it cost, in millionths of a US dollar."""
    for one in (usage, value):
        cost = _dollars(_first(one, _COST))
        if cost is not None:
            own_key = _at(one, "is_byok") is True  # of OpenRouter, which charges its fee alone
            provider = _dollars(_at(one, "cost_details.upstream_inference_cost"))
            return cost + (provider or 0 if own_key else 0)
    return None


def _dollars(value: object) -> int | None:
    if isinstance(value, bool) or not (isinstance(value, Real) or hasattr(value, "as_tuple")):
        return None
    dollars = float(value)  # type: ignore[arg-type]
    return micro_usd_of(dollars) if 0 <= dollars < 1_000_000 else None


def _first(value: object, paths: tuple[str, ...]) -> object:
    """Return the first of several parts that is not missing; None if there is none."""
    return next((found for path in paths if (found := _at(value, path)) is not None), None)


def _at(value: object, path: str) -> object:
    """Return a part of an object or a mapping; None if it is missing."""
    for name in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(name)
            continue
        try:
            value = getattr(value, name, None)
        except Exception:  # noqa: BLE001 (a property of another's object may run any code)
            return None
    return value
