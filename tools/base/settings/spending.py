"""`[budget]` and `[prices]` of the person's own configuration: limits of spending, and prices.

    [budget]
    session_usd = 5.0              # also project_usd, day_usd, person_usd
    day_tokens = 20_000_000        # also project_tokens, person_tokens
    cache_read = 0.1               # how much of a cached token counts against token budgets
    cache_write = 1.25

    [prices."a-model"]             # US dollars for a million tokens
    input = 2.0
    cache_read = 0.2
    cache_write = 2.5
    output = 10.0

A project can't change them: only `$XDG_CONFIG_HOME/agentforge/config.toml` is read. What can't be
used is left out, and `spending_problems` returns why.
"""

# Annotations are evaluated here: as strings, each field's would have to be compiled.

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..data_folder import configuration_folder, read_plain

SCOPES: Final = ("session", "project", "day", "person")
"""What a limit is for, narrowest first; a session's tokens have the session's own budget."""
WEIGHTS: Final = ("cache_read", "cache_write")
_PRICES: Final = ("input", "cache_read", "cache_write", "output")
_FILE: Final = "config.toml"
_MAX_BYTES: Final = 1024 * 1024
_MICRO: Final = 1_000_000
_KEYS: Final = {
    **{f"{scope}_usd": (scope, "micro_usd") for scope in SCOPES},
    **{f"{scope}_tokens": (scope, "tokens") for scope in SCOPES[1:]},
}


class Amount(NamedTuple):
    """Tokens, and a cost in millionths of a US dollar."""

    tokens: int = 0
    micro_usd: int = 0

    def plus(self, other: "Amount") -> "Amount":
        """Return both together."""
        return Amount(self.tokens + other.tokens, self.micro_usd + other.micro_usd)

    def minus(self, other: "Amount") -> "Amount":
        """Return the difference."""
        return Amount(self.tokens - other.tokens, self.micro_usd - other.micro_usd)


class Limit(NamedTuple):
    """The most that may be spent; None where there is no limit.

    Attributes:
        tokens: In tokens.
        micro_usd: In millionths of a US dollar.
    """

    tokens: int | None = None
    micro_usd: int | None = None


class Spending(NamedTuple):
    """The person's settings of spending.

    Attributes:
        limits: The limits, by scope; without scopes that have none.
        weights: How much of a token counts against token budgets, by kind; 1 for other kinds.
        prices: Prices of models: of input, cache read, cache write and output.
        problems: Why a key can't be used, for each such key.
    """

    limits: Mapping[str, Limit] = {}
    weights: Mapping[str, float] = {}
    prices: Mapping[str, tuple[float, ...]] = {}
    problems: tuple[str, ...] = ()


def read_spending(environment: Mapping[str, str] = os.environ) -> Spending:
    """Read the person's settings of spending; what can't be used is left out."""
    path = configuration_folder(environment) / _FILE
    try:
        values = _values(path)
    except (OSError, ValueError, RecursionError) as error:
        return Spending(problems=(f"{path}: {error}",))
    limits: dict[str, Limit] = {}
    weights: dict[str, float] = {}
    prices: dict[str, tuple[float, ...]] = {}
    problems: list[str] = []
    for name, value in _table(values, "budget", problems).items():
        fits = type(value) in {int, float} and 0 <= value < 10**12
        if name in WEIGHTS and fits:
            weights[name] = float(value)
        elif name in _KEYS and fits:
            scope, unit = _KEYS[name]
            most = round(value * _MICRO) if unit == "micro_usd" else int(value)
            limits[scope] = limits.get(scope, Limit())._replace(**{unit: most})
        else:
            keys = ", ".join((*_KEYS, *WEIGHTS))
            problems.append(f"budget.{name}: expected a number, for one of {keys}")
    for model, given in _table(values, "prices", problems).items():
        found: list[Any] = [given.get(one) for one in _PRICES] if isinstance(given, dict) else []
        figures = [float(one) for one in found if type(one) in {int, float} and 0 <= one < 10**6]
        if len(figures) == len(_PRICES):
            prices[model] = tuple(figures)
        else:
            problems.append(f'prices."{model}": expected the numbers {", ".join(_PRICES)}')
    return Spending(limits, weights, prices, tuple(f"{path}: {one}" for one in problems))


def _table(values: Mapping[str, Any], name: str, problems: list[str]) -> Mapping[str, Any]:
    found = values.get(name, {})
    if isinstance(found, dict):
        return found
    problems.append(f"{name}: expected a table")
    return {}


def _values(path: Path) -> Mapping[str, Any]:
    """Return the file's values; empty if it has neither section.

    Raises:
        OSError: It can't be read.
        ValueError: It is not TOML.
    """
    try:
        text = read_plain(os.fspath(path), most=_MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    if len(text) > _MAX_BYTES:
        raise ValueError("the file is too long")
    if b"budget" not in text and b"prices" not in text:
        return {}
    import tomllib  # few people have these sections

    return tomllib.loads(text.decode())
