"""One prune: look, decide, remove, and sum it up.

    directories (`removal.directories`) or rows of a store (`removal.rows`)
        ──► candidates ──► decide() ──► plan ──► removed, kept or left, each with its reason

Once it has begun, nothing is raised for what it meets.
"""

from __future__ import annotations

from collections.abc import Sequence

from .domain import Decision, PruneResult
from .policy import RetentionPolicy
from .ports import Disposal, PruneObserver, PruneTarget, StoredSessions
from .removal.directories import prune_directories
from .removal.environment import Outside
from .removal.rows import prune_rows
from .removal.run_record import ObserverFailed, Run, RunRecord


def prune(
    source: PruneTarget | StoredSessions,
    policy: RetentionPolicy,
    *,
    dry_run: bool = False,
    only: Sequence[Decision] | None = None,
    disposal: Disposal | None = None,
    observer: PruneObserver | None = None,
    outside: Outside | None = None,
) -> PruneResult:
    """Remove what a policy asks for from a root of directories, or from a store.

    Args:
        source: The sessions.
        policy: Which of them go.
        dry_run: Only look and decide: nothing is changed, made or locked for longer than a moment.
        only: Remove none but these, and only as they were: what a dry run decided and a person
            confirmed. All that the policy asks for if None.
        disposal: What becomes of them; removed at once if None.
        observer: Notified of what happens.
        outside: Time, chance and the file system; the real ones if None.

    Returns:
        What went and what did not, and why. Where another prune works on the root, it is waited for
        (`Disposal.lock_timeout_s`) and what it leaves is taken; if it goes on for longer, the
        result is `busy` and nothing was removed.

    Raises:
        PruneRootMissing: There is no such root.
        PruneRootUnusable: It is no directory, or can't be read or written; nothing was removed.
        InvalidPolicy: It asks for what a store can't do; nothing was removed.
        AgentForgeError: The store does not answer; nothing was removed.
        Exception: What the observer raises comes out as it is, and ends the prune: what is out of
            sight by then, the next prune finishes.

    Guarantees: nothing outside the plan is removed. A removed session has a line in the audit log
    that was durable before it went, or with it.
    """
    outside = outside or Outside()
    disposal = disposal or Disposal()
    record = RunRecord(observer or PruneObserver())
    began = outside.monotonic()
    run = Run(
        policy=policy,
        only=only,
        disposal=disposal,
        outside=outside,
        record=record,
        now=outside.clock(),
        dry_run=dry_run,
    )
    try:
        if isinstance(source, PruneTarget):
            plan = prune_directories(source, run)
        else:
            plan = prune_rows(source, run)
        result = record.result(
            plan,
            dry_run=dry_run,
            trashed=disposal.grace is not None,
            duration_s=outside.monotonic() - began,
        )
        record.observer.completed(result)
    except ObserverFailed as failed:
        raised = failed.error
    else:
        return result
    raise raised  # as it is: it says nothing about the root
