"""One prune engine: old sessions go, nothing else ever does.

    plan = decide(candidates, RetentionPolicy(max_age_hours=24), now=now)     # pure
    result = prune(target, RetentionPolicy(max_age_hours=24), dry_run=True)   # looks at a root

A kind of sessions takes part through a `PruneTarget`. `sandbox` and `harness` have
theirs; this package knows neither. docs/pruning.md says what is promised.
"""

from typing import TYPE_CHECKING

from ..base.exports import on_first_use

if TYPE_CHECKING:
    from .archive.archive_reader import restore_archive
    from .archive.archive_writer import TarArchiver
    from .domain import (
        Candidate,
        Decision,
        Plan,
        PruneResult,
        Reason,
        Skipped,
        SkipReason,
        Unmet,
        human_bytes,
    )
    from .engine import prune
    from .errors import (
        InvalidArchive,
        InvalidPolicy,
        NotInTrash,
        PruneBusy,
        PruneError,
        PruneRootMissing,
        PruneRootUnusable,
        SessionInTheWay,
    )
    from .policy import RetentionPolicy, decide
    from .ports import (
        Archiver,
        Dated,
        Disposal,
        PruneObserver,
        PruneSource,
        PruneTarget,
        Record,
        Removed,
        Silent,
        Stored,
        StoredSessions,
        Undatable,
    )
    from .records.audit_log import AUDIT_NAME, read_audit
    from .removal.environment import Outside
    from .removal.leftovers import left_half_done
    from .removal.pins import pin, pinned, unpin
    from .removal.private_directory import PRIVATE, prepare_root
    from .removal.trash import TrashRecord, list_trash, list_unrecorded, restore_from_trash
    from .stored_engine import prune_stored
else:
    __getattr__ = on_first_use(
        __name__,
        {
            "archive.archive_writer": "TarArchiver",
            "records.audit_log": "AUDIT_NAME read_audit",
            "engine": "prune",
            "errors": "InvalidArchive InvalidPolicy NotInTrash PruneBusy "
            "PruneError PruneRootMissing PruneRootUnusable SessionInTheWay",
            "removal.leftovers": "left_half_done",
            "removal.environment": "Outside",
            "removal.pins": "pin pinned unpin",
            "policy": "RetentionPolicy decide",
            "removal.private_directory": "PRIVATE prepare_root",
            "domain": "Candidate Decision Plan PruneResult Reason SkipReason Skipped Unmet "
            "human_bytes",
            "ports": "Archiver Dated Disposal PruneObserver PruneSource PruneTarget Record Removed "
            "Silent Stored StoredSessions Undatable",
            "stored_engine": "prune_stored",
            "removal.trash": "TrashRecord list_trash list_unrecorded restore_from_trash",
            "archive.archive_reader": "restore_archive",
        },
    )

__all__ = [
    "AUDIT_NAME",
    "PRIVATE",
    "Archiver",
    "Candidate",
    "Dated",
    "Decision",
    "Disposal",
    "InvalidArchive",
    "InvalidPolicy",
    "NotInTrash",
    "Outside",
    "Plan",
    "PruneBusy",
    "PruneError",
    "PruneObserver",
    "PruneResult",
    "PruneRootMissing",
    "PruneRootUnusable",
    "PruneSource",
    "PruneTarget",
    "Reason",
    "Record",
    "Removed",
    "RetentionPolicy",
    "SessionInTheWay",
    "Silent",
    "SkipReason",
    "Skipped",
    "Stored",
    "StoredSessions",
    "TarArchiver",
    "TrashRecord",
    "Undatable",
    "Unmet",
    "decide",
    "human_bytes",
    "left_half_done",
    "list_trash",
    "list_unrecorded",
    "pin",
    "pinned",
    "prepare_root",
    "prune",
    "prune_stored",
    "read_audit",
    "restore_archive",
    "restore_from_trash",
    "unpin",
]
