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
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

from attrs import define, evolve, frozen

from tools.durable import FileSystem, empty_directory
from tools.durable.filesystem import DIRECTORY_FLAGS, close_reader
from tools.prune.audit import AuditLog
from tools.prune.errors import InvalidPolicy, PruneError, PruneRootUnusable
from tools.prune.inspection import (
    Found,
    Inspector,
    batch_size,
    hold,
)
from tools.prune.outside import Outside, owners_of
from tools.prune.policy import Candidate, Decision, Plan, Reason, RetentionPolicy, decide
from tools.prune.private import (
    COMING,
    GOING,
    LOCK_TIMEOUT_S,
    PRIVATE,
    TRASH,
    PrivateDirectory,
    hidden_name,
    inode_of,
    open_root,
    read_pins,
    session_of,
    token_of,
)
from tools.prune.result import PruneResult
from tools.prune.target import Dated, PruneObserver, PruneTarget, Silent
from tools.prune.trash import (
    TrashRecord,
    expired_in_trash,
    forget_record,
    orphaned_records,
    write_record,
)

_ARCHIVED_AT_ONCE: Final = 16
_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


class Archiver(Protocol):
    """Keeps a copy of a session before it goes."""

    def archive(self, fs: FileSystem, session_fd: int, candidate: Candidate) -> Path:
        """Write an archive of an open session, and prove that it can be read back.

        Raises:
            OSError: It could not be written or verified; nothing of it is left.
            PruneError: The same, in the archive's own words.
        """
        ...


@frozen(kw_only=True)
class Disposal:
    """What becomes of sessions that go.

    Attributes:
        grace: How long they can be brought back; None removes them at once.
        archiver: Keeps a copy of each before; nobody if None.
        audit_path: Where the audit log is; None for the root's own.
        lock_timeout_s: How long to wait for another prune of the same root, in seconds.
        batch: How many sessions go between two syncs; None for what the descriptors allow.

    Raises:
        InvalidPolicy: A value makes no sense; it names every fault.
    """

    grace: timedelta | None = None
    archiver: Archiver | None = None
    audit_path: Path | None = None
    lock_timeout_s: float = LOCK_TIMEOUT_S
    batch: int | None = None

    def __attrs_post_init__(self) -> None:
        faults = []
        if self.grace is not None and self.grace < timedelta(0):
            faults.append(f"grace: expected a time of 0 or more, or None, got {self.grace}")
        if not self.lock_timeout_s >= 0:
            faults.append(f"lock_timeout_s: expected 0 or more, got {self.lock_timeout_s!r}")
        if self.batch is not None and not self.batch >= 1:
            faults.append(f"batch: expected 1 or more, or None, got {self.batch!r}")
        if faults:
            raise InvalidPolicy(faults)


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
        What went and what did not, and why.

    Raises:
        PruneRootMissing: There is no such root.
        PruneRootUnusable: It is no directory, or can't be read or written; nothing was removed.
        PruneBusy: Another prune works on it; nothing was removed.

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
    return run.go(dry_run=dry_run)


def _hours_before(now: datetime, hours: float) -> datetime:
    """Say when it was so many hours ago; a minute later, so that rounding leaves nobody out."""
    try:
        return now - timedelta(hours=hours) + timedelta(minutes=1)
    except OverflowError:  # longer than there are dates
        return datetime.min.replace(tzinfo=UTC)


def _after(now: datetime, grace: timedelta) -> datetime:
    """Say when a time of grace is over."""
    try:
        return now + grace
    except OverflowError:  # longer than there are dates
        return datetime.max.replace(tzinfo=UTC)


def _said(error: OSError) -> str:
    return error.strerror or str(error)


@frozen(kw_only=True)
class _Begun:
    """What others left to be finished, by names out of sight.

    Attributes:
        coming: Sessions that were not all restored.
        going: Sessions that were not all removed.
        expired: What was in the trash for its time, with its records.
        orphaned: Records in the trash without their session.
    """

    coming: Sequence[str]
    going: Sequence[str]
    expired: Sequence[tuple[str, TrashRecord]]
    orphaned: Sequence[str]


def _stray(hidden: str) -> str:
    return (
        f"something else was put in its place while it was removed; it is {hidden!r} in "
        f"{PRIVATE} now, and nothing of it was deleted. Move it where it belongs"
    )


