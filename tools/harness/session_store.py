"""Sessions on disk: one directory each with one readable YAML file, which is replaced atomically.

    {base_path}/
        .gitkeep
        {session_id}/
            session.yaml       the session (this module)
            workspace/         what the code of its phases sees (the phase executor)
            {attachment}       files given at its creation, never changed after

A session appears in the base atomically (built under a hidden name, then renamed) and disappears
atomically (renamed to a hidden name, then emptied). Leftovers of a killed process under a hidden
name are removed by the next creation or deletion in the same base; a partial `session.yaml` by the
next save. The module is long because the steps of a save, whose order is the guarantee, are in one
place.
"""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Final

from ..base.clock import Clock, utc_now
from ..base.event_log import get_logger
from ..base.files import (
    DirectoryLock,
    FileSystem,
    ReadError,
    WriteError,
    make_durable_directory,
    read_regular_file,
    replace_file,
    sweep_discarded,
)
from ..base.files.atomic_file import random_token
from ..base.files.directory_store import NewDirectory
from ..base.files.filesystem import READ_FLAGS, close_reader
from ..base.files.regular_file import create_file
from ..base.files.safe_path import Missing, directory_beneath
from ..base.files.tree_removal import DISCARDED_PREFIX
from ..base.identifiers import names_no_session
from .disk_errors import SESSION_ERRORS, STORE_ERRORS
from .errors import (
    ChangedSinceShown,
    SessionConflict,
    SessionCorrupted,
    SessionIdTaken,
    SessionNotFound,
    SessionTooLarge,
)
from .format.session_codec import (
    HEAD_BYTES,
    SessionEncoder,
    SessionStamp,
    decode_stamp,
    may_have_steps,
)
from .session_domain import SessionContext, SessionState
from .session_layout import MAX_FILE_BYTES, SESSION_FILE, STEPS_KEY, STREAMS
from .store.session_reader import SessionReader
from .store.sessions_place import OwnSessions
from .views.session_names import documents_beside, require_saved, stream_file

if TYPE_CHECKING:
    from ..prune import PruneEnvironment
    from .events.session_feed import CountedSource
    from .store.session_streams import FileStreams
    from .stream_port import NewEntry, StreamEntry, StreamMark, StreamPart, StreamTail
    from .views.session_head import SessionHead

_STAGING: Final = f"{DISCARDED_PREFIX}new-"
_CACHED_WRITERS: Final = 16
_CACHED_LOGS: Final = 128

_log = get_logger("agentforge.store")


