"""One prune engine: old sessions go, nothing else ever does.

    plan = decide(candidates, RetentionPolicy(max_age_hours=24), now=now)     # pure
    result = prune(target, RetentionPolicy(max_age_hours=24), dry_run=True)   # looks at a root

A kind of sessions takes part through a `PruneTarget`. `sandbox` and `harness` have
theirs; this package knows neither. docs/pruning.md says what is promised.
"""

from .archive import TarArchiver
from .audit import AUDIT_NAME, read_audit
from .disposal import Archiver, Disposal
from .engine import prune
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
from .outside import Outside
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
from .private import PRIVATE, prepare_root
from .recovery import (
    list_trash,
    list_unrecorded,
    pin,
    pinned,
    restore_from_trash,
    unpin,
)
from .result import PruneResult
from .sizes import human_bytes
from .target import Dated, PruneObserver, PruneTarget, Silent, Undatable
from .trash import TrashRecord
from .unpacking import restore_archive

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
