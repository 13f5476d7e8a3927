"""A prune of the directories in a root.

    root ──► inspection ──► candidates ──► decide() ──► plan ──► batches:
                                                                  1 lock each, date it again
                                                                  2 audit log, synced
                                                                  3 rename out of sight, synced
                                                                  4 empty by descriptor, rmdir
                                                                  5 audit log

A session is removed only if no process works in it, its date is the one that was decided on, and
the renamed directory is the very one that was locked. Everything is named relative to descriptors;
no link is followed, no mount is entered. A crash leaves sessions complete or out of sight, and the
next prune finishes the latter.

The 4th step of a batch continues, in several threads, during the first three of the next batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Final

from attrs import evolve, field, frozen

from ...base.files.tree_removal import DISCARDED_PREFIX
from ..audit_log import AuditLog
from ..audit_reserve import FULL
from ..domain import Decision, Inspection, Plan, Reason, SkipReason
from ..errors import PruneBusy, PruneRootUnusable
from ..ports import Dated, PruneTarget
from .deletion import DeletionPool
from .environment import owners_of
from .inspection import InspectionCache, Inspector
from .pins import read_pins
from .private_directory import GOING, PRIVATE, TRASH, PrivateDirectory, furnish, root_opened
from .recovery import Recovery, list_leftovers, list_strays, see_leftovers
from .removal import Remover
from .run import PruneRun, RemovalWork
from .session_lock import batch_size

_ARCHIVED_AT_ONCE: Final = 16


def prune_directories(target: PruneTarget, run: PruneRun) -> Plan:
    """Inspect, decide, and remove unless it is a dry run; return the decisions.

    Raises:
        PruneRootMissing: There is no such root.
        PruneRootUnusable: It is no directory, or can't be read or written; nothing was removed.
    """
    with root_opened(run.outside.fs, target.root) as root_fd:
        return _Directories(target=target, run=run, root_fd=root_fd).prune()


@frozen(kw_only=True)
class _Directories:
    """The open root of one prune."""

    target: PruneTarget
    run: PruneRun
    root_fd: int
    cache: InspectionCache = field(init=False)

    @cache.default
    def _cache(self) -> InspectionCache:
        return InspectionCache(self.run.outside.file_clock())

    def prune(self) -> Plan:
        run, record, fs, root_fd = self.run, self.run.record, self.run.outside.fs, self.root_fd
        record.notify(record.observer.started, self.target, run.policy, dry_run=run.dry_run)
        found, plan = self._look()
        if not run.dry_run and self._may_be_in_the_hands_of_another(plan):
            try:
                with closing(self._private()):
                    found, plan = self._look()
            except PruneBusy:
                record.look(found, plan)
                record.busy(plan)
                return plan
        run.announce(found, plan)
        strays = list_strays(fs, self.target, root_fd, found.hidden, run.now)
        if run.dry_run:
            left = see_leftovers(fs, self.target.root, root_fd, run.now)
            purged = [one.session_id for _, one in left.expired]
            record.foresee(plan, going=left.going, purged=purged, strays=strays)
        elif plan.removals or strays or self._has_private():
            try:
                self._apply(plan, strays)
            except PruneBusy:
                record.busy(plan)
        return plan

    # ------------------------------------------------------------------------------- decide

    def _look(self) -> tuple[Inspection, Plan]:
        run, fs = self.run, self.run.outside.fs
        policy = run.policy
        before = policy.before(run.now)

        def is_old(dated: Dated, pinned: bool) -> bool:
            kept = pinned or not dated.removable or dated.state in policy.keep_states
            return not kept and before is not None and dated.at <= before

        inspector = Inspector(
            fs=fs,
            target=self.target,
            now=run.now,
            pins=read_pins(fs, self.root_fd),
            mounted=run.outside.mounts(self.target.root),
            owners=owners_of(fs, self.root_fd),
            cache=None if run.dry_run else self.cache,
        )
        found = inspector.look(self.root_fd, wanted=None if policy.counts_everything else is_old)
        measured = policy.min_free_space_gb is not None
        free_bytes = run.outside.free_bytes(self.root_fd) if measured else None
        return found, run.decide(found, free_bytes)

    def _may_be_in_the_hands_of_another(self, plan: Plan) -> bool:
        """Return whether another prune may hold the sessions in use, to remove them.

        That prune has ended once the private directory is ours: a session still in use then is one
        that a process works in.
        """
        in_use = any(one.reason is SkipReason.IN_USE for one in plan.skipped)
        return in_use and self._has_private()

    def _has_private(self) -> bool:
        try:
            self.run.outside.fs.stat(PRIVATE, dir_fd=self.root_fd)
        except OSError:
            return False
        return True

    # ------------------------------------------------------------------------------- apply

    def _apply(self, plan: Plan, strays: Sequence[str]) -> None:
        disposal = self.run.disposal
        removals = list(plan.removals)
        while True:
            try:
                self._apply_once(removals, strays)
            except PruneRootUnusable as error:
                full = isinstance(error.cause, OSError) and error.cause.errno in FULL
                elsewhere = disposal.audit_path is not None and disposal.grace is None
                if not (full and elsewhere and removals):
                    if len(removals) == len(plan.removals):
                        raise
                    for one in removals:  # the others were removed, so this is no refusal
                        self.run.record.fail(one.candidate.session_id, error.reason)
                    return
                size = self._batch_size()
                self._make_room(removals[:size])
                del removals[:size]
            else:
                return

    def _apply_once(self, removals: Sequence[Decision], strays: Sequence[str]) -> None:
        """Finish what others left, then remove what was decided."""
        run, fs, root_fd = self.run, self.run.outside.fs, self.root_fd
        with closing(self._private()) as private:
            # All that may refuse the prune comes before the first removal.
            left = evolve(list_leftovers(fs, private, run.now), strays=strays)
            pins = read_pins(fs, root_fd)  # none can be added after this
            with self._working(private.fd, run.outside.deleters) as work:
                parent = TRASH if run.disposal.grace is not None else GOING
                parent_fd = private.directory(parent) if removals else -1
                unpinned = [one for one in removals if one.candidate.session_id not in pins]
                for one in removals:
                    if one.candidate.session_id in pins:
                        run.record.keep(one.candidate, Reason.PINNED)
                Recovery(work=work, private=private).finish(left)
                if unpinned:
                    self._remove(Remover(work=work, parent_fd=parent_fd), unpinned)
            with suppress(OSError):  # there may be room now
                furnish(fs, private.fd)

    def _private(self) -> PrivateDirectory:
        """Open the private directory, once no other prune holds it."""
        run = self.run
        timeout_s = run.disposal.lock_timeout_s
        return PrivateDirectory(run.outside, self.target.root, self.root_fd, timeout_s=timeout_s)

    @contextmanager
    def _working(self, private_fd: int, deleters: int) -> Iterator[RemovalWork]:
        """Open the audit log and start the deleters."""
        outside = self.run.outside
        audit = AuditLog(
            outside.fs,
            private_fd,
            run=outside.token(),
            by=outside.actor(),
            path=self.run.disposal.audit_path,
            root=self.target.root,
        )
        try:
            with DeletionPool(deleters) as pool:
                yield RemovalWork(
                    run=self.run,
                    target=self.target,
                    root_fd=self.root_fd,
                    cache=self.cache,
                    audit=audit,
                    pool=pool,
                )
        finally:
            with suppress(OSError):  # lines after a removal are not its proof
                audit.write()
            audit.close()

    def _make_room(self, removals: Sequence[Decision]) -> None:
        """Remove sessions by way of names in the root itself; a crash leaves a stray there.

        For a disk without room for the private directory, with the audit log elsewhere.
        """
        with self._working(self.root_fd, 1) as work:
            remover = Remover(work=work, parent_fd=self.root_fd, prefix=DISCARDED_PREFIX)
            self._remove(remover, removals)

    def _remove(self, remover: Remover, removals: Sequence[Decision]) -> None:
        try:
            size = self._batch_size()
            for start in range(0, len(removals), size):
                remover.remove(removals[start : start + size])
            remover.finish()
        finally:
            remover.close()

    def _batch_size(self) -> int:
        disposal = self.run.disposal
        at_once = 1 if self.run.outside.deleters == 1 else 2  # deleting one, locking the next
        size = disposal.batch or batch_size(len(self.target.guards), at_once=at_once)
        if disposal.archiver is not None:  # all of a batch stay locked meanwhile
            size = min(size, _ARCHIVED_AT_ONCE)
        return size
