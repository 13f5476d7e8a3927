"""A prune of sessions that a store has as rows.

    store ──► candidates ──► decide() ──► plan ──► each: locked, looked at again, archived,
                                                   deleted with its audit line, in one transaction

What directories need is not needed here: a transaction is done or is not, so nothing is ever half
removed, nothing has to be hidden before it is deleted, and no later prune has to finish it. Two
prunes of one store share the work.
"""

from __future__ import annotations

from ...base.errors import AgentForgeError, reason_of
from ..domain import Plan, Reason
from ..errors import InvalidPolicy
from ..policy import RetentionPolicy
from ..ports import Disposal, StoredSessions
from .run_record import Run


def _require_possible(policy: RetentionPolicy, disposal: Disposal) -> None:
    faults = []
    if policy.min_free_space_gb is not None:
        faults.append("min_free_space_gb: what is free on a database's disk is not known here")
    if disposal.grace is not None:
        faults.append("grace: a store has no trash; keep an archive of each instead")
    if disposal.audit_path is not None:
        faults.append("audit_path: a store keeps its audit log itself")
    if faults:
        raise InvalidPolicy(faults)


def prune_rows(stored: StoredSessions, run: Run) -> Plan:
    """Look, decide, and remove unless it is a dry run; return what was decided."""
    policy, record = run.policy, run.record
    _require_possible(policy, run.disposal)
    record.observer.started(stored, policy, dry_run=run.dry_run)
    before = None if policy.counts_everything else policy.before(run.now)
    found = stored.inspect(now=run.now, before=before)
    plan = run.decide(found)
    run.announce(found, plan)
    if run.dry_run:
        record.foresee(plan)
    else:
        _remove(stored, run, plan)
    return plan


def _remove(stored: StoredSessions, run: Run, plan: Plan) -> None:
    """Remove what was decided, one session after the other."""
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
