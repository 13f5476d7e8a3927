"""What became of each session, for the result, the observer and the audit log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, ParamSpec

from attrs import evolve

from ...base.clock import Clock
from ..domain import (
    LEFT_ALONE,
    Candidate,
    Decision,
    Plan,
    PruneResult,
    Reason,
    Skipped,
    SkipReason,
    left_alone,
)
from ..ports import PruneObserver, PruneSource
from ..records.audit_log import AuditLog
from .hidden_names import session_of
from .inspection import Inspection


class ObserverFailed(Exception):
    """An observer raised what the system raises; it must not be taken for the system's answer.

    Attributes:
        error: What it raised.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


_P = ParamSpec("_P")


def _guarded(notify: Callable[_P, None]) -> Callable[_P, None]:
    def call(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            notify(*args, **kwargs)
        except OSError as error:
            raise ObserverFailed(error) from error

    return call


class GuardedObserver:
    """The methods of an observer; an `OSError` of it comes out as `ObserverFailed`."""

    def __init__(self, observer: PruneObserver) -> None:
        self.started: Final = _guarded(observer.started)
        self.skipped: Final = _guarded(observer.skipped)
        self.candidate: Final = _guarded(observer.candidate)
        self.deleted: Final = _guarded(observer.deleted)
        self.failed: Final = _guarded(observer.failed)
        self.completed: Final = _guarded(observer.completed)


class RunRecord:
    """What became of each session of one prune."""

    def __init__(self, target: PruneSource, observer: PruneObserver, clock: Clock) -> None:
        self.observer: Final = GuardedObserver(observer)
        self.archives: dict[str, str] = {}
        self._kind = target.kind
        self._clock = clock
        self._deleted: list[str] = []
        self._bytes = 0
        self._errors: dict[str, str] = {}
        self._kept: dict[str, Reason] = {}
        self._finished: list[str] = []
        self._unfinished: list[str] = []
        self._purged: list[str] = []
        self._swept: list[str] = []
        self._skipped: list[Skipped] = []
        self._busy = False

    def look(self, found: Inspection, plan: Plan) -> None:
        """Note what is left alone; what can't be looked at is an error."""
        for one in (*found.skipped, *plan.skipped):
            if one.reason is SkipReason.UNREADABLE:
                self.fail(one.session_id, one.detail)
            else:
                self.skip(one)

    def skip(self, skipped: Skipped) -> None:
        """Note that something is left alone."""
        self._skipped.append(skipped)
        self.observer.skipped(skipped)

    def busy(self, plan: Plan) -> None:
        """Note that another prune is at work, so that nothing goes."""
        self._busy = True
        for one in plan.removals:
            self.keep(one.candidate, Reason.BUSY)

    def foresee(
        self, plan: Plan, *, going: Sequence[str], purged: Sequence[str], strays: Sequence[str]
    ) -> None:
        """Note what a dry run found: the plan, and what of former prunes is to be finished."""
        self._deleted = [one.candidate.session_id for one in plan.removals]
        self._bytes = plan.size_bytes
        self._finished = [session_of(hidden) for hidden in going]
        self._purged = list(purged)
        self._swept = [session_of(name) for name in strays]

    def deleted(self, audit: AuditLog, candidate: Candidate, *, trashed: bool) -> None:
        """Note that a session was removed, or is in the trash."""
        self.log(audit, "trashed" if trashed else "removed", candidate.session_id)
        self.removed(candidate, trashed=trashed)

    def removed(self, candidate: Candidate, *, trashed: bool = False) -> None:
        """Note the same of a session whose line is in its store's audit log already."""
        self._deleted.append(candidate.session_id)
        self._bytes += candidate.size_bytes
        self.observer.deleted(
            candidate.session_id, size_bytes=candidate.size_bytes, trashed=trashed
        )

    def finished(self, audit: AuditLog, session_id: str, hidden: str) -> None:
        """Note that a session that an earlier prune began with was removed."""
        self._finished.append(session_id)
        self.log(audit, "finished", session_id, hidden=hidden)

    def purged(self, audit: AuditLog, session_id: str, hidden: str) -> None:
        """Note that a session left the trash for good."""
        self._purged.append(session_id)
        self.log(audit, "purged", session_id, hidden=hidden)

    def swept(self, audit: AuditLog, name: str, hidden: str) -> None:
        """Note that what a dead process had left half done in the root was deleted."""
        self._swept.append(session_of(name))
        self.log(audit, "swept", session_of(name), hidden=hidden)

    def unfinished(self, audit: AuditLog, session_id: str, **fields: object) -> None:
        """Note that a session is out of sight and not wholly deleted."""
        self._unfinished.append(session_id)
        self.log(audit, "unfinished", session_id, **fields)

    def keep(self, candidate: Candidate, reason: Reason) -> None:
        """Note that a session stays after all."""
        self._kept[candidate.session_id] = reason
        if reason in LEFT_ALONE:
            self.skip(left_alone(candidate, reason))

    def fail(self, session_id: str, error: str) -> None:
        """Note why a session was not, or not wholly, removed."""
        self._errors[session_id] = error
        self.observer.failed(session_id, error=error)

    def log(self, audit: AuditLog, event: str, session_id: str, **fields: object) -> None:
        """Add a line to the audit log, to be written with others."""
        audit.add(event, at=self._clock(), kind=self._kind, session_id=session_id, **fields)

    def result(self, plan: Plan, *, dry_run: bool, trashed: bool, duration_s: float) -> PruneResult:
        """Sum it up."""
        return PruneResult(
            deleted_sessions=self._deleted,
            skipped_sessions=[one.session_id for one in self._skipped],
            reclaimed_bytes=self._bytes,
            errors=self._errors,
            dry_run=dry_run,
            trashed=trashed,
            finished_sessions=self._finished,
            unfinished_sessions=self._unfinished,
            purged_sessions=self._purged,
            archives=self.archives,
            decisions=tuple(self._final(one) for one in plan.decisions),
            skipped=tuple(self._skipped),
            swept=self._swept,
            unmet=plan.unmet,
            busy=self._busy,
            duration_s=duration_s,
        )

    def _final(self, decision: Decision) -> Decision:
        kept = self._kept.get(decision.candidate.session_id)
        return decision if kept is None else evolve(decision, remove=False, reasons=(kept,))
