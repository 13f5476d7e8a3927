"""Question sessions on disk: one directory each, appearing whole, changed under a lock.

    {base}/
        {session id}/
            request.json       what is asked; never changes
            status.json        where it stands
            answers.json       what was answered; made once, and what makes a session completed
            status.json.lock   who is changing it, for moments
            answers.json.lock  the same, while answers are written

A session appears in the base whole (built under a hidden name, then renamed) and disappears whole.
Answers are on disk before the status says so; whoever reads in between, or after a kill in between,
sees a completed session.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from attrs import evolve, frozen

from ..durable import (
    DirectoryLock,
    DurableError,
    FileSystem,
    LockTimeout,
    OsFileSystem,
    ReadError,
    WriteError,
    discard_tree,
    make_durable_directory,
    read_regular_file,
    replace_file,
    sweep_discarded,
    try_lock,
    unlock,
)
from ..durable.directory_store import NewDirectory
from ..durable.file_lock import has_name
from ..durable.filesystem import DIRECTORY_FLAGS, close_reader
from ..durable.process_owner import Processes
from ..event_log import get_logger
from ..prune import prepare_root
from . import wire
from .domain import (
    QuestionSession,
    SessionAnswers,
    SessionRequest,
    StatusRecord,
    check_session_id,
    is_session_id,
)
from .errors import (
    AtomicReadError,
    AtomicWriteError,
    QuestionError,
    SessionBusy,
    SessionCorrupted,
    SessionExists,
    SessionNotFound,
)
from .locks import LOCK_FILE, session_lock
from .rules import answer_faults
from .session_status import SessionStatus

DEFAULT_BASE_DIR: Final = Path(".agentforge/questions")
REQUEST_FILE: Final = "request.json"
STATUS_FILE: Final = "status.json"
ANSWERS_FILE: Final = "answers.json"
MAX_FILE_BYTES: Final = 8 * 1024 * 1024
"""Largest file of a session that is written or read."""
READ_PAUSES_S: Final = (0.08, 0.16, 0.32)
"""The pauses before a read is tried again, in seconds. Together they are more than half a second:
so long may another program take that writes a file in place, bit by bit."""
STAGING_PREFIX: Final = ".new-"
STAGING_GRACE_S: Final = 60.0
"""How old a hidden new session must be, in seconds, to be looked at as left behind."""

_BASE_FLAGS: Final = DIRECTORY_FLAGS & ~os.O_NOFOLLOW
_Value = TypeVar("_Value")
_log = get_logger("agentforge.questions")


class _Unsettled(Exception):
    """What was read is not whole, as while another program is writing it."""

    def __init__(self, faults: list[str], path: Path) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults
        self.path = path


@frozen
class Signature:
    """By what a session's directory is seen to have changed, without reading it.

    Attributes:
        inode: The directory.
        changed_ns: When a name in it, or status.json, changed last, in nanoseconds since the
            epoch.
        status: The inode, the size and the time of status.json, which another program may write in
            place; None if there is none.
    """

    inode: int
    changed_ns: int
    status: tuple[int, int, int] | None = None


class LockedSession:
    """A session whose lock is held: what can be read and written of it.

    Attributes:
        session_id: The session.
    """

    def __init__(self, store: QuestionStore, session_id: str, path: Path, fd: int) -> None:
        self._store = store
        self._path = path
        self._fd = fd
        self.session_id = session_id

    def read(self) -> QuestionSession:
        """Read it; see `QuestionStore.read`."""
        return self._store.read_at(self._fd, self.session_id)

    def read_record(self) -> StatusRecord:
        """Read status.json alone.

        Raises:
            SessionCorrupted: It can't be read as a status.
        """
        return self._store.read_record_at(self._fd, self.session_id)

    def write_answers(self, answers: SessionAnswers) -> None:
        """Make answers.json; the session is completed from then on.

        Raises:
            AtomicWriteError: It was not made.
        """
        self._store.write(self._fd, self._path / ANSWERS_FILE, wire.answers_document(answers))

    def write_read_at(self, answers: SessionAnswers) -> None:
        """Note in answers.json when the answers were fetched; all else in it stays.

        Raises:
            AtomicWriteError: It is as it was.
        """
        self._rewrite(ANSWERS_FILE, wire.answers_document(answers), only="lastReadAt")

    def _rewrite(self, name: str, document: dict[str, Any], *, only: str | None = None) -> None:
        """Replace a file; what it holds that is not in `document` stays, in its order."""
        path = self._path / name
        kept: dict[str, Any] = {}
        with suppress(wire.WireError, ReadError):
            data = self._store.read_file(self._fd, path)
            kept = {} if data is None else wire.decode(data, name)
        changed = {only: document[only]} if only is not None and kept else document
        self._store.write(self._fd, path, {**kept, **changed})

    def write_record(self, record: StatusRecord) -> None:
        """Replace status.json; what other programs keep in it stays.

        Raises:
            AtomicWriteError: It is as it was.
        """
        self._rewrite(STATUS_FILE, wire.status_document(record))

    def read_request(self) -> SessionRequest:
        """Read request.json alone.

        Raises:
            SessionCorrupted: It can't be read as a request.
        """
        return self._store.read_request_at(self._fd, self.session_id)


class QuestionStore:
    """Keeps question sessions under one directory. May be shared between threads.

    Guarantees: what was written survives the death of the process and a power failure when the
    call returns; when it raises, the file is as it was. A reader sees a whole session or none. No
    id leads outside the base and no symbolic link in it is followed.
    """

    def __init__(
        self,
        base_dir: Path | str | None = None,
        *,
        fs: FileSystem | None = None,
        token: Callable[[], str] | None = None,
        lock_timeout_s: float = 10.0,
        lock_grace_s: float = 2.0,
        processes: Processes | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Name the place; nothing is read or made yet.

        Args:
            base_dir: Where the sessions are; `.agentforge/questions` by default.
            fs: The file system; the real one by default.
            token: Gives fresh random texts for hidden names.
            lock_timeout_s: How long a change waits for another one, in seconds.
            lock_grace_s: How long a lock file of an unknown owner is respected, in seconds.
            processes: The machine's processes.
            monotonic: The clock that waits are read from.
            sleep: How to pause.
            wall: The file system's clock, in seconds since the epoch.
        """
        self.base_dir = Path(base_dir) if base_dir is not None else DEFAULT_BASE_DIR
        self.fs: FileSystem = fs if fs is not None else OsFileSystem()
        self.token = token if token is not None else lambda: secrets.token_hex(8)
        self._lock_timeout_s = lock_timeout_s
        self._lock_grace_s = lock_grace_s
        self._processes = processes
        self._monotonic = monotonic
        self._sleep = sleep
        self.wall = wall

    # --------------------------------------------------------------------------------- places

    def path(self, session_id: str) -> Path:
        """Return where a session is, or would be.

        Raises:
            InvalidSessionId: It is no id.
        """
        return self.base_dir / check_session_id(session_id)

    def ensure_base(self) -> None:
        """Make the base directory, mode 0700, if it is missing.

        Raises:
            AtomicWriteError: The system refused.
        """
        try:
            make_durable_directory(self.fs, self.base_dir)
        except WriteError as error:
            raise _write_error(error) from error

    def names(self) -> list[str]:
        """Return the ids of the sessions that are there, readable or not, sorted.

        Raises:
            AtomicReadError: The base is there and can't be read.
        """
        try:
            fd = self.fs.open(str(self.base_dir), _BASE_FLAGS)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise AtomicReadError(path=self.base_dir, cause=error) from error
        try:
            return sorted(name for name in self.fs.listdir(fd) if is_session_id(name))
        except OSError as error:
            raise AtomicReadError(path=self.base_dir, cause=error) from error
        finally:
            close_reader(self.fs, fd)

    def signature(self, session_id: str) -> Signature | None:
        """Return by what a change of the session can be seen; None if there is no such session."""
        path = f"{self.base_dir}/{session_id}"
        try:
            directory = self.fs.stat(path)
        except OSError:
            return None
        try:
            status = self.fs.stat(f"{path}/{STATUS_FILE}")
        except OSError:
            return Signature(directory.st_ino, directory.st_mtime_ns)
        return Signature(
            directory.st_ino,
            max(directory.st_mtime_ns, status.st_mtime_ns),
            (status.st_ino, status.st_size, status.st_mtime_ns),
        )

    def is_settled(self, signature: Signature, *, for_s: float = 0.1) -> bool:
        """Return whether a later change would be seen: the clock of file times ticks every few ms.

        Args:
            signature: What was seen.
            for_s: How long ago the last change must be, in seconds.
        """
        return abs(self.wall() * 1e9 - signature.changed_ns) > for_s * 1e9

    # -------------------------------------------------------------------------------- reading

    def read(self, session_id: str, *, pauses: Sequence[float] = READ_PAUSES_S) -> QuestionSession:
        """Read a session as it stands.

        A file that is missing or torn is read again, since another program may be writing it.

        Args:
            session_id: The session.
            pauses: How long to wait before each further try, in seconds.

        Raises:
            InvalidSessionId: It is no id.
            SessionNotFound: There is none.
            SessionCorrupted: Its files are not what they should be.
            AtomicReadError: The system would not read them.
        """
        with self._opened(session_id) as fd:
            return self.read_at(fd, session_id, pauses=pauses)

    def read_record(self, session_id: str) -> StatusRecord:
        """Read the status of a session; answers on disk count. Raises as `read()` does."""
        with self._opened(session_id) as fd:
            record = self.read_record_at(fd, session_id)
            if record.status is SessionStatus.PENDING and self._has_answers(fd):
                return evolve(record, status=SessionStatus.COMPLETED)
            return record

    def _has_answers(self, fd: int) -> bool:
        try:
            self.fs.stat(ANSWERS_FILE, dir_fd=fd)
        except OSError:
            return False
        return True

    @contextmanager
    def _opened(self, session_id: str) -> Iterator[int]:
        path = self.path(session_id)
        try:
            fd = self.fs.open(str(path), DIRECTORY_FLAGS)
        except FileNotFoundError:
            raise SessionNotFound(session_id, path=self.base_dir) from None
        except NotADirectoryError as error:
            raise SessionCorrupted(session_id, path=path, faults=["it is no directory"]) from error
        except OSError as error:
            raise AtomicReadError(path=path, cause=error, session_id=session_id) from error
        try:
            yield fd
        finally:
            close_reader(self.fs, fd)

    def read_at(
        self, fd: int, session_id: str, *, pauses: Sequence[float] = READ_PAUSES_S
    ) -> QuestionSession:
        """Read the session whose directory is open; see `read()`."""
        return self._retrying(fd, session_id, lambda: self._read_once(fd, session_id), pauses)

    def read_record_at(self, fd: int, session_id: str) -> StatusRecord:
        """Read status.json of the session whose directory is open; see `read()`."""
        path = self.path(session_id) / STATUS_FILE
        return self._retrying(
            fd, session_id, lambda: self._part(fd, path, wire.read_status, session_id)
        )

    def read_request_at(self, fd: int, session_id: str) -> SessionRequest:
        """Read request.json of the session whose directory is open; see `read()`."""
        path = self.path(session_id) / REQUEST_FILE
        return self._retrying(
            fd, session_id, lambda: self._part(fd, path, wire.read_request, session_id)
        )

    def _retrying(
        self,
        fd: int,
        session_id: str,
        read: Callable[[], _Value],
        pauses: Sequence[float] = READ_PAUSES_S,
    ) -> _Value:
        for pause in (*pauses, None):
            try:
                return read()
            except _Unsettled as error:
                if pause is None:
                    raise self._unusable(fd, session_id, error) from error
            except ReadError as error:
                if error.cause is None:  # a link, a FIFO, too large: not read for what it is
                    raise SessionCorrupted(
                        session_id, path=error.path, faults=[str(error)]
                    ) from error
                if pause is None or isinstance(error.cause, PermissionError):
                    raise AtomicReadError(
                        path=error.path, cause=error.cause, session_id=session_id
                    ) from error
            self._sleep(pause)
        raise AssertionError("unreachable")  # pragma: no cover

    def _unusable(self, fd: int, session_id: str, error: _Unsettled) -> QuestionError:
        if not self._is_there(fd, self.path(session_id)):
            return SessionNotFound(session_id, path=self.base_dir)
        return SessionCorrupted(session_id, path=error.path, faults=error.faults)

    def _is_there(self, fd: int, path: Path) -> bool:
        try:
            return has_name(self.fs, fd, str(path))
        except OSError:
            return False

    def _read_once(self, fd: int, session_id: str) -> QuestionSession:
        """Read the files once: the status first, since answers are written before it says so."""
        path = self.path(session_id)
        record = self._part(fd, path / STATUS_FILE, wire.read_status, session_id)
        request = self._part(fd, path / REQUEST_FILE, wire.read_request, session_id)
        answers = None
        if record.status in {SessionStatus.PENDING, SessionStatus.COMPLETED}:
            answers = self._optional_part(fd, path / ANSWERS_FILE, wire.read_answers, session_id)
        if record.status is SessionStatus.PENDING and _is_of_another_call(answers, record, request):
            answers = None  # they answer nothing that was asked here
        if answers is None:
            if record.status is SessionStatus.COMPLETED:
                raise _Unsettled(["answers.json: it is missing"], path / ANSWERS_FILE)
        elif faults := answer_faults(answers.answers, request.questions):
            raise _Unsettled([f"answers.json: {one}" for one in faults], path / ANSWERS_FILE)
        return QuestionSession(request=request, record=record, answers=answers)

    def _part(
        self, fd: int, path: Path, read: Callable[[bytes], _Value], session_id: str
    ) -> _Value:
        found = self._optional_part(fd, path, read, session_id)
        if found is None:
            raise _Unsettled([f"{path.name}: it is missing"], path)
        return found

    def _optional_part(
        self, fd: int, path: Path, read: Callable[[bytes], _Value], session_id: str
    ) -> _Value | None:
        data = self.read_file(fd, path)
        if data is None:
            return None
        try:
            found = read(data)
        except wire.WireError as error:
            raise _Unsettled(list(error.faults), path) from error
        owner = getattr(found, "session_id", session_id)
        if owner != session_id:
            raise _Unsettled([f"{path.name}.sessionId: it is {owner!r}"], path)
        return found

    def read_file(self, fd: int, path: Path) -> bytes | None:
        """Read a file of a session whose directory is open; None if there is none.

        Raises:
            agentforge_sessions.durable.ReadError: It can't be read.
        """
        return read_regular_file(
            self.fs, path.name, path=path, max_bytes=MAX_FILE_BYTES, directory_fd=fd
        )

    # -------------------------------------------------------------------------------- writing

    def write(self, fd: int, path: Path, document: dict[str, Any]) -> None:
        """Replace a file of a session whose lock is held: verified, atomically, durably.

        Raises:
            AtomicWriteError: The file is as it was.
        """
        try:
            replace_file(self.fs, fd, path.name, [wire.encode(document)], path=path, verify=True)
        except WriteError as error:
            raise _write_error(error, session_id=path.parent.name) from error

    @contextmanager
    def locked(
        self,
        session_id: str,
        *,
        files: Sequence[str] = (LOCK_FILE,),
        timeout_s: float | None = None,
    ) -> Iterator[LockedSession]:
        """Hold the right to change a session.

        Args:
            session_id: The session.
            files: The lock files that keep other programs away; `locks.ANSWERING` for who writes
                answers.
            timeout_s: How long to wait for others, in seconds; the store's own limit if None.

        Raises:
            InvalidSessionId: It is no id.
            SessionNotFound: There is none.
            SessionBusy: Others held it for too long.
            AtomicWriteError: It can't be locked.
        """
        path = self.path(session_id)
        lock = session_lock(
            self.fs,
            path,
            session_id,
            token=self.token,
            files=files,
            timeout_s=self._lock_timeout_s if timeout_s is None else timeout_s,
            grace_s=self._lock_grace_s,
            processes=self._processes,
            monotonic=self._monotonic,
            sleep=self._sleep,
        )
        try:
            lock.acquire()
        except FileNotFoundError:
            raise SessionNotFound(session_id, path=self.base_dir) from None
        except LockTimeout as error:
            raise SessionBusy(session_id, holder=error.holder, timeout_s=error.timeout_s) from error
        except WriteError as error:
            raise _write_error(error, session_id=session_id) from error
        except OSError as error:
            raise AtomicWriteError(
                path=path, operation="lock", cause=error, session_id=session_id
            ) from error
        try:
            yield LockedSession(self, session_id, path, lock.fd)
        finally:
            lock.release()

    @contextmanager
    def base_locked(self) -> Iterator[int]:
        """Hold the right to add and remove sessions; yields the base, open.

        Raises:
            FileNotFoundError: The base is not there.
            SessionBusy: Others held it for too long.
            AtomicWriteError: It can't be locked.
        """
        lock = DirectoryLock(
            self.fs,
            self.base_dir,
            timeout_s=self._lock_timeout_s,
            follow=True,
            monotonic=self._monotonic,
            sleep=self._sleep,
        )
        try:
            lock.acquire()
        except LockTimeout as error:
            raise SessionBusy(
                str(self.base_dir), holder=None, timeout_s=self._lock_timeout_s
            ) from error
        except WriteError as error:
            raise _write_error(error) from error
        try:
            yield lock.fd
        finally:
            unlock(self.fs, lock.fd)  # a child forked meanwhile has a copy of it
            lock.release()

    def publish(
        self, request: SessionRequest, record: StatusRecord, *, check: Callable[[], None]
    ) -> None:
        """Make a session appear, whole.

        Args:
            request: What is asked.
            record: Its first status.
            check: Called under the base's lock, just before it appears; may refuse by raising.

        Raises:
            SessionExists: There is one of this id.
            AtomicWriteError: It could not be made; nothing is there.
        """
        self.ensure_base()
        session_id = request.session_id
        target = self.path(session_id)
        staging = f"{STAGING_PREFIX}{self.token()}"
        new: NewDirectory | None = None
        try:
            with ExitStack() as opened:
                base_fd = self.fs.open(str(self.base_dir), _BASE_FLAGS)
                opened.callback(close_reader, self.fs, base_fd)
                new = NewDirectory(self.fs, base_fd, staging)
                opened.enter_context(new).lock()
                for name, document in (
                    (REQUEST_FILE, wire.request_document(request)),
                    (STATUS_FILE, wire.status_document(record)),
                ):
                    new.step = f"write of {name}"
                    path = self.base_dir / staging / name
                    content = wire.encode(document)
                    replace_file(self.fs, new.fd, name, [content], path=path, verify=True)
                with self.base_locked() as locked_fd:
                    check()
                    new.step = "rename"
                    with suppress(FileNotFoundError):
                        self.fs.stat(session_id, dir_fd=locked_fd)
                        raise SessionExists(session_id, path=target)
                    new.appear(session_id, parent_fd=locked_fd)
        except WriteError as error:
            raise _write_error(error, session_id=session_id) from error
        except OSError as error:
            raise AtomicWriteError(
                path=target,
                operation="open the base" if new is None else new.step,
                cause=error,
                visible=new is not None and new.visible,
                session_id=session_id,
            ) from error
        prepare_root(self.base_dir)

    def discard(self, base_fd: int, session_id: str) -> None:
        """Remove a session whole; the base and the session are locked by the caller.

        Raises:
            durable.DurableError: It is still there, or is out of sight and not empty yet.
        """
        discard_tree(self.fs, base_fd, session_id, parent=self.base_dir, token=self.token)

    def sweep(self, base_fd: int) -> list[str]:
        """Remove what killed processes left under hidden names; the base is locked by the caller.

        Returns:
            What could not be removed, in words.
        """
        problems = [str(error) for error in sweep_discarded(self.fs, base_fd, parent=self.base_dir)]
        for name in self.fs.listdir(base_fd):
            if name.startswith(STAGING_PREFIX) and self._is_left_behind(base_fd, name):
                try:
                    discard_tree(self.fs, base_fd, name, parent=self.base_dir, token=self.token)
                except DurableError as error:
                    problems.append(str(error))
        return problems

    def _is_left_behind(self, base_fd: int, name: str) -> bool:
        try:
            fd = self.fs.open(name, DIRECTORY_FLAGS, dir_fd=base_fd)
        except OSError:
            return False
        try:
            if self.wall() - self.fs.fstat(fd).st_mtime < STAGING_GRACE_S:
                return False
            return try_lock(self.fs, fd)  # its maker holds it while it lives
        except OSError:
            return False
        finally:
            close_reader(self.fs, fd)


def _is_of_another_call(
    answers: SessionAnswers | None, record: StatusRecord, request: SessionRequest
) -> bool:
    asked = record.call_id or request.call_id
    return answers is not None and None not in {asked, answers.call_id} and answers.call_id != asked


def _write_error(error: WriteError, *, session_id: str | None = None) -> AtomicWriteError:
    return AtomicWriteError(
        path=error.path,
        operation=error.operation,
        cause=error.cause,
        visible=error.visible,
        session_id=session_id,
    )
