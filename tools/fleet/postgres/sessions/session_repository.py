"""Sessions in PostgreSQL: a head row, a document row, and append-only rows.

A save is one statement: if the stored revision is the one that the session was made from, it raises
the revision and adds what is new; otherwise it changes nothing at all. So its cost does not grow
with the history, and two writers of one session never overwrite each other.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, Final

from ....base.event_log import get_logger
from ....base.files import WriteError
from ....base.identifiers import names_no_session
from ....base.search_words import SearchWords
from ....harness.errors import (
    SessionConflict,
    SessionCorrupted,
    SessionFenced,
    SessionIdTaken,
    SessionInUse,
    SessionNotFound,
    SessionTooLarge,
)
from ....harness.events.session_feed import open_feed
from ....harness.feed_port import Feed
from ....harness.format.session_codec import encode_session
from ....harness.session_domain import (
    InvalidSession,
    SessionContext,
    SessionState,
)
from ....harness.session_layout import KIND, MAX_FILE_BYTES, STEPS
from ....harness.steps.tail import with_tail
from ....harness.views.entry_events import EntryEvent, events_after, first_own
from ....harness.views.session_filter import SessionFilter
from ....harness.views.session_head import SessionSummary, UnreadableSession
from ....harness.views.session_names import ATTACHMENT, documents_beside, require_saved, resolved
from ....prune.audit_log import actor
from ..database import Connection, Database
from .receivers import PostgresReceiver, keep_untold
from .session_candidates import read_candidates
from .session_feed import PostgresFeed, SessionSource, end_of_feed, place_after
from .session_lock import is_run
from .session_pages import PostgresPages
from .session_rows import (
    DESCRIBED,
    SAVED,
    Document,
    NewRows,
    StoredLists,
    checked_id,
    described,
    described_values,
    head_of,
    head_values,
    session_of_rows,
)
from .session_statements import (
    CREATE,
    FROM_HEAD,
    KEEP_STEP,
    LOAD,
    REPLACE_HEAD,
    REPLACE_REST,
    SAVED_ALREADY,
    save_statement,
)
from .session_streams import PostgresStreams, export_streams, import_streams, without_streams

_REMEMBERED: Final = 16
_HEAD_COLUMNS: Final = 1 + len(SAVED) + len(DESCRIBED)
_STEPS: Final = f"{STEPS}/"
_log = get_logger("agentforge.store")


class PostgresSessions(PostgresPages, PostgresStreams):
    """Stores sessions in a database.

    Guarantees: when `save` returns, the session survives the death of the process and of the
    server; when it raises, the stored session is unchanged (if the connection was lost during the
    commit, it may also be the new one: the next save of the same object is then refused with a
    `SessionConflict`, and nothing is overwritten). A reader sees a complete session or none. Two
    writers of one session never overwrite each other.

    Instances may be shared between threads.

    Args:
        database: The database; its tables must exist (`schema.require_migrated`).
        max_bytes: The most that the lists of a session take.
    """

    def __init__(self, database: Database, *, max_bytes: int = MAX_FILE_BYTES) -> None:
        super().__init__(database)
        self._max_bytes = max_bytes
        self._stored: OrderedDict[str, StoredLists] = OrderedDict()
        self._claims: dict[str, int] = {}
        self._follow_up = b""
        self._follow_up_values: Mapping[str, Any] = {}
        self._mutex = Lock()

    @property
    def database(self) -> Database:
        """The database of the sessions."""
        return self._database

    # ------------------------------------------------------------------------------- writing

    def save(
        self,
        session: SessionContext,
        *,
        attachments: Mapping[str, bytes] | None = None,
        inherited: Mapping[str, bytes] | None = None,
    ) -> None:
        """Store the session's state in memory; see `SessionRepository`."""
        faults = session.faults()
        if faults:
            raise InvalidSession(faults)
        if session.revision == 0:
            self._create(session, documents_beside(attachments, inherited), revision=1)
        elif not self._replace(session):
            return
        session.revision += 1

    def adopt(
        self, session: SessionContext, *, documents: Mapping[str, bytes] | None = None
    ) -> None:
        """Create a session from another store's; see `SessionRepository`."""
        require_saved(session)
        self._create(session, documents_beside(None, documents), revision=session.revision)

    def _create(
        self, session: SessionContext, documents: Mapping[str, bytes], *, revision: int
    ) -> None:
        new = self._bounded(session, NewRows.of(session.artifacts, session.history))
        documents, streams = without_streams(documents)
        values = {
            "id": session.session_id,
            "revision": revision,
            **head_values(session),
            **described_values(session),
            **Document.of(session).values(),
            **new.values(),
            "of_parent": first_own(session.history),
            "names": list(documents),
            "contents": list(documents.values()),
        }
        within = self._database.transaction if streams else self._database.connection
        with within() as connection:
            if self._saved(connection, CREATE, values) is None:
                raise SessionIdTaken(session.session_id, path=self.where_is(session.session_id))
            import_streams(connection, session.session_id, streams)
        self._remember(session.session_id, StoredLists.of(session, size_bytes=new.size_bytes))

    def _replace(self, session: SessionContext) -> bool:
        """Replace the stored session; return False if there was nothing to write."""
        stored = self._taken(session.session_id)
        if stored is None:
            self.load(session.session_id)  # to learn the stored lists
            stored = self._taken(session.session_id)
        new = None if stored is None else stored.grow(session)
        if stored is None or new is None:
            return self._replace_all(session)
        self._bounded(session, new)
        values = {**self._head(session, stored.state), **new.values()}
        if stored.state.is_terminal:
            ended = self._ended(session)
            values["describes"] = ended is not None and session.only_describes(ended)
        source = Document.source_of(session)
        document = stored.document if source == stored.source else Document.of(session)
        changed = document != stored.document
        if changed:
            values.update(document.values())
        about = described(session)
        told = about != stored.described
        if told:
            values.update(described_values(session))
        statement = save_statement(new, document=changed, described=told)
        with self._database.connection() as connection:
            if self._saved(connection, statement, values) is None:
                return self._refuse(connection, session)
        stored.state, stored.document, stored.source = session.state, document, source
        stored.described = about
        self._remember(session.session_id, stored)
        return True

    def _ended(self, session: SessionContext) -> SessionContext | None:
        """Read a stored session that has ended, at the revision to be replaced."""
        with self._database.connection() as connection:
            found, _ = self._load(connection, session.session_id)
        return found if found is not None and found.revision == session.revision else None

    def _replace_all(self, session: SessionContext) -> bool:
        """Replace a stored session whose lists were edited by hand."""
        new = self._bounded(session, NewRows.of(session.artifacts, session.history))
        values = {
            **self._head(session, None),
            **described_values(session),
            **Document.of(session).values(),
            **new.values(),
        }
        with self._database.transaction() as connection:
            if connection.execute(REPLACE_HEAD, values).fetchone() is None:
                return self._refuse(connection, session)
            for statement in REPLACE_REST:
                connection.execute(statement, values)
            if self._follow_up:
                self._saved(connection, SAVED_ALREADY, values)
        self._remember(session.session_id, StoredLists.of(session, size_bytes=new.size_bytes))
        return True

    def _saved(
        self, connection: Connection, statement: bytes, values: Mapping[str, Any]
    ) -> tuple[Any, ...] | None:
        """Run a save's statement together with what follows from it; None: no row."""
        text = statement + self._follow_up + FROM_HEAD
        return connection.execute(text, {**values, **self._follow_up_values}).fetchone()

    def _bounded(self, session: SessionContext, new: NewRows) -> NewRows:
        if new.size_bytes > self._max_bytes:
            raise SessionTooLarge(
                session.session_id,
                path=self.where_is(session.session_id),
                size_bytes=new.size_bytes,
                max_bytes=self._max_bytes,
            )
        return new

    def _head(self, session: SessionContext, stored: SessionState | None) -> dict[str, Any]:
        return {
            "id": session.session_id,
            "revision": session.revision,
            "claim": self._claims.get(session.session_id),
            # Searched in the history only where it matters.
            "recorded": session.state is not stored and session.is_state_recorded,
            "describes": False,
            **head_values(session),
        }

    def _refuse(self, connection: Connection, session: SessionContext) -> bool:
        """Raise why the stored session is not replaced; return False if it equals the new one."""
        found = connection.execute(
            "select revision, state, created_at, claims from agentforge.sessions where id = %s",
            (session.session_id,),
        ).fetchone()
        if found is not None:
            self._require_claimed(session.session_id, found[3], revision=session.revision)
        made_anew = found is not None and found[2] != session.created_at
        if found is None or made_anew or found[0] != session.revision:
            raise SessionConflict(
                session.session_id,
                path=self.where_is(session.session_id),
                expected_revision=session.revision,
                actual_revision=None if found is None else found[0],
                replaced=made_anew,
            )
        state = SessionState(found[1])
        if state.is_terminal and self._load(connection, session.session_id)[0] == session:
            return False
        session.require_follows(state)
        # It was stored in its current form between the two statements: that writer was first.
        raise SessionConflict(
            session.session_id,
            path=self.where_is(session.session_id),
            expected_revision=session.revision,
            actual_revision=found[0],
        )

    def delete(
        self, session_id: str, *, expected_revision: int | None = None, missing_ok: bool = True
    ) -> bool:
        """Delete a session with all that is stored of it; see `SessionRepository`."""
        if names_no_session(session_id):
            if not missing_ok:
                raise SessionNotFound(session_id, path=self.where)
            return False
        with self._database.transaction() as connection:
            found = connection.execute(
                "select revision from agentforge.sessions where id = %s for update",
                (checked_id(session_id),),
            ).fetchone()
            if found is not None:
                if is_run(connection, session_id):
                    raise SessionInUse(session_id, path=self.where_is(session_id))
                if expected_revision not in {None, found[0]}:
                    raise SessionConflict(
                        session_id,
                        path=self.where_is(session_id),
                        expected_revision=expected_revision or 0,
                        actual_revision=found[0],
                    )
                line = {"event": "removed", "reasons": ["asked for"], "by": actor()}
                self.remove(connection, session_id, line)
        self.forget(session_id)
        if found is None and not missing_ok:
            raise SessionNotFound(session_id, path=self.where)
        return found is not None

    def remove(self, connection: Connection, session_id: str, line: Mapping[str, object]) -> None:
        """Delete a session that the caller has locked, with a line in the store's audit log.

        Events that receivers have not had of it are stored for them.
        """
        try:
            session, _ = self._load(connection, session_id)
        except SessionCorrupted as error:
            _log.warning("feed.not_kept", session_id=session_id, error=str(error))
            session = None
        if session is not None:
            keep_untold(connection, session)
        about = {"kind": KIND, "session_id": session_id, **line}
        connection.execute(
            "select agentforge.remove_session(%s, %s::jsonb)", (session_id, json.dumps(about))
        )

    # ----------------------------------------------------------------------------------- the feed

    def open_feed(self, after: str | None = None, *, session_id: str | None = None) -> Feed:
        """Return the feed of all sessions, or of one, from a place on; see `SessionFeeds`."""
        if session_id is None:
            return PostgresFeed(self._database, self._read, place_after(self._database, after))
        source = SessionSource(self.where, self._read, self.change_mark)
        return open_feed(source, after, session_id)

    def end_of_feed(self) -> str:
        """Return the place after everything that is stored now; see `SessionFeeds`."""
        with self._database.connection() as connection:
            return end_of_feed(connection)

    def entry_events(self, session_id: str, after: int) -> list[EntryEvent] | None:
        """Return the events of one session after a number of entries; see `SessionFeeds`."""
        session = self._read(session_id)
        if session is None:
            return None
        return list(events_after(session_id, session.history, min(after, len(session.history))))

    def receivers(self) -> list[str]:
        """Return the names of receivers with stored state; see `SessionFeeds`."""
        rows = self._database.all("select name from agentforge.receivers order by name")
        return [name for (name,) in rows]

    def receiver(self, name: str) -> PostgresReceiver:
        """Return the state of a receiver of events; see `SessionFeeds`."""
        return PostgresReceiver(self._database, name)

    def _read(self, session_id: str) -> SessionContext | None:
        """Read a session without remembering it for a later save."""
        with self._database.connection() as connection:
            return self._load(connection, checked_id(session_id))[0]

    # ------------------------------------------------------------------------------- reading

    def load(self, session_id: str) -> SessionContext | None:
        """Read a session; see `SessionRepository`."""
        if names_no_session(session_id):
            return None
        with self._database.connection() as connection:
            session, size = self._load(connection, checked_id(session_id))
        if session is not None:
            self._remember(session_id, StoredLists.of(session, size_bytes=size))
        return with_tail(self, session)

    def _load(self, connection: Connection, session_id: str) -> tuple[SessionContext | None, int]:
        """Read a session, and the size of its lists' rows."""
        row = connection.execute(LOAD, (session_id,)).fetchone()
        if row is None:
            return None, 0
        head, document = row[:_HEAD_COLUMNS], row[_HEAD_COLUMNS:-3]
        size, artifacts, history = row[-3:]
        session = session_of_rows(
            head_of(session_id, head),
            Document(*document),
            artifacts,
            history,
            where=self.where_is(session_id),
        )
        return session, size

    def exists(self, session_id: str) -> bool:
        """Return whether there is a session of this id; see `SessionRepository`."""
        if names_no_session(session_id):
            return False
        return self._stamp(session_id) is not None

    def is_led(self, session_id: str) -> bool:
        """Return whether a worker runs the session, on any machine; see `SessionRepository`."""
        checked_id(session_id)
        with self._database.connection() as connection:
            return is_run(connection, session_id)

    def change_mark(self, session_id: str) -> Hashable | None:
        """Return a value that differs once the session has changed; see `SessionRepository`."""
        return self._stamp(session_id)

    def _stamp(self, session_id: str) -> tuple[Any, ...] | None:
        return self._database.one(
            "select revision, created_at from agentforge.sessions where id = %s",
            (checked_id(session_id),),
        )

    # ---------------------------------------------------------------------- documents beside it

    def read_document(self, session_id: str) -> bytes | None:
        """Return the text that the session's file would have; see `SessionRepository`."""
        session = self.load(session_id)
        return None if session is None else encode_session(session)

    def read_attachment(self, session_id: str, name: str) -> bytes | None:
        """Return a document that was stored at the creation; see `SessionRepository`."""
        if not re.fullmatch(ATTACHMENT, name):
            raise ValueError(f"{name!r} can't be the name of an attachment")
        return self._document(session_id, name)

    def _document(self, session_id: str, name: str) -> bytes | None:
        found = self._database.one(
            "select content from agentforge.session_attachments where session_id = %s and name = "
            "%s",
            (checked_id(session_id), name),
        )
        return None if found is None else bytes(found[0])

    def read_step(self, session_id: str, name: str) -> bytes | None:
        """Return a step of the session's runs; see `SessionRepository`."""
        return self._document(session_id, _step(name))

    def keep_step(self, session_id: str, name: str, data: bytes) -> None:
        """Store a step of the session's runs; see `SessionRepository`."""
        values = {
            "id": checked_id(session_id),
            "name": _step(name),
            "content": data,
            "claim": self._claims.get(session_id),
        }
        with self._database.connection() as connection:
            if connection.execute(KEEP_STEP, values).fetchone() is None:
                claims = connection.execute(
                    "select claims, revision from agentforge.sessions where id = %s", (session_id,)
                ).fetchone()
                if claims is not None:
                    self._require_claimed(session_id, claims[0], revision=claims[1])
                raise WriteError(
                    path=Path(self.where_is(session_id, _step(name))),
                    operation="find the session",
                    cause=FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)),
                )

    def step_names(self, session_id: str) -> list[str]:
        """Return the names of all steps of the session's runs; see `SessionRepository`."""
        rows = self._database.all(
            "select substr(name, %s) from agentforge.session_attachments where session_id = %s "
            'and starts_with(name, %s) order by name collate "C"',
            (len(_STEPS) + 1, checked_id(session_id), _STEPS),
        )
        return [row[0] for row in rows]

    def read_attachments(self, session_id: str) -> dict[str, bytes]:
        """Return all documents stored beside a session, by name; see `SessionRepository`."""
        with self._database.connection() as connection:
            rows = connection.execute(
                "select name, content from agentforge.session_attachments where session_id = %s "
                'order by name collate "C"',
                (checked_id(session_id),),
            )
            kept = {name: bytes(content) for name, content in rows}
            return kept | export_streams(connection, session_id)

    # ------------------------------------------------------------------------------- all sessions

    def candidates(
        self, words: SearchWords, wanted: SessionFilter | None = None
    ) -> Iterator[SessionSummary | UnreadableSession]:
        """Yield the sessions that may contain words; see `SessionRepository`."""
        return read_candidates(self._database, words, wanted or SessionFilter())

    def resolve(self, shortened: str) -> str:
        """Return the one id that equals, starts, ends or contains this; see `SessionRepository`."""

        def known() -> list[str]:
            statement = "select id from agentforge.sessions where strpos(id, %s) > 0 order by id"
            return [row[0] for row in self._database.all(statement, (shortened,))]

        return resolved(shortened, known, where=self.where)

    @property
    def where(self) -> str:
        """The store's name, for messages."""
        return self._database.name

    def where_is(self, session_id: str, name: str | None = None) -> str:
        """Return a session's location, existing or not; see `SessionRepository`."""
        place = f"{self._database.name}/{checked_id(session_id)}"
        return place if name is None else f"{place}/{name}"

    def reference(self, session_id: str) -> str:
        """Return the session's id: its reader knows the store; see `SessionRepository`."""
        return checked_id(session_id)

    def close(self) -> None:
        """Close the connections to the database; see `SessionRepository`."""
        self._database.close()

    # ------------------------------------------------------------------------------- the claim

    def _claimed(self, session_id: str, claim: int | None) -> None:
        """Record which claim this worker's saves of a session belong to; None: it has ended."""
        if claim is None:
            self._claims.pop(session_id, None)
        else:
            self._claims[session_id] = claim

    def _require_claimed(self, session_id: str, last: int, *, revision: int) -> None:
        if self._claims.get(session_id, last) != last:
            raise SessionFenced(
                session_id, path=self.where_is(session_id), expected_revision=revision
            )

    # ------------------------------------------------------------------------------- remembering

    def forget(self, session_id: str) -> None:
        """Forget the cached lists of a session that was deleted elsewhere."""
        with self._mutex:
            self._stored.pop(session_id, None)

    def _remember(self, session_id: str, stored: StoredLists) -> None:
        with self._mutex:
            self._stored[session_id] = stored
            self._stored.move_to_end(session_id)
            if len(self._stored) > _REMEMBERED:
                self._stored.popitem(last=False)

    def _taken(self, session_id: str) -> StoredLists | None:
        """Take a session's cached lists: the caller owns them until they are cached again."""
        with self._mutex:
            return self._stored.pop(session_id, None)


def _step(name: str) -> str:
    if not re.fullmatch(ATTACHMENT, name):
        raise ValueError(f"{name!r} can't be the name of a step")
    return f"{_STEPS}{name}"
