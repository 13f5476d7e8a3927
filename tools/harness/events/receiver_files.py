"""Delivery state of event receivers, as files beside the sessions of a base.

    {base_path}/.told/NAME/
        cursor-{inode}                 the state of the receiver, replaced atomically
        left-{inode}-{session_id}      undelivered events of a removed session

The directory itself is locked. File names carry its inode, so that a copy of it, as a repository
may contain one, is not taken for state: the receiver then starts over.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from ...base.errors import AgentForgeError
from ...base.event_log import get_logger
from ...base.files import (
    AtomicFileWriter,
    DirectoryLock,
    FileSystem,
    LockTimeout,
    ReadError,
    WriteError,
    make_durable_directory,
    read_regular_file,
    replace_file,
)
from ...base.files.atomic_file import random_token, temporary_name
from ...base.files.filesystem import DIRECTORY_FLAGS, close_reader
from ...base.files.regular_file import create_file
from ...base.identifiers import is_session_id
from ..feed_port import MOST_LEFT, MOST_REMOVED, LeftEvent, ReceiverState, is_chosen
from ..session_domain import SessionContext
from ..session_layout import SESSION_FILE
from ..views.entry_events import events_after, first_own, is_event_id
from .session_feed import Passed, decode_positions

FOLDER: Final = ".told"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX_BYTES: Final = 1 << 26
_IGNORE: Final = b"*\n"

_log = get_logger("agentforge.feed")


class ReceiverFiles:
    """A receiver's state, stored beside the sessions of a base. A `feed_port.Receiver`.

    Args:
        base: The sessions' directory.
        name: The receiver's name.
        fs: The file system.

    Raises:
        ValueError: `name` is not a valid receiver name.
    """

    def __init__(self, base: Path, name: str, fs: FileSystem) -> None:
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"{name!r} is no name of a receiver")
        self._directory = base / FOLDER / name
        self._fs = fs
        self._held_fd = -1

    @property
    def where(self) -> str:
        """The directory that holds the state."""
        return str(self._directory)

    @contextmanager
    def held(self, *, timeout_s: float = 0.0) -> Iterator[bool]:
        """Lock the receiver against other processes; see `feed_port.Receiver`."""
        self._make_directory()
        lock = DirectoryLock(self._fs, self._directory, timeout_s=timeout_s)
        try:
            lock.acquire()
        except LockTimeout:
            yield False
            return
        self._held_fd = lock.fd
        try:
            yield True
        finally:
            self._held_fd = -1
            lock.release()

    def _make_directory(self) -> None:
        for one in (self._directory.parent, self._directory):
            if one.is_symlink():  # a clone may bring a link, and nothing is written where it leads
                raise WriteError(path=one, operation="follow the link")
        if self._directory.is_dir():
            return
        make_durable_directory(self._fs, self._directory)
        ignore = self._directory.parent / ".gitignore"
        if not ignore.exists():  # delivery state does not belong in a repository
            with AtomicFileWriter(ignore, fs=self._fs) as file:
                file.write(_IGNORE)

    def read(self) -> bytes | None:
        """Return the saved state, or None; see `feed_port.Receiver`."""
        inode = self._inode()
        return None if inode is None else self._file(f"cursor-{inode:x}")

    def keep(self, data: bytes) -> None:
        """Save the delivery state; see `feed_port.Receiver`."""
        name = f"cursor-{self._own_inode():x}"
        replace_file(self._fs, self._held_fd, name, [data], path=self._directory / name)

    def left(self) -> dict[str, list[LeftEvent]]:
        """Return the undelivered events of removed sessions; see `feed_port.Receiver`."""
        inode = self._inode()
        if inode is None:
            return {}
        found = {}
        begin = f"left-{inode:x}-"
        for name in sorted(self._names()):
            session_id = name.removeprefix(begin)
            if name.startswith(begin) and is_session_id(session_id):
                data = self._file(name)
                with suppress(ValueError, TypeError, KeyError):
                    found[session_id] = _decoded(data or b"[]")
        return found

    @property
    def is_full(self) -> bool:
        """Whether so many events of removed sessions wait that no more are saved."""
        return len(self._names()) > MOST_REMOVED

    def leave(self, session_fd: int, session_id: str, events: list[LeftEvent]) -> None:
        """Save the undelivered events of a session that is about to be removed.

        The file is built in the session's directory, which the caller has locked: a partial file
        from a killed process is removed with the session, or by its next save.

        Raises:
            WriteError: The system refused.
        """
        fs, temporary = self._fs, temporary_name(SESSION_FILE, random_token())
        try:
            directory_fd = fs.open(str(self._directory), DIRECTORY_FLAGS)
            try:
                create_file(fs, session_fd, temporary, [json.dumps(events).encode()])
                name = f"left-{fs.fstat(directory_fd).st_ino:x}-{session_id}"
                fs.rename(temporary, name, src_dir_fd=session_fd, dst_dir_fd=directory_fd)
                fs.fsync(directory_fd)
            finally:
                close_reader(fs, directory_fd)
        except OSError as error:
            with suppress(OSError):
                fs.unlink(temporary, dir_fd=session_fd)
            raise WriteError(path=self._directory, operation="keep", cause=error) from error

    def forget_left(self, session_id: str) -> None:
        """Discard the events of a removed session; see `feed_port.Receiver`."""
        name = f"left-{self._own_inode():x}-{session_id}"
        try:
            self._fs.unlink(name, dir_fd=self._held_fd)
        except FileNotFoundError:
            return
        except OSError as error:
            path = self._directory / name
            raise WriteError(path=path, operation="remove", cause=error) from error

    def forget(self) -> None:
        """Discard the receiver's whole state; see `feed_port.Receiver`."""
        self._own_inode()
        try:
            for name in self._names():
                self._fs.unlink(name, dir_fd=self._held_fd)
            self._fs.rmdir(str(self._directory))
        except OSError as error:
            raise WriteError(path=self._directory, operation="remove", cause=error) from error

    def _own_inode(self) -> int:
        if self._held_fd < 0:
            raise WriteError(path=self._directory, operation="write without holding it")
        return self._fs.fstat(self._held_fd).st_ino

    def _inode(self) -> int | None:
        try:
            return self._fs.stat(str(self._directory)).st_ino
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ReadError(path=self._directory, cause=error) from error

    def _names(self) -> list[str]:
        try:
            return os.listdir(self._directory)
        except OSError as error:
            raise ReadError(path=self._directory, cause=error) from error

    def _file(self, name: str) -> bytes | None:
        try:
            fd = self._fs.open(str(self._directory), DIRECTORY_FLAGS)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ReadError(path=self._directory, cause=error) from error
        path = self._directory / name
        try:
            return read_regular_file(
                self._fs, name, path=path, max_bytes=_MAX_BYTES, directory_fd=fd
            )
        finally:
            close_reader(self._fs, fd)


