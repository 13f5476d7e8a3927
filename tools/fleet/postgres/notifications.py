"""Notifications of changes by the database: one listening connection for the whole process.

A notification is a hint. A waiting caller reads the store at the start, after a notification, after
a lost connection is restored, and from time to time anyway.
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
"""How long the connection stays open after the last listener, in seconds."""
_FIRST_REST_S: Final = 0.1
_LONGEST_REST_S: Final = 5.0
_THREAD_NAME: Final = "agentforge-store-listener"

_log = get_logger("agentforge.store")

Listener = Callable[[str | None], None]
"""Called with a notification's payload, or with None if some may have been missed."""


@define(eq=False)
class Notifications:
    """Passes the notifications of one channel to all listeners in this process.

    A thread holds the connection while there are listeners, and a moment longer. When it is lost,
    it is restored, and all listeners are called once. May be used from any thread.

    Args:
        database: The database of the server; the connection is not from its pool.
        channel: The channel's name.
        linger_s: How long the connection stays open after the last listener, in seconds.
        monotonic: The clock for that, in seconds.
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
        """Call `listener` from another thread while the block runs, possibly without a change."""
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
        """Close the connection; remaining listeners get no more calls and poll by themselves."""
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
        except RuntimeError as error:  # the system has no thread left: callers poll by themselves
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
        """Call all listeners."""
        with self._lock:
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener(told)

    def rests_for(self) -> float | None:
        """Return in how many seconds it ends without listeners; None while there are some."""
        with self._lock:
            if self._closed:
                return 0.0
            if self._listeners:
                return None
            return max(0.0, self._silent_since + self._linger_s - self._monotonic())

    def has_ended(self) -> bool:
        """Release the thread if it has nothing left to do; a later listener starts another one."""
        with self._lock:
            if self._listeners and not self._closed:
                return False
            self._thread = None
            return True

    def complain(self, error: Exception) -> None:
        """Log that there are no notifications for now."""
        _log.warning("store.not_listening", store=self._database.name, error=str(error))


class _Ears(threading.Thread):
    """The thread that holds the connection."""

    def __init__(self, notifications: Notifications) -> None:
        super().__init__(name=_THREAD_NAME, daemon=True)
        self._notifications = notifications
        self._said = False
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)

    def wake(self) -> None:
        """Make it check whether it is still needed; from any thread."""
        with suppress(BlockingIOError):  # it has enough wake-ups pending
            self._waker.send(b"\0")

    def close(self) -> None:
        """Close its wake-up sockets."""
        self._woken.close()
        self._waker.close()

    def run(self) -> None:
        """Listen until there are no more listeners."""
        rest = _FIRST_REST_S
        while True:
            try:
                with self._notifications.connect() as connection:
                    rest, self._said = _FIRST_REST_S, False
                    self._notifications.pass_on(None)  # earlier notifications were missed
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
        """Pass on notifications until the connection is lost or there are no more listeners."""
        while (rest := self._notifications.rests_for()) is None or rest > 0:
            self._sleep(connection, rest)
            for one in connection.notifies(timeout=0):
                self._notifications.pass_on(one.payload)

    def _sleep(self, connection: Connection | None, seconds: float | None) -> None:
        """Wait for input, a wake-up or the time limit."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            if connection is not None:
                selector.register(connection.fileno(), selectors.EVENT_READ)
            selector.select(seconds)
        with suppress(BlockingIOError):
            self._woken.recv(1024)
