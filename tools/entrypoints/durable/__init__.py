"""Durable sessions in Python: session, step, spend.

from agentforge_sessions import session

with session("report", key=topic, budget=20_000) as s:
outline = s.step("outline", write_outline, topic)
s.finish(outline)
"""

from typing import TYPE_CHECKING

from ...base.exports import on_first_use

if TYPE_CHECKING:
    from .asynchronous import AsyncSession as AsyncSession
    from .opening import SessionOpening as SessionOpening
    from .opening import session as session
    from .options import Budget as Budget
    from .options import Retry as Retry
    from .options import Spend as Spend
    from .synchronous import Session as Session
else:
    __getattr__ = on_first_use(
        __name__,
        {
            "asynchronous": "AsyncSession",
            "opening": "SessionOpening session",
            "options": "Budget Retry Spend",
            "synchronous": "Session",
        },
    )
