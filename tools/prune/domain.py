"""The values of a prune: sessions, decisions with their reasons, and the result."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from attrs import field, frozen

_SECONDS_AN_HOUR: Final = 3600.0
_UNITS = ("KB", "MB", "GB", "TB", "PB")


def human_bytes(size: int) -> str:
    """Format a number of bytes for people: "512 B", "1.5 MB"; a KB is 1,024 bytes."""
    if size < 1024:
        return f"{size} B"
    scaled = float(size)
    for unit in _UNITS:
        scaled /= 1024
        if round(scaled, 1) < 1024 or unit == _UNITS[-1]:
            break
    return f"{scaled:.1f} {unit}"


class Reason(StrEnum):
    """Why a session is removed or stays."""

    EXPIRED = "expired"
    """It was not used for longer than `max_age_hours`."""
    TOO_MANY = "too_many"
    """It is not one of the `max_sessions` newest."""
    TOO_LARGE = "too_large"
    """Together with the newer ones it exceeds `max_total_bytes`."""
    LOW_SPACE = "low_space"
    """The file system has less than `min_free_space_gb` free."""

    RECENT = "recent"
    """No rule asks for its removal."""
    STATE = "state"
    """It is in one of `keep_states`, or in a state in which its kind is never removed."""
    PINNED = "pinned"
    """It is pinned."""
    IN_USE = "in_use"
    """A process works in it."""
    YOUNG = "young"
    """A rule asks for its removal, but it was used too recently for that rule."""
    FUTURE = "dated_in_the_future"
    """A rule asks for its removal, but it is dated later than now."""
    LIMIT = "limit"
    """It is due, but `max_deletions` older ones are removed first."""
    BUSY = "busy"
    """It is due, but another prune worked on the root for the whole wait."""
    CHANGED = "changed"
    """It changed after the decision: it was used or replaced."""
    GONE = "gone"
    """Another process removed it before its turn came."""


WORDS: Final[Mapping[Reason, str]] = {
    Reason.EXPIRED: "too old",
    Reason.TOO_MANY: "too many",
    Reason.TOO_LARGE: "too large together",
    Reason.LOW_SPACE: "disk nearly full",
    Reason.RECENT: "not named by a rule any more",
    Reason.CHANGED: "changed meanwhile",
    Reason.STATE: "not ended",
    Reason.PINNED: "pinned",
    Reason.IN_USE: "in use",
    Reason.LIMIT: "over the limit",
    Reason.YOUNG: "used recently",
    Reason.FUTURE: "dated in the future",
    Reason.BUSY: "another prune is at work",
    Reason.GONE: "removed already",
}
"""Each reason as text for people."""


class SkipReason(StrEnum):
    """Why an entry of a root is left alone: it can't be dated, is not ours, or is needed."""

    NO_METADATA = "no_metadata"
    CORRUPTED_METADATA = "corrupted_metadata"
    FUTURE = "dated_in_the_future"
    SYMBOLIC_LINK = "symbolic_link"
    MOUNT_POINT = "mount_point"
    OTHER_OWNER = "other_owner"
    UNREADABLE = "unreadable"
    IN_USE = "in_use"
    PINNED = "pinned"


LEFT_ALONE: Final = {
    Reason.IN_USE: (SkipReason.IN_USE, "somebody works in it"),
    Reason.PINNED: (SkipReason.PINNED, "it is pinned"),
    Reason.FUTURE: (SkipReason.FUTURE, "it is dated in the future"),
}
"""The skip reason reported for a session that a rule asks for and that stays."""


@frozen(kw_only=True)
class Candidate:
    """A session that could be removed, as far as it is known.

    Attributes:
        kind: What it is: "sandbox", "agent" or "questions".
        session_id: Its id, which is its directory's name.
        dated_at: When it was last used, or ended; aware.
        version: Identifies the content it was dated by; a different version means it changed.
        size_bytes: The sum of its files' sizes; 0 until it is measured.
        disk_bytes: The room its files take on the disk; 0 until it is measured.
        state: Its state, where its kind has states.
        removable: Whether its kind may be removed in this state at all.
        pinned: Whether it is pinned.
        in_use: Whether a process works in it now.
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
        """Return its age in hours; negative if it is dated in the future."""
        return (now - self.dated_at).total_seconds() / _SECONDS_AN_HOUR

    def is_as(self, before: Candidate) -> bool:
        """Return whether it has the same date, version and state as before."""
        return (self.dated_at, self.version, self.state) == (
            before.dated_at,
            before.version,
            before.state,
        )


@frozen(kw_only=True)
class Skipped:
    """An entry with a session's name that is left alone.

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
    """The decision about one session.

    Attributes:
        candidate: The session.
        remove: Whether it is removed.
        reasons: Why, at least one; several rules may ask for the same session.
    """

    candidate: Candidate
    remove: bool
    reasons: tuple[Reason, ...]

    def logged(self) -> dict[str, object]:
        """Return the fields that an audit log records of it."""
        candidate = self.candidate
        return {
            "kind": candidate.kind,
            "session_id": candidate.session_id,
            "size_bytes": candidate.size_bytes,
            "dated_at": candidate.dated_at.astimezone(UTC).isoformat(),
            "state": candidate.state,
            "reasons": [str(reason) for reason in self.reasons],
        }


@frozen(kw_only=True)
class Inspection:
    """The sessions of one kind, as a look found them.

    Attributes:
        candidates: Sessions that can be dated and are ours.
        skipped: Entries with a session's name that can't be dated or are not ours.
        skipped_bytes: The size of the skipped entries, where everything had to be measured.
        hidden: Other names in a root, those that begin with a dot.
    """

    candidates: tuple[Candidate, ...]
    skipped: tuple[Skipped, ...] = ()
    skipped_bytes: int = 0
    hidden: tuple[str, ...] = ()


