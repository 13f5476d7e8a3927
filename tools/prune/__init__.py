"""One prune engine: old sessions go, nothing else ever does.

    plan = decide(candidates, RetentionPolicy(max_age_hours=24), now=now)     # pure
    result = prune(target, RetentionPolicy(max_age_hours=24), dry_run=True)   # looks at a root

A kind of sessions takes part through a `PruneTarget`. `sandbox` and `harness` have
theirs; this package knows neither. docs/pruning.md says what is promised.
"""

from typing import TYPE_CHECKING

from ..exports import on_first_use

if TYPE_CHECKING:
    from .archive_reader import restore_archive
    from .archive_writer import TarArchiver
    from .audit_log import AUDIT_NAME, read_audit
    from .disposal import Archiver, Disposal
    from .domain import PruneResult
    from .engine import prune
    from .environment import Outside
    from .errors import (
        ArchiveUnavailable,
        InvalidArchive,
        InvalidPolicy,
        NotInTrash,
        PruneBusy,
        PruneError,
        PruneRootMissing,
        PruneRootUnusable,
        SessionInTheWay,
    )
    from .leftovers import left_half_done
    from .policy import (
        Candidate,
        Decision,
        Plan,
        Reason,
        RetentionPolicy,
        Skipped,
        SkipReason,
        Unmet,
        decide,
    )
    from .ports import Dated, PruneObserver, PruneTarget, Silent, Undatable
    from .private_directory import PRIVATE, prepare_root
    from .recovery import (
        list_trash,
        list_unrecorded,
        pin,
        pinned,
        restore_from_trash,
        unpin,
    )
    from .sizes import human_bytes
    from .trash import TrashRecord
else:
    __getattr__ = on_first_use(
        __name__,
        {
            "archive_writer": "TarArchiver",
            "audit_log": "AUDIT_NAME read_audit",
            "disposal": "Archiver Disposal",
            "engine": "prune",
            "errors": "ArchiveUnavailable InvalidArchive InvalidPolicy NotInTrash PruneBusy "
            "PruneError PruneRootMissing PruneRootUnusable SessionInTheWay",
            "leftovers": "left_half_done",
            "environment": "Outside",
            "policy": "Candidate Decision Plan Reason RetentionPolicy Skipped SkipReason Unmet "
            "decide",
            "private_directory": "PRIVATE prepare_root",
            "recovery": "list_trash list_unrecorded pin pinned restore_from_trash unpin",
            "domain": "PruneResult",
            "sizes": "human_bytes",
            "ports": "Dated PruneObserver PruneTarget Silent Undatable",
            "trash": "TrashRecord",
            "archive_reader": "restore_archive",
        },
    )

__all__ = [
    "AUDIT_NAME",
    "PRIVATE",
    "ArchiveUnavailable",
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
    "PruneTarget",
    "Reason",
    "RetentionPolicy",
    "SessionInTheWay",
    "Silent",
    "SkipReason",
    "Skipped",
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
    "read_audit",
    "restore_archive",
    "restore_from_trash",
    "unpin",
]
