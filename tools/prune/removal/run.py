"""One prune: its request, its resources, and the outcome for each session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, ParamSpec, TypeVar

from attrs import evolve, field, frozen

from ...base.errors import reason_of
from ..audit_log import AuditLog
from ..domain import (
    LEFT_ALONE,
    Candidate,
    Decision,
    Inspection,
    Plan,
    PruneResult,
    Reason,
    Skipped,
    SkipReason,
    left_alone,
)
from ..policy import RetentionPolicy, decide, only_as_shown
from ..ports import Disposal, PruneObserver, PruneTarget
from .deletion import Deletion, DeletionPool
from .environment import PruneEnvironment
from .inspection import InspectionCache
from .private_directory import session_of


class ObserverFailed(Exception):
    """An observer raised an `OSError`; it must not be mistaken for one of the system.

    Attributes:
        error: The observer's exception.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


_P = ParamSpec("_P")
_Item = TypeVar("_Item")


class RunRecord:
    """The outcomes of one prune, by session.

    Attributes:
        archives: By session: the archive that was written of it.
        finished: Sessions whose removal an earlier prune had started and this one finished.
        unfinished: Sessions that are out of sight and not completely deleted.
        purged: Sessions that left the trash for good.
        swept: What dead processes had left half done in the root and that was deleted.
    """

    def __init__(self, observer: PruneObserver) -> None:
        self.observer: Final = observer
        self.archives: dict[str, str] = {}
        self._deleted: list[str] = []
        self._bytes = 0
        self._errors: dict[str, str] = {}
        self._kept: dict[str, Reason] = {}
        self.finished: list[str] = []
        self.unfinished: list[str] = []
        self.purged: list[str] = []
        self.swept: list[str] = []
        self._skipped: list[Skipped] = []
        self._busy = False

    def notify(self, method: Callable[_P, None], *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Call a method of the observer.

        Raises:
            ObserverFailed: It raised an `OSError`; any other exception is passed on unchanged.
        """
        try:
            method(*args, **kwargs)
        except OSError as error:
            raise ObserverFailed(error) from error

    def look(self, found: Inspection, plan: Plan) -> None:
        """Record what is left alone, and as errors what can't be inspected."""
        for one in (*found.skipped, *plan.skipped):
            if one.reason is SkipReason.UNREADABLE:
                self.fail(one.session_id, one.detail)
            else:
                self.skip(one)

    def skip(self, skipped: Skipped) -> None:
        """Record that something is left alone."""
        self._skipped.append(skipped)
        self.notify(self.observer.skipped, skipped)

    def busy(self, plan: Plan) -> None:
        """Record that another prune is at work, so that nothing is removed."""
        self._busy = True
        for one in plan.removals:
            self.keep(one.candidate, Reason.BUSY)

    def foresee(
        self,
        plan: Plan,
        *,
        going: Sequence[str] = (),
        purged: Sequence[str] = (),
        strays: Sequence[str] = (),
    ) -> None:
        """Record a dry run: the plan, and what former prunes left to be finished."""
        self._deleted = [one.candidate.session_id for one in plan.removals]
        self._bytes = plan.size_bytes
        self.finished = [session_of(hidden) for hidden in going]
        self.purged = list(purged)
        self.swept = [session_of(name) for name in strays]

    def removed(self, candidate: Candidate, *, trashed: bool = False) -> None:
        """Record that a session was removed, or is in the trash."""
        self._deleted.append(candidate.session_id)
        self._bytes += candidate.size_bytes
        self.notify(
            self.observer.deleted,
            candidate.session_id,
            size_bytes=candidate.size_bytes,
            trashed=trashed,
        )

    def keep(self, candidate: Candidate, reason: Reason) -> None:
        """Record that a session stays after all."""
        self._kept[candidate.session_id] = reason
        if reason in LEFT_ALONE:
            self.skip(left_alone(candidate, reason))

    def fail(self, session_id: str, error: str) -> None:
        """Record why a session was not, or not completely, removed."""
        self._errors[session_id] = error
        self.notify(self.observer.failed, session_id, error=error)

    def result(self, plan: Plan, *, dry_run: bool, trashed: bool, duration_s: float) -> PruneResult:
        """Return the result."""
        return PruneResult(
            deleted_sessions=self._deleted,
            skipped_sessions=[one.session_id for one in self._skipped],
            reclaimed_bytes=self._bytes,
            errors=self._errors,
            dry_run=dry_run,
            trashed=trashed,
            finished_sessions=self.finished,
            unfinished_sessions=self.unfinished,
            purged_sessions=self.purged,
            archives=self.archives,
            decisions=tuple(self._final(one) for one in plan.decisions),
            skipped=tuple(self._skipped),
            swept=self.swept,
            unmet=plan.unmet,
            busy=self._busy,
            duration_s=duration_s,
        )

    def _final(self, decision: Decision) -> Decision:
        kept = self._kept.get(decision.candidate.session_id)
        return decision if kept is None else evolve(decision, remove=False, reasons=(kept,))


@frozen(kw_only=True)
class PruneRun:
    """One prune: its request and its record.

    Attributes:
        policy: Which sessions to remove.
        only: Remove none but these, and only if unchanged; all that the policy asks for if None.
        disposal: How sessions are removed.
        outside: Time, randomness and the file system.
        record: The outcome for each session.
        now: When it started, aware.
        dry_run: Whether it only inspects and decides.
    """

    policy: RetentionPolicy
    only: Sequence[Decision] | None
    disposal: Disposal
    outside: PruneEnvironment
    record: RunRecord
    now: datetime
    dry_run: bool

    def decide(self, found: Inspection, free_bytes: int | None = None) -> Plan:
        """Decide for each session that was found whether it is removed, and why."""
        plan = decide(
            found.candidates,
            self.policy,
            now=self.now,
            free_bytes=free_bytes,
            others=len(found.skipped),
            other_bytes=found.skipped_bytes,
        )
        if self.only is None:
            return plan
        return only_as_shown(plan, self.only, {one.session_id for one in found.skipped})

    def announce(self, found: Inspection, plan: Plan) -> None:
        """Record what is left alone, and what is to be removed."""
        self.record.look(found, plan)
        notify, candidate = self.record.notify, self.record.observer.candidate
        for one in plan.removals:
            notify(candidate, one, age_hours=one.candidate.age_hours(self.now))


@frozen(kw_only=True)
class RemovalWork:
    """The resources that remove the sessions of one root.

    Attributes:
        run: The prune's request and record.
        target: The kind of sessions.
        root_fd: The root, open.
        cache: The findings in the sessions at the time of the decision.
        audit: The audit log.
        pool: Deletes several at the same time.
        deletion: Deletes what is out of sight.
    """

    run: PruneRun
    target: PruneTarget
    root_fd: int
    cache: InspectionCache
    audit: AuditLog
    pool: DeletionPool
    deletion: Deletion = field(init=False)

    @deletion.default
    def _deletion(self) -> Deletion:
        outside = self.run.outside
        return Deletion(fs=outside.fs, mount_of=outside.mount_of, cancelled=self.pool.cancelled)

    def log(self, event: str, session_id: str, **fields: object) -> None:
        """Add a line to the audit log, to be written with others."""
        at = self.run.outside.clock()
        self.audit.add(event, at=at, kind=self.target.kind, session_id=session_id, **fields)

    def announced(
        self,
        event: str,
        items: Sequence[_Item],
        about: Callable[[_Item], Mapping[str, object]],
        *,
        kept: str,
    ) -> Iterator[Sequence[_Item]]:
        """Yield the items that may proceed now, as many at a time as the audit log has room for.

        An item that is not in the log first does not proceed.

        Args:
            event: What is about to happen.
            items: What it happens to.
            about: Returns the log's fields for an item: its `session_id` and more.
            kept: What happens to items that can't be announced.
        """
        while items:
            for one in items:
                self.log(event, **about(one))  # type: ignore[arg-type]
            count, error = self.audit.announce(len(items))
            if error is not None and not count:
                why = f"the audit log could not be written, so {kept}: {reason_of(error)}"
                for one in items:
                    self.run.record.fail(str(about(one)["session_id"]), why)
                return
            yield items[:count]
            items = items[count:]
