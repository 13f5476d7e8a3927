"""What a prune did, or would do."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from tools.prune.policy import Decision, Skipped

_UNITS = ("KB", "MB", "GB", "TB", "PB")


def human_bytes(size: int) -> str:
    """Write a number of bytes for people: "512 B", "1.5 MB"; a KB is 1,024 bytes."""
    if size < 1024:
        return f"{size} B"
    scaled = float(size)
    for unit in _UNITS:
        scaled /= 1024
        if round(scaled, 1) < 1024 or unit == _UNITS[-1]:
            break
    return f"{scaled:.1f} {unit}"


@frozen(kw_only=True)
class PruneResult:
    """What a prune did, or would do.

    Attributes:
        deleted_sessions: Ids of the sessions that are gone (or would be, in a dry run), oldest
            first. With a trash, they can be brought back.
        skipped_sessions: Ids of what can't be dated or is not ours, so was left alone.
        reclaimed_bytes: The sizes of the files of the deleted sessions, added up before they went.
        errors: By session id: why it is not, or not all, gone.
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
    duration_s: float = 0.0

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
        if self.errors:
            parts.append(f"{len(self.errors)} error{'' if len(self.errors) == 1 else 's'}")
        return ", ".join(parts) + (" [dry run]" if self.dry_run else "")


def _counted(number: int) -> str:
    return f"{number} session{'' if number == 1 else 's'}"
