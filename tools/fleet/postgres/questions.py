"""Question sessions in PostgreSQL: a row each, with the documents that files would hold.

Ending a session and waking the agent session that asked are one transaction (a trigger wakes it,
see `migrations/0001_tables.sql`). Of several callers that end it one wins: the row is locked from
its reading to its writing.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from attrs import define, field
from psycopg.errors import LockNotAvailable

from ...base.event_log import get_logger
from ...base.identifiers import is_session_id
from ...base.question import QuestionError
from ...prune import PruneEnvironment
from ...questions.disk_errors import SessionBusy
from ...questions.domain import (
    CleanupResult,
    QuestionSession,
    SessionRequest,
    StatusRecord,
    ValidationReport,
    check_session_id,
)
from ...questions.domain import (
    is_session_id as is_question_id,
)
from ...questions.errors import (
    QuestionsRefused,
    QuestionsUnavailable,
    SessionExists,
    SessionNotFound,
    TooManySessions,
)
from ...questions.files.documents import (
    ANSWERS_FILE,
    REQUEST_FILE,
    STATUS_FILE,
    KeptDocuments,
    find_issues,
    missing_session,
    new_documents,
)
from ...questions.repository import OnChange, WaitingLimit
from ...questions.rules import QuestionsConfig
from ...questions.session_status import SessionStatus
from ...questions.waiting.change_feed import SessionFollower
from .database import Connection, Database
from .errors import StoreRefused, StoreUnavailable
from .notifications import Notifications

CHANNEL: Final = "agentforge_questions"
LOOK_S: Final = 1.0
LOCK_SECONDS: Final = 10.0

_PUBLISHING: Final = 0x6166_7175_6573_7473
"""The advisory lock of callers that add a session: the limit of waiting ones must hold."""
_WAITING: Final = (
    b"select count(*) from agentforge.questions where status = 'pending' and "
    b"(%(asked_after)s::timestamptz is null or created_at > %(asked_after)s)"
)
_PUBLISH: Final = (
    b"""
insert into agentforge.questions
    (id, status, created_at, changed_at, agent_session, request, status_document)
select %(id)s, %(status)s, %(created_at)s, %(changed_at)s, %(agent_session)s, %(request)s,
    %(status_document)s
where ("""
    + _WAITING
    + b""") < %(max_sessions)s
on conflict (id) do nothing returning id
"""
)
_DOCUMENTS: Final = b"select id, request, status_document, answers from agentforge.questions "
_CHANGED: Final = b"""
select change, id,
    case when change is distinct from %(seen)s::bigint then request end,
    case when change is distinct from %(seen)s::bigint then status_document end,
    case when change is distinct from %(seen)s::bigint then answers end
from agentforge.questions where id = %(id)s
"""
_KEEP: Final = b"""
update agentforge.questions set
    change = nextval('agentforge.question_changes'), status = %(status)s,
    created_at = %(created_at)s, changed_at = %(changed_at)s, request = %(request)s,
    status_document = %(status_document)s, answers = %(answers)s
where id = %(id)s
"""
_OLD: Final = b"""
delete from agentforge.questions where id in (
    select id from agentforge.questions where changed_at < %s order by changed_at
    limit 1000 for update skip locked)
