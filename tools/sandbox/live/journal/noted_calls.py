"""How a system call goes through a journal: asked, repeated or done once."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from ...host.files.system_calls import SystemCalls
from .answers import get_nothing, put_nothing, raise_noted
from .live_journal import LiveJournal
from .note_log import nothing
from .notes import NoteReader, NoteWriter
from .open_files import OpenFiles, RemovedContent
from .ops import EffectState, Op

_T = TypeVar("_T")


def _made_once(call: Callable[[], _T], done: int, again: Callable[[], _T]) -> _T:
    """Make a call that may have been made before."""
    try:
        return call()
    except OSError as error:
        if error.errno != done:
            raise
        return again()


class NotedCalls:
    """System calls that are noted, while there is a journal.

    Args:
        real: What makes the calls.
    """

    def __init__(self, real: SystemCalls) -> None:
        self._real = real
        self._files = OpenFiles(real)
        self._journal: LiveJournal | None = None

    def _ask(
        self,
        op: Op,
        fd: int | None,
        said: tuple[int, ...],
        call: Callable[[], _T],
        put: Callable[[NoteWriter, _T], object] = put_nothing,
        get: Callable[[NoteReader], _T] = get_nothing,
    ) -> _T:
        """Make a call that changes nothing, or answer it from the journal."""
        journal = self._journal
        if journal is None:
            return call()
        reader = journal.take(op, *said)
        if reader is not None:
            raise_noted(reader)
            return get(reader)
        return self._made(journal, op, fd, call, put)

    def _repeat(
        self,
        op: Op,
        fd: int,
        said: tuple[int, ...],
        call: Callable[[], _T],
        put: Callable[[NoteWriter, _T], object] = put_nothing,
        get: Callable[[NoteReader], _T] = get_nothing,
    ) -> _T:
        """Make a change that may be made twice, or answer it from the journal."""
        journal = self._journal
        if journal is None:
            return call()
        reader = journal.repeat(op, *said)
        if reader is None:
            return self._made(journal, op, fd, call, put)
        raise_noted(reader)
        opened = self._files.get(fd)
        if opened is not None and opened.is_apart:
            call()
        return get(reader)

    def _do(
        self,
        op: Op,
        fd: int,
        said: tuple[int, ...],
        call: Callable[[], _T],
        put: Callable[[NoteWriter, _T], object] = put_nothing,
        get: Callable[[NoteReader], _T] = get_nothing,
        *,
        done: int = 0,
        again: Callable[[], Any] = nothing,
        before: Callable[[], RemovedContent | None] = nothing,
    ) -> _T:
        """Make a call that changes something, or answer it from the journal.

        Args:
            op: What it is.
            fd: The descriptor that it is made on.
            said: Its arguments.
            call: Makes it.
            put: Notes what it returns.
            get: Reads that again.
            done: The errno that says that it was made already, if that may be.
            again: Completes it then.
            before: Returns what has to be known of before it.
        """
        journal = self._journal
        if journal is None:
            return call()
        state = journal.begin(
            op,
            *said,
            before=lambda writer: RemovedContent.put(writer, before()),
            was=self._files.read_content,
        )
        if state is EffectState.NOTED:
            raise_noted(journal.reader)
            return get(journal.reader)
        if state is EffectState.PERHAPS and done:
            call = partial(_made_once, call, done, again)
        return self._made(journal, op, fd, call, put)

    def _made(
        self,
        journal: LiveJournal,
        op: Op,
        fd: int | None,
        call: Callable[[], _T],
        put: Callable[[NoteWriter, _T], object],
    ) -> _T:
        try:
            self._files.require(fd)
            found = call()
        except OSError as error:
            journal.note(op).number(error.errno or errno.EIO)
            raise
        writer = journal.note(op)
        writer.number(0)
        put(writer, found)
        return found
