"""One prune engine: old sessions go, nothing else ever does.

    plan = decide(candidates, RetentionPolicy(max_age_hours=24), now=now)     # pure
    result = prune(target, RetentionPolicy(max_age_hours=24), dry_run=True)   # looks at a root

A kind of sessions takes part through a `PruneTarget`. `tools.sandbox` and `tools.harness` have
theirs; this package knows neither. docs/pruning.md says what is promised.
"""

from tools.prune.archive import TarArchiver
from tools.prune.audit import AUDIT_NAME, read_audit
from tools.prune.disposal import Archiver, Disposal
from tools.prune.engine import prune
from tools.prune.errors import (
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
from tools.prune.leftovers import left_half_done
from tools.prune.outside import Outside
from tools.prune.policy import (
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
from tools.prune.private import PRIVATE, prepare_root
from tools.prune.recovery import (
    list_trash,
    list_unrecorded,
    pin,
    pinned,
    restore_from_trash,
    unpin,
)
from tools.prune.result import PruneResult
from tools.prune.sizes import human_bytes
from tools.prune.target import Dated, PruneObserver, PruneTarget, Silent, Undatable
from tools.prune.trash import TrashRecord
from tools.prune.unpacking import restore_archive

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
