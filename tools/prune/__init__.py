"""One prune engine: it removes the old sessions that a policy names, and nothing else.

    result = prune(target, RetentionPolicy(max_age_hours=24), dry_run=True)

A kind of sessions takes part through a `PruneTarget`. `sandbox` and `harness` provide theirs; this
package knows neither. docs/operations.md lists the guarantees.
"""

from typing import TYPE_CHECKING

from ..base.exports import on_first_use

if TYPE_CHECKING:
    from .archive_reader import restore_archive
    from .archive_writer import TarArchiver
    from .audit_log import read_audit
    from .domain import (
        Candidate,
        Decision,
        Inspection,
        PruneResult,
        Reason,
        Skipped,
        SkipReason,
        human_bytes,
    )
    from .engine import prune
    from .errors import (
        InvalidRetentionPolicy,
        NotInTrash,
        PruneBusy,
        PruneError,
        PruneRootMissing,
        PruneRootUnusable,
        SessionInTheWay,
    )
    from .policy import RetentionPolicy
    from .ports import (
        Archiver,
        Dated,
        Disposal,
        PruneObserver,
        PruneSource,
        PruneTarget,
        Removed,
        StoredSessions,
        Undatable,
    )
    from .removal.environment import PruneEnvironment
    from .removal.pins import pin, pinned, unpin
    from .removal.private_directory import PRIVATE, prepare_root
    from .removal.recovery import left_half_done
    from .removal.trash import TrashRecord, list_trash, list_unrecorded, restore_from_trash
else:
    __getattr__ = on_first_use(
        __name__,
        {
            "archive_writer": "TarArchiver",
            "audit_log": "read_audit",
            "engine": "prune",
            "errors": "InvalidRetentionPolicy NotInTrash PruneBusy "
            "PruneError PruneRootMissing PruneRootUnusable SessionInTheWay",
            "removal.recovery": "left_half_done",
            "removal.environment": "PruneEnvironment",
            "removal.pins": "pin pinned unpin",
            "policy": "RetentionPolicy",
            "removal.private_directory": "PRIVATE prepare_root",
            "domain": "Candidate Decision Inspection PruneResult Reason SkipReason Skipped "
            "human_bytes",
            "ports": "Archiver Dated Disposal PruneObserver PruneSource PruneTarget Removed "
            "StoredSessions Undatable",
            "removal.trash": "TrashRecord list_trash list_unrecorded restore_from_trash",
            "archive_reader": "restore_archive",
        },
    )

__all__ = [
    "PRIVATE",
    "Archiver",
    "Candidate",
    "Dated",
    "Decision",
    "Disposal",
    "Inspection",
    "InvalidRetentionPolicy",
    "NotInTrash",
    "PruneBusy",
    "PruneEnvironment",
    "PruneError",
    "PruneObserver",
    "PruneResult",
    "PruneRootMissing",
    "PruneRootUnusable",
    "PruneSource",
    "PruneTarget",
    "Reason",
    "Removed",
    "RetentionPolicy",
    "SessionInTheWay",
    "SkipReason",
    "Skipped",
    "StoredSessions",
    "TarArchiver",
    "TrashRecord",
    "Undatable",
    "human_bytes",
    "left_half_done",
    "list_trash",
    "list_unrecorded",
    "pin",
    "pinned",
    "prepare_root",
    "prune",
    "read_audit",
    "restore_archive",
    "restore_from_trash",
    "unpin",
]
