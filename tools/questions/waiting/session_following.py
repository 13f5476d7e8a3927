"""Seeing the changes of all sessions of a store that signs them at once, and reports their ids."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, ExitStack
from threading import Lock
from typing import Final, Self

from ..repository import OnChange

MOST_COST: Final = 0.01
"""What looking at everything may cost of one core."""

Report = Callable[[Callable[[str | None], None]], AbstractContextManager[None]]
"""Returns a block in which the given function is called with the id of each session that changed,
and with None where any may have."""


class SessionFollower:
    """Sees the changes of all sessions by their signatures. A `repository.Follower`.

    Args:
        signatures: Returns the signatures of some sessions, or of all where it is given None.
        report: Reports changes.
        on_change: Called after each report.
        look_s: How often everything is looked at, in seconds.
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
        self._on_change = on_change
        self._look_s = look_s
        self._lock = Lock()
        self._reported: set[str] = set()
        self._any_reported = False
        self._seen: dict[str, Hashable] = {}
        self._due = 0.0
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._open.enter_context(self._report(self._note))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _note(self, session_id: str | None) -> None:
        with self._lock:
            if session_id is None:
                self._any_reported = True
            else:
                self._reported.add(session_id)
        self._on_change()

    def _take(self) -> tuple[frozenset[str], bool]:
        with self._lock:
            reported, self._reported = frozenset(self._reported), set()
            any_reported, self._any_reported = self._any_reported, False
        return reported, any_reported

    def look_at_all(self) -> frozenset[str]:
        """See `Follower`."""
        self._take()
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
        names, any_reported = self._take() if reported else (frozenset(), False)
        if any_reported or time.monotonic() >= self._due:
            return self.look_at_all()
        if not names:
            return frozenset()
        found = self._signatures(names)
        changed = {name for name in names if self._seen.get(name) != found.get(name)}
        for name in changed:
            if name in found:
                self._seen[name] = found[name]
            else:
                self._seen.pop(name, None)
        return frozenset(changed)
