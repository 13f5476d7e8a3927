"""One prune: look, decide, remove.

    root ──► inspection ──► candidates ──► decide() ──► plan ──► batches:
                                                                  1 lock each, date it again
                                                                  2 audit log, synced
                                                                  3 rename out of sight, synced
                                                                  4 empty by descriptor, rmdir
                                                                  5 audit log

A session goes only if no process works in it, it is dated as it was when it was decided, and what
was renamed is the very directory that was locked. Everything is named relative to descriptors; no
link is followed, nothing mounted is entered. A crash leaves sessions whole or out of sight, and the
next prune finishes the latter. Once it has begun, nothing is raised for what it meets.

The 4th step of a batch goes on, in several threads, while the next batch takes the first three.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from attrs import evolve, field, frozen

from ..base.files.tree_removal import DISCARDED_PREFIX
from .domain import Decision, Plan, PruneResult, Reason, SkipReason
from .errors import PruneBusy, PruneRootUnusable
from .policy import RetentionPolicy, decide, only_as_shown
from .ports import Dated, Disposal, PruneObserver, PruneTarget, Silent
from .records.audit_log import AuditLog
from .records.audit_reserve import FULL
from .removal.deletion import Deletion, DeletionPool
from .removal.environment import Outside, owners_of
from .removal.inspection import Inspection, InspectionCache, Inspector
from .removal.leftovers import Leftovers, list_leftovers, list_strays, see_leftovers
from .removal.pins import read_pins
from .removal.private_directory import GOING, PRIVATE, TRASH, PrivateDirectory, furnish, root_opened
from .removal.recovery import Recovery
from .removal.removal import Place, Remover
from .removal.run_record import ObserverFailed, RunRecord
from .removal.session_lock import batch_size

_ARCHIVED_AT_ONCE: Final = 16


def prune(
    target: PruneTarget,
    policy: RetentionPolicy,
    *,
    dry_run: bool = False,
    only: Sequence[Decision] | None = None,
    disposal: Disposal | None = None,
    observer: PruneObserver | None = None,
    outside: Outside | None = None,
) -> PruneResult:
    """Remove what a policy asks for from the root of a target.

    Args:
        target: The sessions.
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
        Exception: What the observer raises comes out as it is, and ends the prune: what is out of
            sight by then, the next prune finishes.

    Guarantees: nothing outside the plan is removed. A removed session has a line in the audit log
    that was durable before it went.
    """
    outside = outside or Outside()
    disposal = disposal or Disposal()
    record = RunRecord(target, observer or Silent(), outside.clock)
    began = outside.monotonic()
    now = outside.clock()
    try:
        with root_opened(outside.fs, target.root) as root_fd:
            run = _Run(
                target=target,
                policy=policy,
                only=only,
                disposal=disposal,
                outside=outside,
                record=record,
                root_fd=root_fd,
                now=now,
            )
            plan = run.go(dry_run=dry_run)
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


def _hours_before(now: datetime, hours: float) -> datetime:
    """Return the time so many hours ago, and a minute later: rounding must leave none out."""
    try:
        return now - timedelta(hours=hours) + timedelta(minutes=1)
    except OverflowError:  # longer than there are dates
        return datetime.min.replace(tzinfo=UTC)


@frozen(kw_only=True)
class _Run:
    """One prune of one root, which is open."""

    target: PruneTarget
    policy: RetentionPolicy
    only: Sequence[Decision] | None
    disposal: Disposal
    outside: Outside
    record: RunRecord
    root_fd: int
    now: datetime
    cache: InspectionCache = field(init=False)

    @cache.default
    def _cache(self) -> InspectionCache:
        return InspectionCache(self.outside.file_clock())

    def go(self, *, dry_run: bool) -> Plan:
        """Look, decide, and remove unless it is a dry run; return what was decided."""
        record, fs, root_fd = self.record, self.outside.fs, self.root_fd
        record.observer.started(self.target, self.policy, dry_run=dry_run)
        found, plan = self._look(None if dry_run else self.cache)
        if not dry_run and self._may_be_in_the_hands_of_another(plan):
            try:
                with closing(self._private()):
                    found, plan = self._look(self.cache)
            except PruneBusy:
                record.look(found, plan)
                record.busy(plan)
                return plan
        record.look(found, plan)
        for decision in plan.removals:
            age_hours = decision.candidate.age_hours(self.now)
            record.observer.candidate(decision, age_hours=age_hours)
        strays = list_strays(fs, self.target, root_fd, found.hidden, self.now)
        if dry_run:
            left = see_leftovers(fs, self.target.root, root_fd, self.now)
            purged = [one.session_id for _, one in left.expired]
            record.foresee(plan, going=left.going, purged=purged, strays=strays)
        elif plan.removals or strays or self._has_private():
            try:
                self._apply(plan, strays)
            except PruneBusy:
                record.busy(plan)
        return plan

    # ------------------------------------------------------------------------------- decide

    def _look(self, cache: InspectionCache | None) -> tuple[Inspection, Plan]:
        found = self._inspect(cache)
        return found, self._decide(found)

    def _may_be_in_the_hands_of_another(self, plan: Plan) -> bool:
        """Return whether another prune may hold what is in use, to remove it.

        It has ended once the private directory is ours: what is in use then, somebody works in.
        """
        in_use = any(one.reason is SkipReason.IN_USE for one in plan.skipped)
        return in_use and self._has_private()

    def _inspect(self, cache: InspectionCache | None) -> Inspection:
        policy = self.policy
        limit = policy.max_age_hours
        before = None if limit is None else _hours_before(self.now, limit)

        def is_old(dated: Dated, pinned: bool) -> bool:
            kept = pinned or not dated.removable or dated.state in policy.keep_states
            return not kept and before is not None and dated.at <= before

        fs = self.outside.fs
        inspector = Inspector(
            fs=fs,
            target=self.target,
            now=self.now,
            pins=read_pins(fs, self.root_fd),
            mounted=self.outside.mounts(self.target.root),
            owners=owners_of(fs, self.root_fd),
            cache=cache,
        )
        return inspector.look(self.root_fd, wanted=None if policy.counts_everything else is_old)

    def _decide(self, found: Inspection) -> Plan:
        measured = self.policy.min_free_space_gb is not None
        plan = decide(
            found.candidates,
            self.policy,
            now=self.now,
            free_bytes=self.outside.free_bytes(self.root_fd) if measured else None,
            others=len(found.skipped),
            other_bytes=found.skipped_bytes,
        )
        if self.only is None:
            return plan
        return only_as_shown(plan, self.only, {one.session_id for one in found.skipped})

    def _has_private(self) -> bool:
        try:
            self.outside.fs.stat(PRIVATE, dir_fd=self.root_fd)
        except OSError:
            return False
        return True

    # ------------------------------------------------------------------------------- apply

    def _apply(self, plan: Plan, strays: Sequence[str]) -> None:
        removals = list(plan.removals)
        while True:
            try:
                self._apply_once(removals, strays)
            except PruneRootUnusable as error:
                full = isinstance(error.cause, OSError) and error.cause.errno in FULL
                elsewhere = self.disposal.audit_path is not None and self.disposal.grace is None
                if not (full and elsewhere and removals):
                    if len(removals) == len(plan.removals):
                        raise
                    for one in removals:  # the others went: it is no refusal any more
                        self.record.fail(one.candidate.session_id, error.reason)
                    return
                size = self._batch_size()
                self._make_room(removals[:size])
                del removals[:size]
            else:
                return

    def _apply_once(self, removals: Sequence[Decision], strays: Sequence[str]) -> None:
        """Finish what others left, then remove what was decided."""
        fs, root_fd = self.outside.fs, self.root_fd
        with closing(self._private()) as private:
            # All that may refuse the prune comes before the first removal.
            left = evolve(list_leftovers(fs, private, self.now), strays=strays)
            pins = read_pins(fs, root_fd)  # from here on, none can be added
            with self._audit(private.fd) as audit:
                parent_fd = private.directory(self._parent) if removals else -1
                unpinned = [one for one in removals if not self._is_pinned(one, pins)]
                with DeletionPool(self.outside.deleters) as pool:
                    self._finish_others(private, audit, pool, left)
                    if unpinned:
                        place = Place(root_fd=root_fd, parent_fd=parent_fd, cache=self.cache)
                        self._remove(place, audit, pool, unpinned)
            with suppress(OSError):  # there may be room now
                furnish(fs, private.fd)

    def _private(self) -> PrivateDirectory:
        """Open the private directory, once no other prune holds it."""
        timeout_s = self.disposal.lock_timeout_s
        return PrivateDirectory(self.outside, self.target.root, self.root_fd, timeout_s=timeout_s)

    @contextmanager
    def _audit(self, private_fd: int) -> Iterator[AuditLog]:
        audit = AuditLog(
            self.outside.fs,
            private_fd,
            run=self.outside.token(),
            by=self.outside.actor(),
            path=self.disposal.audit_path,
            root=self.target.root,
        )
        try:
            yield audit
        finally:
            with suppress(OSError):  # the lines that follow a removal are not its proof
                audit.write()
            audit.close()

    def _make_room(self, removals: Sequence[Decision]) -> None:
        """Remove sessions by way of names in the root itself; a crash leaves a stray there.

        For a disk without room for the private directory, with the audit log elsewhere.
        """
        root_fd = self.root_fd
        with self._audit(root_fd) as audit, DeletionPool(1) as pool:
            place = Place(
                root_fd=root_fd, parent_fd=root_fd, cache=self.cache, prefix=DISCARDED_PREFIX
            )
            self._remove(place, audit, pool, removals)

    def _finish_others(
        self, private: PrivateDirectory, audit: AuditLog, pool: DeletionPool, left: Leftovers
    ) -> None:
        recovery = Recovery(
            record=self.record,
            private=private,
            audit=audit,
            deletion=self._deletion(pool),
            pool=pool,
            target=self.target,
            root_fd=self.root_fd,
            token=self.outside.token(),
        )
        recovery.sweep(left, self.now)
        recovery.finish(left)
        recovery.purge(left)

    def _remove(
        self, place: Place, audit: AuditLog, pool: DeletionPool, removals: Sequence[Decision]
    ) -> None:
        remover = Remover(
            target=self.target,
            disposal=self.disposal,
            place=place,
            audit=audit,
            record=self.record,
            deletion=self._deletion(pool),
            pool=pool,
            outside=self.outside,
        )
        try:
            size = self._batch_size()
            for start in range(0, len(removals), size):
                remover.remove(removals[start : start + size])
            remover.finish()
        finally:
            pool.close()
            remover.close()

    def _deletion(self, pool: DeletionPool) -> Deletion:
        return Deletion(
            fs=self.outside.fs, mount_of=self.outside.mount_of, cancelled=pool.cancelled
        )

    def _batch_size(self) -> int:
        at_once = 1 if self.outside.deleters == 1 else 2  # one is deleted, the next is locked
        size = self.disposal.batch or batch_size(len(self.target.guards), at_once=at_once)
        if self.disposal.archiver is not None:  # all of a batch are locked meanwhile
            size = min(size, _ARCHIVED_AT_ONCE)
        return size

    @property
    def _parent(self) -> str:
        return TRASH if self.disposal.grace is not None else GOING

    def _is_pinned(self, decision: Decision, pins: Collection[str]) -> bool:
        """Return whether a session was pinned since it was decided."""
        if decision.candidate.session_id not in pins:
            return False
        self.record.keep(decision.candidate, Reason.PINNED)
        return True