returning changed_at, id
"""

_log = get_logger("agentforge.questions")


@define(eq=False)
class PostgresQuestions:
    """Stores question sessions in a database. A `questions.QuestionRepository`.

    Args:
        database: The database; its tables must exist (`schema.require_migrated`).
        look_s: How often a wait polls, in seconds.
        lock_timeout_s: How long a change waits for another one of the same session, in seconds.
    """

    _database: Database
    look_s: float = field(default=LOOK_S, kw_only=True)
    _lock_timeout_s: float = field(default=LOCK_SECONDS, kw_only=True)
    _notifications: Notifications = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._notifications = Notifications(self._database, CHANNEL)

    @property
    def where(self) -> str:
        """The database, for messages."""
        return self._database.name

    @property
    def looks_block(self) -> bool:
        """Whether a read takes too long for an event loop: it is a round trip."""
        return True

    def prepare(self) -> None:
        """Check that the database answers and has the tables."""
        with self._connection():
            pass

    def close(self) -> None:
        """Close the listening connection; the database belongs to its owner."""
        self._notifications.close()

    # -------------------------------------------------------------------------------- one session

    def publish(self, request: SessionRequest, record: StatusRecord, *, room: WaitingLimit) -> None:
        """Create a session, complete at once; see `QuestionRepository`."""
        session_id = check_session_id(request.session_id)
        values = {
            **_values(session_id, new_documents(request, record), record),
            "agent_session": _agent_session(request),
            "max_sessions": room.max_sessions,
            "asked_after": room.asked_after,
        }
        with self._transaction(session_id) as connection:
            connection.execute("select pg_advisory_xact_lock(%s)", (_PUBLISHING,))
            if connection.execute(_PUBLISH, values).fetchone() is not None:
                return
            if _row(connection, session_id) is not None:
                raise SessionExists(session_id, where=self.where)
            found = connection.execute(_WAITING, values).fetchone()
            waiting = 0 if found is None else int(found[0])
            raise TooManySessions(waiting=waiting, max_sessions=room.max_sessions)

    def read(self, session_id: str) -> QuestionSession:
        """Read a session's current state; see `QuestionRepository`."""
        return self._documents(session_id).read()

    def read_record(self, session_id: str) -> StatusRecord:
        """Read the status of a session; see `QuestionRepository`."""
        return self._documents(session_id).current_record()

    def _documents(self, session_id: str) -> KeptDocuments:
        check_session_id(session_id)
        with self._connection(session_id) as connection:
            found = _row(connection, session_id)
        if found is None:
            raise SessionNotFound(session_id)
        return found

    def signature(self, session_id: str) -> int | None:
        """Return the number of a session's last change; None if there is no such session."""
        if not is_question_id(session_id):
            return None
        with self._connection(session_id) as connection:
            found = connection.execute(
                "select change from agentforge.questions where id = %s", (session_id,)
            ).fetchone()
        return None if found is None else int(found[0])

    def read_changed(
        self, session_id: str, seen: Hashable | None
    ) -> tuple[int | None, QuestionSession | None]:
        """Read a session unless its last change is the known one; in one round trip."""
        check_session_id(session_id)
        with self._connection(session_id) as connection:
            row = connection.execute(_CHANGED, {"id": session_id, "seen": seen}).fetchone()
        if row is None:
            raise SessionNotFound(session_id)
        change, *documents = row
        if change == seen:
            return change, None
        return change, _documents(documents).read()

    def is_settled(self, signature: object, *, for_s: float = 0.1) -> bool:  # noqa: ARG002
        """Return True: each change has a number of its own."""
        return True

    @contextmanager
    def locked(self, session_id: str, *, answering: bool = False) -> Iterator[KeptDocuments]:  # noqa: ARG002
        """Lock a session for a change; see `QuestionRepository`.

        All writes in the block are one transaction.
        """
        check_session_id(session_id)
        refused: QuestionError | None = None
        with self._transaction(session_id) as connection:
            locked = self._lock(connection, session_id)
            try:
                yield locked
            except QuestionError as error:
                refused = error  # what was written before is committed
            if locked.changed:
                record = locked.current_record()
                connection.execute(_KEEP, _values(session_id, locked.content, record))
        if refused is not None:
            raise refused

    def _lock(self, connection: Connection, session_id: str) -> KeptDocuments:
        limit = f"{int(self._lock_timeout_s * 1000)}ms"
        connection.execute("select set_config('lock_timeout', %s, true)", (limit,))
        try:
            found = _row(connection, session_id, for_update=True)
        except LockNotAvailable as error:
            raise SessionBusy(session_id, holder=None, timeout_s=self._lock_timeout_s) from error
        if found is None:
            raise SessionNotFound(session_id)
        return found

    def find_issues(self, session_id: str) -> ValidationReport:
        """Return all faults of a session; see `QuestionRepository`."""
        try:
            found = self._documents(session_id)
        except SessionNotFound:
            return missing_session(session_id)
        return find_issues(session_id, found.load)

    # ------------------------------------------------------------------------------- all sessions

    def foreign(self) -> list[str]:
        """Return none: a person named the database; see `QuestionRepository`."""
        return []

    def read_foreign(self, session_id: str) -> QuestionSession:
        """Read a session; see `QuestionRepository`."""
        return self.read(session_id)

    def make_own(self, shown: QuestionSession) -> None:
        """Change nothing: all sessions of a database are own; see `QuestionRepository`."""

    def names(self) -> list[str]:
        """Return the ids of all sessions, sorted; see `QuestionRepository`."""
        return list(self._signed(None))

    def signatures(self, statuses: Collection[SessionStatus] | None = None) -> dict[str, int]:
        """Return the signatures of all sessions; see `QuestionRepository`."""
        if statuses is None:
            return self._signed(None)
        return self._signed([one.value for one in statuses], b" where status = any(%s)")

    def _signed(
        self, wanted: Collection[str] | None, where: bytes = b" where id = any(%s)"
    ) -> dict[str, int]:
        """Return the numbers of the last changes of the wanted sessions, or of all."""
        statement = b"select id, change from agentforge.questions"
        with self._connection() as connection:
            if wanted is None:
                rows = connection.execute(statement)
            else:
                rows = connection.execute(statement + where, (list(wanted),))
            return dict(sorted(rows))

    def read_many(self, session_ids: Iterable[str]) -> dict[str, QuestionSession | QuestionError]:
        """Read several sessions; see `QuestionRepository`."""
        wanted = list(session_ids)
        if not wanted:
            return {}
        with self._connection() as connection:
            rows = connection.execute(_DOCUMENTS + b"where id = any(%s)", (wanted,)).fetchall()
        found: dict[str, QuestionSession | QuestionError] = {}
        for row in rows:
            documents = _documents(row)
            try:
                found[documents.session_id] = documents.read()
            except QuestionError as error:
                found[documents.session_id] = error
        return found

    def change_mark(self) -> tuple[tuple[str, int], ...]:
        """Return the waiting sessions with the numbers of their last changes."""
        return tuple(self.signatures({SessionStatus.PENDING}).items())

    def cleanup(self, config: QuestionsConfig, outside: PruneEnvironment) -> CleanupResult:
        """Delete sessions past their retention time; see `QuestionRepository`.

        Sessions that are being changed are left for the next time.
        """
        deleted: list[tuple[Any, str]] = []
        if config.retention_s > 0:
            last = outside.clock() - timedelta(seconds=config.retention_s)
            while True:
                with self._transaction() as connection:
                    rows = connection.execute(_OLD, (last,)).fetchall()
                deleted += [(row[0], row[1]) for row in rows]
                if not rows:
                    break
        with self._connection() as connection:
            found = connection.execute("select count(*) from agentforge.questions").fetchone()
        result = CleanupResult(
            deleted=[name for _, name in sorted(deleted)], kept=0 if found is None else found[0]
        )
        _log.info("questions.cleaned_up", deleted=len(deleted), kept=result.kept, failed=0)
        return result

    # -------------------------------------------------------------------------- what is reported

    @contextmanager
    def watching(self, session_id: str, on_change: OnChange) -> Iterator[None]:
        """Report changes of a session; see `QuestionRepository`."""

        def told(changed: str | None) -> None:
            if changed is None or changed == session_id:
                on_change()

        with self._notifications.listening(told):
            yield

    def following(self, on_change: OnChange, *, look_s: float) -> SessionFollower:
        """Follow the changes of all sessions; see `QuestionRepository`."""
        return SessionFollower(self._signed, self._notifications.listening, on_change, look_s)

    # ------------------------------------------------------------------------------------- errors

    @contextmanager
    def _connection(self, session_id: str | None = None) -> Iterator[Connection]:
        with _errors(session_id), self._database.connection() as connection:
            yield connection

    @contextmanager
    def _transaction(self, session_id: str | None = None) -> Iterator[Connection]:
        with _errors(session_id), self._database.transaction() as connection:
            yield connection


