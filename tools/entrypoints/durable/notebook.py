"""A session as a notebook shows it: its state, its budget and its last steps."""

from __future__ import annotations

from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Final

from ...harness.domain.history_events import dollars

if TYPE_CHECKING:
    from ...harness.session_domain import SessionState
    from .core import SessionCore
    from .options import Budget

_MOST: Final = 50
_COLUMNS: Final = ("step", "outcome", "tokens", "time", "attempts")


def as_html(core: SessionCore, state: SessionState, budget: Budget) -> str:
    """Return a session as HTML; every text of it is escaped."""
    history = core.log.history
    total, spent = core.session.token_budget.total_budget, history.sums.spent
    head = f"{core.session_id}: {state.value}, {budget.tokens:,} of {total:,} tokens left"
    if spent.micro_usd:
        head += f", {dollars(spent.micro_usd)} spent"
    rows = [
        (
            one.path,
            one.outcome,
            f"{one.spent.tokens:,}",
            f"{one.took_us / 1e6:.2f} s",
            str(one.attempts),
        )
        for one in islice(history.records(), max(0, len(history) - _MOST), None)
    ]
    lines = ["<table>", f"<caption>{escape(head)}</caption>", _row("th", _COLUMNS)]
    lines += [_row("td", row) for row in rows]
    return "\n".join([*lines, "</table>"])


def _row(tag: str, cells: tuple[str, ...]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(one)}</{tag}>" for one in cells) + "</tr>"
