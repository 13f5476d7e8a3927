"""A store of question sessions that is nothing but memory, and none of what only files have."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Final

from attrs import define, evolve, field

from agentforge_sessions.prune import PruneEnvironment
from agentforge_sessions.questions import (
    QuestionError,
    QuestionsConfig,
    QuestionSession,
    SessionExists,
    SessionNotFound,
    SessionStatus,
)
from agentforge_sessions.questions.disk_errors import SessionBusy
from agentforge_sessions.questions.domain import (
    CleanupResult,
    SessionRequest,
    StatusRecord,
    ValidationReport,
    check_session_id,
)
from agentforge_sessions.questions.errors import TooManySessions
from agentforge_sessions.questions.files.documents import (
    REQUEST_FILE,
    KeptDocuments,
    find_issues,
    missing_session,
    new_documents,
)
from agentforge_sessions.questions.repository import OnChange, WaitingLimit
from agentforge_sessions.questions.waiting.change_feed import SessionFollower

WHERE: Final = "memory://questions"


@define
class QuestionShelf:
    """What several stores share, as several processes share a server."""

    documents: dict[str, KeptDocuments] = field(factory=dict)
    changes: dict[str, int] = field(factory=dict)
    count: int = 0
    lock: threading.Lock = field(factory=threading.Lock)
    locks: dict[str, threading.Lock] = field(factory=dict)
    listeners: list[Callable[[str | None], None]] = field(factory=list)

    def keep(self, documents: KeptDocuments) -> None:
        with self.lock:
            self.count += 1
            self.documents[documents.session_id] = documents
            self.changes[documents.session_id] = self.count
        self.report(documents.session_id)

    def drop(self, session_id: str) -> None:
        with self.lock:
            del self.documents[session_id], self.changes[session_id]
        self.report(session_id)

    def report(self, session_id: str) -> None:
        for listener in tuple(self.listeners):
            listener(session_id)


class MemoryQuestions:
    """Question sessions in memory. A `questions.QuestionRepository`."""

    def __init__(self, shelf: QuestionShelf | None = None, *, lock_timeout_s: float = 10.0) -> None:
        self.shelf = shelf if shelf is not None else QuestionShelf()
        self._lock_timeout_s = lock_timeout_s
        self.where = WHERE
        self.look_s = 0.2
        self.looks_block = False

    def prepare(self) -> None:
        pass

    def publish(self, request: SessionRequest, record: StatusRecord, *, room: WaitingLimit) -> None:
        session_id = check_session_id(request.session_id)
        with self.shelf.lock:
            if session_id in self.shelf.documents:
                raise SessionExists(session_id, where=WHERE)
            waiting = 0
            for one in self.shelf.documents.values():
                with suppress(QuestionError):
                    waiting += room.counts(one.current_record())
            if waiting >= room.max_sessions:
                raise TooManySessions(waiting=waiting, max_sessions=room.max_sessions)
            self.shelf.count += 1
            self.shelf.documents[session_id] = KeptDocuments(
                session_id, new_documents(request, record)
            )
            self.shelf.changes[session_id] = self.shelf.count
        self.shelf.report(session_id)

    def _documents(self, session_id: str) -> KeptDocuments:
        found = self.shelf.documents.get(check_session_id(session_id))
        if found is None:
            raise SessionNotFound(session_id)
        return found

    def read(self, session_id: str) -> QuestionSession:
        return self._documents(session_id).read()

    def read_record(self, session_id: str) -> StatusRecord:
        return self._documents(session_id).current_record()

    def signature(self, session_id: str) -> Hashable | None:
        return self.shelf.changes.get(session_id)

    def read_changed(
        self, session_id: str, seen: Hashable | None
    ) -> tuple[Hashable | None, QuestionSession | None]:
        signature = self.signature(session_id)
        if signature is not None and signature == seen:
            return signature, None
        return signature, self.read(session_id)

    def is_settled(self, signature: object, *, for_s: float = 0.1) -> bool:
        return True

    @contextmanager
    def locked(self, session_id: str, *, answering: bool = False) -> Iterator[KeptDocuments]:
        self._documents(session_id)
        with self.shelf.lock:
            lock = self.shelf.locks.setdefault(session_id, threading.Lock())
        if not lock.acquire(timeout=self._lock_timeout_s):
            raise SessionBusy(session_id, holder=None, timeout_s=self._lock_timeout_s)
        try:
            locked = evolve(self._documents(session_id), changed=False)
            try:
                yield locked
            except QuestionError:
                self._keep(locked)
                raise
            self._keep(locked)
        finally:
            lock.release()

    def _keep(self, locked: KeptDocuments) -> None:
        if locked.changed:
            self.shelf.keep(locked)

    def find_issues(self, session_id: str) -> ValidationReport:
        found = self.shelf.documents.get(session_id)
        return missing_session(session_id) if found is None else find_issues(session_id, found.load)

    def foreign(self) -> list[str]:
        return []

    def read_foreign(self, session_id: str) -> QuestionSession:
        return self.read(session_id)

    def make_own(self, shown: QuestionSession) -> None: ...

    def names(self) -> list[str]:
        return sorted(self.shelf.documents)

    def signatures(self, statuses: Collection[SessionStatus] | None = None) -> dict[str, Hashable]:
        return self._signed(None)

    def _signed(self, names: frozenset[str] | None) -> dict[str, Hashable]:
        with self.shelf.lock:
            found = sorted(self.shelf.changes.items())
        return {name: one for name, one in found if names is None or name in names}

    def read_many(self, session_ids: Iterable[str]) -> dict[str, QuestionSession | QuestionError]:
        found: dict[str, QuestionSession | QuestionError] = {}
        for session_id in session_ids:
            try:
                found[session_id] = self.read(session_id)
            except SessionNotFound:
                continue
            except QuestionError as error:
                found[session_id] = error
        return found

    def change_mark(self) -> Hashable | None:
        return tuple(self._signed(None).items())

    def cleanup(self, config: QuestionsConfig, outside: PruneEnvironment) -> CleanupResult:
        if config.retention_s <= 0:
            return CleanupResult(kept=len(self.shelf.documents))
        last = outside.clock() - timedelta(seconds=config.retention_s)
        deleted = []
        for session_id, documents in list(self.shelf.documents.items()):
            with suppress(QuestionError):
                record = documents.current_record()
                if max(record.created_at, record.last_modified) < last:
                    deleted.append((record.last_modified, session_id))
                    self.shelf.drop(session_id)
        names = [name for _, name in sorted(deleted)]
        return CleanupResult(deleted=names, kept=len(self.shelf.documents))

    @contextmanager
    def watching(self, session_id: str, on_change: OnChange) -> Iterator[None]:
        def report(changed: str | None) -> None:
            if changed in {None, session_id}:
                on_change()

        with self._reporting(report):
            yield

    @contextmanager
    def _reporting(self, report: Callable[[str | None], None]) -> Iterator[None]:
        self.shelf.listeners.append(report)
        try:
            yield
        finally:
            self.shelf.listeners.remove(report)

    def following(self, on_change: OnChange, *, look_s: float) -> SessionFollower:
        return SessionFollower(self._signed, self._reporting, on_change, look_s)

    def spoil(self, session_id: str) -> None:
        """Make what is stored of a session unreadable."""
        content = {**self.shelf.documents[session_id].content, REQUEST_FILE: b"{"}
        self.shelf.keep(KeptDocuments(session_id, content))
