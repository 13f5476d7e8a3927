"""Question sessions on disk: one directory each, appearing complete, changed under a lock.

    {base}/
        {session id}/
            request.json       the questions; never changes
            status.json        the status
            answers.json       the answers; written once, which completes the session
            status.json.lock   who is changing it, for moments
            answers.json.lock  the same, while answers are written

A session appears in the base complete (built under a hidden name, then renamed) and disappears as a
whole. Answers are on disk before the status says so; a reader in between, or after a kill in
between, sees a completed session.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from ...base.event_log import get_logger
from ...base.files import (
    DirectoryLock,
    FileSystem,
    LockTimeout,
    OsFileSystem,
    WriteError,
    make_durable_directory,
    replace_file,
    unlock,
)
from ...base.files.atomic_file import random_token
from ...base.files.directory_store import NewDirectory
from ...base.files.filesystem import DIRECTORY_FLAGS, close_reader
from ...base.files.pid_lock import PidLock
from ...base.files.process_owner import Processes
from ...base.question import QuestionError
from ...prune import PruneEnvironment, prepare_root
from ..disk_errors import (
    QUESTION_ERRORS,
    AtomicReadError,
    AtomicWriteError,
    SessionBusy,
    SessionCorrupted,
)
from ..domain import (
    CleanupResult,
    QuestionSession,
    SessionRequest,
    StatusRecord,
    ValidationReport,
    check_session_id,
    is_session_id,
)
from ..errors import QuestionNotAdopted, SessionExists, SessionNotFound, TooManySessions
from ..repository import OnChange, WaitingLimit
from ..rules import QuestionsConfig
from ..session_status import SessionStatus
from ..waiting.directory_feed import DirectoryFollower, Signature
from ..waiting.directory_watcher import Watcher, process_watcher
from ..waiting.waiting import POLL_S
from .documents import STATUS_FILE, find_issues, missing_session, new_documents
from .prune_target import cleanup
from .session_files import (
    ANSWERING,
    DEFAULT_BASE_DIR,
    LOCK_FILE,
    READ_PAUSES_S,
    STAGING_PREFIX,
    FileDocuments,
    OwnQuestions,
    lock_session,
)

_BASE_FLAGS: Final = DIRECTORY_FLAGS & ~os.O_NOFOLLOW
_SETTLED_NS: Final = 100_000_000
"""A file that changed less than this ago may change again under the same time: the kernel's clock
for files moves in steps of up to 10 ms (HZ=100).
"""

_log = get_logger("agentforge.questions")


class QuestionStore:
    """Stores question sessions under one directory. A `repository.QuestionRepository`.

    Guarantees: when a call returns, its writes survive the death of the process and a power
    failure; when it raises, the file is unchanged. A reader sees a complete session or none. No id
    leads outside the base and no symbolic link in it is followed.

    Attributes:
        look_s: The interval of a wait's own looks, in seconds.
        looks_block: Whether a look may take longer than an event loop can spare; it never does.
    """

    look_s = POLL_S
    looks_block = False

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
        watcher: Watcher | None = None,
    ) -> None:
        """Remember the directory; no I/O yet.

        Args:
            base_dir: The directory of the sessions; `.agentforge/questions` by default.
            fs: The file system; the real one by default.
            token: Returns fresh random texts for hidden names.
            lock_timeout_s: How long a change waits for another one, in seconds.
            lock_grace_s: How long a lock file of an unknown owner is respected, in seconds.
            processes: The machine's processes.
            monotonic: The clock for waits.
            sleep: Pauses.
            wall: The file system's clock, in seconds since the epoch.
            watcher: Reports changes; one for the whole process by default.
        """
        self.base_dir = Path(base_dir) if base_dir is not None else DEFAULT_BASE_DIR
        self.fs: FileSystem = fs if fs is not None else OsFileSystem()
        self.token = token if token is not None else random_token
        self._lock_timeout_s = lock_timeout_s
        self._own = OwnQuestions(self.base_dir)
        self._lock = partial(
            PidLock,
            timeout_s=lock_timeout_s,
            grace_s=lock_grace_s,
            token=self.token,
            processes=processes,
            monotonic=monotonic,
            sleep=sleep,
        )
        self._monotonic = monotonic
        self._sleep = sleep
        self.wall = wall
        self._watcher = watcher if watcher is not None else process_watcher()
        self._ended: set[str] = set()
        self._mutex = threading.Lock()  # for the cache; never held while the disk is read

    @property
    def where(self) -> str:
        """The directory, for messages and other programs."""
        return str(self.base_dir)

    def path(self, session_id: str) -> Path:
        """Return the path of a session, which may not exist.

        Raises:
            InvalidSessionId: It is no id.
        """
        return self.base_dir / check_session_id(session_id)

    def prepare(self) -> None:
        """Create the base directory, mode 0700, if it is missing.

        Raises:
            AtomicWriteError: The system refused.
        """
        try:
            make_durable_directory(self.fs, self.base_dir)
        except WriteError as error:
            raise QUESTION_ERRORS.of(error) from error

    def names(self) -> list[str]:
        """Return the ids of this person's existing sessions, readable or not, sorted.

        Raises:
            AtomicReadError: The base exists and can't be read.
        """
        names = self._all_names()
        foreign = self._own.foreign(names)
        return [one for one in names if one not in foreign]

    def foreign(self) -> list[str]:
        """Return the ids of the sessions that came with a repository; see `QuestionRepository`."""
        return sorted(self._own.foreign(self._all_names()))

    def read_foreign(self, session_id: str) -> QuestionSession:
        """Read a session, whoever owns it; raises as `read` does otherwise."""
        return self._read(session_id, READ_PAUSES_S)

    def make_own(self, shown: QuestionSession) -> None:
        """Adopt a session that came with a repository; see `QuestionRepository`."""
        session_id = shown.session_id
        path = self.path(session_id)
        with lock_session(self._lock, self.fs, path, (LOCK_FILE,)) as fd:
            if self._files(path, fd).read() != shown:
                raise QuestionNotAdopted(session_id, where=self.where, changed=True)
            try:
                self._own.adopt(session_id)
            except OSError as error:
                raise AtomicWriteError(
                    path=path, operation="mark it", cause=error, session_id=session_id
                ) from error

    def _require_own(self, session_id: str) -> None:
        if self._own.foreign([check_session_id(session_id)]):
            raise QuestionNotAdopted(session_id, where=self.where)

    def _all_names(self) -> list[str]:
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
        """Return what shows a change of the session; None if there is no such session."""
        return None if self._own.foreign([session_id]) else self._signature(session_id)

    def _signature(self, session_id: str) -> Signature | None:
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

    def read_changed(
        self, session_id: str, seen: Hashable | None
    ) -> tuple[Signature | None, QuestionSession | None]:
        """Read a session, unless its signature is the one that was seen."""
        signature = self.signature(session_id)
        if signature is not None and signature == seen:
            return signature, None
        return signature, self.read(session_id)

    def is_settled(self, signature: Signature, *, for_s: float = 0.1) -> bool:
        """Return whether a later change would be seen: the clock of file times ticks every few ms.

        Args:
            signature: The signature that was seen.
            for_s: How long ago the last change must be, in seconds.
        """
        return abs(self.wall() * 1e9 - signature.changed_ns) > for_s * 1e9

    def read(self, session_id: str, *, pauses: Sequence[float] = READ_PAUSES_S) -> QuestionSession:
        """Read a session in its current state.

        A file that is missing or torn is read again, since another program may be writing it.

        Args:
            session_id: The session.
            pauses: The pause before each further attempt, in seconds.

        Raises:
            InvalidSessionId: It is no id.
            SessionNotFound: There is no such session.
            SessionCorrupted: Its files are invalid.
            AtomicReadError: The system refused to read them.
        """
        self._require_own(session_id)
        return self._read(session_id, pauses)

    def _read(self, session_id: str, pauses: Sequence[float]) -> QuestionSession:
        with self._opened(session_id, pauses) as files:
            return files.read()

    def read_record(self, session_id: str) -> StatusRecord:
        """Read the status of a session; answers on disk count. Raises as `read()` does."""
        self._require_own(session_id)
        with self._opened(session_id) as files:
            return files.current_record()

    @contextmanager
    def _opened(
        self, session_id: str, pauses: Sequence[float] = READ_PAUSES_S
    ) -> Iterator[FileDocuments]:
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
            yield self._files(path, fd, pauses)
        finally:
            close_reader(self.fs, fd)

    def _files(self, path: Path, fd: int, pauses: Sequence[float] = READ_PAUSES_S) -> FileDocuments:
        return FileDocuments(self.fs, path, fd, sleep=self._sleep, pauses=pauses)

    def read_many(self, session_ids: Iterable[str]) -> dict[str, QuestionSession | QuestionError]:
        """Read sessions once, without a pause; see `QuestionRepository`."""
        found: dict[str, QuestionSession | QuestionError] = {}
        wanted = list(session_ids)
        foreign = self._own.foreign(wanted)
        for session_id in wanted:
            if session_id in foreign:
                found[session_id] = QuestionNotAdopted(session_id, where=self.where)
                continue
            try:
                found[session_id] = self._read(session_id, ())
            except SessionNotFound:
                continue
            except QuestionError as error:
                found[session_id] = error
        return found

    def find_issues(self, session_id: str) -> ValidationReport:
        """Return every fault of a session's files."""
        path = self.path(session_id)
        try:
            fd = self.fs.open(str(path), DIRECTORY_FLAGS)
        except FileNotFoundError:
            return missing_session(session_id)
        except OSError as error:
            issue = f"Session directory can't be opened: {error.strerror}"
            return ValidationReport(session_id=session_id, issues=[issue])
        try:
            return find_issues(session_id, self._files(path, fd).load)
        finally:
            close_reader(self.fs, fd)

    @contextmanager
    def locked(self, session_id: str, *, answering: bool = False) -> Iterator[FileDocuments]:
        """Hold the right to change a session; each write is on disk at once.

        Args:
            session_id: The session.
            answering: Whether answers will be written, which takes a second lock file.

        Raises:
            InvalidSessionId: It is no id.
            SessionNotFound: There is no such session.
            SessionBusy: Others held the lock for too long.
            AtomicWriteError: It can't be locked.
        """
        self._require_own(session_id)
        names = ANSWERING if answering else (LOCK_FILE,)
        path = self.path(session_id)
        with lock_session(self._lock, self.fs, path, names) as fd:
            yield self._files(path, fd)

    @contextmanager
    def base_locked(self) -> Iterator[int]:
        """Hold the right to add and remove sessions; yield the open base.

        Raises:
            FileNotFoundError: The base does not exist.
            SessionBusy: Others held the lock for too long.
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
            raise QUESTION_ERRORS.of(error) from error
        try:
            yield lock.fd
        finally:
            unlock(self.fs, lock.fd)  # a child forked meanwhile has a copy of it
            lock.release()

    def publish(self, request: SessionRequest, record: StatusRecord, *, room: WaitingLimit) -> None:
        """Make a session appear, complete.

        Args:
            request: The request.
            record: Its first status.
            room: How many may wait; checked under the base's lock, just before it appears.

        Raises:
            SessionExists: A session of this id exists.
            TooManySessions: The maximum number waits already.
            AtomicWriteError: It could not be created; nothing is left of it.
        """
        self.prepare()
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
                for name, content in new_documents(request, record).items():
                    new.step = f"write of {name}"
                    path = self.base_dir / staging / name
                    replace_file(self.fs, new.fd, name, [content], path=path, verify=True)
                with self.base_locked() as locked_fd:
                    self._check_room(room)
                    new.step = "rename"
                    with suppress(FileNotFoundError):
                        self.fs.stat(session_id, dir_fd=locked_fd)
                        raise SessionExists(session_id, where=self.where, path=target)
                    new.appear(session_id, parent_fd=locked_fd)
        except WriteError as error:
            raise QUESTION_ERRORS.of(error, session_id) from error
        except OSError as error:
            raise AtomicWriteError(
                path=target,
                operation="open the base" if new is None else new.step,
                cause=error,
                visible=new is not None and new.visible,
                session_id=session_id,
            ) from error
        prepare_root(self.base_dir)

    def _check_room(self, room: WaitingLimit) -> None:
        names = self.names()
        with self._mutex:
            self._ended.intersection_update(names)
        if len(names) < room.max_sessions:
            return
        waiting = sum(1 for name in names if self._waits(name, room))
        if waiting >= room.max_sessions:
            raise TooManySessions(waiting=waiting, max_sessions=room.max_sessions)

    def _waits(self, name: str, room: WaitingLimit) -> bool:
        with self._mutex:
            if name in self._ended:
                return False
        try:
            record = self.read_record(name)
        except QuestionError:
            return False
        if record.status is not SessionStatus.PENDING:
            with self._mutex:
                self._ended.add(name)
        return room.counts(record)

    # ------------------------------------------------------------------------------ all sessions

    def signatures(
        self,
        statuses: Collection[SessionStatus] | None = None,  # noqa: ARG002 (files must be read)
    ) -> dict[str, Signature]:
        """Return the signatures of all sessions; see `QuestionRepository`."""
        found = {name: self._signature(name) for name in self.names()}
        return {name: one for name, one in found.items() if one is not None}

    def change_mark(self) -> tuple[tuple[str, int, int], ...] | None:
        """Return a value that differs after any change of a session; see `QuestionRepository`.

        It costs one `stat` for each session.
        """
        marks = []
        newest = 0
        try:
            with os.scandir(self.base_dir) as entries:
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    marks.append((entry.name, status.st_ino, status.st_mtime_ns))
                    newest = max(newest, status.st_mtime_ns)
        except OSError:  # an entry disappeared meanwhile, or there is nothing
            return None
        return tuple(sorted(marks)) if self.wall() * 1e9 - newest > _SETTLED_NS else None

    def cleanup(self, config: QuestionsConfig, outside: PruneEnvironment) -> CleanupResult:
        """Delete sessions past their retention, by the prune engine; see `QuestionRepository`."""
        return cleanup(self.base_dir, config, outside)

    def watching(self, session_id: str, on_change: OnChange) -> AbstractContextManager[None]:
        """Report changes of a session; see `QuestionRepository`."""
        return self._watcher.watching(self.path(session_id), on_change)

    def following(self, on_change: OnChange, *, look_s: float) -> DirectoryFollower:
        """Follow the changes of all sessions; see `QuestionRepository`."""
        return DirectoryFollower(self, self._watcher, on_change, look_s)
