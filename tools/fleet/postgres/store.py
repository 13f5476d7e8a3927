"""Sessions in PostgreSQL, and this machine's directories to work on them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from ...base.clock import Clock
from ...base.files import (
    DirectoryLock,
    DurableError,
    FileSystem,
    LockTimeout,
    OsFileSystem,
    discard_tree,
    make_durable_directory,
)
from ...base.files.atomic_file import random_token
from ...base.identifiers import is_session_id
from ...harness.errors import SessionInUse
from ...harness.prune_target import CleanUpEvents
from ...harness.session_domain import SessionContext, SessionState
from ...harness.session_layout import (
    DEFAULT_BASE_PATH,
    GUARDS,
    MAX_FILE_BYTES,
    RUN_LOCKS,
    SESSION_FILE,
    WORKSPACE,
)
from ...harness.store.session_deletion import held_idle
from ...harness.submission import Submission
from ...prune import PruneEnvironment, RetentionPolicy, prune
from .database import Database
from .packs import PostgresPacks
from .questions import PostgresQuestions
from .sessions.session_lock import PostgresRunLock, has_job, has_run, is_run
from .sessions.session_prune import PostgresPrune
from .sessions.session_repository import PostgresSessions
from .sessions.session_rows import checked_id

_DELETED_ELSEWHERE: Final = (
    "select name from unnest(%s::text[]) name where exists "
    "(select 1 from agentforge.removals where session_id = name) and not exists "
    "(select 1 from agentforge.sessions where id = name) order by name"
)


class PostgresStore(PostgresSessions):
    """Sessions for all machines, with directories on this one. A `LocalSessions`.

    Args:
        database: The database of the sessions; its tables must exist (`schema.require_migrated`).
        base_path: Where this machine works on them; `.agentforge/sessions` by default.
        max_bytes: The largest session that is written, measured as its file would be.

    Attributes:
        job_id: The job of the queue that this worker runs sessions for, or None. The lock of a run
            is held in its name, so that it can be ended with the job.
        on_claim: Called with a session's id once this worker has claimed it for a run.
    """

    def __init__(
        self,
        database: Database,
        base_path: Path | str | None = None,
        *,
        max_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        super().__init__(database, max_bytes=max_bytes)
        self._base_path = DEFAULT_BASE_PATH if base_path is None else Path(base_path)
        self._fs: FileSystem = OsFileSystem()
        self.job_id: int | None = None
        self.on_claim: Callable[[str], object] = lambda _session_id: None

    # ------------------------------------------------------------------------------ the repository

    def save(
        self,
        session: SessionContext,
        *,
        attachments: Mapping[str, bytes] | None = None,
        inherited: Mapping[str, bytes] | None = None,
    ) -> None:
        """Store the session's state in memory; see `SessionRepository`."""
        begun = session.revision == 0
        super().save(session, attachments=attachments, inherited=inherited)
        if begun:
            make_durable_directory(self._fs, self.session_directory(session.session_id))

    def delete(
        self, session_id: str, *, expected_revision: int | None = None, missing_ok: bool = True
    ) -> bool:
        """Delete a session with all that is stored of it; see `SessionRepository`.

        Its directory on this machine is deleted, too; other machines clear their own.
        """
        deleted = super().delete(
            session_id, expected_revision=expected_revision, missing_ok=missing_ok
        )
        if deleted:
            self._discard(session_id)
        return deleted

    def _discard(self, session_id: str) -> None:
        """Delete a directory on this machine, unless it contains a file store's session."""
        path = self._base_path / session_id
        try:
            self._fs.stat(os.fspath(path / SESSION_FILE))
        except FileNotFoundError:
            pass
        else:
            return
        try:
            with DirectoryLock(self._fs, self._base_path, timeout_s=10.0, follow=True) as base:
                self._fs.stat(session_id, dir_fd=base.fd)
                discard_tree(
                    self._fs, base.fd, session_id, parent=self._base_path, token=random_token
                )
        except FileNotFoundError:
            return

    def clear_directory(self, session_id: str) -> None:
        """Delete a deleted session's directory on this machine.

        Raises:
            SessionInUse: Something is working in it.
            WriteError: The system refused; nothing was deleted.
            RemovalError: Some of it could not be deleted.
        """
        path = self.session_directory(session_id)
        if path.is_dir() and not path.is_symlink():
            with held_idle(self._fs, path, session_id, GUARDS):
                self._discard(session_id)

    def clear_directories(self) -> list[str]:
        """Delete the directories here of sessions that were deleted on other machines.

        A directory is deleted only if the store's audit log records the removal of its session.
        Directories that are in use, or resist, are left for the next time.

        Returns:
            The ids of the sessions whose directories no longer exist.
        """
        try:
            names = [name for name in os.listdir(self._base_path) if is_session_id(name)]
        except FileNotFoundError:
            return []
        cleared = []
        for (session_id,) in self._database.all(_DELETED_ELSEWHERE, (names,)):
            with suppress(SessionInUse, DurableError):
                self.clear_directory(session_id)
                if not (self._base_path / session_id).exists():
                    cleared.append(session_id)
        return cleared

    def prunable(self) -> PostgresPrune:
        """Return the sessions for `prune.prune`."""
        return PostgresPrune(
            self,
            self._database,
            fs=self._fs,
            workspace_path=self.workspace_path,
            clear_directory=self.clear_directory,
        )

    def is_interrupted(self, session_id: str, state: SessionState) -> bool:
        """Return whether a run was cut off; see `SessionRepository`."""
        checked_id(session_id)
        if state is not SessionState.ACTIVE:
            return False
        with self._database.connection() as connection:
            return (
                has_run(connection, session_id)
                and not is_run(connection, session_id)
                and not has_job(connection, session_id)
            )

    def delete_ended(self, *, days: float, dry_run: bool, clock: Clock) -> list[str]:
        """Delete the sessions that ended more than `days` ago; see `SessionRepository`."""
        result = prune(
            self.prunable(),
            RetentionPolicy(max_age_hours=days * 24),
            dry_run=dry_run,
            observer=CleanUpEvents(),
            outside=PruneEnvironment(fs=self._fs, clock=clock),
        )
        return result.deleted_sessions

    def pack_index(self) -> PostgresPacks:
        """Return the index of the packs of workspaces. It makes this a `KeepsPacks`."""
        return PostgresPacks(self._database)

    def question_store(self) -> PostgresQuestions:
        """Return the store of these sessions' questions: the same database."""
        return PostgresQuestions(self._database)

    # ---------------------------------------------------------------------------------- the places

    @property
    def base_path(self) -> Path:
        """The parent of the sessions' directories on this machine."""
        return self._base_path

    def ensure_directory(self) -> None:
        """Create the base, durably, if it is missing; see `SessionPlaces`."""
        make_durable_directory(self._fs, self._base_path)

    def session_directory(self, session_id: str) -> Path:
        """Return the path of a session's directory, existing or not; see `SessionPlaces`."""
        return self._base_path / checked_id(session_id)

    def workspace_path(self, session_id: str) -> Path:
        """Return the path of a session's workspace, existing or not; see `SessionPlaces`."""
        return self.session_directory(session_id) / WORKSPACE

    def run_lock(self, session_id: str, name: str, *, timeout_s: float) -> PostgresRunLock:
        """Return the lock of a run, not taken yet; see `SessionPlaces`."""
        return PostgresRunLock(
            self._database,
            session_id,
            name,
            where=self.where_is(session_id),
            timeout_s=timeout_s,
            job_id=self.job_id,
            claimed=lambda claim: self._taken_up(session_id, claim),
        )

    def _taken_up(self, session_id: str, claim: int | None) -> None:
        self._claimed(session_id, claim)
        if claim is not None:
            self.on_claim(session_id)
            # Made at the creation, unless that worker died at once, or was on another machine.
            make_durable_directory(self._fs, self.session_directory(session_id))

    def is_own(self, session_id: str) -> bool:
        """Return True: a person named the database; see `SessionPlaces`."""
        checked_id(session_id)
        return True

    def fingerprint(self, session_id: str) -> str:
        """Return an empty text: sessions of a database are not adopted; see `SessionPlaces`."""
        checked_id(session_id)
        return ""

    def make_own(self, session_id: str, *, shown: str | None = None) -> None:  # noqa: ARG002
        """Change nothing: all sessions of a database are own; see `SessionPlaces`."""
        checked_id(session_id)

    @contextmanager
    def idle(self, session_id: str, guards: Sequence[str]) -> Iterator[None]:
        """Lock out all work in a session; see `SessionPlaces`."""
        directory = self.session_directory(session_id)
        with ExitStack() as held:
            if set(guards) & set(RUN_LOCKS):
                held.enter_context(self._not_run(session_id))
            make_durable_directory(self._fs, directory)
            held.enter_context(held_idle(self._fs, directory, session_id, guards))
            yield

    @contextmanager
    def _not_run(self, session_id: str) -> Iterator[None]:
        """Lock out the session's runs, on all machines."""
        where = self.where_is(session_id)
        lock = PostgresRunLock(self._database, session_id, None, where=where, timeout_s=0.0)
        try:
            lock.acquire()
        except (FileNotFoundError, LockTimeout) as error:
            raise SessionInUse(session_id, path=where) from error
        try:
            yield
        finally:
            lock.release()


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
