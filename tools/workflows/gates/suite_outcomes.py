"""The outcomes of a project's own tests: cases by name; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from attrs import field, frozen

MAX_CASES: Final = 200_000
MAX_TEXT_CHARS: Final = 4_000


class Outcome(IntEnum):
    """The outcome of a case; the worse, the higher."""

    PASSED = 0
    SKIPPED = 1
    FAILED = 2
    ERROR = 3

    @property
    def in_words(self) -> str:
        """The outcome in a report's words."""
        return self.name.lower()

    @property
    def is_bad(self) -> bool:
        """Whether the case ran and did not pass."""
        return self >= Outcome.FAILED


@frozen(kw_only=True)
class Case:
    """One case of a report.

    Attributes:
        name: Identifies it in every run.
        outcome: Its outcome.
        text: The report's text about a failure.
    """

    name: str
    outcome: Outcome
    text: str = field(default="", repr=False)


class UnreadableReport(ValueError):
    """A report is not valid.

    Attributes:
        problem: What is wrong with it, as the end of a sentence.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


@frozen(kw_only=True)
class Outcomes:
    """All cases of a run, by name.

    Attributes:
        cases: Each name once: the worst of several cases with one name.
        duplicates: The names that occur more than once, with their counts.
    """

    cases: Mapping[str, Case] = field(hash=False)
    duplicates: Mapping[str, int] = field(hash=False)

    def having(self, *outcomes: Outcome) -> list[str]:
        """Return the names of the cases with one of these outcomes, sorted."""
        return sorted(name for name, case in self.cases.items() if case.outcome in outcomes)

    @property
    def bad(self) -> list[str]:
        """The names of the cases that failed, sorted."""
        return self.having(Outcome.FAILED, Outcome.ERROR)


def gathered(cases: Iterable[Case]) -> Outcomes:
    """Return the outcomes of all cases; for a shared name, the worst.

    Raises:
        UnreadableReport: There are too many cases.
    """
    worst: dict[str, Case] = {}
    counts: dict[str, int] = {}
    for number, case in enumerate(cases):
        if number >= MAX_CASES:
            raise UnreadableReport(f"holds more than {MAX_CASES:,} cases")
        counts[case.name] = counts.get(case.name, 0) + 1
        known = worst.get(case.name)
        if known is None or case.outcome > known.outcome:
            worst[case.name] = case
    return Outcomes(
        cases=MappingProxyType(worst),
        duplicates=MappingProxyType({name: many for name, many in counts.items() if many > 1}),
    )
