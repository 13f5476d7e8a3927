"""What is at hand while sessions are removed from a root."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from attrs import field, frozen

from ...base.errors import reason_of
from ..ports import PruneTarget
from ..records.audit_log import AuditLog
from .deletion import Deletion, DeletionPool
from .inspection import InspectionCache
from .run_record import Run

_Item = TypeVar("_Item")


@frozen(kw_only=True)
class Work:
    """What removes the sessions of one root.

    Attributes:
        run: What was asked for.
        target: The kind of sessions.
        root_fd: The root, open.
        cache: What was found in the sessions when it was decided.
        audit: The audit log.
        pool: Deletes several at the same time.
        deletion: How what is out of sight is deleted.
    """

    run: Run
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
        """Yield what may happen now, as much at a time as the audit log has room for.

        What is not written there before it happens does not happen.

        Args:
            event: What is about to happen.
            items: What it happens to.
            about: Returns what the log says of one: its `session_id` and more.
            kept: What becomes of what can't be announced.
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
