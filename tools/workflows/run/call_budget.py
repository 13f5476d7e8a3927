"""Whether the budget allows a call of an agent, and how much is missing if not; pure."""

from __future__ import annotations

import math
from typing import Final

from ...harness import TokenBudget
from ...harness.views.briefing import estimate_tokens
from ..ports import Stop, StopCause
from ..workflow import Phase
from .progress import Progress

BRIEFING_TOKENS: Final = 2000
"""The longest briefing of a prompt, in tokens."""


def expected_tokens(phase: Phase, prompt: str) -> int:
    """Return the expected cost of a call with a prompt, in tokens."""
    return estimate_tokens(prompt) + phase.answer_tokens


def missing_tokens(budget: TokenBudget, phase: Phase, progress: Progress, expected: int) -> int:
    """Return by how much to extend the budget for a call, with room for the next.

    Enough for the session's budget and for the phase's share of it, in tokens; 0 if none is
    missing.
    """
    wanted = math.ceil((progress.spent + expected) / phase.budget_share)
    missing = max(expected - budget.tokens_remaining, wanted - budget.total_budget)
    return _with_room(missing, phase.budget_share) if missing > 0 else 0


def _with_room(missing: int, share: float) -> int:
    """Round up, so that the next prompt, with its longer briefing, fits too."""
    return math.ceil((missing + BRIEFING_TOKENS / share) / 1000) * 1000


def over_budget(budget: TokenBudget, phase: Phase, progress: Progress, prompt: str) -> Stop | None:
    """Return why the agent may not be called now, or None."""
    expected = expected_tokens(phase, prompt)
    share = math.floor(phase.budget_share * budget.total_budget)
    if not budget.can_continue(expected):
        problem = (
            f"the next call of phase {phase.name!r} takes about {expected:,} tokens, and of "
            f"{budget.total_budget:,} {budget.tokens_remaining:,} are left"
        )
    elif progress.spent + expected > share:
        problem = (
            f"phase {phase.name!r} has spent {progress.spent:,} of its share of {share:,} "
            f"tokens ({phase.budget_share:.0%} of the budget), and its next call takes about "
            f"{expected:,}"
        )
    else:
        return None
    missing = missing_tokens(budget, phase, progress, expected)
    return Stop(
        reason=f"{problem}; extend the budget by {missing:,} or more, then resume",
        cause=StopCause.BUDGET,
        missing_tokens=missing,
    )
