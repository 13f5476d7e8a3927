"""One prune: look, decide, remove.

    root ──► inspection ──► candidates ──► decide() ──► plan ──► batches:
                                                                  1 lock each, date it again
                                                                  2 audit log, synced
                                                                  3 rename out of sight, synced
                                                                  4 empty by descriptor, rmdir
                                                                  5 audit log

A session goes only if nobody works in it, it is dated as it was when it was decided, and what was
renamed is the very directory that was locked. Everything is named relative to descriptors; no link
is followed, nothing mounted is entered. A crash leaves sessions whole or out of sight, and the
next prune finishes the latter. Once it has begun, nothing is raised for what it meets.

The 4th step of a batch goes on, in several threads, while the next batch takes the first three.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from attrs import evolve

from ..durable.filesystem import close_reader
from ..durable.tree_removal import DISCARDED_PREFIX
from .audit_log import AuditLog
from .audit_reserve import FULL
from .deleters import Deleters
from .deletion import Deletion
from .disposal import Disposal
from .domain import PruneResult
from .environment import Outside, owners_of
from .errors import PruneBusy, PruneError, PruneRootUnusable
from .inspection import Found, Inspector, Seen, batch_size
from .leftovers import (
    Finisher,
    list_leftovers,
    list_strays,
    see_leftovers,
)
from .policy import Candidate, Decision, Plan, Reason, RetentionPolicy, decide
from .ports import Dated, PruneObserver, PruneTarget, Silent
from .private_directory import (
    GOING,
    PRIVATE,
    TRASH,
    PrivateDirectory,
    furnish,
    open_root,
    read_pins,
)
from .removal import Place, Remover
from .run_record import Ledger, ObserverFailed, said
from .trash import Leftovers

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
        only: Remove none but these, and only as they were: what a dry run decided, and somebody
            was shown and said yes to. All that the policy asks for if None.
        disposal: What becomes of them; removed at once if None.
        observer: Is told what happens; nobody if None.
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

    Guarantees: nothing outside the plan is removed. A session that is gone has a line in the audit
    log that was durable before it went.
    """
    outside = outside or Outside()
    run = _Run(
        target,
        policy,
        disposal or Disposal(),
        observer or Silent(),
        outside,
        None if only is None else {one.candidate.session_id: one.candidate for one in only},
    )
    try:
        return run.go(dry_run=dry_run)
    except ObserverFailed as failed:
        error = failed.error
    raise error  # as it is: it says nothing about the root


def _hours_before(now: datetime, hours: float) -> datetime:
    """Say when it was so many hours ago; a minute later, so that rounding leaves nobody out."""
    try:
        return now - timedelta(hours=hours) + timedelta(minutes=1)
    except OverflowError:  # longer than there are dates
        return datetime.min.replace(tzinfo=UTC)


