"""Session filters for listings, and their construction from a caller's arguments; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, Self, TypedDict, Unpack

import attrs
from attrs import frozen

from ..session_domain import InvalidSession, SessionState
from .session_head import SessionHead

LEAST_TEXT_CHARS: Final = 3
"""The shortest part of a goal or title to search for: no index finds shorter ones."""

_FURTHEST: Final = 10**15
_MILLION: Final = 1_000_000
_END: Final = r"(?:(-?[0-9]{1,15})|(-?[0-9]{1,6}(?:\.[0-9]{1,4})?)\s*%)"
_RANGE: Final = re.compile(rf"\s*(?:{_END})?\s*\.\.\s*(?:{_END})?\s*", re.ASCII)


@frozen(kw_only=True)
class BudgetLeft:
    """How much of their token budgets sessions have left; bounds are inclusive.

    A session that spent more than its budget has less than 0 left.

    Attributes:
        least_tokens: The lower bound in tokens.
        most_tokens: The upper bound in tokens.
        least_percent: The lower bound in percent of the budget, to four decimals.
        most_percent: The upper bound in percent.

    Raises:
        InvalidSession: A bound is not a number, or is out of range.
    """

    least_tokens: int | None = None
    most_tokens: int | None = None
    least_percent: float | None = None
    most_percent: float | None = None

    def __attrs_post_init__(self) -> None:
        faults = []
        for name, value in attrs.asdict(self).items():
            kinds = int if name.endswith("tokens") else int | float
            if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
                faults.append(f"budget_left: {name} is no number that it could be: {value!r}")
            elif isinstance(value, int | float) and not abs(value) <= _FURTHEST:
                faults.append(f"budget_left: {name} is out of reach: {value!r}")
        if faults:
            raise InvalidSession(faults)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a range: `..20%`, `5000..`, `10%..50%`, `..0`.

        Raises:
            InvalidSession: It is not a range.
        """
        found = _RANGE.fullmatch(text)
        if found is None or not any(found.groups()):
            raise InvalidSession(
                [
                    f"budget_left: {text[:60]!r} is no range. Write the least, two dots and the "
                    "most, in tokens or percent, and leave out the bound that there is not: "
                    "..20%, 5000.., 10%..50%"
                ]
            )
        tokens, percent = found.group(1, 3), found.group(2, 4)
        return cls(
            least_tokens=None if tokens[0] is None else int(tokens[0]),
            most_tokens=None if tokens[1] is None else int(tokens[1]),
            least_percent=None if percent[0] is None else float(percent[0]),
            most_percent=None if percent[1] is None else float(percent[1]),
        )

    @property
    def least_millionths(self) -> int | None:
        """`least_percent` in millionths of the budget, so that all stores compare alike."""
        return None if self.least_percent is None else round(self.least_percent * _MILLION / 100)

    @property
    def most_millionths(self) -> int | None:
        """`most_percent` in millionths of the budget."""
        return None if self.most_percent is None else round(self.most_percent * _MILLION / 100)

    def fits(self, total: int, used: int) -> bool:
        """Return whether what is left of a budget is within the bounds."""
        left = total - used
        least, most = self.least_millionths, self.most_millionths
        return (
            (self.least_tokens is None or left >= self.least_tokens)
            and (self.most_tokens is None or left <= self.most_tokens)
            and (least is None or left * _MILLION >= least * total)
            and (most is None or left * _MILLION <= most * total)
        )


AskedStates = SessionState | str | Iterable[SessionState | str] | None
"""One state or its name, several, or None for any."""


class _SameFilters(TypedDict, total=False):
    """Filters that callers pass in the filter's own form."""

    state: AskedStates
    workflow_type: str | None
    current_phase: str | None
    tags: str | Iterable[str] | None
    parent_id: str | None
    goal: str | None
    title: str | None


class AskedFilters(_SameFilters, total=False):
    """Filters that callers can pass by name; `SessionManager.find` describes them."""

    older_than: timedelta | None
    younger_than: timedelta | None
    budget_left: BudgetLeft | str | None


def as_states(given: AskedStates) -> frozenset[SessionState] | None:
    """Return the requested states, or None for any: also for an empty collection.

    Raises:
        InvalidSession: There is no such state.
    """
    if given is None:
        return None
    asked = [given] if isinstance(given, str | SessionState) else list(given)
    known = {one.value: one for one in SessionState}
    names = [one.value if isinstance(one, SessionState) else one for one in asked]
    wrong = [one for one in names if one not in known]
    if wrong:
        states = ", ".join(known)
        raise InvalidSession([f"state: {one!r} is none of {states}" for one in wrong])
    return frozenset(known[one] for one in names) or None