@define
class _Held:
    """A session that is locked and about to go.

    Attributes:
        decision: Why it goes.
        fd: Its directory, locked.
        guards: Descriptors of its guards, locked.
        hidden: Its name out of sight.
    """

    decision: Decision
    fd: int
    guards: list[int]
    hidden: str

    @property
    def candidate(self) -> Candidate:
        return self.decision.candidate

    @property
    def session_id(self) -> str:
        return self.decision.candidate.session_id


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
        self._observer = observer
        self._outside = outside
        self._only = only
        self._fs = outside.fs
        self._deleted: list[str] = []
        self._bytes = 0
        self._errors: dict[str, str] = {}
        self._kept: dict[str, Reason] = {}
        self._finished: list[str] = []
        self._unfinished: list[str] = []
        self._purged: list[str] = []
        self._archives: dict[str, str] = {}

    def go(self, *, dry_run: bool) -> PruneResult:
        began = self._outside.monotonic()
        now = self._outside.clock()
        root_fd = open_root(self._fs, self._target.root)
        try:
            self._observer.started(self._target, self._policy, dry_run=dry_run)
            found, plan = self._plan(root_fd, now)
            for skipped in found.skipped:
                self._observer.skipped(skipped)
            for decision in plan.removals:
                age = decision.candidate.age_hours(now)
                self._observer.candidate(decision, age_hours=age)
            if dry_run:
                self._deleted = [one.candidate.session_id for one in plan.removals]
                self._bytes = plan.size_bytes
            else:
                self._apply(root_fd, plan, now)
        except OSError as error:
            if isinstance(error, PruneError):
                raise
            reason = error.strerror or str(error)
            raise PruneRootUnusable(self._target.root, reason) from error
        finally:
            close_reader(self._fs, root_fd)
        result = PruneResult(
            deleted_sessions=self._deleted,
            skipped_sessions=[one.session_id for one in found.skipped],
            reclaimed_bytes=self._bytes,
            errors=self._errors,
            dry_run=dry_run,
            finished_sessions=self._finished,
            unfinished_sessions=self._unfinished,
            purged_sessions=self._purged,
            archives=self._archives,
            decisions=tuple(self._final(one) for one in plan.decisions),
            skipped=found.skipped,
            duration_s=self._outside.monotonic() - began,
        )
        self._observer.completed(result)
        return result

    def _final(self, decision: Decision) -> Decision:
        kept = self._kept.get(decision.candidate.session_id)
        return decision if kept is None else evolve(decision, remove=False, reasons=(kept,))

    # ------------------------------------------------------------------------------- decide

    def _plan(self, root_fd: int, now: datetime) -> tuple[Found, Plan]:
        policy = self._policy
        inspector = Inspector(
            fs=self._fs,
            target=self._target,
            now=now,
            pins=read_pins(self._fs, root_fd),
            mounted=self._outside.mounts(self._target.root),
            owners=owners_of(self._fs, root_fd),
        )

        limit = policy.max_age_hours
        before = None if limit is None else _hours_before(now, limit)

        def old(dated: Dated, pinned: bool) -> bool:
            kept = pinned or not dated.removable or dated.state in policy.keep_states
            return not kept and before is not None and dated.at <= before

        found = inspector.look(root_fd, wanted=old, everything=policy.counts_everything)
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
            plan = Plan(decisions=tuple(self._asked_for(one) for one in plan.decisions))
        return found, plan

    def _asked_for(self, decision: Decision) -> Decision:
        """Keep what nobody was shown, and what is not as it was shown."""
        if not decision.remove:
            return decision
        now = decision.candidate
        shown = (self._only or {}).get(now.session_id)
        if shown is None:
            return evolve(decision, remove=False, reasons=(Reason.LIMIT,))
        if (shown.dated_at, shown.version, shown.state) != (now.dated_at, now.version, now.state):
            return evolve(decision, remove=False, reasons=(Reason.RECENT,))
        return decision

    # ------------------------------------------------------------------------------- apply

    def _apply(self, root_fd: int, plan: Plan, now: datetime) -> None:
        if not plan.removals and not self._has_private(root_fd):
            return
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
            begun = self._begun(private, now)
            pins = read_pins(self._fs, root_fd)  # nobody can pin any more
            audit = AuditLog(
                self._fs,
                private.fd,
                run=self._outside.token(),
                by=self._outside.actor(),
                path=self._disposal.audit_path,
            )
            try:
                if plan.removals:
                    private.directory(self._parent)
                self._finish_earlier(private, audit, begun)
                self._purge_trash(private, audit, begun)
                size = self._disposal.batch or batch_size(len(self._target.guards))
                if self._disposal.archiver is not None:  # all of a batch are locked meanwhile
                    size = min(size, _ARCHIVED_AT_ONCE)
                removals = [one for one in plan.removals if not self._pinned(one, pins)]
                for start in range(0, len(removals), size):
                    self._batch(root_fd, private, audit, removals[start : start + size])
            finally:
                with suppress(OSError):  # the lines that follow a removal are not its proof
                    audit.write()
                audit.close()
        finally:
            private.close()

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
            self._kept[session_id] = Reason.PINNED
        return session_id in pins

    def _begun(self, private: PrivateDirectory, now: datetime) -> _Begun:
        """List what others left to be finished; nothing is changed."""
        fs = self._fs
        coming_fd, going_fd, trash_fd = map(private.existing, (COMING, GOING, TRASH))
        return _Begun(
            coming=() if coming_fd is None else fs.listdir(coming_fd),
            going=() if going_fd is None else sorted(fs.listdir(going_fd)),
            expired=() if trash_fd is None else list(expired_in_trash(fs, trash_fd, now=now)),
            orphaned=() if trash_fd is None else orphaned_records(fs, trash_fd),
        )

    def _finish_earlier(self, private: PrivateDirectory, audit: AuditLog, begun: _Begun) -> None:
        """Finish the removals that another prune began, and drop half a restored session."""
        for staging in begun.coming:
            self._delete_hidden(private.directory(COMING), staging)
        if not begun.going:
            return
        going_fd = private.directory(GOING)
        for hidden in begun.going:
            session_id = session_of(hidden)
            if self._is_stray(going_fd, hidden):
                self._fail(session_id, _stray(hidden))
                continue
            error = self._delete_hidden(going_fd, hidden)
            if error is None:
                self._finished.append(session_id)
                self._tell(audit, "finished", session_id, hidden=hidden)
            else:
                self._fail(session_id, f"{error}; it is out of sight, the next prune tries again")
        if self._finished:
            with suppress(OSError):  # what a crash brings back is finished again
                audit.write()
                self._fs.fsync(going_fd)

    def _is_stray(self, going_fd: int, hidden: str) -> bool:
        """Tell whether a name out of sight has something else than what was being removed."""
        inode = inode_of(hidden)
        if inode is None:
            return False
        try:
            status = self._fs.stat(hidden, dir_fd=going_fd)
        except OSError:
            return False
        return status.st_ino != inode and not stat.S_ISLNK(status.st_mode)  # a link holds nothing

    def _purge_trash(self, private: PrivateDirectory, audit: AuditLog, begun: _Begun) -> None:
        """Remove what was in the trash for its time."""
        if not begun.expired and not begun.orphaned:
            return
        trash_fd = private.directory(TRASH)
        for hidden, record in begun.expired:
            size = record.size_bytes
            self._tell(audit, "purging", record.session_id, hidden=hidden, size_bytes=size)
        try:
            audit.write()
        except OSError as error:
            why = f"the audit log could not be written, so it stays in the trash: {_said(error)}"
            for _, record in begun.expired:
                self._fail(record.session_id, why)
            return
        for hidden, record in begun.expired:
            problem = self._delete_hidden(trash_fd, hidden)
            if problem is not None:
                self._fail(record.session_id, f"{problem}; it stays in the trash")
                continue
            forget_record(self._fs, trash_fd, hidden)
            self._purged.append(record.session_id)
            self._tell(audit, "purged", record.session_id, hidden=hidden)
        for hidden in begun.orphaned:
            forget_record(self._fs, trash_fd, hidden)
        if self._purged:
            with suppress(OSError):  # what a crash brings back is purged again
                self._fs.fsync(trash_fd)

    def _delete_hidden(self, parent_fd: int, hidden: str) -> str | None:
        """Delete a directory (or what somebody put in its place) that is out of sight."""
        try:
            fd = self._fs.open(hidden, DIRECTORY_FLAGS, dir_fd=parent_fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in _GONE:
                return error.strerror or str(error)
            try:
                self._fs.unlink(hidden, dir_fd=parent_fd)
            except OSError as cause:
                return cause.strerror or str(cause)
            return None
        try:
            if self._outside.mount_of(fd) != self._outside.mount_of(parent_fd):
                return "something is mounted there"
            return self._delete_open(parent_fd, hidden, fd)
        finally:
            close_reader(self._fs, fd)

    def _delete_open(self, parent_fd: int, hidden: str, fd: int) -> str | None:
        """Empty a directory by its descriptor and remove its name; say what stands against it."""
        try:
            left = empty_directory(self._fs, fd)
            if left:
                cause = left[0].cause
                more = f" and {len(left) - 1} more" if len(left) > 1 else ""
                return f"{left[0].name!r} in it can't be deleted: {cause.strerror or cause}{more}"
            self._fs.rmdir(hidden, dir_fd=parent_fd)
        except OSError as error:
            return error.strerror or str(error)
        return None

    # ------------------------------------------------------------------------------- one batch

    def _batch(
        self,
        root_fd: int,
        private: PrivateDirectory,
        audit: AuditLog,
        decisions: Sequence[Decision],
    ) -> None:
        held: list[_Held] = []
        try:
            parent_fd = private.directory(self._parent)
            for decision in decisions:
                one = self._hold(root_fd, decision)
                if one is not None:
                    held.append(one)
            ready = self._archived(held)
            if not self._announced(audit, parent_fd, ready):
                return
            out = list(self._hide(root_fd, parent_fd, audit, ready))
            if self._synced(root_fd, parent_fd, audit, out):
                self._dispose(parent_fd, audit, out)
        finally:
            for one in held:
                self._let_go(one)

    def _let_go(self, one: _Held) -> None:
        for fd in (*one.guards, one.fd):
            close_reader(self._fs, fd)

    def _hold(self, root_fd: int, decision: Decision) -> _Held | None:
        """Lock a session, and see that it is still as it was when it was decided."""
        session_id = decision.candidate.session_id
        fd = -1
        guards: list[int] | None = None
        try:
            fd = self._fs.open(session_id, DIRECTORY_FLAGS, dir_fd=root_fd)
            guards = hold(self._fs, fd, self._target.guards)
            if guards is None:
                self._kept[session_id] = Reason.IN_USE
            else:
                one = _Held(decision, fd, guards, "")
                if self._unchanged(fd, decision.candidate):
                    token = token_of(self._fs.fstat(fd).st_ino, self._outside.token())
                    one.hidden = hidden_name(session_id, token)
                    return one
                self._kept[session_id] = Reason.RECENT
        except OSError as error:
            if error.errno in _GONE:  # somebody else removed or replaced it
                self._kept[session_id] = Reason.RECENT
            else:
                self._fail(session_id, _said(error))
        for left in (*(guards or ()), fd):
            if left >= 0:
                close_reader(self._fs, left)
        return None

    def _unchanged(self, fd: int, candidate: Candidate) -> bool:
        dated = self._target.date(self._fs, fd, candidate.session_id)
        return isinstance(dated, Dated) and (dated.at, dated.version, dated.state) == (
            candidate.dated_at,
            candidate.version,
            candidate.state,
        )

    def _archived(self, held: list[_Held]) -> list[_Held]:
        archiver = self._disposal.archiver
        if archiver is None:
            return held
        kept = []
        for one in held:
            try:
                path = archiver.archive(self._fs, one.fd, one.candidate)
            except (OSError, PruneError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                self._fail(one.session_id, f"it could not be archived, so it was kept: {reason}")
            else:
                self._archives[one.session_id] = os.fspath(path)
                kept.append(one)
        return kept

    def _announced(self, audit: AuditLog, parent_fd: int, held: Sequence[_Held]) -> bool:
        """Write the audit log before anything happens; without it, nothing does."""
        now = self._outside.clock()
        grace = self._disposal.grace
        for one in held:
            candidate = one.candidate
            audit.add(
                "removing",
                at=now,
                kind=candidate.kind,
                session_id=one.session_id,
                hidden=one.hidden,
                size_bytes=candidate.size_bytes,
                dated_at=candidate.dated_at.astimezone(UTC).isoformat(),
                state=candidate.state,
                reasons=[str(reason) for reason in one.decision.reasons],
                trash=grace is not None,
                archive=self._archives.get(one.session_id),
            )
        try:
            audit.write()
            if grace is not None:
                for one in held:
                    record = TrashRecord(
                        session_id=one.session_id,
                        kind=one.candidate.kind,
                        trashed_at=now,
                        purge_after=_after(now, grace),
                        size_bytes=one.candidate.size_bytes,
                    )
                    write_record(self._fs, parent_fd, one.hidden, record)
                self._fs.fsync(parent_fd)
        except OSError as error:
            why = f"the audit log could not be written, so it was kept: {error.strerror or error}"
            for one in held:
                self._fail(one.session_id, why)
                if grace is not None:
                    forget_record(self._fs, parent_fd, one.hidden)
            return False
        return True

    def _hide(
        self, root_fd: int, parent_fd: int, audit: AuditLog, held: Sequence[_Held]
    ) -> Iterator[_Held]:
        """Take sessions out of sight, each checked to be the one that is locked."""
        fs = self._fs
        for one in held:
            try:
                fs.rename(one.session_id, one.hidden, src_dir_fd=root_fd, dst_dir_fd=parent_fd)
            except OSError as error:
                if error.errno in _GONE:
                    self._keep(audit, one, parent_fd, Reason.RECENT)
                else:
                    self._keep(audit, one, parent_fd, error.strerror or str(error))
                continue
            try:
                ours, there = fs.fstat(one.fd), fs.stat(one.hidden, dir_fd=parent_fd)
                swapped = (ours.st_dev, ours.st_ino) != (there.st_dev, there.st_ino)
            except OSError:
                swapped = True
            if swapped:
                self._keep_swapped(root_fd, parent_fd, audit, one)
                continue
            yield one

    def _keep_swapped(self, root_fd: int, parent_fd: int, audit: AuditLog, one: _Held) -> None:
        """Put back what may be something else than what was locked; nobody decided that it goes."""
        what = "something else was put in its place meanwhile"
        if self._put_back(root_fd, parent_fd, one):
            self._keep(audit, one, parent_fd, f"{what}, and was left there")
        elif self._put_back(root_fd, parent_fd, one, name=one.hidden):
            self._keep(audit, one, parent_fd, f"{what} twice; one is {one.hidden} in the root now")
        else:
            self._unfinished.append(one.session_id)
            why = f"{what} and can't be put back; it is out of sight"
            self._keep(audit, one, parent_fd, why, back=False)

    def _put_back(
        self, root_fd: int, parent_fd: int, one: _Held, *, name: str | None = None
    ) -> bool:
        """Give what was renamed its name back (or another), unless somebody has it already."""
        name = name or one.session_id
        try:
            self._fs.stat(name, dir_fd=root_fd)
        except FileNotFoundError:
            with suppress(OSError):
                self._fs.rename(one.hidden, name, src_dir_fd=parent_fd, dst_dir_fd=root_fd)
                return True
        except OSError:
            pass
        return False

    def _synced(self, root_fd: int, parent_fd: int, audit: AuditLog, out: Sequence[_Held]) -> bool:
        """Make the renames durable, or take them back: nothing is deleted on a disk in doubt."""
        if not out:
            return False
        try:
            self._fs.fsync(parent_fd)
            self._fs.fsync(root_fd)
        except OSError as error:
            reason = error.strerror or str(error)
            for one in out:
                back = self._put_back(root_fd, parent_fd, one)
                where = "it was kept" if back else "it is out of sight"
                if not back:
                    self._unfinished.append(one.session_id)
                why = f"fsync of the root: {reason}; {where}"
                self._keep(audit, one, parent_fd, why, back=back)
            return False
        return True

    def _dispose(self, parent_fd: int, audit: AuditLog, out: Sequence[_Held]) -> None:
        trashed = self._disposal.grace is not None
        for one in out:
            error = None if trashed else self._delete_open(parent_fd, one.hidden, one.fd)
            if error is None:
                self._deleted.append(one.session_id)
                self._bytes += one.candidate.size_bytes
                self._tell(audit, "trashed" if trashed else "removed", one.session_id)
                self._observer.deleted(
                    one.session_id, size_bytes=one.candidate.size_bytes, trashed=trashed
                )
            else:
                self._unfinished.append(one.session_id)
                self._fail(
                    one.session_id, f"{error}; it is out of sight, the next prune tries again"
                )
                self._tell(audit, "unfinished", one.session_id, hidden=one.hidden, error=error)

    # ------------------------------------------------------------------------------- telling

    def _keep(
        self,
        audit: AuditLog,
        one: _Held,
        parent_fd: int,
        why: Reason | str,
        *,
        back: bool = True,
    ) -> None:
        """Say that a session which was announced is kept after all.

        Where it could not be put back, it stays out of sight: the trash gives it back, and from
        elsewhere the next prune removes it.
        """
        if back and self._disposal.grace is not None:
            forget_record(self._fs, parent_fd, one.hidden)
        if isinstance(why, Reason):
            self._kept[one.session_id] = why
        else:
            self._fail(one.session_id, why)
        event = "kept" if back else "unfinished"
        self._tell(audit, event, one.session_id, hidden=one.hidden, why=str(why))

    def _fail(self, session_id: str, error: str) -> None:
        self._errors[session_id] = error
        self._observer.failed(session_id, error=error)

    def _tell(self, audit: AuditLog, event: str, session_id: str, **fields: object) -> None:
        audit.add(
            event,
            at=self._outside.clock(),
            kind=self._target.kind,
            session_id=session_id,
            **fields,
        )
