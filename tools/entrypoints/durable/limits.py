"""The person's own limits of spending, as a program that leads a session keeps to them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...agents.ledger import Payer, Purse, day_of
from ...base.settings.spending import Amount, read_spending
from ...harness.steps.errors import BudgetReached

if TYPE_CHECKING:
    from ...base.clock import Clock
    from ...harness.session_ports import LocalSessions


class LimitReached(BudgetReached):
    """A call was not made because a limit of the person does not cover what it may cost."""

    message = """{holder!r} may cost {required}, and your own limit has {left}. It was not called,
    and nothing was charged. Extend the limit with `agentforge session budget`, or set it in your
    configuration."""


class PersonLimits:
    """The limits of the person whose process leads a session, which all their sessions share.

    Args:
        store: Where the session is; its folder is the project.
        session_id: The session.
        clock: The time.
        environment: Locates the person's files.
    """

    def __init__(
        self,
        store: LocalSessions,
        session_id: str,
        *,
        clock: Clock,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._session_id = session_id
        self._project = os.path.realpath(store.base_path)
        self._clock = clock
        self._environment = environment
        self._limits = read_spending(environment).limits
        self._charged: Amount | None = None

    @property
    def exist(self) -> bool:
        """Whether the person has any."""
        return bool(self._limits)

    def require(self, holder: str, spent: Amount, amount: Amount) -> None:
        """Raise if a limit does not cover a call.

        Args:
            holder: The path of the step.
            spent: What the session spent and has reserved.
            amount: What the call may cost.

        Raises:
            LimitReached: It does not.
        """
        if not self._limits:
            return
        before, after = self._purse().standings(spent, spent.plus(amount))
        for now, then in zip(before, after, strict=True):
            if now.is_spent or then.spent > then.most:
                required = f"{amount.tokens:,} tokens and ${amount.micro_usd / 1e6:.2f}"
                raise LimitReached(
                    self._session_id, holder=holder, required=required, left=str(now)
                )

    def charge(self, spent: Amount) -> None:
        """Record what the session spent in all; if that fails, the next charge makes up for it."""
        if self._charged is None or spent != self._charged:
            self._purse().charge(self._charged or Amount(), spent)
            self._charged = spent

    def _purse(self) -> Purse:
        payer = Payer(self._session_id, self._project, day_of(self._clock()))
        return Purse(payer, self._limits, self._environment)