def as_tags(given: str | Iterable[str] | None) -> frozenset[str] | None:
    """Return the requested tags, or None for any: also for an empty collection."""
    if given is None:
        return None
    return frozenset([given] if isinstance(given, str) else given) or None


@frozen(kw_only=True)
class SessionFilter:
    """Selects sessions for a listing: those that match everything that is not None.

    Attributes:
        state: The allowed states; one, or several.
        workflow_type: Their workflow.
        current_phase: The phase that they are in.
        changed_until: The latest time of their last change, aware.
        changed_since: The earliest time of their last change, aware.
        tags: Tags that they all have; one, or several.
        parent_id: The session that they were made from.
        goal: A part of their goal, in any case; at least three characters.
        title: A part of their title, likewise.
        budget_left: How much of their budgets is left.

    Raises:
        InvalidSession: There is no such state, or a part of a goal or title is too short.
    """

    state: frozenset[SessionState] | None = attrs.field(default=None, converter=as_states)
    workflow_type: str | None = None
    current_phase: str | None = None
    changed_until: datetime | None = None
    changed_since: datetime | None = None
    tags: frozenset[str] | None = attrs.field(default=None, converter=as_tags)
    parent_id: str | None = None
    goal: str | None = None
    title: str | None = None
    budget_left: BudgetLeft | None = None

    def __attrs_post_init__(self) -> None:
        faults = [
            f"{name}: {part!r} is too short to search for; give {LEAST_TEXT_CHARS} or more"
            for name, part in (("goal", self.goal), ("title", self.title))
            if part is not None and len(part.strip()) < LEAST_TEXT_CHARS
        ]
        if faults:
            raise InvalidSession(faults)

    @classmethod
    def asked(
        cls,
        now: datetime,
        *,
        older_than: timedelta | None = None,
        younger_than: timedelta | None = None,
        budget_left: BudgetLeft | str | None = None,
        **same: Unpack[_SameFilters],
    ) -> Self:
        """Return the filter of a caller's arguments at some time; see `SessionManager.find`.

        Raises:
            InvalidSession: There is no such state, a part of a goal or title is too short, or a
                budget range is invalid.
        """
        return cls(
            **same,
            changed_until=None if older_than is None else _before(now, older_than),
            changed_since=None if younger_than is None else _before(now, younger_than),
            budget_left=(
                BudgetLeft.parse(budget_left) if isinstance(budget_left, str) else budget_left
            ),
        )

    def fits(self, head: SessionHead) -> bool:
        """Return whether a session matches, except by its goal, which no head has."""
        return (
            (self.state is None or head.state in self.state)
            and (self.workflow_type is None or head.workflow_type == self.workflow_type)
            and (self.current_phase is None or head.current_phase == self.current_phase)
            and (self.changed_until is None or head.updated_at <= self.changed_until)
            and (self.changed_since is None or head.updated_at >= self.changed_since)
            and (self.tags is None or self.tags.issubset(head.tags))
            and (self.parent_id is None or head.parent_id == self.parent_id)
            and (self.title is None or _is_within(self.title, head.title))
            and (
                self.budget_left is None
                or self.budget_left.fits(head.total_budget, head.tokens_used)
            )
        )

    def fits_goal(self, goal: str | None) -> bool:
        """Return whether a goal matches."""
        return self.goal is None or _is_within(self.goal, goal)

    @property
    def fingerprint(self) -> str:
        """Eight hexadecimal digits that differ for different filters.

        For times only their presence counts: the same age requested twice gives two different
        times.
        """
        from binascii import crc32  # not needed if all sessions fit on one page

        values = [
            None if self.state is None else sorted(one.value for one in self.state),
            *(self.workflow_type, self.current_phase),
            *(self.changed_until is not None, self.changed_since is not None),
            *(self.goal, self.title, self.budget_left),
            *(None if self.tags is None else sorted(self.tags), self.parent_id),
        ]
        return f"{crc32(repr(values).encode('utf-8', 'surrogatepass')):08x}"


def _is_within(part: str, text: str | None) -> bool:
    return text is not None and part.casefold() in text.casefold()


def _before(now: datetime, age: timedelta) -> datetime:
    """Return the time of this age before now; the latest time possible if out of range."""
    try:
        return now - age
    except OverflowError:
        if age > timedelta(0):
            return datetime.min.replace(tzinfo=UTC)
        return datetime.max.replace(tzinfo=UTC)
