"""A store of sessions in memory, whose workspaces are folders.

It holds what every store holds, as bytes, and nothing that only files have. The module is long
because it implements every method of the ports; these say what each one guarantees.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

from ..base.clock import Clock
from ..base.files import OsFileSystem, WriteError
from ..base.files.filesystem import DIRECTORY_FLAGS
from ..base.files.log_frames import decode_log
from ..base.files.tree_removal import discard_tree
from ..base.identifiers import names_no_session
from ..base.search_words import SearchWords
from ..harness import (
    InvalidStateTransition,
    SessionConflict,
    SessionContext,
    SessionCorrupted,
    SessionFilter,
    SessionIdTaken,
    SessionInUse,
    SessionNotFound,
    SessionOrder,
    SessionPage,
    SessionState,
    SessionSummary,
    UnreadableSession,
)
from ..harness.errors import ChangedSinceShown, SessionTooLarge, StreamMoved
from ..harness.events import session_feed
from ..harness.events.receiver_files import untold_events
from ..harness.events.session_feed import PositionFeed
from ..harness.format.session_codec import SessionEncoder, decode_session
from ..harness.session_domain import validate_session_id
from ..harness.session_layout import RUN_LOCKS, SESSION_FILE, STREAMS, WORKSPACE
from ..harness.steps.tail import with_tail
from ..harness.stream_port import (
    NewEntry,
    StreamEntry,
    StreamMark,
    StreamPart,
    StreamTail,
    require_count,
)
from ..harness.views.entry_events import EntryEvent
from ..harness.views.session_head import SessionHead
from ..harness.views.session_names import (
    ATTACHMENT,
    documents_beside,
    require_room,
    require_saved,
    resolved,
    stream_file,
)
from ..harness.views.session_page import SessionCursor, in_order, page_of
from .memory_shelf import WHERE, MemoryLock, MemoryReceiver, MemoryStream, Shelf

_STEPS: Final = "steps"


def _step(name: str) -> str:
    if not re.fullmatch(ATTACHMENT, name):
        raise ValueError(f"{name!r} can't be the name of a step")
    return f"{_STEPS}/{name}"


def _token() -> str:
    return secrets.token_hex(8)


class MemorySessions:
    """Sessions in memory. A `harness.session_ports.LocalSessions`.

    Guarantees: it passes the suites of every store, so that a program behaves on it as on files
    and PostgreSQL: revisions and their conflicts, locks, streams, feeds. Two of them on one `Shelf`
    are two processes. It may be shared between threads, and never waits for a lock.

    Not guaranteed: that anything outlives the process; that a lock ends when its owner does not
    release it; that sessions are another person's, since all of them are one's own. What a program
    does to its workspace, it does to a real folder, `base/ID/workspace`.
    """

    def __init__(
        self, base: Path, shelf: Shelf | None = None, *, max_bytes: int = 1_000_000
    ) -> None:
        """Create a store; nothing is written.

        Args:
            base: The parent of the sessions' folders; a folder of the test's own.
            shelf: The sessions to share with another store; none yet if None.
            max_bytes: The most bytes of a session's document.
        """
        self.base_path = base
        self.shelf = shelf if shelf is not None else Shelf()
        self._max_bytes = max_bytes

    # -------------------------------------------------------------------------- the repository

    @property
    def where(self) -> str:
        return WHERE

    def where_is(self, session_id: str, name: str | None = None) -> str:
        return f"{WHERE}/{validate_session_id(session_id)}" + (f"/{name}" if name else "")

    def reference(self, session_id: str) -> str:
        return validate_session_id(session_id)

    def save(
        self,
        session: SessionContext,
        *,
        attachments: Mapping[str, bytes] | None = None,
        inherited: Mapping[str, bytes] | None = None,
    ) -> None:
        session_id, revision = session.session_id, session.revision + 1
        data = self._encoded(session, revision)
        with self.shelf.lock:
            if session.revision == 0:
                self._create(session_id, data, documents_beside(attachments, inherited))
            elif not self._follows(session):
                return
            else:
                self.shelf.documents[session_id] = data
        session.revision = revision

    def adopt(
        self, session: SessionContext, *, documents: Mapping[str, bytes] | None = None
    ) -> None:
        require_saved(session)
        data = self._encoded(session, session.revision)
        with self.shelf.lock:
            self._create(session.session_id, data, documents_beside(None, documents))

    def _encoded(self, session: SessionContext, revision: int) -> bytes:
        session_id = session.session_id
        data = b"".join(SessionEncoder().encode(session, revision=revision))
        if len(data) > self._max_bytes:
            raise SessionTooLarge(
                session_id,
                path=self.where_is(session_id),
                size_bytes=len(data),
                max_bytes=self._max_bytes,
            )
        return data

    def _create(self, session_id: str, data: bytes, documents: Mapping[str, bytes]) -> None:
        if session_id in self.shelf.documents:
            raise SessionIdTaken(session_id, path=self.where_is(session_id))
        self.ensure_directory()
        self.session_directory(session_id).mkdir()
        self.shelf.attachments[session_id] = {
            name: content
            for name, content in documents.items()
            if not name.startswith(f"{STREAMS}/")
        }
        self.shelf.streams[session_id] = {
            name: self.shelf.stream(NewEntry(*entry) for entry in decode_log(content))
            for name, content in documents.items()
            if name.startswith(f"{STREAMS}/")
        }
        self.shelf.documents[session_id] = data

    def _follows(self, session: SessionContext) -> bool:
        """Refuse what does not follow what is stored; False if there is nothing to write."""
        stored = self.load(session.session_id)
        replaced = stored is not None and stored.created_at != session.created_at
        if stored is None or replaced or stored.revision != session.revision:
            raise SessionConflict(
                session.session_id,
                path=self.where_is(session.session_id),
                expected_revision=session.revision,
                actual_revision=None if stored is None else stored.revision,
                replaced=replaced,
            )
        if stored.state.is_terminal and stored == session:
            return False
        if not (stored.state.is_terminal and session.only_describes(stored)):
            session.require_follows(stored.state)
        return True

    def load(self, session_id: str) -> SessionContext | None:
        data = self.read_document(session_id) if not names_no_session(session_id) else None
        if data is None:
            return None
        try:
            session = decode_session(data, path=Path(session_id) / SESSION_FILE)
        except SessionCorrupted as error:
            raise SessionCorrupted(
                path=self.where_is(session_id), faults=error.faults, session_id=session_id
            ) from error
        return with_tail(self, session)

    def exists(self, session_id: str) -> bool:
        if names_no_session(session_id):
            return False
        return self.read_document(session_id) is not None

    def delete(
        self, session_id: str, *, expected_revision: int | None = None, missing_ok: bool = True
    ) -> bool:
        if names_no_session(session_id) or not self.exists(session_id):
            if not missing_ok:
                raise SessionNotFound(session_id, path=WHERE)
            return False
        with self.shelf.lock:
            if self.is_led(session_id):
                raise SessionInUse(session_id, path=self.where_is(session_id))
            if expected_revision is not None:
                stored = self.load(session_id)
                actual = None if stored is None else stored.revision
                if actual != expected_revision:
                    raise SessionConflict(
                        session_id,
                        path=self.where_is(session_id),
                        expected_revision=expected_revision,
                        actual_revision=actual,
                    )
            for name, data in self.shelf.receivers.items():
                stored = self.load(session_id)
                untold = [] if stored is None else untold_events(data, stored)
                if untold:
                    self.shelf.left[name, session_id] = untold
            del self.shelf.documents[session_id]
            del self.shelf.attachments[session_id]
            del self.shelf.streams[session_id]
        self._remove_folder(session_id)
        return True

    def _remove_folder(self, session_id: str) -> None:
        if not self.session_directory(session_id).exists():
            return  # it was worked on elsewhere
        base_fd = os.open(self.base_path, DIRECTORY_FLAGS)
        try:
            discard_tree(OsFileSystem(), base_fd, session_id, parent=self.base_path, token=_token)
        finally:
            os.close(base_fd)

    def is_interrupted(self, session_id: str, state: SessionState) -> bool:
        validate_session_id(session_id)
        if state is not SessionState.ACTIVE:
            return False
        with self.shelf.lock:
            names = [n for n in RUN_LOCKS if n in self.shelf.attachments.get(session_id, {})]
            return bool(names) and (session_id, names[0]) not in self.shelf.held

    def is_led(self, session_id: str) -> bool:
        validate_session_id(session_id)
        return self.shelf.is_held(session_id)

    def close(self) -> None:
        return

    def open_feed(self, after: str | None = None, *, session_id: str | None = None) -> PositionFeed:
        return session_feed.open_feed(self, after, session_id)

    def end_of_feed(self) -> str:
        return session_feed.end_of_feed(self)

    def entry_events(self, session_id: str, after: int) -> list[EntryEvent] | None:
        return session_feed.entry_events(self, session_id, after)

    def receivers(self) -> list[str]:
        return sorted(self.shelf.receivers)

    def receiver(self, name: str) -> MemoryReceiver:
        return MemoryReceiver(self.shelf, name)

    def change_mark(self, session_id: str) -> Hashable | None:
        return self.read_document(session_id)

    def read_document(self, session_id: str) -> bytes | None:
        return self.shelf.documents.get(validate_session_id(session_id))

    def read_attachment(self, session_id: str, name: str) -> bytes | None:
        validate_session_id(session_id)
        if not re.fullmatch(ATTACHMENT, name):
            raise ValueError(f"{name!r} can't be the name of an attachment")
        return self.shelf.attachments.get(session_id, {}).get(name)

    def read_attachments(self, session_id: str) -> dict[str, bytes]:
        with self.shelf.lock:
            streams = self.shelf.streams.get(validate_session_id(session_id), {})
            return {
                **self.shelf.attachments.get(session_id, {}),
                **{name: stream.document for name, stream in streams.items()},
            }

    def read_step(self, session_id: str, name: str) -> bytes | None:
        return self.read_attachments(session_id).get(_step(name))

    def keep_step(self, session_id: str, name: str, data: bytes) -> None:
        validate_session_id(session_id)
        key = _step(name)
        if not self.exists(session_id):
            raise WriteError(path=Path(session_id), operation="find the session")
        self.shelf.attachments[session_id][key] = data

    def step_names(self, session_id: str) -> list[str]:
        folders = (name.partition("/") for name in self.read_attachments(session_id))
        return sorted(name for folder, _, name in folders if folder == _STEPS and name)

    def append_entries(
        self,
        session_id: str,
        stream: str,
        entries: Sequence[NewEntry],
        *,
        expected: StreamMark | None = None,
    ) -> StreamMark:
        require_room(entries)
        with self.shelf.lock:
            streams, name = self._writable(session_id, stream, expected)
            if not entries:
                return expected or StreamMark()
            streams.setdefault(name, self.shelf.stream(())).entries.extend(entries)
            return streams[name].mark

    def replace_entries(
        self,
        session_id: str,
        stream: str,
        entries: Sequence[NewEntry],
        *,
        expected: StreamMark | None = None,
    ) -> None:
        with self.shelf.lock:
            streams, name = self._writable(session_id, stream, expected)
            streams[name] = self.shelf.stream(entries)

    def read_entries(
        self, session_id: str, stream: str, *, since: StreamMark | None = None
    ) -> StreamPart:
        with self.shelf.lock:
            found = self._found(session_id, stream)
            if found is None:
                return StreamPart([], StreamMark(), True)
            all_of_it = since is None or since.one != found.generation
            after = 0 if since is None or all_of_it else since.two
            entries = [
                StreamEntry(position, len(entry.body), 0, entry.head)
                for position, entry in enumerate(found.entries)
            ]
            return StreamPart(entries[after:], found.mark, all_of_it)

    def read_last(self, session_id: str, stream: str, count: int) -> StreamTail:
        require_count(count)
        entries, mark, _ = self.read_entries(session_id, stream)
        return StreamTail(entries[-count:], mark, whole=count >= len(entries))

    def read_bodies(
        self, session_id: str, stream: str, entries: Sequence[StreamEntry], *, mark: StreamMark
    ) -> list[bytes]:
        with self.shelf.lock:
            found = self._found(session_id, stream)
            last = max((entry.position for entry in entries), default=-1)
            if entries and (
                found is None or found.generation != mark.one or last >= len(found.entries)
            ):
                raise StreamMoved(session_id, stream=stream)
            return [found.entries[entry.position].body for entry in entries] if found else []

    def _found(self, session_id: str, stream: str) -> MemoryStream | None:
        name = f"{STREAMS}/{stream_file(stream)}"
        return self.shelf.streams.get(validate_session_id(session_id), {}).get(name)

    def _writable(
        self, session_id: str, stream: str, expected: StreamMark | None
    ) -> tuple[dict[str, MemoryStream], str]:
        found = self._found(session_id, stream)
        session = self.load(session_id)
        if session is None:
            raise SessionNotFound(session_id, path=WHERE)
        if session.state.is_terminal:
            raise InvalidStateTransition(
                session_id=session_id, current_state=session.state, operation="append_entries"
            )
        if expected is not None and expected != (found.mark if found else StreamMark()):
            raise StreamMoved(session_id, stream=stream)
        return self.shelf.streams[session_id], f"{STREAMS}/{stream_file(stream)}"

    def list_sessions(self) -> list[str]:
        return sorted(self.shelf.documents)

    def summaries(
        self, wanted: SessionFilter | None = None
    ) -> Iterator[SessionSummary | UnreadableSession]:
        for session_id in self.list_sessions():
            place = self.session_directory(session_id)
            try:
                session = self.load(session_id)
            except SessionCorrupted as error:
                yield UnreadableSession(session_id, place, error)
                continue
            if session is not None and (
                wanted is None
                or (wanted.fits(SessionHead.of(session)) and wanted.fits_goal(session.goal))
            ):
                size = len(self.shelf.documents[session_id])
                yield SessionSummary(SessionHead.of(session), str(place), size)

    def page(
        self,
        wanted: SessionFilter | None = None,
        *,
        order: SessionOrder = SessionOrder.LAST_CHANGED,
        limit: int,
        after: SessionCursor | None = None,
    ) -> SessionPage:
        return page_of(self.summaries(wanted), wanted=wanted, order=order, limit=limit, after=after)

    def candidates(
        self, words: SearchWords, wanted: SessionFilter | None = None
    ) -> Iterator[SessionSummary | UnreadableSession]:
        del words  # each session may contain them
        found = list(self.summaries(wanted))
        yield from (one for one in found if isinstance(one, UnreadableSession))
        readable = [one for one in found if isinstance(one, SessionSummary)]
        yield from in_order(readable, SessionOrder.LAST_CHANGED)

    def resolve(self, shortened: str) -> str:
        return resolved(shortened, self.list_sessions, where=WHERE)

    def delete_ended(self, *, days: float, dry_run: bool, clock: Clock) -> list[str]:
        last = clock() - timedelta(days=days)
        old = sorted(
            (one.head.completed_at, one.session_id)
            for one in self.summaries()
            if isinstance(one, SessionSummary)
            and one.head.completed_at is not None
            and one.head.completed_at < last
            and not self.shelf.is_held(one.session_id)
        )
        for _, session_id in old if not dry_run else ():
            self.delete(session_id)
        return [session_id for _, session_id in old]

    # ------------------------------------------------------------------------------ the places

    def is_own(self, session_id: str) -> bool:
        validate_session_id(session_id)
        return True

    def fingerprint(self, session_id: str) -> str:
        with self.shelf.lock:
            found = [self.read_document(session_id), self.shelf.attachments.get(session_id)]
        return hashlib.sha256(repr(found).encode()).hexdigest()

    def make_own(self, session_id: str, *, shown: str | None = None) -> None:
        if shown not in {None, self.fingerprint(session_id)}:
            raise ChangedSinceShown(session_id, where=WHERE)

    def ensure_directory(self) -> None:
        self.base_path.mkdir(parents=True, exist_ok=True)

    def session_directory(self, session_id: str) -> Path:
        return self.base_path / validate_session_id(session_id)

    def workspace_path(self, session_id: str) -> Path:
        return self.session_directory(session_id) / WORKSPACE

    def run_lock(self, session_id: str, name: str, *, timeout_s: float) -> MemoryLock:
        del timeout_s
        return MemoryLock(self.shelf, validate_session_id(session_id), name)

    @contextmanager
    def idle(self, session_id: str, guards: Sequence[str]) -> Iterator[None]:
        keys = {(validate_session_id(session_id), name) for name in guards}
        with self.shelf.lock:
            if not self.exists(session_id) or keys & self.shelf.held:
                raise SessionInUse(session_id, path=self.where_is(session_id))
            self.shelf.held |= keys
        try:
            yield
        finally:
            with self.shelf.lock:
                self.shelf.held -= keys
