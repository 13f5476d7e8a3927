"""Tokens by kind, and what a program's own figure of their cost covers; pure, and quick to load."""

from collections.abc import Mapping
from typing import NamedTuple

# Annotations are evaluated here: as strings, each field's would have to be compiled.


class Tokens(NamedTuple):
    """Tokens by kind; each token is of one kind, so that the kinds add up to all of them.

    Attributes:
        input: What the model read for the first time.
        cache_read: What it read from its cache.
        cache_write: What it read and wrote to its cache.
        output: What it said.
        reasoning: What it thought, where the program reports that separately.
    """

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self)

    def plus(self, other: "Tokens") -> "Tokens":
        """Return both together."""
        return Tokens(*(one + more for one, more in zip(self, other, strict=True)))

    def minus(self, other: "Tokens") -> "Tokens":
        """Return the difference, kind by kind; a kind may be negative."""
        return Tokens(*(one - less for one, less in zip(self, other, strict=True)))


NO_TOKENS = Tokens()


def split(total: int, kinds: Tokens) -> Tokens:
    """Return a total by kind: what no other kind names is input, and none exceeds what is left."""
    left, found = total, []
    for kind in reversed(kinds[1:]):
        found.append(max(0, min(kind, left)))
        left -= found[-1]
    return Tokens(left, *reversed(found))


class OwnCost(NamedTuple):
    """What a program itself says that tokens cost.

    Attributes:
        micro_usd: The cost, in millionths of a US dollar.
        covered: The tokens that this is the cost of.
    """

    micro_usd: int = 0
    covered: Tokens = NO_TOKENS


class UsageByModel(NamedTuple):
    """What a program has reported for a conversation.

    Attributes:
        models: The tokens by model.
        own: The program's own figure of their cost, by model, where it gives one.
    """

    models: Mapping[str, Tokens] = {}
    own: Mapping[str, OwnCost] = {}

    @property
    def total(self) -> int:
        """All tokens."""
        return sum(one.total for one in self.models.values())


class Charged(NamedTuple):
    """What of a conversation is charged, or belongs to another session.

    Attributes:
        usage: What the program had reported then.
        costs: What that cost, by model, in millionths of a US dollar.
    """

    usage: UsageByModel = UsageByModel()
    costs: Mapping[str, int] = {}


class Cost(NamedTuple):
    """What tokens cost.

    Attributes:
        models: The cost by model, in millionths of a US dollar; without models of unknown price.
        unpriced: The tokens whose price is unknown.
        by: Whose figures these are: "program", "prices DATE", both, or an empty text for none.
    """

    models: Mapping[str, int] = {}
    unpriced: int = 0
    by: str = ""
