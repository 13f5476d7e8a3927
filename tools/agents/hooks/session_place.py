"""The place of a conversation's session: the files of a base directory, or a database."""

# Annotations are evaluated here: as strings, each field's would have to be compiled.

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from ...harness.session_ports import LocalSessions
    from ...harness.views.session_head import SessionHead


_NUMBERS: Final = 4


class Stores(Protocol):
    """Opens stores and recognizes their addresses; the entry point supplies it."""

    @property
    def is_elsewhere(self) -> Callable[[str | None], bool]:
        """Return whether a store's address names no folder of this machine."""
        ...

    @property
    def open_sessions(self) -> "Callable[..., LocalSessions]":
        """Open the sessions of a base, or of a `store` with places in the base."""
        ...


class SessionPlace:
    """A store of sessions, opened on first use.

    Attributes:
        base: The directory of the sessions on this machine, absolute.
    """

    __slots__ = ("_sessions", "_store", "_stores", "base")

    def __init__(self, base: Path, store: str | None, stores: Stores) -> None:
        """Remember a place; the store of a folder is opened at once.

        Args:
            base: The directory of the sessions on this machine, absolute.
            store: The address of the store that they are in; None for the files of the base.
            stores: Opens stores.
        """
        self._stores = stores
        is_elsewhere = store is not None and stores.is_elsewhere(store)
        self._store: str | None = store if is_elsewhere else None
        self._sessions: LocalSessions | None = None
        self.base = base
        if store is not None and self._store is None:  # a folder, which is another base
            self.base = self.sessions_of(store).base_path.absolute()

    def sessions_of(self, store: str | None) -> "LocalSessions":
        """Open the sessions of a store."""
        self._sessions = self._stores.open_sessions(self.base, store=store)
        return self._sessions

    @property
    def sessions(self) -> "LocalSessions":
        """The sessions, opened on first use."""
        return self._sessions if self._sessions is not None else self.sessions_of(self._store)

    @property
    def is_files(self) -> bool:
        """Whether the sessions are the files of the base."""
        return self._store is None

    @property
    def name(self) -> str:
        """The store's address without its password; empty for the files of the base."""
        return "" if self._store is None else self.sessions.where

    def mark(self, session_id: str) -> list[int]:
        """Return numbers that differ once the session has changed; empty if it is unknown."""
        if self._store is not None:
            import hashlib  # Python's own hash differs in each process

            found = repr(self.sessions.change_mark(session_id)).encode()
            return [int.from_bytes(hashlib.sha256(found).digest()[:6], "big")]
        try:
            return _identity(os.lstat(os.path.join(self.base, session_id, "session.yaml")))
        except OSError:
            return []

    def mark_at(self, session_id: str, revision: int) -> list[int]:
        """Return the same numbers if the session is at this revision; empty if it is not."""
        if self._store is not None:
            before = self.mark(session_id)
            session = self.sessions.load(session_id)
            return before if session is not None and session.revision == revision else []
        found = head_of(self.base, session_id)
        is_same = found is not None and found[0].revision == revision
        return _identity(found[1]) if found is not None and is_same else []

    def head(self, session_id: str) -> "SessionHead | None":
        """Return a session's head without reading the rest; None if that is not possible."""
        if self._store is not None:
            return None
        found = head_of(self.base, session_id)
        return None if found is None else found[0]

    def close(self) -> None:
        """Close the store, if it was opened."""
        if self._sessions is not None:
            self._sessions.close()


def saved_s(mark: list[int]) -> float:
    """Return when the session of a mark was saved, in seconds since the epoch; 0 if unknown."""
    return mark[2] / 1e9 if len(mark) == _NUMBERS else 0.0


def _identity(found: os.stat_result) -> list[int]:
    return [found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def head_of(base: Path | str, session_id: str) -> "tuple[SessionHead, os.stat_result] | None":
    """Return a session's head and its file's status, both of the same moment.

    None means that the file can't be opened, or does not have exactly the form that we write.
    """
    from ...base.files import OsFileSystem  # not needed if nothing changed
    from ...base.files.filesystem import READ_FLAGS, close_reader
    from ...harness.session_layout import SESSION_FILE
    from ...harness.store.session_reader import read_head

    fs = OsFileSystem()
    try:
        fd = fs.open(os.path.join(base, session_id, SESSION_FILE), READ_FLAGS)
    except OSError:
        return None
    try:
        status = fs.fstat(fd)
        head = read_head(fs, fd, session_id, status.st_size)
    except OSError:
        return None
    finally:
        close_reader(fs, fd)
    return None if head is None else (head, status)
