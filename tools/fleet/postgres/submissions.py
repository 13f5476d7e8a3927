"""Sessions that the fleet works on: submitted in the transaction that saves them."""

from __future__ import annotations

from typing import Any, Final

from ...harness.session_domain import SessionContext
from ...harness.submission import Submission
from .database import Database
from .sessions.session_rows import checked_id
from .store import PostgresStore

FOLLOW_UP: Final = (
    b", agentforge.submit(id, %(submit_queue)s, %(submit_priority)s, %(submit_at)s::timestamptz)"
)
_SUBMIT: Final = "select agentforge.submit(%s, %s, %s, %s::timestamptz)"


class SubmittingStore(PostgresStore):
    """A store whose saves submit the session to the fleet, in the same transaction.

    Args:
        database: The database of the sessions.
        base_path: Where this machine works on them.
        submission: How the fleet is to run them.
    """

    def __init__(self, database: Database, base_path: Any, submission: Submission) -> None:
        super().__init__(database, base_path)
        self._submission = submission
        self._follow_up = FOLLOW_UP
        self._follow_up_values = {
            "submit_queue": submission.queue,
            "submit_priority": submission.priority,
            "submit_at": submission.at,
        }

    def submit(self, session: SessionContext) -> None:
        """Submit a session that is stored in its final form."""
        values = self._submission
        self._database.one(
            _SUBMIT,
            (checked_id(session.session_id), values.queue, values.priority, values.at),
        )
