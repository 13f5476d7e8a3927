"""The person's limits of spending, for the agents that `run`, `do` and `resume` call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ..base.clock import Clock, utc_now
from ..base.settings.spending import Amount, read_spending
from ..workflows.agents.port import PhaseAgent, TokenUsage
from .ledger import Payer, day_of, opened, standings
from .programs.prices import Prices
from .programs.tokens import Tokens


class SpendingLimits:
    """Implements `workflows.ports.CallLimits` by the ledger of the person's agents.

    An agent that plays recordings costs nothing. If the ledger can't be read or written, nothing is
    stopped and nothing is charged.

    Args:
        base: The directory of the sessions.
        environment: Locates the person's files.
        clock: The time.
    """

    def __init__(
        self,
        base: Path,
        environment: Mapping[str, str] = os.environ,
        clock: Clock = utc_now,
    ) -> None:
        self._project = os.path.realpath(base)
        self._environment = environment
        self._clock = clock

    def refusal(self, session_id: str, agent: PhaseAgent) -> str | None:
        """Return which limit is spent and how it is extended; None if the agent may be called."""
        limits = read_spending(self._environment).limits
        if not limits or _is_free(agent):
            return None
        payer = self._payer(session_id)
        with suppress(OSError), opened(self._environment) as ledger:
            found = {"session": ledger.session(payer), **ledger.spent(payer)}
            for one in standings(ledger.extended(limits, payer), found):
                if one.is_spent:
                    return f"a limit is spent: {one}; extend it ({one.extension(session_id)})"
        return None

    def charge(self, session_id: str, agent: PhaseAgent, usage: TokenUsage) -> None:
        """Record what a call cost."""
        if _is_free(agent):
            return
        with suppress(OSError), opened(self._environment) as ledger:
            ledger.charge_call(
                self._payer(session_id), Amount(usage.total, self._cost(agent, usage))
            )

    def _payer(self, session_id: str) -> Payer:
        return Payer(session_id, self._project, day_of(self._clock()))

    def _cost(self, agent: PhaseAgent, usage: TokenUsage) -> int:
        """Return what a call cost, in millionths of a US dollar; 0 if the price is unknown."""
        if usage.micro_usd is not None:
            return usage.micro_usd
        model = getattr(getattr(agent, "identity", None), "model", None) or ""
        tokens = Tokens(input=usage.input_tokens, output=usage.output_tokens)
        prices = Prices(read_spending(self._environment).prices)
        return prices.micro_usd({model: tokens}) or 0


def _is_free(agent: PhaseAgent) -> bool:
    return getattr(agent, "is_free", False) is True
