"""Which sessions are removed and which stay: a pure decision.

    candidates + policy + now + free space  ->  plan

Nothing here reads a disk or a clock. The same input gives the same plan, so a dry run and the run
after it agree as long as the sessions are the same.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, cast

from attrs import evolve, field, frozen

from .domain import LEFT_ALONE, Candidate, Decision, Plan, Reason, Skipped, Unmet, left_alone
from .errors import InvalidRetentionPolicy

GIB: Final = 1 << 30
FREE_SPACE_MIN_AGE_HOURS: Final = 1.0
"""The minimum age for a removal for free space, in hours, where the policy names none."""
_MOST: Final = 1 << 100
"""More bytes than exist; larger numbers of bytes may exceed any float."""


def _number(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _as_states(states: object) -> frozenset[str]:
    """Return names of states as a set, and anything else unchanged, for the check to report."""
    if isinstance(states, str):
        return frozenset({str(states)})
    if isinstance(states, bytes) or not isinstance(states, Iterable):
        return cast("frozenset[str]", (states,))
    several = [str(one) if isinstance(one, str) else one for one in states]
    try:
        return frozenset(several)
    except TypeError:  # it has an unhashable member
        return cast("frozenset[str]", tuple(several))


@frozen(kw_only=True)
class RetentionPolicy:
    """Which sessions stay. Rules may be combined; a session is removed if any rule asks for it.

    Removal proceeds from the oldest to the newest, by the time a session was last used or ended,
    then by id; each rule removes no more than it needs. So the removed sessions are always the
    oldest of those that may be removed. A rule that is None asks for nothing: without any rule,
    everything stays. A session that is dated in the future stays in any case.

    Attributes:
        max_age_hours: Remove sessions older than this; if 0, all that have an age. Hours, 0 or
            more.
        max_sessions: This many of the newest stay, and the older ones are removed. Those that can't
            be removed do not take the place of a newer one: the bound is not met then, and the plan
            says so.
        max_total_bytes: As many of the newest stay as fit into this many bytes together, and the
            older ones are removed; sessions that can't be removed count as with `max_sessions`.
        min_free_space_gb: At least this many GiB of the file system are free afterwards, by the
            sizes on disk.
        min_age_hours: None of these three rules removes a session that was used within this many
            hours. If None, that is `FREE_SPACE_MIN_AGE_HOURS` for `min_free_space_gb`, and 0 for
            the others: free space also depends on files outside the sessions, so that bound may be
            out of reach.
        keep_states: Sessions in these states stay, even if other rules ask for them.
        max_deletions: At most this many are removed at once, the oldest; the rest waits for the
            next prune.

    Raises:
        InvalidRetentionPolicy: A value is invalid; the error names every fault.
    """

    max_age_hours: float | None = None
    max_sessions: int | None = None
    max_total_bytes: int | None = None
    min_free_space_gb: float | None = None
    min_age_hours: float | None = None
    keep_states: frozenset[str] = field(default=frozenset(), converter=_as_states)
    max_deletions: int | None = None

    def __attrs_post_init__(self) -> None:
        faults = []
        for name in ("max_age_hours", "min_free_space_gb", "min_age_hours"):
            value = getattr(self, name)
            if value is not None and not (_number(value) and value >= 0):
                faults.append(f"{name}: expected a number, 0 or more, or None, got {value!r}")
        for name in ("max_sessions", "max_total_bytes", "max_deletions"):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if value is not None and not (whole and value >= 0):
                faults.append(f"{name}: expected a whole number, 0 or more, or None, got {value!r}")
        strange: list[object] = [one for one in self.keep_states if type(one) is not str]
        faults += [f"keep_states: expected names of states, got {one!r}" for one in strange]
        if faults:
            raise InvalidRetentionPolicy(faults)

    @property
    def counts_everything(self) -> bool:
        """Whether a rule needs all sessions, and not only the old ones."""
        return any(
            rule is not None
            for rule in (self.max_sessions, self.max_total_bytes, self.min_free_space_gb)
        )

    def before(self, now: datetime) -> datetime | None:
        """Return the time since which a session must be unused to be due by age; None for no age.

        It is a minute later than that: rounding must leave none out.
        """
        if self.max_age_hours is None:
            return None
        try:
            return now - timedelta(hours=self.max_age_hours) + timedelta(minutes=1)
        except OverflowError:  # older than the earliest date
            return datetime.min.replace(tzinfo=UTC)


def decide(
    candidates: Iterable[Candidate],
    policy: RetentionPolicy,
    *,
    now: datetime,
    free_bytes: int | None = None,
    others: int = 0,
    other_bytes: int = 0,
) -> Plan:
    """Decide for each session whether it is removed, and why.

    Args:
        candidates: The sessions, in any order.
        policy: The rules.
        now: The time, aware.
        free_bytes: The free bytes of their file system; if None, the rule for free space is
            ignored.
        others: The number of further sessions, which can't be removed.
        other_bytes: Their bytes; both count only for whether a bound is met.

    Returns:
        A plan that removes nothing that is pinned, in use, not removable, in a state to keep or
        dated in the future.
    """
    ordered = sorted(candidates, key=lambda one: (one.dated_at, one.session_id))
    rules = _Rules(policy, ordered, now, free_bytes)
    deleted = 0
    decisions: list[Decision] = []
    skipped: list[Skipped] = []
    known: dict[tuple[Reason, ...], tuple[Reason, ...]] = {}  # for sharing: few differ
    for index, one in enumerate(ordered):
        reasons = rules.ask_for(index, one)
        kept = _exempt(one, policy, now)
        if kept is None and not reasons:
            kept = Reason.YOUNG if rules.spared else Reason.RECENT
        elif kept is None and policy.max_deletions is not None and deleted >= policy.max_deletions:
            kept = Reason.LIMIT
        if kept is None:
            deleted += 1
            rules.goes(one)
            decisions.append(
                Decision(candidate=one, remove=True, reasons=known.setdefault(reasons, reasons))
            )
            continue
        why = known.setdefault((kept,), (kept,))
        decisions.append(Decision(candidate=one, remove=False, reasons=why))
        if reasons and kept in LEFT_ALONE:
            skipped.append(left_alone(one, kept))
    unmet = rules.unmet(len(ordered) - deleted + others, other_bytes)
    return Plan(decisions=tuple(decisions), skipped=tuple(skipped), unmet=unmet)


class _Rules:
    """The demands of a policy's rules, asked session by session from the oldest on.

    Attributes:
        spared: Whether a rule asked for the last session but its minimum age protects it.
    """

    def __init__(
        self,
        policy: RetentionPolicy,
        ordered: Sequence[Candidate],
        now: datetime,
        free_bytes: int | None,
    ) -> None:
        self._policy = policy
        self._now = now
        self._free = free_bytes
        space = policy.min_free_space_gb
        self._wanted = None if space is None else space * GIB
        self._total = sum(one.size_bytes for one in ordered)
        most, size = policy.max_sessions, policy.max_total_bytes
        self._many = 0 if most is None else len(ordered) - most
        self._large = 0 if size is None else _first_that_fits(ordered, size)
        self.spared = False

    def ask_for(self, index: int, one: Candidate) -> tuple[Reason, ...]:
        """Return the rules that ask for a session's removal."""
        age = one.age_hours(self._now)
        asked = []
        if index < self._many:
            asked.append(Reason.TOO_MANY)
        if index < self._large:
            asked.append(Reason.TOO_LARGE)
        if self._wanted is not None and self._free is not None and self._free < self._wanted:
            asked.append(Reason.LOW_SPACE)
        reasons = [reason for reason in asked if age >= self._min_age(reason)]
        self.spared = bool(asked) and not reasons
        limit = self._policy.max_age_hours
        if limit is not None and (age > limit or age >= limit == 0):
            reasons.insert(0, Reason.EXPIRED)
        return tuple(reasons)

    def _min_age(self, reason: Reason) -> float:
        """Return the minimum age of a session for a removal by this rule, in hours."""
        named = self._policy.min_age_hours
        if named is not None:
            return named
        return FREE_SPACE_MIN_AGE_HOURS if reason is Reason.LOW_SPACE else -math.inf

    def goes(self, one: Candidate) -> None:
        """Count a session as removed."""
        self._total -= one.size_bytes
        if self._free is not None:
            self._free += one.disk_bytes

    def unmet(self, stay: int, other_bytes: int) -> tuple[Unmet, ...]:
        """List the bounds that do not hold once all removals are done."""
        most, size = self._policy.max_sessions, self._policy.max_total_bytes
        total = self._total + other_bytes
        found = []
        if most is not None and stay > most:
            found.append(Unmet(rule="max_sessions", bound=most, stays=stay))
        if size is not None and total > size:
            found.append(Unmet(rule="max_total_bytes", bound=size, stays=total))
        if self._wanted is not None and self._free is not None and self._free < self._wanted:
            bound = int(min(self._wanted, _MOST))
            found.append(Unmet(rule="min_free_space_gb", bound=bound, stays=self._free))
        return tuple(found)


