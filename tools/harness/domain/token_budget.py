"""The token budget of a session; pure."""

# Annotations are evaluated here: as strings, each field's would be compiled at import.

from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from .history_events import BudgetCrossed, LimitCrossed, WarningCrossed
from .session_checks import check, count_fault, require_count

DEFAULT_TOKEN_BUDGET: Final = 100_000
WARNING_PERCENT: Final = 80.0


class BudgetState(NamedTuple):
    """A token budget at one moment; true if 80 % or more is spent.

    Attributes:
        total_budget: Tokens allotted.
        tokens_used: Tokens spent.
        tokens_remaining: Tokens left; negative when more was spent than allotted.
        utilization_percent: Tokens spent as a percentage of those allotted.
        is_warning: Whether 80 % or more is spent.
        is_over_budget: Whether more was spent than allotted.
    """

    total_budget: int
    tokens_used: int
    tokens_remaining: int
    utilization_percent: float
    is_warning: bool
    is_over_budget: bool

    def __bool__(self) -> bool:
        """Return `is_warning`."""
        return self.is_warning

    def crossed_since(self, before: Self) -> list[BudgetCrossed]:
        """Return the limits that were crossed between an earlier state and this one."""
        limits = (
            (self.is_warning > before.is_warning, WarningCrossed),
            (self.is_over_budget > before.is_over_budget, LimitCrossed),
        )
        return [
            limit(tokens_used=self.tokens_used, total_budget=self.total_budget)
            for crossed, limit in limits
            if crossed
        ]


@dataclass(slots=True)
class TokenBudget:
    """How many tokens the work may cost and how many it has cost.

    Spending is always recorded, even over the budget: the record shows what happened.
    `can_continue` is what stops a worker from overspending.

    Attributes:
        total_budget: Tokens allotted, 1 or more.
        tokens_used: Tokens spent, 0 or more.
        newer_fields: Fields that a newer version wrote, as YAML; saves write them back.
    """

    total_budget: int = DEFAULT_TOKEN_BUDGET
    tokens_used: int = 0
    newer_fields: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        check(self.faults())

    def faults(self) -> list[str]:
        """Return every fault of the budget; empty if it is valid."""
        return count_fault("token_budget.total_budget", self.total_budget, least=1) + count_fault(
            "token_budget.tokens_used", self.tokens_used, least=0
        )

    @property
    def tokens_remaining(self) -> int:
        """Tokens left; negative when more was spent than allotted."""
        return self.total_budget - self.tokens_used

    @property
    def utilization_percent(self) -> float:
        """Tokens spent as a percentage of those allotted."""
        return self.snapshot().utilization_percent

    @property
    def is_warning(self) -> bool:
        """Whether 80 % or more of the budget is spent."""
        return self.snapshot().is_warning

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing is left."""
        return self.tokens_remaining <= 0

    @property
    def is_over_budget(self) -> bool:
        """Whether more was spent than allotted."""
        return self.snapshot().is_over_budget

    def snapshot(self) -> BudgetState:
        """Return the budget's current state; the 80 % limit is exact, in whole numbers."""
        total, used = self.total_budget, self.tokens_used
        return BudgetState(
            total_budget=total,
            tokens_used=used,
            tokens_remaining=total - used,
            utilization_percent=used / total * 100,
            is_warning=used * 100 >= total * int(WARNING_PERCENT),
            is_over_budget=used > total,
        )

    def can_continue(self, required_tokens: int = 1) -> bool:
        """Return whether what is left covers `required_tokens` (0 or more).

        Raises:
            InvalidSession: `required_tokens` is not a valid count.
        """
        require_count("required_tokens", required_tokens)
        return self.tokens_remaining >= required_tokens

    def record_usage(self, tokens: int) -> None:
        """Add `tokens` (1 or more) to what was spent.

        Raises:
            InvalidSession: `tokens` is not such a count, or the sum is too large.
        """
        require_count("tokens", tokens, least=1)
        require_count("token_budget.tokens_used", self.tokens_used + tokens)
        self.tokens_used += tokens

    def extend(self, additional_tokens: int) -> None:
        """Add `additional_tokens` (1 or more) to what is allotted.

        Raises:
            InvalidSession: `additional_tokens` is not such a count, or the sum is too large.
        """
        require_count("additional_tokens", additional_tokens, least=1)
        total = self.total_budget + additional_tokens
        require_count("token_budget.total_budget", total, least=1)
        self.total_budget = total
