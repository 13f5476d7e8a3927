"""What goes and what stays: a pure decision.

    candidates + policy + now + free space  ->  plan

Nothing here reads a disk or a clock. The same input gives the same plan, so a dry run and the run
after it agree as long as the sessions do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, cast

from attrs import field, frozen

from .errors import InvalidPolicy
from .sizes import human_bytes

GIB: Final = 1 << 30
_SECONDS_AN_HOUR: Final = 3600.0
_MOST: Final = 1 << 100
"""More bytes than there are; a number of them may be larger than any float."""


class Reason(StrEnum):
    """Why a session goes or stays."""

    EXPIRED = "expired"
    """It was not used for longer than `max_age_hours`."""
    TOO_MANY = "too_many"
    """It is none of the `max_sessions` newest."""
    TOO_LARGE = "too_large"
    """It and those that are newer have more than `max_total_bytes`."""
    LOW_SPACE = "low_space"
    """The file system has less than `min_free_space_gb` free."""

    RECENT = "recent"
    """No rule asks for it to go."""
    STATE = "state"
    """It is in one of `keep_states`, or in a state its kind is never removed in."""
    PINNED = "pinned"
    """Somebody pinned it."""
    IN_USE = "in_use"
    """Somebody is working in it."""
    YOUNG = "young"
    """A rule asks for it to go, but it was used within `min_age_hours`."""
    FUTURE = "dated_in_the_future"
    """A rule asks for it to go, but it is dated later than now."""
    LIMIT = "limit"
    """It would go, but `max_deletions` others go first."""
    BUSY = "busy"
    """It would go, but another prune worked on the root for the whole wait."""
    CHANGED = "changed"
    """It is not as it was when it was decided: somebody used or replaced it."""
    GONE = "gone"
    """Somebody else removed it before its turn came."""


class SkipReason(StrEnum):
    """Why something under a root is left alone: it can't be dated, is not ours, or is needed."""

    NO_METADATA = "no_metadata"
    CORRUPTED_METADATA = "corrupted_metadata"
    FUTURE = "dated_in_the_future"
    SYMBOLIC_LINK = "symbolic_link"
    MOUNT_POINT = "mount_point"
    OTHER_OWNER = "other_owner"
    UNREADABLE = "unreadable"
    IN_USE = "in_use"
    PINNED = "pinned"


TOLD: Final = {
    Reason.IN_USE: (SkipReason.IN_USE, "somebody works in it"),
    Reason.PINNED: (SkipReason.PINNED, "it is pinned"),
    Reason.FUTURE: (SkipReason.FUTURE, "it is dated in the future"),
}
"""What is told of a session that a rule asks for and that stays for such a reason."""


@frozen(kw_only=True)
class Candidate:
    """A session that could be removed, as far as it is known.

    Attributes:
        kind: What it is: "sandbox", "harness" or "questions".
        session_id: Its id, which is its directory's name.
        dated_at: When it was last used, or ended; aware.
        version: What identifies the content it was dated by; another one means it changed.
        size_bytes: The sizes of its files added up; 0 until it is measured.
        disk_bytes: The room they take on the disk; 0 until it is measured.
        state: Its state, where its kind has states.
        removable: Whether its kind may be removed in this state at all.
        pinned: Whether somebody pinned it.
        in_use: Whether somebody works in it now.
    """

    kind: str
    session_id: str
    dated_at: datetime
    version: object = None
    size_bytes: int = 0
    disk_bytes: int = 0
    state: str | None = None
    removable: bool = True
    pinned: bool = False
    in_use: bool = False

    def age_hours(self, now: datetime) -> float:
        """How long ago it was dated, in hours; negative for the future."""
        return (now - self.dated_at).total_seconds() / _SECONDS_AN_HOUR


@frozen(kw_only=True)
class Skipped:
    """Something that has a session's name and is left alone.

    Attributes:
        kind: The kind of sessions the root holds.
        session_id: Its name.
        reason: Why it is left alone.
        detail: The same in words, with what was found.
    """

    kind: str
    session_id: str
    reason: SkipReason
    detail: str


@frozen(kw_only=True)
class Decision:
    """What becomes of one session.

    Attributes:
        candidate: The session.
        remove: Whether it goes.
        reasons: Why, at least one; several rules may ask for the same session.
    """

    candidate: Candidate
    remove: bool
    reasons: tuple[Reason, ...]


@frozen(kw_only=True)
class Unmet:
    """A bound that does not hold after all that may go is gone.

    Attributes:
        rule: The rule's name, as `RetentionPolicy` has it.
        bound: What it asks for, in sessions or bytes.
        stays: What there is instead.
    """

    rule: str
    bound: int
    stays: int

    def __str__(self) -> str:
        """Say it in words."""
        if self.rule == "max_sessions":
            return f"{self.stays:,} sessions stay, more than {self.bound:,}"
        if self.rule == "max_total_bytes":
            return f"{human_bytes(self.stays)} stay, more than {human_bytes(self.bound)}"
        return f"{human_bytes(self.stays)} would be free, less than {human_bytes(self.bound)}"


@frozen(kw_only=True)
class Plan:
    """What becomes of every session, oldest first.

    Attributes:
        decisions: One for each session.
        skipped: Those that a rule asks for and that stay because they are needed or can't be dated.
        unmet: The bounds that are not met, since what is in the way may not go.
    """

    decisions: tuple[Decision, ...]
    skipped: tuple[Skipped, ...] = ()
    unmet: tuple[Unmet, ...] = ()

    @property
    def removals(self) -> tuple[Decision, ...]:
        """Those that go, in the order in which they go."""
        return tuple(one for one in self.decisions if one.remove)

    @property
    def size_bytes(self) -> int:
        """What the removals free, as sizes of files."""
        return sum(one.candidate.size_bytes for one in self.decisions if one.remove)


