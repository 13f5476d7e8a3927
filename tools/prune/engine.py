"""One prune: inspect, decide, remove, and summarize.

    directories (`removal.directories`) or rows of a store
        ──► candidates ──► decide() ──► plan ──► removed, kept or left, each with its reason

After the start, findings are reported in the result and never raised.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..base.errors import AgentForgeError, reason_of
from .domain import Decision, Plan, PruneResult, Reason
from .errors import InvalidRetentionPolicy
from .policy import RetentionPolicy
from .ports import Disposal, PruneObserver, PruneTarget, StoredSessions
from .removal.directories import prune_directories
from .removal.environment import PruneEnvironment
from .removal.run import ObserverFailed, PruneRun, RunRecord


def prune(
    source: PruneTarget | StoredSessions,
    policy: RetentionPolicy,
    *,
    dry_run: bool = False,
    only: Sequence[Decision] | None = None,
    disposal: Disposal | None = None,
    observer: PruneObserver | None = None,
    outside: PruneEnvironment | None = None,
) -> PruneResult:
    """Remove what a policy asks for from a root of directories, or from a store.

    Args:
        source: The sessions.
        policy: Which of them to remove.
        dry_run: Only inspect and decide: nothing is changed, made or locked for longer than a
            moment.
        only: Remove none but these, and only if unchanged: what a dry run decided and a person
            confirmed. All that the policy asks for if None.
        disposal: How sessions are removed; at once if None.
        observer: Notified of what happens.
        outside: Time, randomness and the file system; the real ones if None.

    Returns:
        What was removed and what was not, and why. If another prune works on the root, this one
        waits for it (`Disposal.lock_timeout_s`) and removes what it leaves; if the wait is too
        long, the result is `busy` and nothing was removed.

    Raises:
        PruneRootMissing: There is no such root.
        PruneRootUnusable: It is no directory, or can't be read or written; nothing was removed.
        InvalidRetentionPolicy: It asks for what a store can't do; nothing was removed.
        AgentForgeError: The store does not answer; nothing was removed.
        Exception: What the observer raises is passed on unchanged, and ends the prune: the next
            prune finishes what is out of sight by then.

    Guarantees: nothing outside the plan is removed. A removed session has a line in the audit log
    that was durable before the removal, or became durable with it.
    """
    outside = outside or PruneEnvironment()
    disposal = disposal or Disposal()
    record = RunRecord(observer or PruneObserver())
    began = outside.monotonic()
    run = PruneRun(
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
            plan = _prune_rows(source, run)
        result = record.result(
            plan,
            dry_run=dry_run,
            trashed=disposal.grace is not None,
            duration_s=outside.monotonic() - began,
        )
        record.notify(record.observer.completed, result)
    except ObserverFailed as failed:
        raised = failed.error
    else:
        return result
    raise raised  # unchanged: it says nothing about the root


def _require_possible(policy: RetentionPolicy, disposal: Disposal) -> None:
    faults = []
    if policy.min_free_space_gb is not None:
        faults.append("min_free_space_gb: what is free on a database's disk is not known here")
    if disposal.grace is not None:
        faults.append("grace: a store has no trash; keep an archive of each instead")
    if disposal.audit_path is not None:
        faults.append("audit_path: a store keeps its audit log itself")
    if faults:
        raise InvalidRetentionPolicy(faults)


def _prune_rows(stored: StoredSessions, run: PruneRun) -> Plan:
    """Inspect, decide, and remove unless it is a dry run; return the decisions.

    Rows need none of the care that directories need: a transaction is done or not, so nothing is
    ever half removed, nothing has to be hidden before it is deleted, and no later prune has to
    finish it. Two prunes of one store share the work.
    """
    policy, record = run.policy, run.record
    _require_possible(policy, run.disposal)
    record.notify(record.observer.started, stored, policy, dry_run=run.dry_run)
    before = None if policy.counts_everything else policy.before(run.now)
    found = stored.inspect(now=run.now, before=before)
    plan = run.decide(found)
    run.announce(found, plan)
    if run.dry_run:
        record.foresee(plan)
    else:
        _remove_rows(stored, run, plan)
    return plan


def _remove_rows(stored: StoredSessions, run: PruneRun, plan: Plan) -> None:
    """Lock each, inspect it again, archive and delete it with its line, in one transaction."""
    record, archiver = run.record, run.disposal.archiver
    by, token = dict(run.outside.actor()), run.outside.token()
    for one in plan.removals:
        candidate, session_id = one.candidate, one.candidate.session_id
        line = {"event": "removed", **one.logged(), "run": token, "by": by}
        try:
            removed = stored.remove(candidate, line, archiver=archiver)
        except (AgentForgeError, OSError) as error:
            record.fail(session_id, f"it was kept: {reason_of(error)}")
            continue
        if isinstance(removed, Reason):
            record.keep(candidate, removed)
            continue
        if removed.archive is not None:
            record.archives[session_id] = removed.archive
        record.removed(candidate)
        if removed.left is not None:
            record.fail(session_id, removed.left)
