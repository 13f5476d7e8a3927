"""What a prune did, or would do."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from .policy import Decision, Reason, Skipped, Unmet
from .sizes import human_bytes


@frozen(kw_only=True)
class PruneResult:
    """What a prune did, or would do.

    Attributes:
        deleted_sessions: Ids of the sessions that are gone (or would be, in a dry run), oldest
            first. With a trash, they can be brought back.
        skipped_sessions: Ids of what was left alone because it can't be dated or is not ours, and
            of what a rule asked for and is in use, pinned or dated in the future.
        reclaimed_bytes: The sizes of the files of the deleted sessions, added up before they went.
        errors: By session id: why it is not, or not all, gone, or could not be looked at.
        dry_run: True when nothing was done.
        trashed: True when what is deleted is in the trash: until its time there is over it can be
            brought back, and frees nothing.
        finished_sessions: Ids of sessions that an earlier prune had begun to remove, and that are
            all gone now (or would be, in a dry run).
        unfinished_sessions: Ids of sessions that are out of sight, but not all deleted; they are in
            `errors` too, and the next prune goes on with them.
        purged_sessions: Ids of sessions that left the trash for good because their time was over
            (or would, in a dry run).
        archives: By session id: the archive that was written of it.
        decisions: For each session that was considered: whether it goes, and why.
        skipped: Why each of `skipped_sessions` was.
        swept: Names of what dead processes had left half made or half deleted in the root, and that
            is gone now (or would be, in a dry run).
        unmet: The bounds of the policy that do not hold, since what is in the way may not go.
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
        """How many sessions are to go and were left for the next time."""
        waiting = ((Reason.LIMIT,), (Reason.BUSY,))
        return sum(one.reasons in waiting for one in self.decisions)

    def __str__(self) -> str:
        """Sum it up in one line for people."""
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
