"""Session streams on disk: one log each, in a folder of the session's directory.

An append holds the lock that saves and deletions hold, so that it goes only to a session that
exists and has not ended; readers need no lock. A log is replaced atomically, as any file is.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Final

from ...base.event_log import get_logger
from ...base.files import DirectoryLock, FileSystem, ReadError, WriteError, hand_over, replace_file
from ...base.files.append_log import APPEND_FLAGS, AppendLog
from ...base.files.filesystem import DIRECTORY_FLAGS, READ_FLAGS, close_reader
from ...base.files.log_frames import LogMark, encode_log
from ...base.files.safe_path import Missing, directory_beneath, is_bare, open_directory
from ..domain.session_states import InvalidStateTransition, SessionState
from ..errors import SessionNotFound, StreamMoved
from ..session_layout import SESSION_FILE, STREAMS
from ..stream_port import NewEntry, StreamEntry, StreamMark, StreamPart, StreamTail, require_count
from ..views.session_names import STREAM_SUFFIX, require_room

_REMEMBERED: Final = 128
_NEW_LOG: Final = APPEND_FLAGS | os.O_CREAT | os.O_EXCL

_Look = tuple[int, int, int, int, int]

_log = get_logger("agentforge.store")


class FileStreams:
    """The streams under one base. A `stream_port.SessionStreams` that takes the paths of logs.

    Args:
        fs: The file system.
        lock_timeout_s: How long to wait for a save or another append, in seconds.
        state_in: Returns the state of the session in an open directory, None if there is none.
        token: Returns new random text for hidden names.
    """

    def __init__(
        self,
        fs: FileSystem,
        lock_timeout_s: float,
        state_in: Callable[[int, Path], SessionState | None],
        token: Callable[[], str],
    ) -> None:
        self.fs = fs
        self.lock_timeout_s = lock_timeout_s
        self.state_in = state_in
        self.token = token
        self._marks: OrderedDict[Path, LogMark] = OrderedDict()
        self._looks: dict[Path, tuple[_Look, StreamMark]] = {}
        self._states: dict[Path, tuple[_Look, SessionState]] = {}
        self._mutex = Lock()

    def append(
        self, path: Path, entries: Sequence[NewEntry], expected: StreamMark | None
    ) -> StreamMark:
        """Add entries; see `SessionStreams.append_entries`."""
        require_room(entries)
        if not entries:
            return expected or StreamMark()
        with self._locked(path) as (directory_fd, folder_fd):
            fd = self._opened(folder_fd, path)
            try:
                log = AppendLog(self.fs, fd, path)
                self._require(log, path, expected)
                if log.is_empty:  # its creator may have been killed before it synced the names
                    self._sync_names(directory_fd, folder_fd, path)
                mark, torn = log.append(entries, since=self._known(path))
            finally:
                close_reader(self.fs, fd)
        if torn:
            _log.warning("stream.unfinished_append_dropped", path=str(path), bytes=torn)
        self._remember(path, mark)
        return _of_stream(mark)

    def replace(self, path: Path, entries: Sequence[NewEntry], expected: StreamMark | None) -> None:
        """Replace all entries; see `SessionStreams.replace_entries`."""
        with self._locked(path) as (directory_fd, folder_fd):
            if expected is not None:
                with self._log(path) as log:
                    self._require(log, path, expected)
            if is_bare(folder_fd):
                self._sync_names(directory_fd, folder_fd, path)
            replace_file(
                self.fs, folder_fd, path.name, [encode_log(entries)], path=path, token=self.token
            )

    def read(self, path: Path, since: StreamMark | None) -> StreamPart:
        """Return the entries of a stream; see `SessionStreams.read_entries`."""
        look = self._look(path)
        if since is not None and look is not None and self._looks.get(path) == (look, since):
            return StreamPart([], since, anew=False)
        with self._log(path) as log:
            if log is None:
                return StreamPart([], StreamMark(), anew=True)
            part = log.read(None if since is None else _of_log(since))
        self._remember(path, part.mark)
        if look is not None:  # from before the read, so that later additions are seen next time
            self._looks[path] = (look, _of_stream(part.mark))
        return StreamPart(part.entries, _of_stream(part.mark), anew=part.anew)

    def read_last(self, path: Path, count: int) -> StreamTail:
        """Return the last entries of a stream; see `SessionStreams.read_last`."""
        require_count(count)
        with self._log(path) as log:
            if log is None:
                return StreamTail([], StreamMark(), whole=True)
            tail = log.read_last(count)
        self._remember(path, tail.mark)
        return StreamTail(tail.entries, _of_stream(tail.mark), tail.whole)

    def bodies(self, path: Path, entries: Sequence[StreamEntry], mark: StreamMark) -> list[bytes]:
        """Return the bodies of entries; see `SessionStreams.read_bodies`."""
        with self._log(path) as log:
            found = None
            if log is not None:
                found = log.bodies(entries, _of_log(mark))
        if found is None:
            if not entries:
                return []
            raise _moved(path)
        return found

    def export(self, directory: Path) -> Mapping[str, bytes]:
        """Return the complete logs of a session, by name, in the format of every store."""
        try:
            names = sorted(name for name in os.listdir(directory / STREAMS) if name[:1] != ".")
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise ReadError(path=directory / STREAMS, cause=error) from error
        exported = {}
        for name in names:
            with self._log(directory / STREAMS / name) as log:
                if log is not None:
                    entries, mark, _ = log.read()
                    bodies = log.bodies(entries, mark) or []
                    heads = (entry.head for entry in entries)
                    exported[f"{STREAMS}/{name}"] = encode_log(zip(heads, bodies, strict=True))
        return exported

    # ------------------------------------------------------------------------------- one log

    def _require(self, log: AppendLog | None, path: Path, expected: StreamMark | None) -> None:
        """Raise if a log differs from what the caller read."""
        if expected is None:
            return
        found = LogMark()
        if log is not None:
            part = log.read(_of_log(expected))
            found = part.mark
        if _of_stream(found) != expected:
            raise _moved(path)

    @contextmanager
    def _locked(self, path: Path) -> Iterator[tuple[int, int]]:
        """Lock and open the directory of a writable session, and its streams' folder."""
        directory = path.parent.parent
        try:
            lock = DirectoryLock(self.fs, directory, timeout_s=self.lock_timeout_s).acquire()
        except FileNotFoundError:
            raise SessionNotFound(directory.name, path=directory.parent) from None
        try:
            state = self._state(lock.fd, path)
            if state is None:
                raise SessionNotFound(directory.name, path=directory.parent)
            if state.is_terminal:
                raise InvalidStateTransition(
                    session_id=directory.name, current_state=state, operation="append_entries"
                )
            try:
                with self._folder(lock.fd) as folder_fd:
                    yield lock.fd, folder_fd
            except OSError as error:
                raise WriteError(path=path, operation="open", cause=error) from error
        finally:
            lock.release()

    def _state(self, directory_fd: int, path: Path) -> SessionState | None:
        """Return a session's state; its file is read again only if it was written since."""
        try:
            look = _look_of(self.fs.stat(SESSION_FILE, dir_fd=directory_fd))
        except OSError:
            look = None  # opening it will show why
        known = self._states.get(path)
        if known is not None and known[0] == look:
            return known[1]
        state = self.state_in(directory_fd, path.parent.parent)
        if state is not None and look is not None:
            if len(self._states) >= _REMEMBERED:
                self._states.clear()
            self._states[path] = (look, state)
        return state

    @contextmanager
    def _folder(self, directory_fd: int) -> Iterator[int]:
        """Open the folder of a session's streams, which the first append creates."""
        try:
            fd = open_directory(self.fs, STREAMS, dir_fd=directory_fd)
        except FileNotFoundError:
            with directory_beneath(self.fs, directory_fd, [STREAMS], missing=Missing.MADE) as made:
                yield made
            return
        try:
            yield fd
        finally:
            close_reader(self.fs, fd)

    def _opened(self, folder_fd: int, path: Path) -> int:
        """Open a log to append to it; create it if it is missing."""
        try:
            return self.fs.open(path.name, APPEND_FLAGS, dir_fd=folder_fd)
        except FileNotFoundError:
            fd = self.fs.open(path.name, _NEW_LOG, 0o600, dir_fd=folder_fd)
            hand_over(self.fs, fd, folder_fd)
            return fd

    def _sync_names(self, directory_fd: int, folder_fd: int, path: Path) -> None:
        """Sync the names of the folder and the log, before the first entry is written."""
        try:
            self.fs.fsync(directory_fd)
            self.fs.fsync(folder_fd)
        except OSError as error:
            raise WriteError(path=path, operation="fsync of its folder", cause=error) from error

    @contextmanager
    def _log(self, path: Path) -> Iterator[AppendLog | None]:
        """Open a log to read it, following no link; yield None if it is missing."""
        fd = -1
        try:
            directory_fd = self.fs.open(str(path.parent.parent), DIRECTORY_FLAGS)
            try:
                with directory_beneath(self.fs, directory_fd, [STREAMS]) as folder_fd:
                    fd = self.fs.open(path.name, READ_FLAGS, dir_fd=folder_fd)
            finally:
                close_reader(self.fs, directory_fd)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise ReadError(path=path, cause=error) from error
        try:
            yield None if fd < 0 else AppendLog(self.fs, fd, path)
        finally:
            if fd >= 0:
                close_reader(self.fs, fd)

    # ------------------------------------------------------------------------------- remembering

    def _look(self, path: Path) -> _Look | None:
        """Return a value that differs once a log was written; None if it can't be examined."""
        try:
            return _look_of(self.fs.stat(str(path)))
        except OSError:
            return None  # opening it will show why

    def _known(self, path: Path) -> LogMark | None:
        with self._mutex:
            return self._marks.get(path)

    def _remember(self, path: Path, mark: LogMark) -> None:
        """Remember how far a log was checked, so that appends need no check first."""
        with self._mutex:
            self._marks[path] = mark
            self._marks.move_to_end(path)
            if len(self._marks) > _REMEMBERED:
                self._looks.pop(self._marks.popitem(last=False)[0], None)


def _look_of(found: os.stat_result) -> _Look:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _moved(path: Path) -> StreamMoved:
    name = path.name.removesuffix(STREAM_SUFFIX)
    return StreamMoved(path.parent.parent.name, stream=name)


def _of_log(mark: StreamMark) -> LogMark:
    end, checksum, last = mark
    return LogMark(end, checksum, last - 1)  # a stream's mark starts at zeros


def _of_stream(mark: LogMark) -> StreamMark:
    return StreamMark(mark.end, mark.checksum, mark.last + 1)
