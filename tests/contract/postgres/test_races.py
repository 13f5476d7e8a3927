"""Workers that change the same sessions at once: each change is made once, and none is lost."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import SessionManager, SessionState
from agentforge_sessions.harness.services.session_recording import despite_conflicts
from tests.support.soak import SOAKING

WORKERS: Final = 8 if SOAKING else 4
CHANGES: Final = 25 if SOAKING else 5
SESSIONS: Final = 4 if SOAKING else 2
ATTEMPTS: Final = 10_000
"""More than there are other changes: each conflict means that one of them was made."""


def test_racing_changes_of_the_same_sessions_are_all_made_once(
    database: Database, base: Path
) -> None:
    first = PostgresStore(database, base)
    ids = [
        SessionManager(first).create("tdflow", "red", token_budget=10**6).session_id
        for _ in range(SESSIONS)
    ]
    begin = threading.Barrier(WORKERS)
    failed: list[BaseException] = []

    def work(worker: int) -> None:
        with Database(database.url) as own:
            store = PostgresStore(own, base)
            managers = [SessionManager(store) for _ in ids]
            for manager, session_id in zip(managers, ids, strict=True):
                manager.open(session_id)
            begin.wait()
            for number in range(CHANGES):
                for manager in managers:
                    change(manager, f"{worker} made change {number}")

    def change(manager: SessionManager, what: str) -> None:
        def again() -> bool:
            manager.reload()
            return True

        def act() -> None:
            manager.record("noted", details=what, artifacts=[], tokens=3)

        despite_conflicts(act, again=again, attempts=ATTEMPTS)

    def guarded(worker: int) -> None:
        try:
            work(worker)
        except BaseException as error:
            failed.append(error)
            begin.abort()

    threads = [threading.Thread(target=guarded, args=(one,)) for one in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failed == []
    made = {
        f"{worker} made change {number}" for worker in range(WORKERS) for number in range(CHANGES)
    }
    found = 0
    for session_id in ids:
        session = first.load(session_id)
        assert session is not None
        assert session.state is SessionState.ACTIVE
        noted = [one.details for one in session.history if one.action == "noted"]
        found += len(noted)
        assert sorted(noted) == sorted(made)
        assert session.token_budget.tokens_used == 3 * WORKERS * CHANGES
        assert session.revision == 1 + WORKERS * CHANGES
    assert found == WORKERS * CHANGES * SESSIONS