def _decoded(data: bytes) -> list[LeftEvent]:
    return [
        (int(number), event_id, dict(event))
        for number, event_id, event in json.loads(data)
        if is_event_id(event_id)
    ]


def keep_untold(
    base: Path,
    fs: FileSystem,
    session_fd: int,
    *,
    is_own: Callable[[], bool],
    load: Callable[[], SessionContext | None],
) -> None:
    """Save what receivers have not received of a session that is about to be removed.

    Events that can't be saved are logged and lost: a removal continues even on a full disk.

    Args:
        base: The sessions' directory.
        fs: The file system.
        session_fd: The session's directory, open and locked.
        is_own: Whether the session is this person's own; others are never delivered.
        load: Reads the session; called only if there are receivers.
    """
    names = receiver_names(base)
    try:
        session = load() if names and is_own() else None
    except AgentForgeError as error:
        _log.warning("feed.not_kept", error=str(error))
        return
    for name in names if session is not None else ():
        assert session is not None  # noqa: S101 (for the type checker)
        receiver = ReceiverFiles(base, name, fs)
        try:
            data = receiver.read()
            events = [] if data is None else untold_events(data, session)
            if events and receiver.is_full:
                raise WriteError(path=Path(receiver.where), operation="keep more in")
            if events:
                receiver.leave(session_fd, session.session_id, events)
        except (AgentForgeError, ValueError) as error:
            _log.warning(
                "feed.not_kept", receiver=name, session_id=session.session_id, error=str(error)
            )


def receiver_names(base: Path) -> list[str]:
    """Return the names of receivers with state beside the sessions of a base, sorted."""
    try:
        return sorted(name for name in os.listdir(base / FOLDER) if _NAME.fullmatch(name))
    except OSError:
        return []


def untold_events(data: bytes, session: SessionContext) -> list[LeftEvent]:
    """Return the events of a session that a receiver in this state has not received."""
    state, positions = _state(data)
    session_id, history = session.session_id, session.history
    waiting, passed = state.waiting.get(session_id), positions.get(session_id)
    if waiting is not None:
        after = waiting.after
    else:
        after = first_own(history) if passed is None else passed.entries
    wanted = is_chosen(state.events)
    return [
        (one.number, one.id, one.event.to_dict())
        for one in events_after(session_id, history, min(after, len(history)))
        if wanted(one.event.name)
    ][-MOST_LEFT:]


@lru_cache(maxsize=8)
def _state(data: bytes) -> tuple[ReceiverState, dict[str, Passed]]:
    """Decode a state once for all sessions of a prune; callers must not modify it."""
    state = ReceiverState.decoded(data)
    return state, decode_positions(state.cursor)
