"""What tokens cost: a dated table of prices, which the person's own configuration overrides.

    [prices."a-model"]             # in $XDG_CONFIG_HOME/agentforge/config.toml
    input = 2.0                    # US dollars for a million tokens
    cache_read = 0.2
    cache_write = 2.5
    output = 10.0                  # of output and of reasoning

A model that is not in the table has no known price: its tokens are reported as unpriced, and never
cost nothing. What the program itself says of a cost replaces the table's figure.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Final

from .tokens import NO_TOKENS, Charged, Cost, Tokens, UsageByModel

_FILE: Final = os.path.join(os.path.dirname(__file__), "prices.json")
_NANO: Final = 1_000
_VARIANT: Final = re.compile(
    r"(-preview|-latest|-customtools)*([-@]20\d{6}|-20\d\d-\d\d-\d\d)?(-v\d(:\d)?)?(\[1m\])?\Z"
)
"""What may follow a model's name without changing its price."""


class Prices:
    """Prices of models, in billionths of a US dollar for a token.

    Attributes:
        dated: The date of the table.
    """

    def __init__(self, own: Mapping[str, tuple[float, ...]]) -> None:
        """Read the table; `own` are the person's prices, which override it."""
        with open(_FILE, "rb") as file:
            table = json.load(file)
        self.dated: str = table["dated"]
        self._models: dict[str, tuple[int, ...]] = {
            name: tuple(round(_NANO * one) for one in (*prices, prices[-1]))
            for name, prices in {**table["models"], **own}.items()
        }

    def nano_usd(self, model: str, tokens: Tokens) -> int | None:
        """Return what tokens cost, in billionths of a US dollar; None if the price is unknown."""
        prices = self._find(model)
        if prices is None:
            return None
        return sum(count * price for count, price in zip(tokens, prices, strict=True))

    def micro_usd(self, models: Mapping[str, Tokens]) -> int | None:
        """Return what tokens cost by model; None if the price of none of them is known."""
        costs = [self.nano_usd(name, tokens) for name, tokens in models.items()]
        known = [one for one in costs if one is not None]
        return (sum(known) + _NANO // 2) // _NANO if known else None

    def _find(self, model: str) -> tuple[int, ...] | None:
        if model in self._models:
            return self._models[model]
        name = model.rpartition("/")[2].rpartition("anthropic.")[2]
        name = _VARIANT.sub("", name, count=1)
        return self._models.get(name)

    def cost_of(self, usage: UsageByModel, charged: Charged) -> Cost:
        """Return what a conversation's usage cost beyond what is charged, by model."""
        found, unpriced, by = {}, 0, set()
        for model, tokens in usage.models.items():
            own, known = usage.own.get(model), charged.usage.own.get(model)
            cost, rest = 0, tokens.minus(charged.usage.models.get(model, NO_TOKENS))
            if own is not None and own != known:
                cost = own.micro_usd - charged.costs.get(model, 0)
                rest = tokens.minus(own.covered)
                found[model] = cost
                by.add("program")
            if not any(rest):
                continue
            nano = self.nano_usd(model, rest)
            if nano is None:
                unpriced += rest.total
            else:
                found[model] = cost + (nano + _NANO // 2) // _NANO
                by.add(f"prices {self.dated}")
        return Cost(found, unpriced, ", ".join(sorted(by)))
