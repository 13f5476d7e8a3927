"""Being told of changes by the database: one connection of a process that listens for all of it.

What is told is a hint. Who waits looks at the store when it begins, when it is told, when the
connection was lost and is back, and now and then anyway.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import psycopg
from attrs import define, field

from ...base.event_log import get_logger
from .database import Connection, Database
from .errors import StoreError

LINGER_S: Final = 2.0
"""How long the connection stays when nobody listens any more, in seconds."""
_FIRST_REST_S: Final = 0.1
_LONGEST_REST_S: Final = 5.0
_THREAD_NAME: Final = "agentforge-store-listener"

_log = get_logger("agentforge.store")

Listener = Callable[[str | None], None]
"""Called with what was told, or with None where something may have been missed."""


@define(eq=False)
class Notifications:
    """Passes on what the database tells on one channel, to everybody in this process.

    A thread has the connection while somebody listens, and a moment longer. When it is lost, it is
    made anew, and all who listen are called once. May be used from any thread.

    Args:
        database: Whose server tells; the connection is none of its pool.
        channel: The channel's name.
        linger_s: How long the connection stays when nobody listens any more, in seconds.
        monotonic: The clock of that, in seconds.
    """

    _database: Database
    _channel: str
    _linger_s: float = field(default=LINGER_S, kw_only=True)
    _monotonic: Callable[[], float] = field(default=time.monotonic, kw_only=True)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _listeners: list[Listener] = field(factory=list, init=False)
    _thread: _Ears | None = field(default=None, init=False)
    _silent_since: float = field(default=0.0, init=False)
    _closed: bool = field(default=False, init=False)

    @contextmanager
    def listening(self, listener: Listener) -> Iterator[None]:
        """Have `listener` called from another thread while the block runs, perhaps for nothing."""
        with self._lock:
            self._listeners.append(listener)
            self._start()
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)
                self._silent_since = self._monotonic()
                if not self._listeners and self._thread is not None:
                    self._thread.wake()

    def close(self) -> None:
        """Close the connection; who still listens is told no more, and looks for itself."""
        with self._lock:
            self._closed, thread = True, self._thread
            if thread is not None:
                thread.wake()
        if thread is not None:
            thread.join()

    def _start(self) -> None:
        if self._closed or self._thread is not None:
            return
        thread = _Ears(self)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no thread for it: each looks for itself
            thread.close()
            self.complain(error)
        else:
            self._thread = thread

    # ---------------------------------------------------------------------- for the thread alone

    def connect(self) -> Connection:
        """Open a connection that listens."""
        connection = self._database.connect()
        try:
            connection.execute(f"listen {self._channel}".encode())
        except BaseException:
            connection.close()
            raise
        return connection

    def pass_on(self, told: str | None) -> None:
        """Tell all who listen."""
        with self._lock:
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener(told)

    def rests_for(self) -> float | None:
        """Return for how long nobody may listen until it ends, in seconds; None while some do."""
        with self._lock:
            if self._closed:
                return 0.0
            if self._listeners:
                return None
            return max(0.0, self._silent_since + self._linger_s - self._monotonic())

    def has_ended(self) -> bool:
        """Let go of the thread if nothing is left to do; who comes later starts another one."""
        with self._lock:
            if self._listeners and not self._closed:
                return False
            self._thread = None
            return True

    def complain(self, error: Exception) -> None:
        """Log that nothing is told for now."""
        _log.warning("store.not_listening", store=self._database.name, error=str(error))


class _Ears(threading.Thread):
    """The thread that has the connection."""

    def __init__(self, notifications: Notifications) -> None:
        super().__init__(name=_THREAD_NAME, daemon=True)
        self._notifications = notifications
        self._said = False
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)

    def wake(self) -> None:
        """Have it look whether it is still needed; from any thread."""
        with suppress(BlockingIOError):  # it was woken often enough
            self._waker.send(b"\0")

    def close(self) -> None:
        """Close what it is woken by."""
        self._woken.close()
        self._waker.close()

    def run(self) -> None:
        """Listen until nobody wants to be told any more."""
        rest = _FIRST_REST_S
        while True:
            try:
                with self._notifications.connect() as connection:
                    rest, self._said = _FIRST_REST_S, False
                    self._notifications.pass_on(None)  # what was told before was not heard
                    self._listen(connection)
            except (StoreError, psycopg.Error, OSError) as error:
                if not self._said:  # once for each loss
                    self._notifications.complain(error)
                self._said = True
                self._sleep(None, rest)
                rest = min(rest * 2, _LONGEST_REST_S)
            if self._notifications.has_ended():
                self.close()
                return

    def _listen(self, connection: Connection) -> None:
        """Pass on what is told, until the connection is lost or nobody listens any more."""
        while (rest := self._notifications.rests_for()) is None or rest > 0:
            self._sleep(connection, rest)
            for one in connection.notifies(timeout=0):
                self._notifications.pass_on(one.payload)

    def _sleep(self, connection: Connection | None, seconds: float | None) -> None:
        """Wait until there is something to read, or to look at, or for so many seconds."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            if connection is not None:
                selector.register(connection.fileno(), selectors.EVENT_READ)
            selector.select(seconds)
        with suppress(BlockingIOError):
            self._woken.recv(1024)
