"""Connection to the worker: a thread reads its requests; answers are written back."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, BinaryIO, Final

from ...fleet.workers.messages import decode, encode

_INTERRUPTED: Final = 130


class Parent:
    """The worker, as seen from its session process.

    When the worker ends, the running work is stopped as by Ctrl-C; if that does not end the process
    within the grace period, the process is ended.

    Args:
        given: The stream that the worker writes.
        taken: The stream that the worker reads.
        grace_s: How long the running work may take to stop once the worker has ended, in seconds.
        interrupt: Stops the work of the main thread.
        end: Ends the process at once.
    """

    def __init__(
        self,
        given: BinaryIO,
        taken: BinaryIO,
        *,
        grace_s: float,
        interrupt: Callable[[], object] | None = None,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        self._given = given
        self._taken = taken
        self._grace_s = grace_s
        self._interrupt = interrupt if interrupt is not None else _interrupt_main
        self._end = end
        self._asked: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._mutex = threading.Lock()
        self._ended = threading.Event()
        self._hearing = threading.Thread(target=self._hear, name="parent", daemon=True)

    def asked(self) -> Iterator[dict[str, Any]]:
        """Yield the worker's requests until the worker ends."""
        self._hearing.start()
        while (message := self._asked.get()) is not None:
            yield message

    def tell(self, message: Mapping[str, Any]) -> None:
        """Write a message; not an error if the worker has ended."""
        with self._mutex:
            try:
                self._taken.write(encode(message))
                self._taken.flush()
            except OSError:
                self._ended.set()

    @property
    def has_ended(self) -> bool:
        """Whether the worker has ended."""
        return self._ended.is_set()

    def _hear(self) -> None:
        with suppress(ValueError, OSError):  # no message, or a broken pipe: the worker has ended
            for line in self._given:
                self._asked.put(decode(line))
        self._ended.set()
        self._asked.put(None)
        self._interrupt()
        timer = threading.Timer(self._grace_s, self._end, [_INTERRUPTED])
        timer.daemon = True
        timer.start()


def _interrupt_main() -> None:
    """Interrupt the main thread, even in a blocking system call."""
    ident = threading.main_thread().ident
    if ident is not None:
        signal.pthread_kill(ident, signal.SIGINT)