class SessionStore(SessionReader):
    """Stores sessions under one directory. Implements `session_ports.LocalSessions`.

    Guarantees: when `save` returns, the session survives the death of the process and a power
    failure; when it raises, the file is unchanged. A reader sees a complete session or none. Two
    writers of one session never overwrite each other: the later one gets a `SessionConflict`. No id
    leads outside the base.

    Not guaranteed: anything about files that other programs write into a session's directory.

    Instances may be shared between threads.
    """

    def __init__(
        self,
        base_path: Path | str | None = None,
        *,
        fs: FileSystem | None = None,
        lock_timeout_s: float = 10.0,
        max_file_bytes: int = MAX_FILE_BYTES,
        token: Callable[[], str] | None = None,
        clock: Clock = utc_now,
        own: OwnSessions | None = None,
    ) -> None:
        """Remember the directory; no I/O yet.

        Args:
            base_path: The sessions' directory; `.agentforge/sessions` by default.
            fs: The file system; the real one by default.
            lock_timeout_s: How long a save waits for another one of the same session, in seconds.
            max_file_bytes: The largest session file to write or read.
            token: Returns new random text for hidden names.
            clock: The time for the audit log of deletions, aware.
            own: The marks of this person's own sessions.
        """
        super().__init__(base_path, fs=fs, max_file_bytes=max_file_bytes)
        self._lock_timeout_s = lock_timeout_s
        self._token = token if token is not None else random_token
        self._clock = clock
        self._own = own if own is not None else OwnSessions(self.base_path)
        self._streams: FileStreams | None = None
        self._logs: dict[tuple[str, str], Path] = {}
        self._writers: OrderedDict[str, _SessionWriter] = OrderedDict()
        self._mutex = RLock()  # for the writers only; never held during disk I/O

    @STORE_ERRORS.raised()
    def ensure_directory(self) -> None:
        """Create the base and its `.gitkeep`, durably, if they are missing.

        Raises:
            WriteError: The system refused.
        """
        keep = str(self.base_path / ".gitkeep")
        try:
            try:
                self._fs.stat(keep)
            except (FileNotFoundError, NotADirectoryError):
                make_durable_directory(self._fs, self.base_path)
                flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                self._fs.close(self._fs.open(keep, flags, 0o600))
        except OSError as error:
            raise WriteError(
                path=self.base_path / ".gitkeep", operation="create", cause=error
            ) from error

    # ------------------------------------------------------------------------------- writing

    @SESSION_ERRORS.raised("session.session_id")
    def save(
        self,
        session: SessionContext,
        *,
        attachments: Mapping[str, bytes] | None = None,
        inherited: Mapping[str, bytes] | None = None,
    ) -> Path:
        """Store the session as it is in memory.

        Args:
            session: The session. If it was never saved (revision 0), it is created. Its `revision`
                goes up by one when, and only when, the save succeeds.
            attachments: At creation: files to put beside it, by name. They appear together with the
                session and are never changed.
            inherited: At creation: what a fork has from its parent, as `read_attachments` returns
                it.

        Returns:
            The path of its file.

        Raises:
            InvalidSession: It violates the rules of the domain; nothing was written.
            SessionConflict: Another worker saved, deleted or replaced it; nothing was written.
            SessionIdTaken: A new session's id is taken; nothing was written.
            InvalidStateTransition: The stored session has ended (a save without changes is
                ignored), or its state was set directly; nothing was written.
            SessionCorrupted: What is on disk can't be read, so it is not overwritten.
            SessionTooLarge: It would be too large to read back; nothing was written.
            WriteError: The file system refused; the old file is untouched, no temporary file is
                left, and `session` is unchanged. Only if the error says `visible` is the new
                content in place, and `session.revision` with it.
        """
        path = self._place(session.session_id)[1]
        writer = self._writer(session.session_id)
        with writer.lock:
            revision = session.revision + 1
            pieces = writer.encoder.encode(session, revision=revision)
            if sum(map(len, pieces)) > self._max_file_bytes:
                raise self._too_large(session, path, pieces)
            try:
                if session.revision == 0:
                    files = documents_beside(attachments, inherited)
                    self._create(session, pieces, files, path)
                elif not self._replace(session, pieces, path, writer):
                    return path
            except WriteError as error:
                if error.visible:
                    session.revision = revision
                raise
            session.revision = revision
            if session.unlike_its_digest:
                session.unlike_its_digest = False
            writer.head = pieces[0]
            writer.stamp = SessionStamp(revision, session.state, session.created_at)
        return path

    @SESSION_ERRORS.raised("session.session_id")
    def adopt(
        self, session: SessionContext, *, documents: Mapping[str, bytes] | None = None
    ) -> Path:
        """Create a session as another store has it; see `SessionRepository`.

        Returns:
            The path of its file.
        """
        require_saved(session)
        path = self.session_path(session.session_id)
        pieces = SessionEncoder().encode(session, revision=session.revision)
        if sum(map(len, pieces)) > self._max_file_bytes:
            raise self._too_large(session, path, pieces)
        files = documents_beside(None, documents)
        if not self._adopt_in_place(session, pieces, files, path):
            self._create(session, pieces, files, path)
        return path

    def _adopt_in_place(
        self,
        session: SessionContext,
        pieces: list[bytes | bytearray],
        files: Mapping[str, bytes],
        path: Path,
    ) -> bool:
        """Adopt a session whose workspace is already here; False if there is none.

        Its directory then has a workspace but no session file, which is written last: until that,
        the session does not exist.
        """
        fs, directory = self._fs, path.parent
        try:
            found = fs.stat(str(directory))
        except (FileNotFoundError, NotADirectoryError):
            return False  # or its parent is not a directory, which the creation reports
        except OSError as error:
            raise WriteError(path=path, operation="look for it", cause=error) from error
        if not stat.S_ISDIR(found.st_mode):
            raise SessionIdTaken(session.session_id, path=path)
        with DirectoryLock(fs, directory, timeout_s=self._lock_timeout_s) as lock:
            for name in (SESSION_FILE, *files):
                there = self._read_beneath(lock.fd, name, path)
                if there is not None and there != files.get(name):
                    raise SessionIdTaken(session.session_id, path=path)
            for name, data in files.items():
                *above, last = name.split("/")
                with directory_beneath(
                    fs, lock.fd, above, missing=Missing.MADE_DURABLY
                ) as folder_fd:
                    replace_file(fs, folder_fd, last, [data], path=directory / name)
            self._mark(session.session_id, lock.fd)
            replace_file(fs, lock.fd, SESSION_FILE, pieces, path=path, token=self._token)
        return True

    def _read_beneath(self, directory_fd: int, name: str, path: Path) -> bytes | None:
        """Read the named file in a session's directory, following no link; None if missing."""
        *above, last = name.split("/")
        try:
            with directory_beneath(self._fs, directory_fd, above) as folder_fd:
                return read_regular_file(
                    self._fs,
                    last,
                    path=path.parent / name,
                    max_bytes=self._max_file_bytes,
                    directory_fd=folder_fd,
                )
        except FileNotFoundError:
            return None

    def _too_large(
        self, session: SessionContext, path: Path, pieces: list[bytes | bytearray]
    ) -> SessionTooLarge:
        return SessionTooLarge(
            session.session_id,
            path=path,
            size_bytes=sum(map(len, pieces)),
            max_bytes=self._max_file_bytes,
        )

    def _replace(
        self,
        session: SessionContext,
        pieces: list[bytes | bytearray],
        path: Path,
        writer: _SessionWriter,
    ) -> bool:
        """Replace the stored session; False if there was nothing to write."""
        lock = DirectoryLock(self._fs, path.parent, timeout_s=self._lock_timeout_s)
        try:
            lock.acquire()
        except FileNotFoundError:
            raise _conflict(session.session_id, path, session.revision, None) from None
        previous_fd = -1
        try:
            try:
                previous_fd = self._fs.open(SESSION_FILE, READ_FLAGS, dir_fd=lock.fd)
            except FileNotFoundError:
                stored = None
            except OSError as error:
                raise WriteError(path=path, operation="read the old file", cause=error) from error
            else:
                stored = self._stamp(previous_fd, path, writer)
            if not self._is_to_be_written(session, stored, path):
                return False
            replace_file(
                self._fs,
                lock.fd,
                SESSION_FILE,
                pieces,
                path=path,
                previous_fd=previous_fd,
                token=self._token,
            )
            return True
        finally:
            lock.release()  # first, so that no save waits while the replaced file is freed
            if previous_fd >= 0:
                close_reader(self._fs, previous_fd)

    def _is_to_be_written(
        self, session: SessionContext, stored: SessionStamp | None, path: Path
    ) -> bool:
        """Return whether there is anything to write; raise unless it follows the stored session."""
        replaced = stored is not None and stored.created_at != session.created_at
        if stored is None or replaced or stored.revision != session.revision:
            raise _conflict(session.session_id, path, session.revision, stored, replaced=replaced)
        if not stored.state.is_terminal:
            if session.state is not stored.state:
                session.require_follows(stored.state)
            return True
        ended = self._load(path)
        if ended is None or not session.only_describes(ended):
            if ended == session:
                return False
            session.require_follows(stored.state)
        return True

    def _stamp(
        self, fd: int, path: Path, writer: _SessionWriter | None = None
    ) -> SessionStamp | None:
        """Read the stamp of the session on disk."""
        try:
            if not stat.S_ISREG(self._fs.fstat(fd).st_mode):
                raise SessionCorrupted(path=path, faults=["it is not a regular file"])
            data = self._fs.pread(fd, HEAD_BYTES, 0)
            known = writer is not None and writer.stamp and data.startswith(writer.head)
            stamp = writer.stamp if writer is not None and known else decode_stamp(data)
        except OSError as error:
            raise WriteError(path=path, operation="read the old file", cause=error) from error
        if stamp is not None:
            return stamp
        session = self._load(path)
        if session is None:
            return None
        return SessionStamp(session.revision, session.state, session.created_at)

    def _create(
        self,
        session: SessionContext,
        pieces: list[bytes | bytearray],
        attachments: Mapping[str, bytes],
        path: Path,
    ) -> None:
        self.ensure_directory()
        try:
            with DirectoryLock(
                self._fs, self.base_path, timeout_s=self._lock_timeout_s, follow=True
            ) as base:
                self._build(
                    base.fd, session.session_id, {**attachments, SESSION_FILE: pieces}, path
                )
        except FileNotFoundError as error:  # the base was removed meanwhile
            raise WriteError(path=path, operation="lock the base", cause=error) from error
        from ..prune import prepare_root  # loaded only by creations and deletions

        prepare_root(self.base_path)

    def _build(
        self,
        base_fd: int,
        session_id: str,
        files: Mapping[str, bytes | Sequence[bytes | bytearray]],
        path: Path,
    ) -> None:
        """Build a session's directory under a hidden name, then rename it, if its own name is free.

        Args:
            base_fd: The base, open and locked.
            session_id: The session.
            files: Its files, its own one last.
            path: The path of its own file, for messages.
        """
        fs = self._fs
        try:
            fs.stat(session_id, dir_fd=base_fd)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise WriteError(path=path, operation="look for it", cause=error) from error
        else:
            raise SessionIdTaken(session_id, path=path)
        self._sweep(base_fd)
        new = NewDirectory(fs, base_fd, f"{_STAGING}{self._token()}")
        try:
            with new:
                for name, content in files.items():
                    *above, last = name.split("/")
                    with directory_beneath(
                        fs, new.fd, above, missing=Missing.MADE_DURABLY
                    ) as folder_fd:
                        create_file(
                            fs,
                            folder_fd,
                            last,
                            [content] if isinstance(content, bytes) else content,
                        )
                        if above:
                            fs.fsync(folder_fd)
                new.sync()
                self._mark(session_id, new.fd)  # first, so that it is own from its first moment
                new.appear(session_id)
        except OSError as error:
            raise WriteError(
                path=path, operation=new.step, cause=error, visible=new.visible
            ) from error

    def _mark(self, session_id: str, directory_fd: int) -> None:
        """Mark a session as own; a failure is logged, and the session exists without the mark.

        It works then, but has to be adopted once another process takes it up.
        """
        try:
            self._own.add(session_id, self._fs.fstat(directory_fd).st_ino)
        except OSError as error:
            _log.warning(
                "store.not_marked_own",
                session_id=session_id,
                path=str(self._own.folder),
                error=str(error),
            )

    def is_own(self, session_id: str) -> bool:
        """Return whether a session is this person's own; see `SessionPlaces`."""
        self.session_path(session_id)
        return self._own.has(session_id)

    @SESSION_ERRORS.raised("session_id")
    def make_own(self, session_id: str, *, shown: str | None = None) -> None:
        """Mark an existing session as this person's own; see `SessionPlaces`."""
        directory = self._place(session_id)[0]
        try:
            with DirectoryLock(self._fs, directory, timeout_s=self._lock_timeout_s) as lock:
                if shown is not None and shown != self.fingerprint(session_id):
                    raise ChangedSinceShown(session_id, where=self.where)
                self._own.adopt(session_id, self._fs.fstat(lock.fd).st_ino)
        except OSError as error:
            raise WriteError(path=self._own.folder, operation="mark it", cause=error) from error

    def _sweep(self, base_fd: int) -> None:
        """Finish what killed creations and deletions left; failures are logged and skipped."""
        try:
            left = sweep_discarded(self._fs, base_fd, parent=self.base_path)
        except OSError as error:
            _log.warning("store.sweep_failed", path=str(self.base_path), error=str(error))
            return
        for remaining in left:
            _log.warning("store.sweep_failed", path=str(remaining.path), error=str(remaining))

    def _load(
        self, path: Path, session_id: str | None = None, encoder: SessionEncoder | None = None
    ) -> SessionContext | None:
        """Read a session, and remember its text for the next save."""
        encoder = SessionEncoder()
        session = super()._load(path, session_id, encoder)
        if session is not None:
            self._writer(session.session_id, encoder)
            if STEPS_KEY in session.workflow_state:
                from .steps.tail import with_tail  # most sessions have no log of steps

                with_tail(self, session)
        return session

    def _head(self, name: str, beginning: bytes) -> SessionHead | None:
        head = super()._head(name, beginning)
        if head is not None and may_have_steps(beginning):
            from .steps.tail import head_with_tail  # most sessions have no log of steps

            return head_with_tail(self, head, beginning)
        return head

    def _writer(self, session_id: str, encoder: SessionEncoder | None = None) -> _SessionWriter:
        """Return the writer of a session; with `encoder`, one that continues from what was read."""
        with self._mutex:
            writer = self._writers.get(session_id)
            if writer is None or encoder is not None:
                writer = _SessionWriter(encoder if encoder is not None else SessionEncoder())
                self._writers[session_id] = writer
                if len(self._writers) > _CACHED_WRITERS:
                    self._writers.popitem(last=False)
            self._writers.move_to_end(session_id)
            return writer

    @SESSION_ERRORS.raised("session_id")
    def delete(
        self, session_id: str, *, expected_revision: int | None = None, missing_ok: bool = True
    ) -> bool:
        """Delete a session, with its workspace and everything in its directory.

        Only a directory that holds a regular `session.yaml`, readable or not, is deleted. It must
        not be in use: the locks of a run, an execution and a save are tried without waiting;
        another removal is waited for. The deletion is in the base's audit log before it starts.
        What `exists` reports but is not such a directory, as a symbolic link, is refused as `load`
        refuses it.

        Args:
            session_id: The session.
            expected_revision: If given, only a session at this revision is deleted.
            missing_ok: Whether a missing session is no error.

        Returns:
            Whether it existed; if not, nothing was changed.

        Raises:
            InvalidSessionId: The id is malformed (a harmless name counts as missing).
            SessionNotFound: There is no such session, and `missing_ok` is False.
            SessionUnreadable: Something else is in its place, or in that of its file; nothing was
                changed.
            SessionInUse: It is in use; nothing was changed.
            SessionConflict: It is at another revision; nothing was deleted.
            WriteError: It could not be announced or removed from the base; nothing was deleted.
            RemovalError: It is out of the base, but some of it could not be deleted.
        """
        if names_no_session(session_id):
            if not missing_ok:
                raise SessionNotFound(session_id, path=self.base_path)
            return False
        path = self.session_path(session_id)

        def check(directory_fd: int) -> None:
            if expected_revision is not None:
                self._require_revision(directory_fd, session_id, path, expected_revision)
            keep_untold(
                self.base_path,
                self._fs,
                directory_fd,
                is_own=lambda: self.is_own(session_id),
                load=lambda: self._feed_source().load(session_id),
            )

        from .events.receiver_files import keep_untold
        from .store.session_deletion import SessionDeletion

        deletion = SessionDeletion(
            base=self.base_path,
            outside=self.outside(self._clock),
            lock_timeout_s=self._lock_timeout_s,
            sweep=self._sweep,
        )
        deleted = deletion.delete(session_id, check)
        if deleted:
            self.forget([session_id])
            return True
        if self.exists(session_id):
            super()._load(path, session_id)  # raises with what is there instead
        if not missing_ok:
            raise SessionNotFound(session_id, path=self.base_path)
        return False

    def delete_ended(self, *, days: float, dry_run: bool, clock: Clock) -> list[str]:
        """Delete the sessions that ended more than `days` ago; see `SessionManager`.

        Args:
            days: The minimum time since they ended, in days, 0 or more.
            dry_run: Delete nothing, only return what would be deleted.
            clock: The time.

        Returns:
            The ids of the sessions that were, or would be, deleted, oldest first.

        Raises:
            PruneRootUnusable: The base can't be read or written; nothing was deleted.
        """
        from .prune_target import clean_up

        deleted = clean_up(self.base_path, days=days, dry_run=dry_run, outside=self.outside(clock))
        if not dry_run:
            self.forget(deleted)
        return deleted

    def idle(self, session_id: str, guards: Sequence[str]) -> AbstractContextManager[None]:
        """Lock a session against everything that could work in it; saves stay possible.

        Args:
            session_id: The session.
            guards: What processes that work in its directory lock there.

        Raises:
            SessionInUse: A run or an execution is at work in it.
            WriteError: The system refused.
        """
        from .store.session_deletion import held_idle

        return held_idle(self._fs, self.session_directory(session_id), session_id, guards)

    def keep_step(self, session_id: str, name: str, data: bytes) -> None:
        """Store a step of the session's runs, atomically and durably.

        Raises:
            InvalidSessionId: The id is malformed.
            ValueError: `name` is not a valid step name.
            WriteError: The file system refused, or there is no such session.
        """
        from .store.session_folders import keep_step

        keep_step(self._fs, self._step_path(session_id, name), data)

    # ------------------------------------------------------------------------------- streams

    @SESSION_ERRORS.raised("session_id")
    def read_attachments(self, session_id: str) -> dict[str, bytes]:
        """Return all files beside a session but its own, and its streams; see `SessionRepository`.

        A stream is included up to its last acknowledged append, in the format of every store.
        """
        kept = super().read_attachments(session_id)
        kept.update(self._streamed().export(self.session_directory(session_id)))
        return kept

    @SESSION_ERRORS.raised("session_id")
    def append_entries(
        self,
        session_id: str,
        stream: str,
        entries: Sequence[NewEntry],
        *,
        expected: StreamMark | None = None,
    ) -> StreamMark:
        """Add entries to a stream, all or none; see `SessionStreams`."""
        return self._streamed().append(self._log_of(session_id, stream), entries, expected)

    @SESSION_ERRORS.raised("session_id")
    def replace_entries(
        self,
        session_id: str,
        stream: str,
        entries: Sequence[NewEntry],
        *,
        expected: StreamMark | None = None,
    ) -> None:
        """Replace all entries of a stream; see `SessionStreams`."""
        self._streamed().replace(self._log_of(session_id, stream), entries, expected)

    @SESSION_ERRORS.raised("session_id")
    def read_entries(
        self, session_id: str, stream: str, *, since: StreamMark | None = None
    ) -> StreamPart:
        """Return the entries of a stream, in order; see `SessionStreams`."""
        return self._streamed().read(self._log_of(session_id, stream), since)

    @SESSION_ERRORS.raised("session_id")
    def read_last(self, session_id: str, stream: str, count: int) -> StreamTail:
        """Return the last entries of a stream; see `SessionStreams`."""
        return self._streamed().read_last(self._log_of(session_id, stream), count)

    @SESSION_ERRORS.raised("session_id")
    def read_bodies(
        self, session_id: str, stream: str, entries: Sequence[StreamEntry], *, mark: StreamMark
    ) -> list[bytes]:
        """Return the bodies of entries, in the order given; see `SessionStreams`."""
        return self._streamed().bodies(self._log_of(session_id, stream), entries, mark)

    def _log_of(self, session_id: str, stream: str) -> Path:
        path = self._logs.get((session_id, stream))
        if path is None:
            path = self._place(session_id)[0] / STREAMS / stream_file(stream)
            if len(self._logs) >= _CACHED_LOGS:
                self._logs.clear()
            self._logs[session_id, stream] = path
        return path

    def _streamed(self) -> FileStreams:
        if self._streams is None:
            from .store.session_streams import FileStreams  # most processes don't need it

            self._streams = FileStreams(self._fs, self._lock_timeout_s, self._state_in, self._token)
        return self._streams

    def _feed_source(self) -> CountedSource:
        """Return a separate reader: no later save builds on what feeds read."""
        return SessionReader(self.base_path, fs=self._fs, max_file_bytes=self._max_file_bytes)

    def _state_in(self, directory_fd: int, directory: Path) -> SessionState | None:
        """Return the state of the session in an open directory, or None if it holds none."""
        stamp = self._stamp_in(directory_fd, directory / SESSION_FILE)
        return None if stamp is None else stamp.state

    def _stamp_in(self, directory_fd: int, path: Path) -> SessionStamp | None:
        """Read the stamp of the session in an open directory; None if it holds none."""
        try:
            fd = self._fs.open(SESSION_FILE, READ_FLAGS, dir_fd=directory_fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ReadError(path=path, cause=error) from error
        try:
            return self._stamp(fd, path)
        finally:
            close_reader(self._fs, fd)

    def outside(self, clock: Clock) -> PruneEnvironment:
        """Return the environment of a prune of this base, with the given clock."""
        from ..prune import PruneEnvironment

        return PruneEnvironment(fs=self._fs, clock=clock, token=self._token)

    def forget(self, session_ids: Sequence[str]) -> None:
        """Discard cached data of sessions that were deleted elsewhere."""
        with self._mutex:
            for session_id in session_ids:
                self._writers.pop(session_id, None)
        self._own.remove(session_ids)

    def _require_revision(
        self, directory_fd: int, session_id: str, path: Path, expected: int
    ) -> None:
        stored = self._stamp_in(directory_fd, path)
        if stored is None or stored.revision != expected:
            raise _conflict(session_id, path, expected, stored)


def _conflict(
    session_id: str,
    path: Path,
    expected: int,
    stored: SessionStamp | None,
    *,
    replaced: bool = False,
) -> SessionConflict:
    return SessionConflict(
        session_id,
        path=path,
        expected_revision=expected,
        actual_revision=None if stored is None else stored.revision,
        replaced=replaced,
    )


class _SessionWriter:
    """The writer of one session: its encoder, whose pieces are valid until its next use.

    Attributes:
        head: The start of the file as last written.
        stamp: The stamp in it; None until something was written.
    """

    __slots__ = ("encoder", "head", "lock", "stamp")

    def __init__(self, encoder: SessionEncoder) -> None:
        self.encoder = encoder
        self.lock = RLock()
        self.head: bytes | bytearray = b""
        self.stamp: SessionStamp | None = None
