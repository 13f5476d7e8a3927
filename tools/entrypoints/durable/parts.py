"""A session that is a part of another one: its budget is the other's, its end a step there."""

from __future__ import annotations

from typing import NamedTuple

from ...base.settings.spending import Amount
from .core import SessionCore, StepBody
from .options import Budget
from .scopes import CallPlace, CallScope, Frame, StepAccount
from .steps import reserve


class PartOf(NamedTuple):
    """The place of a session in the one that it is a part of.

    Attributes:
        parent: The other session.
        place: The place of the call.
        frame: The running step that called; None for the program itself.
    """

    parent: SessionCore
    place: CallPlace
    frame: Frame | None

    def begin(self, budget: Budget) -> None:
        """Reserve the part's budget, unless it has ended."""
        parent, path = self.parent, self.place.path
        if parent.recorded(self.place) is None:
            parent.look()
            frame = Frame(parent, path, CallScope(path), StepAccount(), "", None, self.frame)
            tokens, usd = budget.limit
            reserve(parent, frame, Amount(tokens or 0, usd or 0))

    def ended(self, core: SessionCore) -> None:
        """Charge what a finished part spent; one that is not finished still holds its budget."""
        if core.finished and self.parent.log.history.record(self.place.path) is None:
            spent = core.log.history.sums.spent
            self.parent.note(self.place, StepBody.of(core.session_id), spent)

    def not_opened(self) -> None:
        """Give back what was reserved for a part that could not be opened."""
        if self.place.path in self.parent.log.history.reserved:
            self.parent.log.charge(self.place.path, Amount())
