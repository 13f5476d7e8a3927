"""Keeps the list of all sessions up to date at bounded cost: read once, then only what changes.

With files, the directory of sessions and the directories of open sessions are watched, so sessions
are read only if something happens. A database is queried for the last changed sessions. A cut-off
run changes no file, so active sessions are checked in turns. All sessions are read again from time
to time, which finds what the watches missed.
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from attrs import evolve

from ...base.clock import Clock, utc_now
from ...base.errors import AgentForgeError
from ...base.event_log import get_logger
from ...harness.domain.session_states import SessionState
from ...harness.format.session_codec import decode_goal
from ...harness.session_ports import LocalSessions
from ...harness.views.session_head import SessionHead, SessionSummary, UnreadableSession
from ...questions.waiting.directory_watcher import Watcher
from .session_rows import Row

MOST_WATCHED: Final = 1_000
"""Maximum number of sessions whose directories are watched."""
LOOK_S: Final = 60.0
"""Time until all sessions are read again, in seconds; longer if that is expensive (`_SHARE`)."""
NAMES_S: Final = 5.0
"""Time until a database is queried again for deleted sessions, in seconds; likewise."""
_SHARE: Final = 0.005
"""Maximum fraction of elapsed time that is spent reading everything."""
_PAGE: Final = 200
_JUDGED: Final = 200
"""Maximum number of active sessions checked at each look for a cut-off run."""
_LATELY: Final = timedelta(hours=1)
_BASE: Final = ""
"""The name under which the directory of all sessions is reported; others are session ids."""

_log = get_logger("agentforge.ui")


class SessionWatch:
    """All sessions of a store, as of the last look. Thread-safe.

    Args:
        store: The sessions.
        watcher: Reports changes of directories; None if sessions are not directories.
        on_change: Called from another thread when `look` is due.
        clock: The current time.
        monotonic: A monotonic clock in seconds, for intervals.
    """

    def __init__(
        self,
        store: LocalSessions,
        *,
        watcher: Watcher | None,
        on_change: Callable[[], None] = lambda: None,
        clock: Clock = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.on_change = on_change
        self._store = store
        self._watcher = watcher
        self._clock = clock
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._rows: dict[str, Row] = {}
        self._goals: dict[str, tuple[int, str | None]] = {}
        self._unreadable: dict[str, UnreadableSession] = {}
        self._watched: dict[str, AbstractContextManager[None]] = {}
        self._reported: set[str] = set()
        self._next_full = -math.inf
        self._next_names = 0.0
        self._judged_last = ""

    # ------------------------------------------------------------------------ known sessions

    def rows(self) -> list[Row]:
        """Return all readable sessions as of the last look; the first call looks itself.

        Raises:
            ReadError: The store can't be read.
        """
        if self._next_full == -math.inf:
            self.look()
        return list(self._rows.values())  # one atomic copy: a look may run meanwhile

    def unreadable(self) -> list[UnreadableSession]:
        """Return the sessions that could not be read at the last full look."""
        return list(self._unreadable.values())

    def with_goals(self, rows: Iterable[Row]) -> list[Row]:
        """Return sessions with their goals; heads have none, so each revision's is read once."""
        return [evolve(row, goal=self._goal(row.head)) for row in rows]

    def _goal(self, head: SessionHead) -> str | None:
        known = self._goals.get(head.session_id)
        if known is not None and known[0] == head.revision:
            return known[1]
        try:
            data = self._store.read_document(head.session_id)
            path = Path(self._store.where_is(head.session_id))
            goal = None if data is None else decode_goal(data, path=path)
        except AgentForgeError:
            goal = None  # the list names the sessions that can't be read
        self._goals[head.session_id] = (head.revision, goal)
        return goal

    # ------------------------------------------------------------------------------- looking

    def look(self, *, also: Collection[str] = ()) -> frozenset[str]:
        """Read what may have changed; return the ids of added, changed and removed sessions.

        Args:
            also: Sessions to read even if no change was reported, such as those on open pages.

        Raises:
            ReadError: The store can't be read; the known sessions stay.
        """
        with self._lock:
            if self._monotonic() >= self._next_full:
                return self._look_at_all()
            reported = self._taken()
            try:
                changed = self._look_at_reported(reported | set(also))
            except BaseException:
                self._reported |= reported
                raise
            if changed:
                self._watch()
            judged = self._judge(_JUDGED)
            for name in judged:  # a program that died spent more since its file was written
                self._look_at(name)
            return frozenset(changed | judged)

    def _look_at_all(self) -> frozenset[str]:
        begun = self._monotonic()
        self._watch_base()
        self._reported.clear()
        before, rows, unreadable = self._rows, {}, {}
        for one in self._store.summaries():
            if isinstance(one, UnreadableSession):
                unreadable[one.session_id] = one
            else:
                rows[one.session_id] = _row(one, before.get(one.session_id))
        self._rows, self._unreadable = rows, unreadable
        self._judge(len(rows))
        self._watch()
        for gone in before.keys() - rows.keys():
            self._goals.pop(gone, None)
        now = self._monotonic()
        self._next_names = now + NAMES_S
        self._next_full = now + max(LOOK_S, (now - begun) / _SHARE)
        names = before.keys() | rows.keys()
        return frozenset(one for one in names if before.get(one) != rows.get(one))

    def _look_at_reported(self, names: set[str]) -> set[str]:
        if self._watcher is None:
            seen = {name for name in names if self._look_at(name)}
            return seen | self._look_at_last_changed() | self._look_for_gone()
        if _BASE in names:
            there = set(self._store.list_sessions())
            new = there - self._rows.keys() - self._unreadable.keys()
            names = names - {_BASE} | new | (self._rows.keys() - there)
        return {name for name in names if self._look_at(name)}

    def _look_at(self, name: str) -> bool:
        """Read a session again; return whether it changed."""
        known = self._rows.get(name)
        try:
            session = self._store.load(name)
        except AgentForgeError as error:
            _log.debug("ui.session_unreadable", session_id=name, error=str(error))
            return False  # the next full look lists it as unreadable
        if session is None:
            return self._forget(name)
        head = SessionHead.of(session)
        if known is not None and known.head == head:
            return False
        self._goals[name] = (head.revision, session.goal)
        size = 0 if known is None else known.summary.size_bytes
        self._rows[name] = _row(SessionSummary(head, self._store.where_is(name), size), known)
        return True

    def _look_at_last_changed(self) -> set[str]:
        """Query the last changed sessions, up to a page that holds an already known state.

        That page is read to its end: a session saved slowly, or by a machine whose clock is behind,
        sorts below sessions that were saved earlier.
        """
        changed: set[str] = set()
        after = None
        while True:
            page = self._store.page(limit=_PAGE, after=after)
            reached = False
            for one in page.sessions:
                known = self._rows.get(one.session_id)
                if known is not None and known.head == one.head:
                    reached = True
                    continue
                self._rows[one.session_id] = _row(one, known)
                changed.add(one.session_id)
            after = page.after
            if reached or after is None:
                return changed

    def _look_for_gone(self) -> set[str]:
        """Find deleted sessions, which no page lists, if the query is due."""
        begun = self._monotonic()
        if begun < self._next_names:
            return set()
        gone = self._rows.keys() - set(self._store.list_sessions())
        for name in gone:
            self._forget(name)
        now = self._monotonic()
        self._next_names = now + max(NAMES_S, (now - begun) / _SHARE)
        return gone

    def _forget(self, name: str) -> bool:
        self._goals.pop(name, None)
        return self._rows.pop(name, None) is not None

    def _judge(self, most: int) -> set[str]:
        """Check up to `most` active sessions, in turns, for cut-off runs; return changed ids."""
        rows = self._rows.values()
        names = sorted(row.session_id for row in rows if row.head.state is SessionState.ACTIVE)
        if len(names) > most:
            begin = bisect_right(names, self._judged_last) % len(names)
            names = [*names[begin:], *names[:begin]][:most]
            self._judged_last = names[-1]
        changed = set()
        for name in names:
            row, interrupted = self._rows[name], False
            with suppress(AgentForgeError):  # it was deleted just now
                interrupted = self._store.is_interrupted(name, row.head.state)
            if interrupted != row.interrupted:
                self._rows[name] = evolve(row, interrupted=interrupted)
                changed.add(name)
        return changed

    # ------------------------------------------------------------------------------ watching

    def _watch_base(self) -> None:
        if self._watcher is not None and _BASE not in self._watched:
            with suppress(AgentForgeError):  # can't be created; sessions are read anyway
                self._store.ensure_directory()
            self._watch_one(self._watcher, _BASE, self._store.base_path)

    def _watch(self) -> None:
        """Watch the directories of the last changed open sessions; stop watching all others."""
        if self._watcher is None:
            return
        rows = [row for row in self._rows.values() if not row.head.state.is_terminal]
        rows = heapq.nlargest(MOST_WATCHED, rows, key=lambda row: row.head.updated_at)
        wanted = {row.session_id: row.head.updated_at for row in rows}
        for name in self._watched.keys() - wanted.keys() - {_BASE}:
            self._watched.pop(name).__exit__(None, None, None)
        lately = self._clock() - _LATELY
        for name in wanted.keys() - self._watched.keys():
            self._watch_one(self._watcher, name, self._store.session_directory(name))
            if wanted[name] > lately:  # it may have changed before it was watched
                self._reported.add(name)

    def _watch_one(self, watcher: Watcher, name: str, path: Path) -> None:
        block = watcher.watching(path, partial(self._report, name))
        block.__enter__()
        self._watched[name] = block

    def _taken(self) -> set[str]:
        """Take the reported names one by one: the watcher's thread may add some meanwhile."""
        taken: set[str] = set()
        while self._reported:
            taken.add(self._reported.pop())
        return taken

    def _report(self, name: str) -> None:
        self._reported.add(name)
        self.on_change()

    def close(self) -> None:
        """Stop watching all directories."""
        with self._lock:
            watched, self._watched = self._watched, {}
        for block in watched.values():
            block.__exit__(None, None, None)


def _row(summary: SessionSummary, known: Row | None) -> Row:
    return Row(summary=summary, interrupted=known is not None and known.interrupted)