def _first_that_fits(ordered: Sequence[Candidate], size: int) -> int:
    """Return the index from which the sessions, the newest first, fit into a number of bytes."""
    for index in range(len(ordered) - 1, -1, -1):
        size -= ordered[index].size_bytes
        if size < 0:
            return index + 1
    return 0


def _exempt(one: Candidate, policy: RetentionPolicy, now: datetime) -> Reason | None:
    if one.pinned:
        return Reason.PINNED
    if not one.removable or (one.state is not None and one.state in policy.keep_states):
        return Reason.STATE
    if one.in_use:
        return Reason.IN_USE
    if one.dated_at > now:
        return Reason.FUTURE
    return None


def only_as_shown(plan: Plan, shown: Sequence[Decision], skipped: Collection[str]) -> Plan:
    """Limit a plan to what a former one decided, and only for unchanged sessions.

    Args:
        plan: What the policy asks for now.
        shown: What was decided then.
        skipped: Names in the root that are no candidates.

    Returns:
        A plan that removes no more; a session that was shown and is missing now is in it, with that
        as its reason.
    """
    then = {one.candidate.session_id: one.candidate for one in shown}
    there = {one.candidate.session_id for one in plan.decisions}.union(skipped)
    gone = [
        Decision(candidate=one, remove=False, reasons=(Reason.GONE,))
        for session_id, one in then.items()
        if session_id not in there
    ]
    return evolve(plan, decisions=(*(_as_shown(one, then) for one in plan.decisions), *gone))


def _as_shown(decision: Decision, then: Mapping[str, Candidate]) -> Decision:
    """Turn a removal into a stay if the session was not shown, or changed since."""
    now = decision.candidate
    shown = then.get(now.session_id)
    if shown is None:
        kept = evolve(decision, remove=False, reasons=(Reason.LIMIT,))
        return kept if decision.remove else decision
    if now.is_as(shown):
        return decision
    return evolve(decision, remove=False, reasons=(Reason.CHANGED,))