@contextmanager
def _errors(session_id: str | None) -> Iterator[None]:
    """Convert the database's errors to those that any store of questions may raise."""
    try:
        yield
    except StoreUnavailable as error:
        raise QuestionsUnavailable(str(error), session_id=session_id) from error
    except StoreRefused as error:
        raise QuestionsRefused(str(error), session_id=session_id) from error


def _agent_session(request: SessionRequest) -> str | None:
    """Return the asking agent session of this store; one of another store isn't woken here."""
    reference = None if request.asker is None else request.asker.session
    return reference if reference is not None and is_session_id(reference) else None


def _values(session_id: str, content: Mapping[str, bytes], record: StatusRecord) -> dict[str, Any]:
    return {
        "id": session_id,
        "status": record.status.value,
        "created_at": record.created_at,
        "changed_at": max(record.created_at, record.last_modified),
        "request": content[REQUEST_FILE].decode(),
        "status_document": content[STATUS_FILE].decode(),
        "answers": content[ANSWERS_FILE].decode() if ANSWERS_FILE in content else None,
    }


def _row(
    connection: Connection, session_id: str, *, for_update: bool = False
) -> KeptDocuments | None:
    statement = _DOCUMENTS + b"where id = %s" + (b" for update" if for_update else b"")
    found = connection.execute(statement, (session_id,)).fetchone()
    return None if found is None else _documents(found)


def _documents(row: Any) -> KeptDocuments:
    session_id, *documents = row
    names = (REQUEST_FILE, STATUS_FILE, ANSWERS_FILE)
    found = {
        name: one.encode() for name, one in zip(names, documents, strict=True) if one is not None
    }
    return KeptDocuments(session_id, found)
