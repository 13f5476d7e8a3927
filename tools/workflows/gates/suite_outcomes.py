"""What a run of a project's own tests says: cases by name, each with its outcome; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from attrs import field, frozen

MAX_CASES: Final = 200_000
MAX_TEXT_CHARS: Final = 4_000


class Outcome(IntEnum):
    """What became of a case; the worse, the higher."""

    PASSED = 0
    SKIPPED = 1
    FAILED = 2
    ERROR = 3

    @property
    def in_words(self) -> str:
        """The outcome as a report says it."""
        return self.name.lower()

    @property
    def is_bad(self) -> bool:
        """Whether the case did not pass though it ran."""
        return self >= Outcome.FAILED


@frozen(kw_only=True)
class Case:
    """One case of a report.

    Attributes:
        name: What identifies it in every run.
        outcome: What became of it.
        text: What the report says of a failure.
    """

    name: str
    outcome: Outcome
    text: str = field(default="", repr=False)


class UnreadableReport(ValueError):
    """A report is not what it should be.

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
        cases: Each name once: of several cases of one name, the worst.
        duplicates: The names that stood more than once, with how often.
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
    """Return the outcomes of all cases; of those that share a name, the worst.

    Raises:
        UnreadableReport: They are too many.
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
