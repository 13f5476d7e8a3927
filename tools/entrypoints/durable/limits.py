"""The person's own limits of spending, as a program that leads a session keeps to them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...agents.ledger import Purse, purse_of
from ...base.settings.spending import Amount, read_spending
from ...harness.domain.history_events import dollars
from ...harness.steps.errors import BudgetReached

if TYPE_CHECKING:
    from ...base.clock import Clock
    from ...harness.session_ports import LocalSessions


class LimitReached(BudgetReached):
    """A call was not made because a limit of the person does not cover what it may cost."""

    message = """{holder!r} may cost {required}, and your own limit is used up to {left}. It was
    not called, and nothing was charged. `{extend}` extends the limit."""
    extend: str = ""
    """The command that extends the limit."""


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
        self._base = store.base_path
        self._clock = clock
        self._environment = environment
        self._charged: Amount | None = None
        self.exist = bool(read_spending(environment).limits)

    def require(self, holder: str, spent: Amount, held: Amount, amount: Amount) -> None:
        """Raise if a limit does not cover a call.

        Args:
            holder: The path of the step.
            spent: What the session spent.
            held: What it has reserved for other calls.
            amount: What the call may cost.

        Raises:
            LimitReached: It does not.
        """
        if not self.exist:
            return
        before, after = self._purse().standings(spent, spent.plus(held).plus(amount))
        for now, then in zip(before, after, strict=True):
            if now.is_spent or then.spent > then.most:
                required = f"{amount.tokens:,} tokens, {dollars(amount.micro_usd)}"
                extend = now.extension(self._session_id)
                raise LimitReached(
                    self._session_id,
                    holder=holder,
                    required=required,
                    left=str(now),
                    extend=extend,
                )

    def charge(self, spent: Amount) -> None:
        """Record what the session spent in all; if that fails, the next charge makes up for it."""
        if self._charged is None or spent != self._charged:
            self._purse().charge(self._charged or Amount(), spent)
            self._charged = spent

    def _purse(self) -> Purse:
        return purse_of(self._session_id, self._base, self._clock(), self._environment)
