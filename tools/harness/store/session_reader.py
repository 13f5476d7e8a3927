"""Reads sessions from disk: one completely, or all of them by the heads of their files.

The module is long because all ways to read must agree on what a session is.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...base.errors import retyped
from ...base.event_log import get_logger
from ...base.files import (
    DurableError,
    FileLock,
    FileSystem,
    OsFileSystem,
    ReadError,
    read_regular_file,
)
from ...base.files.filesystem import DIRECTORY_FLAGS, READ_FLAGS, close_reader
from ...base.identifiers import is_session_id, names_no_session
from ..disk_errors import SESSION_ERRORS, STORE_ERRORS, SessionUnreadable
from ..errors import HarnessError, SessionCorrupted
from ..format.session_codec import (
    END_MARK,
    HEAD_BYTES,
    SessionEncoder,
    decode_goal,
    decode_head,
    decode_session,
)
from ..format.session_digest import NOTICE
from ..session_domain import InvalidSessionId, SessionContext, SessionState
from ..session_layout import (
    DEFAULT_BASE_PATH,
    MAX_FILE_BYTES,
    MAX_STEP_BYTES,
    RUN_LOCKS,
    SESSION_FILE,
    SNAPSHOTS,
    STEPS,
    STREAMS,
    WORKSPACE,
)
from ..views.session_head import SessionHead, SessionSummary, UnreadableSession
from ..views.session_names import ATTACHMENT, INHERITED, resolved

if TYPE_CHECKING:
    from ...base.search_words import SearchWords
    from ..events.receiver_files import ReceiverFiles
    from ..events.session_feed import CountedSource, PositionFeed
    from ..format.session_sieve import DocumentSieve
    from ..views.entry_events import EntryEvent
    from ..views.session_filter import SessionFilter
    from ..views.session_page import SessionCursor, SessionOrder, SessionPage

_CACHED_PLACES: Final = 1024

_log = get_logger("agentforge.store")


def read_head(fs: FileSystem, fd: int, session_id: str, size: int) -> SessionHead | None:
    """Read the head of an open session file.

    Args:
        fs: The file system.
        fd: The file.
        session_id: The session.
        size: The file's size.

    Returns:
        The head, or None if the file is not exactly as we write it.
    """
    return _head_in(_beginning(fs, fd, size), session_id)


def _beginning(fs: FileSystem, fd: int, size: int) -> bytes:
    """Read what contains the head; empty if the file does not end as we write it."""
    data = fs.pread(fd, HEAD_BYTES, 0)
    tail = data[-4:] if size == len(data) else fs.pread(fd, 4, max(size - 4, 0))
    return data if tail == END_MARK else b""


def _head_in(beginning: bytes, session_id: str) -> SessionHead | None:
    head = decode_head(beginning)
    return head if head is not None and head.session_id == session_id else None


class SessionReader:
    """Reads the sessions under one directory; changes nothing.

    A reader needs no lock: it sees a complete session or none. No id leads outside the base.

    Args:
        base_path: The sessions' directory; `.agentforge/sessions` by default.
        fs: The file system; the real one by default.
        max_file_bytes: The largest session file to read.
    """

    def __init__(
        self,
        base_path: Path | str | None = None,
        *,
        fs: FileSystem | None = None,
        max_file_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        self.base_path = Path(base_path) if base_path is not None else DEFAULT_BASE_PATH
        self._fs: FileSystem = fs if fs is not None else OsFileSystem()
        self._max_file_bytes = max_file_bytes
        self._places: dict[str, tuple[Path, Path]] = {}

    # ------------------------------------------------------------------------------- places

    @property
    def where(self) -> str:
        """The base, for messages."""
        return str(self.base_path)

    def where_is(self, session_id: str, name: str | None = None) -> str:
        """Return the path of a session's file, existing or not, for messages.

        Args:
            session_id: The session.
            name: A file beside its own; the session's own if None.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        directory, path = self._place(session_id)
        return str(path if name is None else directory / name)

    def reference(self, session_id: str) -> str:
        """Return the absolute path of a session's directory, existing or not.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        return str(self.session_directory(session_id).absolute())

    def session_path(self, session_id: str) -> Path:
        """Return the path of a session's file, existing or not.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        return self._place(session_id)[1]

    def _place(self, session_id: str) -> tuple[Path, Path]:
        """Return the cached paths of a session's directory and file."""
        place = self._places.get(session_id)
        if place is None:
            if not is_session_id(session_id):
                raise InvalidSessionId(session_id)
            directory = self.base_path / session_id
            place = (directory, directory / SESSION_FILE)
            if len(self._places) >= _CACHED_PLACES:
                self._places.clear()
            self._places[session_id] = place
        return place

    def session_directory(self, session_id: str) -> Path:
        """Return the path of a session's directory, existing or not.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        return self._place(session_id)[0]

    def workspace_path(self, session_id: str) -> Path:
        """Return the path of a session's workspace, existing or not.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        return self._place(session_id)[0] / WORKSPACE

    # -------------------------------------------------------------------------------- one session

    @SESSION_ERRORS.raised("session_id")
    def load(self, session_id: str) -> SessionContext | None:
        """Read a session.

        Returns:
            The session, or None if no session has this id.

        Raises:
            InvalidSessionId: The id is malformed (a harmless name counts as missing).
            SessionCorrupted: Its file is not a session; the error names every fault.
            SessionUnreadable: Its file is not a regular file, is too large, or the system refused.
        """
        if names_no_session(session_id):
            return None
        return self._load(self.session_path(session_id), session_id=session_id)

    def _load(
        self, path: Path, session_id: str | None = None, encoder: SessionEncoder | None = None
    ) -> SessionContext | None:
        data = self._read(path)
        if data is None:
            return None
        session = decode_session(data, path=path, encoder=encoder)
        faults = []
        if session.session_id != path.parent.name:
            faults.append(
                f"session_id: is {session.session_id}, but its directory is {path.parent.name}"
            )
        if session.revision < 1:
            faults.append("revision: is 0, and a session that was saved has 1 or more")
        if faults:
            raise SessionCorrupted(path=path, faults=faults, session_id=session_id)
        if session.unlike_its_digest:
            _log.warning("store.digest_differs", path=str(path), notice=NOTICE)
        return session

    def _read(self, path: Path) -> bytes | None:
        """Read a file of a session's directory, following no link to either of them."""
        directory = path.parent
        try:
            fd = self._fs.open(str(directory), DIRECTORY_FLAGS)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ENOTDIR and not directory.is_symlink():
                return None
            linked = error.errno in {errno.ENOTDIR, errno.ELOOP}
            reason = "it is a symbolic link, which is not followed" if linked else None
            raise ReadError(path=directory, cause=error, reason=reason) from error
        try:
            return read_regular_file(
                self._fs, path.name, path=path, max_bytes=self._max_file_bytes, directory_fd=fd
            )
        finally:
            close_reader(self._fs, fd)

    @SESSION_ERRORS.raised("session_id")
    def read_document(self, session_id: str) -> bytes | None:
        """Return the content of a session's file, or None if no session has this id.

        Raises:
            InvalidSessionId: The id is malformed.
            SessionUnreadable: It is not a regular file, is too large, or the system refused.
        """
        return self._read(self.session_path(session_id))

    @SESSION_ERRORS.raised("session_id")
    def read_attachment(self, session_id: str, name: str) -> bytes | None:
        """Read a file that was put beside the session at its creation.

        Returns:
            Its content, or None if no file has this name.

        Raises:
            InvalidSessionId: The id is malformed.
            ValueError: `name` is not a valid attachment name.
            ReadError: It is not a regular file, is too large, or the system refused.
        """
        directory = self.session_directory(session_id)
        if not re.fullmatch(ATTACHMENT, name):
            raise ValueError(f"{name!r} can't be the name of an attachment")
        return self._read(directory / name)

    @SESSION_ERRORS.raised("session_id")
    def read_attachments(self, session_id: str) -> dict[str, bytes]:
        """Return all files beside a session but its own, by name, including those one folder deep.

        Its streams, the workspace and its snapshots, and anything but regular files are excluded.

        Raises:
            InvalidSessionId: The id is malformed.
            ReadError: One is too large, or the system refused.
        """
        directory = self.session_directory(session_id)
        found: dict[str, bytes] = {}
        try:
            for entry in sorted(os.scandir(directory), key=lambda one: one.name):
                if entry.name in {SESSION_FILE, WORKSPACE, SNAPSHOTS, STREAMS}:
                    continue
                inside = os.scandir(entry) if entry.is_dir(follow_symlinks=False) else [entry]
                for file in inside:
                    name = os.path.relpath(file.path, directory)
                    if file.is_file(follow_symlinks=False) and re.fullmatch(INHERITED, name):
                        content = self._read(directory / name)
                        if content is not None:
                            found[name] = content
        except OSError as error:
            raise ReadError(path=directory, cause=error) from error
        return found

    def fingerprint(self, session_id: str) -> str:
        """Return a text that differs once one of its files has changed; see `SessionPlaces`."""
        import hashlib  # slow to load, for the hook

        directory, path = self._place(session_id)
        said = hashlib.sha256()
        try:
            said.update(b"%d" % self._fs.stat(str(directory)).st_ino)
        except OSError as error:
            raise ReadError(path=directory, cause=error) from error
        files = self.read_attachments(session_id)
        for name, data in [(SESSION_FILE, self._read(path) or b""), *files.items()]:
            said.update(os.fsencode(f"\0{name}\0{len(data)}\0") + data)
        return said.hexdigest()

    def read_step(self, session_id: str, name: str) -> bytes | None:
        """Return a step of the session's runs, or None if no step has this name.

        Raises:
            InvalidSessionId: The id is malformed.
            ValueError: `name` is not a valid step name.
            ReadError: It is not a regular file, is too large, or the system refused.
        """
        path = self._step_path(session_id, name)
        return read_regular_file(self._fs, os.fspath(path), path=path, max_bytes=MAX_STEP_BYTES)

    def step_names(self, session_id: str) -> list[str]:
        """Return the names of all steps of the session's runs, sorted.

        Raises:
            InvalidSessionId: The id is malformed.
            ReadError: The system refused.
        """
        folder = self.session_directory(session_id) / STEPS
        try:
            return sorted(name for name in os.listdir(folder) if name[:1] != ".")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ReadError(path=folder, cause=error) from error

    def _step_path(self, session_id: str, name: str) -> Path:
        folder = self.session_directory(session_id) / STEPS
        if not re.fullmatch(ATTACHMENT, name):
            raise ValueError(f"{name!r} can't be the name of a step")
        return folder / name

    @SESSION_ERRORS.raised("session_id")
    def exists(self, session_id: str) -> bool:
        """Return whether a session with this id exists, readable or not.

        What exists but can't be read is a session for `list_sessions` and `summaries` too, and
        `load` raises for it: anything else named `session.yaml`, a directory that can't be entered,
        a symbolic link in the directory's place. A directory without `session.yaml`, or a file in
        its place, is not a session for any of them.

        Raises:
            InvalidSessionId: The id is malformed.
            ReadError: The system refused.
        """
        if names_no_session(session_id):
            return False
        directory, path = self._place(session_id)
        try:
            self._fs.stat(str(path))
        except OSError as error:
            missing = isinstance(error, FileNotFoundError | NotADirectoryError)
            try:
                found = self._fs.stat(str(directory))
            except (FileNotFoundError, NotADirectoryError):
                return False
            except OSError as refused:
                raise ReadError(path=directory, cause=refused) from refused
            return stat.S_ISLNK(found.st_mode) or not missing
        return True

    def is_interrupted(self, session_id: str, state: SessionState) -> bool:
        """Return whether a run of the session was cut off: it is active, and no runner leads it.

        A session that no runner ever led is never interrupted: the program that leads it holds no
        lock. The check holds the lock for a moment; a runner that starts just then waits.

        Args:
            session_id: The session.
            state: The state in its file.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        return state is SessionState.ACTIVE and self._led(session_id) is False

    def is_led(self, session_id: str) -> bool:
        """Return whether a runner leads the session now; see `SessionRepository`.

        The check holds the lock for a moment; a runner that starts just then waits.
        """
        return self._led(session_id) is True

    def _led(self, session_id: str) -> bool | None:
        """Return whether a runner leads the session; None if none ever led it."""
        for name in RUN_LOCKS:
            lock = self.run_lock(session_id, name, timeout_s=0.0)
            try:
                lock.acquire()
            except FileNotFoundError:
                continue
            except DurableError:  # held, or this user may not open it
                return True
            lock.release()
            return False
        return None

    def close(self) -> None:
        """Release open resources: there are none."""

    def run_lock(self, session_id: str, name: str, *, timeout_s: float) -> FileLock:
        """Return the lock of a run, not yet acquired: on an attachment.

        Saves lock the session's directory, and the workspace belongs to the code that runs in it.

        Args:
            session_id: The session to run.
            name: The attachment.
            timeout_s: How long to wait for the current owner, in seconds.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        return FileLock(self._fs, self._place(session_id)[0] / name, timeout_s=timeout_s)

    def change_mark(self, session_id: str) -> Hashable | None:
        """Return a value that differs once the session's file has changed; None if unknown.

        Only the file's status is read.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        try:
            status = self._fs.stat(str(self.session_path(session_id)))
        except OSError:
            return None
        return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    # ----------------------------------------------------------------------------------- the feed

    def _feed_source(self) -> CountedSource:
        """Return the source of feeds, usable from any thread."""
        return self

    def open_feed(self, after: str | None = None, *, session_id: str | None = None) -> PositionFeed:
        """Return the feed of all sessions, or of one, from a position on; see `SessionFeeds`."""
        from ..events.session_feed import open_feed

        return open_feed(self._feed_source(), after, session_id)

    def end_of_feed(self) -> str:
        """Return the position after everything stored now; see `SessionFeeds`."""
        from ..events.session_feed import end_of_feed

        return end_of_feed(self._feed_source())

    def entry_events(self, session_id: str, after: int) -> list[EntryEvent] | None:
        """Return a session's events after this many entries; see `SessionFeeds`."""
        from ..events.session_feed import entry_events

        return entry_events(self._feed_source(), session_id, after)

    def receivers(self) -> list[str]:
        """Return the names of the receivers with saved state; see `SessionFeeds`."""
        from ..events.receiver_files import receiver_names

        return receiver_names(self.base_path)

    def receiver(self, name: str) -> ReceiverFiles:
        """Return an event receiver, stored beside the sessions; see `SessionFeeds`."""
        from ..events.receiver_files import ReceiverFiles

        return ReceiverFiles(self.base_path, name, self._fs)

    # ------------------------------------------------------------------------------- all sessions

    def list_sessions(self) -> list[str]:
        """Return the ids of all sessions, readable or not, sorted.

        Raises:
            ReadError: The base exists but can't be read.
        """
        return [name for name, _ in self._names() if self.exists(name)]

    @STORE_ERRORS.raised()
    def _names(self) -> list[tuple[str, bool]]:
        """Return the sorted ids of directories and links in the base, and whether it is a link."""
        try:
            with os.scandir(self.base_path) as entries:
                names = [
                    (entry.name, entry.is_symlink())
                    for entry in entries
                    if is_session_id(entry.name)
                    and (entry.is_dir(follow_symlinks=False) or entry.is_symlink())
                ]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ReadError(path=self.base_path, cause=error) from error
        return sorted(names)

    def summaries(
        self, wanted: SessionFilter | None = None
    ) -> Iterator[SessionSummary | UnreadableSession]:
        """Yield the sessions by the heads of their files, sorted by id.

        The cost per session does not grow with its history: a few kilobytes are read. One that
        can't be read is always yielded, as `UnreadableSession`; one that is deleted meanwhile is
        skipped.

        Args:
            wanted: Only matching sessions; all by default.

        Raises:
            ReadError: The base exists but can't be read.
        """
        return self._fitting(wanted, self._summary)

    def _fitting(
        self,
        wanted: SessionFilter | None,
        look: Callable[[str, str], SessionSummary | UnreadableSession | None],
    ) -> Iterator[SessionSummary | UnreadableSession]:
        """Yield the matching sessions; `look` finds each by its id and its file."""
        base = os.fspath(self.base_path)
        for name, linked in self._names():
            file = f"{base}/{name}/{SESSION_FILE}"
            found = self._careful_summary(name) if linked else look(name, file)
            if found is not None and (wanted is None or self._fits(found, wanted)):
                yield found

    def _fits(self, found: SessionSummary | UnreadableSession, wanted: SessionFilter) -> bool:
        if isinstance(found, UnreadableSession):
            return True
        return wanted.fits(found.head) and (
            wanted.goal is None or self._fits_goal(found.session_id, wanted)
        )

    def page(
        self,
        wanted: SessionFilter | None = None,
        *,
        order: SessionOrder | None = None,
        limit: int,
        after: SessionCursor | None = None,
    ) -> SessionPage:
        """Return a page of the matching sessions, in order; this reads the head of each.

        Args:
            wanted: Only matching sessions; all by default.
            order: The order; the last changed first if None.
            limit: The page's maximum size, 1 or more.
            after: The end of the previous page; None for the first page.

        Raises:
            InvalidSession: `limit` is out of range.
            InvalidCursor: `after` is from a page with another order or filter.
            ReadError: The base exists but can't be read.
        """
        from ..views.session_page import SessionOrder, page_of  # slow to load

        order = SessionOrder.LAST_CHANGED if order is None else order
        return page_of(self.summaries(wanted), wanted=wanted, order=order, limit=limit, after=after)

    def candidates(
        self, words: SearchWords, wanted: SessionFilter | None = None
    ) -> Iterator[SessionSummary | UnreadableSession]:
        """Yield the sessions that may contain words, the last changed first.

        Each file is read completely once, before the first session is yielded, and decoded only if
        it may contain the words.

        Args:
            words: The words.
            wanted: Only matching sessions; all by default.

        Raises:
            ReadError: The base exists but can't be read.
        """
        from ..format.session_sieve import DocumentSieve
        from ..views.session_page import SessionOrder, in_order

        sieve = DocumentSieve(words)
        held: list[SessionSummary] = []
        for found in self._fitting(wanted, lambda name, file: self._sifted(name, file, sieve)):
            if isinstance(found, UnreadableSession):
                yield found
            else:
                held.append(found)
        yield from in_order(held, SessionOrder.LAST_CHANGED)

    def _sifted(
        self, name: str, file: str, sieve: DocumentSieve
    ) -> SessionSummary | UnreadableSession | None:
        """Return a session whose file passes the sieve; None if it does not."""
        try:
            document = self._document(file)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            document = b""
        if document.endswith(END_MARK):
            if not sieve.lets_through(document):
                return None
            head = self._head(name, document[:HEAD_BYTES])
            if head is not None:
                return SessionSummary(head, file, len(document))
        return self._careful_summary(name)

    def _document(self, file: str) -> bytes:
        """Read a session's complete file; empty if it may not be read."""
        fd = self._fs.open(file, READ_FLAGS)
        try:
            status = self._fs.fstat(fd)
            regular = stat.S_ISREG(status.st_mode) and status.st_size <= self._max_file_bytes
            return self._fs.pread(fd, status.st_size, 0) if regular else b""
        finally:
            close_reader(self._fs, fd)

    def _fits_goal(self, name: str, wanted: SessionFilter) -> bool:
        """Return whether a session's goal, which comes after its head, matches."""
        try:
            data = self._read(self.session_path(name))
            return data is not None and wanted.fits_goal(decode_goal(data, path=Path(name)))
        except (ReadError, SessionCorrupted):
            return False  # it can't be read past its head, and so has no goal to match

    def _summary(self, name: str, file: str) -> SessionSummary | UnreadableSession | None:
        fs = self._fs
        try:
            fd = fs.open(file, READ_FLAGS)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            return self._careful_summary(name)
        try:
            status = fs.fstat(fd)
            regular = stat.S_ISREG(status.st_mode) and status.st_size <= self._max_file_bytes
            beginning = _beginning(fs, fd, status.st_size) if regular else b""
        except OSError:
            return self._careful_summary(name)
        finally:
            close_reader(fs, fd)
        head = self._head(name, beginning)
        if head is None:
            return self._careful_summary(name)
        return SessionSummary(head, file, status.st_size)

    def _head(self, name: str, beginning: bytes) -> SessionHead | None:
        """Return the head of a session, given its file's beginning; None to read it completely."""
        return _head_in(beginning, name)

    def _careful_summary(self, name: str) -> SessionSummary | UnreadableSession | None:
        """Read a complete session because its head is not as we write it."""
        path = self.session_path(name)
        try:
            session = self._load(path, session_id=name)
            if session is None:
                return None
            size = self._fs.stat(str(path)).st_size
            return SessionSummary(SessionHead.of(session), str(path), size)
        except FileNotFoundError:
            return None
        except SessionCorrupted as error:
            return UnreadableSession(name, path, error)
        except (ReadError, OSError) as error:
            refused = error if isinstance(error, ReadError) else ReadError(path=path, cause=error)
            unreadable = retyped(refused, SessionUnreadable, session_id=name)
            return UnreadableSession(name, path, unreadable)
        except HarnessError as error:  # the log of its steps
            fault = SessionCorrupted(path=path, faults=[str(error).rstrip(".")], session_id=name)
            return UnreadableSession(name, path, fault)

    def resolve(self, shortened: str) -> str:
        """Return the one id that `shortened` is, begins, ends or is part of.

        Args:
            shortened: An id, or a part of one. A complete id wins over ids that contain it, a
                beginning over an end, an end over a middle.

        Raises:
            InvalidSessionId: It can't be part of an id.
            SessionNotFound: It matches no id.
            AmbiguousId: It matches several ids.
        """
        return resolved(shortened, self.list_sessions, where=self.where)
