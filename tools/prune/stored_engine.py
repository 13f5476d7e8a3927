"""One prune of sessions that a store has as rows, by the policy that prunes directories.

    store ──► candidates ──► decide() ──► plan ──► each: locked, looked at again, archived,
                                                   deleted with its audit line, in one transaction

What directories need is not needed here: a transaction is done or is not, so nothing is ever half
removed, nothing has to be hidden before it is deleted, and no later prune has to finish it. Two
prunes of one store share the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, timedelta

from attrs import frozen

from ..base.errors import AgentForgeError, reason_of
from .domain import Decision, Plan, PruneResult, Reason
from .errors import InvalidPolicy
from .policy import RetentionPolicy, decide, only_as_shown
from .ports import Archiver, Disposal, PruneObserver, Silent, StoredSessions
from .removal.environment import Outside
from .removal.inspection import Inspection
from .removal.run_record import RunRecord


def prune_stored(
    stored: StoredSessions,
    policy: RetentionPolicy,
    *,
    dry_run: bool = False,
    only: Sequence[Decision] | None = None,
    disposal: Disposal | None = None,
    observer: PruneObserver | None = None,
    outside: Outside | None = None,
) -> PruneResult:
    """Remove what a policy asks for from a store.

    Args:
        stored: The sessions.
        policy: Which of them go.
        dry_run: Only look and decide.
        only: Remove none but these, and only as they were; all that the policy asks for if None.
        disposal: What becomes of them; removed at once if None.
        observer: Notified of what happens.
        outside: Time, chance and the file system; the real ones if None.

    Returns:
        What went and what did not, and why.

    Raises:
        InvalidPolicy: It asks for what a store can't do; nothing was removed.
        AgentForgeError: The store does not answer; nothing was removed.
        Exception: What the observer raises ends the prune.

    Guarantees: a session goes with all that is stored of it and with a line in the store's audit
    log, or stays with all of it. One that was used since it was decided stays.
    """
    outside = outside or Outside()
    disposal = disposal or Disposal()
    _require_possible(policy, disposal)
    record = RunRecord(stored, observer or Silent(), outside.clock)
    began = outside.monotonic()
    record.observer.started(stored, policy, dry_run=dry_run)
    run = _Run(stored, policy, only, disposal.archiver, outside, record)
    plan = run.look()
    if dry_run:
        record.foresee(plan, going=(), purged=(), strays=())
    else:
        run.apply(plan)
    took = outside.monotonic() - began
    result = record.result(plan, dry_run=dry_run, trashed=False, duration_s=took)
    record.observer.completed(result)
    return result


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


def _age(hours: float) -> timedelta:
    try:
        return timedelta(hours=hours)
    except OverflowError:  # longer than there are dates
        return timedelta.max


@frozen
class _Run:
    """One prune of one store."""

    stored: StoredSessions
    policy: RetentionPolicy
    only: Sequence[Decision] | None
    archiver: Archiver | None
    outside: Outside
    record: RunRecord

    def look(self) -> Plan:
        """Look at what is there and decide; note what is left alone."""
        now, policy = self.outside.clock(), self.policy
        hours = None if policy.counts_everything else policy.max_age_hours
        found = self.stored.inspect(now=now, older_than=None if hours is None else _age(hours))
        plan = decide(
            found.candidates,
            policy,
            now=now,
            others=len(found.skipped),
            other_bytes=found.skipped_bytes,
        )
        if self.only is not None:
            plan = only_as_shown(plan, self.only, {one.session_id for one in found.skipped})
        self.record.look(Inspection(candidates=found.candidates, skipped=found.skipped), plan)
        for one in plan.removals:
            self.record.observer.candidate(one, age_hours=one.candidate.age_hours(now))
        return plan

    def apply(self, plan: Plan) -> None:
        """Remove what was decided, one session after the other."""
        by, token = self.outside.actor(), self.outside.token()
        for one in plan.removals:
            session_id = one.candidate.session_id
            try:
                kept = self.stored.remove(
                    one.candidate, self._line(one, by, token), archiver=self.archiver
                )
            except (AgentForgeError, OSError) as error:
                self.record.fail(session_id, f"it was kept: {reason_of(error)}")
                continue
            if isinstance(kept, Reason):
                self.record.keep(one.candidate, kept)
                continue
            if kept.archive is not None:
                self.record.archives[session_id] = kept.archive
            self.record.removed(one.candidate)
            if kept.left is not None:
                self.record.fail(session_id, kept.left)

    def _line(self, one: Decision, by: Mapping[str, object], token: str) -> dict[str, object]:
        candidate = one.candidate
        return {
            "event": "removed",
            "kind": candidate.kind,
            "session_id": candidate.session_id,
            "size_bytes": candidate.size_bytes,
            "dated_at": candidate.dated_at.astimezone(UTC).isoformat(),
            "state": candidate.state,
            "reasons": [str(reason) for reason in one.reasons],
            "run": token,
            "by": dict(by),
        }
