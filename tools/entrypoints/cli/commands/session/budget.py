"""Commands that show what was spent of a session's budget and of the person's limits."""

from __future__ import annotations

import os
from enum import Enum
from typing import TYPE_CHECKING, Any

import typer

from .....agents.ledger import (
    AMOUNTS,
    Payer,
    amount_of,
    day_of,
    extend_limit,
    opened,
    standings,
)
from .....base.settings.spending import Amount, read_spending
from .....harness.domain.history_events import dollars
from ...context import Cli
from ...options import argument, complete_session_ids, misuse, option
from ...output.documents import state_document

if TYPE_CHECKING:
    from .....agents.ledger import Standing


class LimitScope(Enum):
    """What is extended."""

    SESSION = "session"
    PROJECT = "project"
    DAY = "day"
    PERSON = "person"


def parse_amount(text: str) -> Amount:
    """Read a number of tokens, as in 200k, or a sum of dollars, as in 5usd or $2.50.

    Raises:
        typer.BadParameter: The text is neither, or 0.
    """
    amount = amount_of(str(text))
    if amount is None:
        raise typer.BadParameter(f"{str(text).strip()[:60]!r} is not {AMOUNTS}")
    return amount


def budget(
    cli: Cli,
    session_id: str | None = argument("ID", default=None, autocompletion=complete_session_ids),
    extend: Amount | None = option("--extend N", parser=parse_amount),
    of: LimitScope = option("--of SCOPE", default=LimitScope.SESSION),
    record: int | None = option("--record N", min=1),
) -> None:
    """Show what is spent of a session's budget and of your own limits, and extend them.

    Args:
        session_id: The session; without one, only the project, the day and you.
        extend: Allot so much more: tokens, as in 200k, or dollars, as in 5usd.
        of: What to extend: the session, the project, the day or all your agents (person).
        record: Record N tokens as spent.
    """
    if session_id is None and (record is not None or (extend and of is LimitScope.SESSION)):
        raise misuse("ID", "name the session, or with --of what else to extend")
    found = None if session_id is None else cli.load(session_id)
    session = None if found is None else found[1]
    named = "" if session is None else session.session_id
    project = os.path.realpath(cli.store().base_path)
    payer = Payer(named, project, day_of(cli.outside.clock()))
    if extend is not None and extend.tokens and of is LimitScope.SESSION:
        cli.change(named, lambda manager: manager.extend_budget(extend.tokens))
    if record is not None:
        cli.change(named, lambda manager: manager.record_tokens(record))
    if extend is not None and not (extend.tokens and of is LimitScope.SESSION):
        refused = extend_limit(of.value, payer, extend)
        if refused is not None:
            raise misuse("--extend", refused)
    with opened(os.environ) as ledger:
        spent, runs = ledger.spent(payer), ledger.of_runs(payer)
        limits = ledger.extended(read_spending().limits, payer)
    if session is not None:
        from .....agents.hooks.recording import session_cost

        manager, session = cli.load(named)
        used = session.token_budget.tokens_used
        spent = {"session": Amount(used, session_cost(session) + runs.micro_usd), **spent}
    left = standings(limits, spent)
    payload: dict[str, Any] = {} if session is None else state_document(session, manager.store)
    payload["spending"] = [_document(scope, one, left) for scope, one in spent.items()]
    if cli.output.wrote(payload):
        return
    from ...output import render

    if session is not None:
        cli.output.line(f"Session {session.session_id} is {session.state.value}.")
        cli.output.show(render.budget_bar(session.token_budget))
        cli.output.line(f"{session.token_budget.tokens_remaining:,} tokens are left.")
    rows = [
        (
            scope,
            f"{one.tokens:,}",
            dollars(one.micro_usd),
            "; ".join(_left(limit) for limit in left if limit.scope == scope) or "no limit",
        )
        for scope, one in spent.items()
    ]
    figures = ("TOKENS", "COST")
    cli.output.show(render.table("SPENT BY", *figures, "LEFT", rows=rows, right=figures))


def _left(limit: Standing) -> str:
    rest = limit.most - limit.spent
    return f"{rest:,} tokens" if limit.unit == "tokens" else dollars(rest)


def _document(scope: str, spent: Amount, limits: list[Standing]) -> dict[str, Any]:
    most = {one.unit: one.most for one in limits if one.scope == scope}
    return {"scope": scope, **spent._asdict(), "limit": most}
