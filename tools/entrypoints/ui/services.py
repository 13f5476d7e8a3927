"""Shared access to what the pages show and change: sessions, questions and workspaces."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Final

from attrs import evolve

from ...agents.hooks.recording import session_cost
from ...agents.ledger import Payer, Standing, day_of, limits_of
from ...base.clock import Clock, utc_now
from ...base.errors import AgentForgeError
from ...base.files.trees import TreeChanges
from ...base.settings.spending import Amount
from ...fleet.stores import is_database, open_sessions
from ...harness import SessionContext, SessionObserver
from ...harness.domain.session_observer import CatchesUp
from ...harness.lazy import Lazy
from ...harness.session_manager import SessionManager
from ...harness.session_ports import LocalSessions
from ...questions import QuestionSession, QuestionSessions, SessionStatus
from ...questions.waiting.directory_watcher import process_watcher
from ...wiring.bootstrap import open_questions, open_snapshots
from ..pages.values.material import Differences
from .places import UiPlaces
from .session_rows import Row
from .session_watch import SessionWatch

_MOST_COMPARED: Final = 512


class UiServices:
    """The sessions, questions and caches that all requests share.

    Args:
        places: The locations of the sessions and what belongs to them.
        read_only: Whether nothing may be changed: listing then does not even end questions whose
            asker no longer waits.
        observers: Observers of the changes that a person makes on the pages.
        clock: The current time.

    Raises:
        InvalidConfig: The configuration is invalid.
        ExtraMissing: The packages for the store are not installed.
    """

    def __init__(
        self,
        places: UiPlaces,
        *,
        read_only: bool = False,
        observers: Sequence[SessionObserver] = (),
        clock: Clock = utc_now,
    ) -> None:
        self.places = places
        self.read_only = read_only
        self.clock = clock
        self._observers = tuple(observers)
        self.in_database = is_database(places.store)
        self.store: LocalSessions = open_sessions(
            places.sessions, store=places.store, direct=places.direct
        )
        self.questions: QuestionSessions = open_questions(
            places.questions, store=self.store, clock=clock
        )
        self.watch = SessionWatch(
            self.store, watcher=None if self.in_database else process_watcher(), clock=clock
        )
        self._snapshots = Lazy(partial(open_snapshots, self.store, places.objects))
        self._compared: dict[tuple[str | None, ...], TreeChanges] = {}
        self._pending: tuple[QuestionSession, ...] | None = None

    def manager(self, *, acts: bool = False) -> SessionManager:
        """Return a manager for one request; observers are attached only if a person acts."""
        observers = self._observers if acts else ()
        return SessionManager(
            self.store, snapshots=self._snapshots, clock=self.clock, observers=observers
        )

    def catch_up(self) -> None:
        """Let observers report, in the background, what other processes saved."""
        for one in self._observers:
            if isinstance(one, CatchesUp):
                one.look()

    def has_workspace(self, session_id: str) -> bool:
        """Return whether a session's workspace is on this machine and up to date."""
        return self._snapshots().is_here(session_id)

    def differences(self, manager: SessionManager, session: SessionContext) -> Differences:
        """Return a function that compares a session's checkpoints and caches the results.

        Args:
            manager: The manager that has loaded the session.
            session: The session.
        """
        kept = {one.number: one.snapshot for one in manager.checkpoints()}

        def compare(before: int | None, after: int) -> TreeChanges:
            begin = None if before is None else kept.get(before)
            place = (session.session_id, begin, kept.get(after))
            found = self._compared.get(place)
            if found is None:
                found = manager.diff(before, after, patch=True)
                if len(self._compared) >= _MOST_COMPARED:
                    self._compared.clear()
                self._compared[place] = found
            return found

        return compare

    def close(self) -> None:
        """Stop watching and close the store."""
        self.watch.close()
        self.store.close()

    # ----------------------------------------------------------------------------- questions

    def look_at_questions(self) -> frozenset[str]:
        """Refresh the waiting questions; return the agent sessions of those that came or ended.

        A question without an agent session counts as the empty id.
        """
        before = {one.session_id: one for one in self._pending or ()}
        self._pending = tuple(self._waiting())
        now = {one.session_id: one for one in self._pending}
        changed = [before.get(name) or now[name] for name in before.keys() ^ now.keys()]
        return frozenset(asked_for(one) or "" for one in changed)

    def _waiting(self) -> list[QuestionSession]:
        if not self.read_only:
            return self.questions.pending()
        found = []
        for name in self.questions.store.signatures({SessionStatus.PENDING}):
            try:
                one = self.questions.get(name)
            except AgentForgeError:
                continue
            if self.questions.status_of(one) is SessionStatus.PENDING:
                found.append(one)
        return sorted(found, key=lambda one: (one.created_at, one.session_id))

    @property
    def pending(self) -> tuple[QuestionSession, ...]:
        """The question sessions that wait for an answer, oldest first."""
        if self._pending is None:
            self.look_at_questions()
        return self._pending or ()

    def questions_of(self, session_id: str) -> list[QuestionSession]:
        """Return an agent session's question sessions that wait for an answer."""
        return [one for one in self.pending if asked_for(one) == session_id]

    # ------------------------------------------------------------------------------ sessions

    def payer(self, session_id: str) -> Payer:
        """Return what a charge of a session is charged to."""
        return Payer(session_id, os.path.realpath(self.store.base_path), day_of(self.clock()))

    def limits_of(self, session: SessionContext) -> Sequence[Standing]:
        """Return how much is spent of the person's limits that apply to a session."""
        spent = Amount(session.token_budget.tokens_used, session_cost(session))
        return limits_of(self.payer(session.session_id), spent)

    def rows(self) -> list[Row]:
        """Return all sessions, each with whether a question of it waits for an answer."""
        asked = {asked_for(one) for one in self.pending}
        return [
            evolve(row, asks=True) if row.session_id in asked else row for row in self.watch.rows()
        ]


def asked_for(one: QuestionSession) -> str | None:
    """Return the agent session for which a question was asked, or None."""
    return None if one.asker is None else one.asker.session_name