class _Run:
    """One prune of one root."""

    def __init__(
        self,
        target: PruneTarget,
        policy: RetentionPolicy,
        disposal: Disposal,
        observer: PruneObserver,
        outside: Outside,
        only: Mapping[str, Candidate] | None,
    ) -> None:
        self._target = target
        self._policy = policy
        self._disposal = disposal
        self._outside = outside
        self._only = only
        self._fs = outside.fs
        self._ledger = Ledger(target, observer, outside.clock)

    def go(self, *, dry_run: bool) -> PruneResult:
        began = self._outside.monotonic()
        now = self._outside.clock()
        observer = self._ledger.observer
        root_fd = open_root(self._fs, self._target.root)
        try:
            observer.started(self._target, self._policy, dry_run=dry_run)
            seen = Seen(self._outside.file_clock())
            found, plan = self._plan(root_fd, now, None if dry_run else seen)
            self._ledger.look(found, plan)
            for decision in plan.removals:
                observer.candidate(decision, age_hours=decision.candidate.age_hours(now))
            strays = list_strays(self._fs, self._target, root_fd, found.hidden, now)
            if dry_run:
                self._ledger.would(plan, evolve(self._leftovers(root_fd, now), strays=strays))
            else:
                self._apply(root_fd, seen, plan, strays, now)
        except PruneBusy:
            self._ledger.busy(plan)
        except OSError as error:
            if isinstance(error, PruneError):
                raise
            raise PruneRootUnusable(self._target.root, said(error)) from error
        finally:
            close_reader(self._fs, root_fd)
        took = self._outside.monotonic() - began
        trashed = self._disposal.grace is not None
        result = self._ledger.result(plan, dry_run=dry_run, trashed=trashed, duration_s=took)
        observer.completed(result)
        return result

    def _leftovers(self, root_fd: int, now: datetime) -> Leftovers:
        return see_leftovers(self._fs, self._target.root, root_fd, now)

    # ------------------------------------------------------------------------------- decide

    def _plan(self, root_fd: int, now: datetime, seen: Seen | None) -> tuple[Found, Plan]:
        policy = self._policy
        inspector = Inspector(
            fs=self._fs,
            target=self._target,
            now=now,
            pins=read_pins(self._fs, root_fd),
            mounted=self._outside.mounts(self._target.root),
            owners=owners_of(self._fs, root_fd),
            seen=seen,
        )

        limit = policy.max_age_hours
        before = None if limit is None else _hours_before(now, limit)

        def old(dated: Dated, pinned: bool) -> bool:
            kept = pinned or not dated.removable or dated.state in policy.keep_states
            return not kept and before is not None and dated.at <= before

        found = inspector.look(root_fd, wanted=None if policy.counts_everything else old)
        free = None
        if policy.min_free_space_gb is not None:
            free = self._outside.free_bytes(root_fd)
        plan = decide(
            found.candidates,
            policy,
            now=now,
            free_bytes=free,
            others=len(found.skipped),
            other_bytes=found.skipped_bytes,
        )
        if self._only is not None:
            decisions = [self._asked_for(one) for one in plan.decisions]
            plan = evolve(plan, decisions=(*decisions, *self._gone(found, self._only)))
        return found, plan

    def _gone(self, found: Found, shown: Mapping[str, Candidate]) -> Iterator[Decision]:
        """Account for what was shown and is not there any more."""
        there = {one.session_id for one in found.candidates}
        there.update(one.session_id for one in found.skipped)
        for session_id, candidate in shown.items():
            if session_id not in there:
                yield Decision(candidate=candidate, remove=False, reasons=(Reason.GONE,))

    def _asked_for(self, decision: Decision) -> Decision:
        """Keep what nobody was shown, and what is not as it was shown."""
        now = decision.candidate
        shown = (self._only or {}).get(now.session_id)
        if shown is None:
            limited = evolve(decision, remove=False, reasons=(Reason.LIMIT,))
            return limited if decision.remove else decision
        if (shown.dated_at, shown.version, shown.state) != (now.dated_at, now.version, now.state):
            return evolve(decision, remove=False, reasons=(Reason.CHANGED,))
        return decision

    # ------------------------------------------------------------------------------- apply

    def _apply(
        self,
        root_fd: int,
        seen: Seen,
        plan: Plan,
        strays: Sequence[str],
        now: datetime,
    ) -> None:
        if not plan.removals and not strays and not self._has_private(root_fd):
            return
        removals = list(plan.removals)
        while True:
            try:
                self._apply_once(root_fd, seen, removals, strays, now)
            except PruneRootUnusable as error:
                full = isinstance(error.cause, OSError) and error.cause.errno in FULL
                elsewhere = self._disposal.audit_path is not None and self._disposal.grace is None
                if not (full and elsewhere and removals):
                    if len(removals) == len(plan.removals):
                        raise
                    for one in removals:  # the others went: it is no refusal any more
                        self._ledger.fail(one.candidate.session_id, error.reason)
                    return
                size = self._batch_size()
                self._make_room(root_fd, removals[:size], seen)
                del removals[:size]
            else:
                return

    def _apply_once(
        self,
        root_fd: int,
        seen: Seen,
        removals: Sequence[Decision],
        strays: Sequence[str],
        now: datetime,
    ) -> None:
        private = PrivateDirectory(
            self._fs,
            self._target.root,
            root_fd,
            owners=owners_of(self._fs, root_fd),
            timeout_s=self._disposal.lock_timeout_s,
            monotonic=self._outside.monotonic,
            sleep=self._outside.sleep,
            mount_of=self._outside.mount_of,
        )
        try:
            # All that may refuse the prune comes before the first removal.
            left = evolve(list_leftovers(self._fs, private, now), strays=strays)
            pins = read_pins(self._fs, root_fd)  # nobody can pin any more
            audit = self._audit(private.fd)
            try:
                if removals:
                    private.directory(self._parent)
                removals = [one for one in removals if not self._pinned(one, pins)]
                self._remove(root_fd, private, audit, left, removals, seen, now)
            finally:
                with suppress(OSError):  # the lines that follow a removal are not its proof
                    audit.write()
                audit.close()
            with suppress(OSError):  # there may be room now
                furnish(self._fs, private.fd)
        finally:
            private.close()

    def _audit(self, private_fd: int) -> AuditLog:
        return AuditLog(
            self._fs,
            private_fd,
            run=self._outside.token(),
            by=self._outside.actor(),
            path=self._disposal.audit_path,
            root=self._target.root,
        )

    def _make_room(self, root_fd: int, removals: Sequence[Decision], seen: Seen) -> None:
        """Remove sessions by way of names in the root itself; a crash leaves a stray there.

        For a disk without room for the private directory, with the audit log elsewhere.
        """
        audit = self._audit(root_fd)
        try:
            with Deleters(1) as deleters:
                remover = self._remover(
                    Place(root_fd=root_fd, parent_fd=root_fd, seen=seen, prefix=DISCARDED_PREFIX),
                    audit,
                    deleters,
                )
                try:
                    remover.remove(removals)
                    remover.finish()
                finally:
                    deleters.close()
                    remover.close()
        finally:
            with suppress(OSError):
                audit.write()
            audit.close()

    def _remover(self, place: Place, audit: AuditLog, deleters: Deleters) -> Remover:
        return Remover(
            self._target,
            self._disposal,
            place,
            audit=audit,
            ledger=self._ledger,
            deletion=self._deletion(deleters),
            deleters=deleters,
            outside=self._outside,
        )

    def _deletion(self, deleters: Deleters) -> Deletion:
        return Deletion(fs=self._fs, mount_of=self._outside.mount_of, cancelled=deleters.cancelled)

    def _remove(
        self,
        root_fd: int,
        private: PrivateDirectory,
        audit: AuditLog,
        left: Leftovers,
        removals: Sequence[Decision],
        seen: Seen,
        now: datetime,
    ) -> None:
        """Finish what others left, then remove what was decided."""
        with Deleters(self._outside.deleters) as deleters:
            finisher = Finisher(
                ledger=self._ledger,
                private=private,
                audit=audit,
                deletion=self._deletion(deleters),
                deleters=deleters,
                target=self._target,
                root_fd=root_fd,
                token=self._outside.token(),
            )
            finisher.sweep(left, now)
            finisher.finish(left)
            finisher.purge(left)
            if not removals:
                return
            place = Place(root_fd=root_fd, parent_fd=private.directory(self._parent), seen=seen)
            remover = self._remover(place, audit, deleters)
            try:
                size = self._batch_size()
                for start in range(0, len(removals), size):
                    remover.remove(removals[start : start + size])
                remover.finish()
            finally:
                deleters.close()
                remover.close()

    def _batch_size(self) -> int:
        at_once = 1 if self._outside.deleters == 1 else 2  # one is deleted, the next is held
        size = self._disposal.batch or batch_size(len(self._target.guards), at_once=at_once)
        if self._disposal.archiver is not None:  # all of a batch are locked meanwhile
            size = min(size, _ARCHIVED_AT_ONCE)
        return size

    def _has_private(self, root_fd: int) -> bool:
        try:
            self._fs.stat(PRIVATE, dir_fd=root_fd)
        except OSError:
            return False
        return True

    @property
    def _parent(self) -> str:
        return TRASH if self._disposal.grace is not None else GOING

    def _pinned(self, decision: Decision, pins: Collection[str]) -> bool:
        """Tell whether a session was pinned since it was decided."""
        session_id = decision.candidate.session_id
        if session_id in pins:
            self._ledger.keep(decision.candidate, Reason.PINNED)
        return session_id in pins
