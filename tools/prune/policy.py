"""What goes and what stays: a pure decision.

    candidates + policy + now + free space  ->  plan

Nothing here reads a disk or a clock. The same input gives the same plan, so a dry run and the run
after it agree as long as the sessions do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Final, cast

from attrs import field, frozen

from tools.prune.errors import InvalidPolicy

GIB: Final = 1 << 30
_SECONDS_AN_HOUR: Final = 3600.0


class Reason(StrEnum):
    """Why a session goes or stays."""

    EXPIRED = "expired"
    """It was not used for longer than `max_age_hours`."""
    TOO_MANY = "too_many"
    """There are more sessions than `max_sessions`."""
    TOO_LARGE = "too_large"
    """All sessions together have more than `max_total_bytes`."""
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
    LIMIT = "limit"
    """It would go, but `max_deletions` others go first."""
    CHANGED = "changed"
    """It is not as it was when it was decided: somebody used or replaced it."""
    GONE = "gone"
    """Somebody else removed it before its turn came."""


class SkipReason(StrEnum):
    """Why something under a root is not considered: it can't be dated, or is not ours."""

    NO_METADATA = "no_metadata"
    CORRUPTED_METADATA = "corrupted_metadata"
    FUTURE = "dated_in_the_future"
    SYMBOLIC_LINK = "symbolic_link"
    MOUNT_POINT = "mount_point"
    OTHER_OWNER = "other_owner"
    UNREADABLE = "unreadable"


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
    """Something that has a session's name and is not considered.

    Attributes:
        kind: The kind of sessions the root holds.
        session_id: Its name.
        reason: Why it is not considered.
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
class Plan:
    """What becomes of every session, oldest first."""

    decisions: tuple[Decision, ...]

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
    may go. A rule that is None asks for nothing: without any rule, everything stays.

    Attributes:
        max_age_hours: Sessions at least this old go. Hours, 0 or more.
        max_sessions: At most this many stay. What can't be removed counts too.
        max_total_bytes: The files of what stays have at most so many bytes together. What can't be
            removed counts too.
        min_free_space_gb: At least so many GiB of the file system are free afterwards, as far as
            the sizes on disk tell.
        keep_states: Sessions in these states stay, whatever the other rules say.
        max_deletions: At most this many go at once, the oldest; the rest waits for the next time.

    Raises:
        InvalidPolicy: A value is none of these; it names every fault.
    """

    max_age_hours: float | None = None
    max_sessions: int | None = None
    max_total_bytes: int | None = None
    min_free_space_gb: float | None = None
    keep_states: frozenset[str] = field(default=frozenset(), converter=_as_states)
    max_deletions: int | None = None

    def __attrs_post_init__(self) -> None:
        faults = []
        for name in ("max_age_hours", "min_free_space_gb"):
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
        other_bytes: The bytes of those.

    Returns:
        A plan that removes nothing that is pinned, in use, not removable or in a state to keep.
    """
    ordered = sorted(candidates, key=lambda one: (one.dated_at, one.session_id))
    count = len(ordered) + others
    total = sum(one.size_bytes for one in ordered) + other_bytes
    free = free_bytes
    wanted = None if policy.min_free_space_gb is None else policy.min_free_space_gb * GIB
    deleted = 0
    decisions = []
    known: dict[tuple[Reason, ...], tuple[Reason, ...]] = {}  # ten thousand share a few
    max_age, max_sessions, max_bytes = (
        policy.max_age_hours,
        policy.max_sessions,
        policy.max_total_bytes,
    )
    for one in ordered:
        kept = _exempt(one, policy)
        reasons = []
        if max_age is not None and one.age_hours(now) >= max_age:
            reasons.append(Reason.EXPIRED)
        if max_sessions is not None and count > max_sessions:
            reasons.append(Reason.TOO_MANY)
        if max_bytes is not None and total > max_bytes:
            reasons.append(Reason.TOO_LARGE)
        if wanted is not None and free is not None and free < wanted:
            reasons.append(Reason.LOW_SPACE)
        if kept is not None or not reasons:
            decisions.append(
                Decision(candidate=one, remove=False, reasons=(kept or Reason.RECENT,))
            )
            continue
        if policy.max_deletions is not None and deleted >= policy.max_deletions:
            decisions.append(Decision(candidate=one, remove=False, reasons=(Reason.LIMIT,)))
            continue
        deleted += 1
        count -= 1
        total -= one.size_bytes
        free = None if free is None else free + one.disk_bytes
        why = tuple(reasons)
        decisions.append(Decision(candidate=one, remove=True, reasons=known.setdefault(why, why)))
    return Plan(decisions=tuple(decisions))


def _exempt(one: Candidate, policy: RetentionPolicy) -> Reason | None:
    if one.pinned:
        return Reason.PINNED
    if not one.removable or (one.state is not None and one.state in policy.keep_states):
        return Reason.STATE
    if one.in_use:
        return Reason.IN_USE
    return None


__all__ = [
    "Candidate",
    "Decision",
    "Plan",
    "Reason",
    "RetentionPolicy",
    "SkipReason",
    "Skipped",
    "decide",
]
