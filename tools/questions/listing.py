"""Reading many sessions: what did not change since it was read last is not read again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from typing import Final

from attrs import frozen

from ..event_log import get_logger
from ..question import QuestionError
from .disk_errors import AtomicReadError, SessionCorrupted
from .domain import QuestionSession, StatusRecord
from .errors import SessionNotFound
from .session_files import READ_PAUSES_S
from .session_status import SessionStatus
from .store import QuestionStore, Signature

_SETTLES_S: Final = 0.1
"""How long ago a session must have changed so that what was read of it holds, in seconds."""
_TORN_FOR_S: Final = 2.0
"""The same for one that could not be read: another program may write its files bit by bit."""

_log = get_logger("agentforge.questions")


@frozen
class UnreadableQuestion:
    """A question session that is there and can't be listed.

    Attributes:
        session_id: Its directory's name.
        error: Why.
    """

    session_id: str
    error: QuestionError


class SessionListing:
    """The sessions of a store as they were read last. May be shared between threads."""

    def __init__(self, store: QuestionStore, *, sleep: Callable[[float], None]) -> None:
        """Begin with nothing read."""
        self._store = store
        self._sleep = sleep
        self._read: dict[str, tuple[Signature, QuestionSession | QuestionError]] = {}
        self._ended: set[str] = set()
        self._logged: set[str] = set()
        self._mutex = threading.Lock()  # for what is kept; never held while the disk is read

    def read_all(self, names: Sequence[str]) -> dict[str, QuestionSession | QuestionError]:
        """Read sessions; only these are kept.

        What is torn is read again after a pause, all of it together. One that can't be read is
        logged, once.
        """
        found: dict[str, QuestionSession | QuestionError] = {}
        left = list(names)
        for pause in (*READ_PAUSES_S, None):
            torn = []
            for name in left:
                read = self._cached(name)
                found.pop(name, None)
                if read is not None:
                    found[name] = read
                if isinstance(read, SessionCorrupted) and name not in self._read:
                    torn.append(name)
            if not torn or pause is None:
                break
            left = torn
            self._sleep(pause)
        for name, read in found.items():
            if isinstance(read, QuestionError) and name not in self._logged:
                self._logged.add(name)
                _log.warning("question.unreadable", session_id=name, error=str(read))
        self._forget_all_but(set(names))
        return found

    def waiting(self, name: str) -> StatusRecord | None:
        """Return the status of a session that waits; None if it has ended or can't be read."""
        with self._mutex:
            if name in self._ended:
                return None
        try:
            record = self._store.read_record(name)
        except QuestionError:
            return None
        if record.status is SessionStatus.PENDING:
            return record
        with self._mutex:
            self._ended.add(name)
        return None

    def _cached(self, name: str) -> QuestionSession | QuestionError | None:
        signature = self._store.signature(name)
        if signature is None:
            return None
        with self._mutex:
            known = self._read.get(name)
        if known is not None and known[0] == signature:
            return known[1]
        found: QuestionSession | QuestionError
        settles_s = _SETTLES_S
        try:
            found = self._store.read(name, pauses=())
        except SessionNotFound:
            return None
        except QuestionError as error:
            found, settles_s = error, _TORN_FOR_S
        keep = self._store.is_settled(signature, for_s=settles_s)
        with self._mutex:
            if keep and not isinstance(found, AtomicReadError):
                self._read[name] = (signature, found)
            else:
                self._read.pop(name, None)
        return found

    def _forget_all_but(self, names: Collection[str]) -> None:
        with self._mutex:
            for name in [one for one in self._read if one not in names]:
                del self._read[name]
            self._ended.intersection_update(names)
            self._logged.intersection_update(names)


__all__ = ["SessionListing", "UnreadableQuestion"]