@frozen(kw_only=True)
class Unmet:
    """A bound that still does not hold after everything removable was removed.

    Attributes:
        rule: The rule's name, a field of `RetentionPolicy`.
        bound: What it asks for, in sessions or bytes.
        stays: What there is instead.
    """

    rule: str
    bound: int
    stays: int

    def __str__(self) -> str:
        """Return the bound and the remaining amount in words."""
        if self.rule == "max_sessions":
            return f"{self.stays:,} sessions stay, more than {self.bound:,}"
        if self.rule == "max_total_bytes":
            return f"{human_bytes(self.stays)} stay, more than {human_bytes(self.bound)}"
        return f"{human_bytes(self.stays)} would be free, less than {human_bytes(self.bound)}"


@frozen(kw_only=True)
class Plan:
    """The decisions about all sessions, oldest first.

    Attributes:
        decisions: One for each session.
        skipped: Those that a rule asks for and that stay because they are needed or can't be dated.
        unmet: The bounds that are not met, since what is in the way may not be removed.
    """

    decisions: tuple[Decision, ...]
    skipped: tuple[Skipped, ...] = ()
    unmet: tuple[Unmet, ...] = ()

    @property
    def removals(self) -> tuple[Decision, ...]:
        """The decisions to remove, in the order of removal."""
        return tuple(one for one in self.decisions if one.remove)

    @property
    def size_bytes(self) -> int:
        """The bytes that the removals free, as sizes of files."""
        return sum(one.candidate.size_bytes for one in self.decisions if one.remove)


def left_alone(one: Candidate, kept: Reason) -> Skipped:
    """Return why a session that a rule asks for stays; the reason is one of `LEFT_ALONE`."""
    reason, detail = LEFT_ALONE[kept]
    return Skipped(kind=one.kind, session_id=one.session_id, reason=reason, detail=detail)


@frozen(kw_only=True)
class PruneResult:
    """What a prune did, or would do.

    Attributes:
        deleted_sessions: Ids of the sessions that were removed (or would be, in a dry run), oldest
            first. With a trash, they can be restored.
        skipped_sessions: Ids of what was left alone because it can't be dated or is not ours, and
            of what a rule asked for and is in use, pinned or dated in the future.
        reclaimed_bytes: The sum of the file sizes of the deleted sessions, measured before removal.
        errors: By session id: why it was not, or not completely, removed, or could not be
            inspected.
        dry_run: True when nothing was done.
        trashed: True when what is deleted is in the trash: until its time there is over it can be
            restored, and frees nothing.
        finished_sessions: Ids of sessions whose removal an earlier prune had started and that are
            all deleted now (or would be, in a dry run).
        unfinished_sessions: Ids of sessions that are out of sight, but not all deleted; they are in
            `errors` too, and the next prune continues with them.
        purged_sessions: Ids of sessions that left the trash for good because their time was over
            (or would, in a dry run).
        archives: By session id: the archive that was written of it.
        decisions: For each session that was considered: whether it is removed, and why.
        skipped: Why each of `skipped_sessions` was skipped.
        swept: Names of what dead processes had left half made or half deleted in the root, and that
            is deleted now (or would be, in a dry run).
        unmet: The bounds of the policy that do not hold, since what is in the way may not be
            removed.
        busy: True when another prune worked on the root for the whole wait, so that this one
            removed nothing; what is due is in `decisions`.
        duration_s: How long it took, in seconds.
    """

    deleted_sessions: list[str] = field(factory=list)
    skipped_sessions: list[str] = field(factory=list)
    reclaimed_bytes: int = 0
    errors: Mapping[str, str] = field(factory=dict)
    dry_run: bool = False
    trashed: bool = False
    finished_sessions: list[str] = field(factory=list)
    unfinished_sessions: list[str] = field(factory=list)
    purged_sessions: list[str] = field(factory=list)
    archives: Mapping[str, str] = field(factory=dict)
    decisions: tuple[Decision, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    swept: list[str] = field(factory=list)
    unmet: tuple[Unmet, ...] = ()
    busy: bool = False
    duration_s: float = 0.0

    @property
    def due(self) -> int:
        """The number of sessions that are due and were left for the next prune."""
        waiting = ((Reason.LIMIT,), (Reason.BUSY,))
        return sum(one.reasons in waiting for one in self.decisions)

    def __str__(self) -> str:
        """Return a one-line summary for people."""
        went = ("Would trash" if self.dry_run else "Trashed") if self.trashed else None
        verb = went or ("Would delete" if self.dry_run else "Deleted")
        parts = [
            f"{verb} {_counted(len(self.deleted_sessions))}"
            f" ({human_bytes(self.reclaimed_bytes)}), skipped {len(self.skipped_sessions)}"
        ]
        if self.finished_sessions:
            finish = "would finish" if self.dry_run else "finished"
            parts.append(f"{finish} {len(self.finished_sessions)} begun before")
        if self.purged_sessions:
            leave = "would leave" if self.dry_run else "left"
            parts.append(f"{len(self.purged_sessions)} {leave} the trash")
        if self.swept:
            sweep = "would sweep" if self.dry_run else "swept"
            parts.append(f"{sweep} {len(self.swept)} left half done")
        if self.due:
            parts.append(f"{self.due} more due")
        if self.busy:
            parts.append("another prune is at work there")
        parts += [str(one) for one in self.unmet]
        if self.errors:
            parts.append(f"{len(self.errors)} error{'' if len(self.errors) == 1 else 's'}")
        return ", ".join(parts) + (" [dry run]" if self.dry_run else "")


def _counted(number: int) -> str:
    return f"{number} session{'' if number == 1 else 's'}"
