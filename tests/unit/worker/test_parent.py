"""The line to the worker, from the side of a session's process."""

from __future__ import annotations

import errno
import io
import os
import threading
from collections.abc import Callable
from typing import BinaryIO

from agentforge_sessions.entrypoints.worker.process import Parent


def parent_of(given: BinaryIO, interrupt: Callable[[], None] = lambda: None) -> Parent:
    return Parent(given, io.BytesIO(), grace_s=3600.0, interrupt=interrupt, end=lambda _code: None)


def test_what_the_worker_asks_is_heard_in_order_until_it_has_ended() -> None:
    given = io.BytesIO(b'{"run": "a", "job": 1}\n{"run": "b", "job": 2}\n')
    interrupted = threading.Event()
    parent = parent_of(given, interrupted.set)
    assert [one["run"] for one in parent.asked()] == ["a", "b"]
    assert parent.has_ended
    assert interrupted.wait(60)


def test_what_does_not_stop_once_the_worker_has_ended_is_ended() -> None:
    ended = threading.Event()
    codes: list[int] = []

    def end(code: int) -> None:
        codes.append(code)
        ended.set()

    parent = Parent(io.BytesIO(b""), io.BytesIO(), grace_s=0.0, interrupt=lambda: None, end=end)
    assert list(parent.asked()) == []
    assert ended.wait(60)
    assert codes == [130]


def test_a_line_that_is_no_message_is_the_end() -> None:
    given = io.BytesIO(b'garbage\n{"run": "a", "job": 1}\n')
    parent = parent_of(given)
    assert list(parent.asked()) == []


def test_a_stream_that_can_not_be_read_is_the_end() -> None:
    class Broken(io.BytesIO):
        def __next__(self) -> bytes:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    parent = parent_of(Broken())
    assert list(parent.asked()) == []


def test_an_answer_to_a_worker_that_has_ended_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb", buffering=0) as taken:
        parent = Parent(io.BytesIO(b""), taken, grace_s=3600.0, interrupt=lambda: None)
        parent.tell({"paused": True})
        assert parent.has_ended
