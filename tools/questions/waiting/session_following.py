"""Following all sessions of a store that returns all signatures at once and reports changed ids."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, ExitStack
from threading import Lock
from typing import Final, Self

from ..repository import OnChange

MOST_COST: Final = 0.01
"""The share of one core that full looks may cost."""

Report = Callable[[Callable[[str | None], None]], AbstractContextManager[None]]
"""Returns a block in which the given function is called with the id of each session that changed,
and with None if any may have.
"""


class Reports:
    """The reported changes since the last `take`, from any thread."""

    def __init__(self, on_change: OnChange) -> None:
        """Call `on_change` after each report."""
        self._on_change = on_change
        self._lock = Lock()
        self._sessions: set[str] = set()
        self._any = False

    def note(self, session_id: str | None = None) -> None:
        """Record a report that a session changed, or that any may have."""
        with self._lock:
            if session_id is None:
                self._any = True
            else:
                self._sessions.add(session_id)
        self._on_change()

    def take(self) -> tuple[set[str], bool]:
        """Return the sessions, and whether any may have changed."""
        with self._lock:
            taken = self._sessions, self._any
            self._sessions, self._any = set(), False
        return taken


class SessionFollower:
    """Follows the changes of all sessions by their signatures. A `repository.Follower`.

    Args:
        signatures: Returns the signatures of some sessions, or of all if it is given None.
        report: Reports changes.
        on_change: Called after each report.
        look_s: The interval of full looks, in seconds.
    """

    def __init__(
        self,
        signatures: Callable[[frozenset[str] | None], Mapping[str, Hashable]],
        report: Report,
        on_change: OnChange,
        look_s: float,
    ) -> None:
        self._signatures = signatures
        self._report = report
        self._reports = Reports(on_change)
        self._look_s = look_s
        self._seen: dict[str, Hashable] = {}
        self._due = 0.0
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._open.enter_context(self._report(self._reports.note))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def look_at_all(self) -> frozenset[str]:
        """See `Follower`."""
        self._reports.take()
        began = time.monotonic()
        found = dict(self._signatures(None))
        now = time.monotonic()
        self._due = now + max(self._look_s, (now - began) / MOST_COST)
        changed = {name for name, one in found.items() if self._seen.get(name) != one}
        changed |= self._seen.keys() - found.keys()
        self._seen = found
        return frozenset(changed)

    def look_again(self, *, reported: bool) -> frozenset[str]:
        """See `Follower`."""
        names, any_reported = self._reports.take() if reported else (set(), False)
        if any_reported or time.monotonic() >= self._due:
            return self.look_at_all()
        if not names:
            return frozenset()
        found = self._signatures(frozenset(names))
        changed = {name for name in names if self._seen.get(name) != found.get(name)}
        for name in changed:
            if name in found:
                self._seen[name] = found[name]
            else:
                self._seen.pop(name, None)
        return frozenset(changed)