def _number(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _as_states(states: object) -> frozenset[str]:
    """Take names of states; what is none stays as it is, to be told with the other faults."""
    if isinstance(states, str):
        return frozenset({str(states)})
    if isinstance(states, bytes) or not isinstance(states, Iterable):
        return cast("frozenset[str]", (states,))
    several = [str(one) if isinstance(one, str) else one for one in states]
    try:
        return frozenset(several)
    except TypeError:  # it holds something that can be no member of a set
        return cast("frozenset[str]", tuple(several))


@frozen(kw_only=True)
class RetentionPolicy:
    """Which sessions are kept. Rules may be combined; a session goes if any of them asks for it.

    Removal goes from the oldest to the newest, by the time a session was last used or ended, then
    by id; each rule removes no more than it needs. So what goes is always the oldest part of what
    may go. A rule that is None asks for nothing: without any rule, everything stays. A session
    that is dated in the future stays, whatever the rules say.

    Attributes:
        max_age_hours: Sessions older than this go; of 0, all that have an age. Hours, 0 or more.
        max_sessions: So many of the newest stay, and the older ones go. Those that can't be removed
            cost no newer one its place: the bound is not met then, and the plan says so.
        max_total_bytes: The newest stay, as many as have at most so many bytes together, and the
            older ones go; with what can't be removed as with `max_sessions`.
        min_free_space_gb: At least so many GiB of the file system are free afterwards, as far as
            the sizes on disk tell.
        min_age_hours: No session that was used within so many hours goes for one of these three.
        keep_states: Sessions in these states stay, whatever the other rules say.
        max_deletions: At most this many go at once, the oldest; the rest waits for the next time.

    Raises:
        InvalidPolicy: A value is none of these; it names every fault.
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
            raise InvalidPolicy(faults)

    @property
    def counts_everything(self) -> bool:
        """Whether a rule needs to know of all sessions, and not only of those that are old."""
        return any(
            rule is not None
            for rule in (self.max_sessions, self.max_total_bytes, self.min_free_space_gb)
        )


def decide(
    candidates: Iterable[Candidate],
    policy: RetentionPolicy,
    *,
    now: datetime,
    free_bytes: int | None = None,
    others: int = 0,
    other_bytes: int = 0,
) -> Plan:
    """Say for each session whether it goes, and why.

    Args:
        candidates: The sessions, in any order.
        policy: The rules.
        now: The time, aware.
        free_bytes: What is free on their file system; None asks for nothing.
        others: How many sessions there are beside them, that can't be removed.
        other_bytes: The bytes of those; both only for whether a bound is met.

    Returns:
        A plan that removes nothing that is pinned, in use, not removable, in a state to keep or
        dated in the future.
    """
    ordered = sorted(candidates, key=lambda one: (one.dated_at, one.session_id))
    rules = _Rules(policy, ordered, now, free_bytes)
    deleted = 0
    decisions: list[Decision] = []
    skipped: list[Skipped] = []
    known: dict[tuple[Reason, ...], tuple[Reason, ...]] = {}  # ten thousand share a few
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
        if reasons and kept in TOLD:
            skipped.append(left_alone(one, kept))
    unmet = rules.unmet(len(ordered) - deleted + others, other_bytes)
    return Plan(decisions=tuple(decisions), skipped=tuple(skipped), unmet=unmet)


class _Rules:
    """What the rules of a policy ask for, session by session from the oldest on.

    Attributes:
        spared: Whether the last session was asked for by a rule that its age spares it from.
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
        """Say which rules ask for a session to go."""
        age = one.age_hours(self._now)
        reasons = []
        if index < self._many:
            reasons.append(Reason.TOO_MANY)
        if index < self._large:
            reasons.append(Reason.TOO_LARGE)
        if self._wanted is not None and self._free is not None and self._free < self._wanted:
            reasons.append(Reason.LOW_SPACE)
        floor = self._policy.min_age_hours
        self.spared = floor is not None and age < floor and bool(reasons)
        if self.spared:
            reasons.clear()
        limit = self._policy.max_age_hours
        if limit is not None and (age > limit or age >= limit == 0):
            reasons.insert(0, Reason.EXPIRED)
        return tuple(reasons)

    def goes(self, one: Candidate) -> None:
        """Count a session as gone."""
        self._total -= one.size_bytes
        if self._free is not None:
            self._free += one.disk_bytes

    def unmet(self, stay: int, other_bytes: int) -> tuple[Unmet, ...]:
        """Name the bounds that do not hold once all that go are gone."""
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
    """Say from where on the sessions, the newest first, fit into a number of bytes."""
    for index in range(len(ordered) - 1, -1, -1):
        size -= ordered[index].size_bytes
        if size < 0:
            return index + 1
    return 0


def left_alone(one: Candidate, kept: Reason) -> Skipped:
    """Say of a session that a rule asks for why it is left alone; the reason is one of `TOLD`."""
    reason, detail = TOLD[kept]
    return Skipped(kind=one.kind, session_id=one.session_id, reason=reason, detail=detail)


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


__all__ = [
    "Candidate",
    "Decision",
    "Plan",
    "Reason",
    "RetentionPolicy",
    "SkipReason",
    "Skipped",
    "Unmet",
    "decide",
]
