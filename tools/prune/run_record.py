"""What became of each session, kept for the result and told to the observer and the audit log."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from ..clock import Clock
from .audit_log import AuditLog
from .domain import PruneResult
from .inspection import Found
from .policy import (
    TOLD,
    Candidate,
    Decision,
    Plan,
    Reason,
    RetentionPolicy,
    Skipped,
    SkipReason,
    left_alone,
)
from .ports import PruneObserver, PruneTarget
from .private_directory import session_of
from .trash import Leftovers


class ObserverFailed(Exception):
    """An observer raised what the system raises; it must not be taken for the system's answer.

    Attributes:
        error: What it raised.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


class Told:
    """An observer whose `OSError`s are told apart from those of the root. A `PruneObserver`."""

    def __init__(self, observer: PruneObserver) -> None:
        self._observer = observer

    def started(self, target: PruneTarget, policy: RetentionPolicy, *, dry_run: bool) -> None:
        """Tell it that a prune began."""
        try:
            self._observer.started(target, policy, dry_run=dry_run)
        except OSError as error:
            raise ObserverFailed(error) from error

    def skipped(self, skipped: Skipped) -> None:
        """Tell it that something is left alone."""
        try:
            self._observer.skipped(skipped)
        except OSError as error:
            raise ObserverFailed(error) from error

    def candidate(self, decision: Decision, *, age_hours: float) -> None:
        """Tell it that a session is to go."""
        try:
            self._observer.candidate(decision, age_hours=age_hours)
        except OSError as error:
            raise ObserverFailed(error) from error

    def deleted(self, session_id: str, *, size_bytes: int, trashed: bool) -> None:
        """Tell it that a session is gone, or in the trash."""
        try:
            self._observer.deleted(session_id, size_bytes=size_bytes, trashed=trashed)
        except OSError as error:
            raise ObserverFailed(error) from error

    def failed(self, session_id: str, *, error: str) -> None:
        """Tell it that a session is not, or not all, gone."""
        try:
            self._observer.failed(session_id, error=error)
        except OSError as cause:
            raise ObserverFailed(cause) from cause

    def completed(self, result: PruneResult) -> None:
        """Tell it that a prune ended."""
        try:
            self._observer.completed(result)
        except OSError as error:
            raise ObserverFailed(error) from error


def said(error: BaseException) -> str:
    """Say what the system answered, in its words."""
    return getattr(error, "strerror", None) or str(error)


class Ledger:
    """What became of each session of one prune."""

    def __init__(self, target: PruneTarget, observer: PruneObserver, clock: Clock) -> None:
        self.observer: Final = Told(observer)
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

    def look(self, found: Found, plan: Plan) -> None:
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

    def would(self, plan: Plan, left: Leftovers) -> None:
        """Note what a dry run found."""
        self._deleted = [one.candidate.session_id for one in plan.removals]
        self._bytes = plan.size_bytes
        self._finished = [session_of(hidden) for hidden in left.going]
        self._purged = [record.session_id for _, record in left.expired]
        self._swept = [session_of(name) for name in left.strays]

    def deleted(self, audit: AuditLog, candidate: Candidate, *, trashed: bool) -> None:
        """Note that a session is gone, or in the trash."""
        session_id = candidate.session_id
        self._deleted.append(session_id)
        self._bytes += candidate.size_bytes
        self.tell(audit, "trashed" if trashed else "removed", session_id)
        self.observer.deleted(session_id, size_bytes=candidate.size_bytes, trashed=trashed)

    def finished(self, audit: AuditLog, session_id: str, hidden: str) -> None:
        """Note that a session that an earlier prune began with is gone."""
        self._finished.append(session_id)
        self.tell(audit, "finished", session_id, hidden=hidden)

    def purged(self, audit: AuditLog, session_id: str, hidden: str) -> None:
        """Note that a session left the trash for good."""
        self._purged.append(session_id)
        self.tell(audit, "purged", session_id, hidden=hidden)

    def swept(self, audit: AuditLog, name: str, hidden: str) -> None:
        """Note that what a dead process had left half done in the root is gone."""
        self._swept.append(session_of(name))
        self.tell(audit, "swept", session_of(name), hidden=hidden)

    def unfinished(self, audit: AuditLog, session_id: str, **fields: object) -> None:
        """Note that a session is out of sight and not all gone."""
        self._unfinished.append(session_id)
        self.tell(audit, "unfinished", session_id, **fields)

    def keep(self, candidate: Candidate, reason: Reason) -> None:
        """Note that a session stays after all."""
        self._kept[candidate.session_id] = reason
        if reason in TOLD:
            self.skip(left_alone(candidate, reason))

    def fail(self, session_id: str, error: str) -> None:
        """Note why a session is not, or not all, gone."""
        self._errors[session_id] = error
        self.observer.failed(session_id, error=error)

    def tell(self, audit: AuditLog, event: str, session_id: str, **fields: object) -> None:
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
