"""The system calls of a guest's files, noted in a journal and answered from it.

What a journal answers touches no file. An effect that it has an intent of, and no answer, is made
again; where that is refused because it is done already, it counts as done. That is safe as the
guest's files look, before each change of a name, whether it can be made, and as every write has a
position.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final, TypeVar

from ...host.engine import native
from ...host.engine.guest_memory import MAX_PATH_BYTES
from ...host.files.files import Buffers
from ...host.files.system_calls import LINUX, SystemCalls
from ..errors import TurnJournalDamaged
from .answers import NotedEntry, get_names, put_names, put_nothing, raise_noted
from .live_journal import LiveJournal
from .note_log import nothing
from .noted_calls import NotedCalls
from .notes import NoteReader, NoteWriter
from .open_files import ONLY_ONCE, OpenFile, RemovedContent
from .ops import Op

_T = TypeVar("_T")

_QUOTAS: Final = ("workspace_bytes", "workspace_files")
_STAND_IN: Final = "/dev/null"


def _checksum(buffers: Buffers) -> int:
    found = 0
    for buffer in buffers:
        found = zlib.crc32(buffer, found)
    return found


class ReplayedCalls(NotedCalls, SystemCalls):
    """System calls that go through a journal while there is one.

    Args:
        real: What makes the calls.
        moved: Whether the files may be copies of those that a journal was written with, though the
            directory is the same; if that is another, they are.
    """

    def __init__(self, real: SystemCalls = LINUX, *, moved: bool = False) -> None:
        super().__init__(real)
        self._moved = moved
        self._recounts = False

    @property
    def journal(self) -> LiveJournal | None:
        """The journal of the turn; None between turns."""
        return self._journal

    @journal.setter
    def journal(self, journal: LiveJournal | None) -> None:
        self._journal = journal
        self._files.begin_turn()
        if journal is not None:
            self._compare_roots(journal)
        self._recounts = journal is not None and journal.replays

    def _compare_roots(self, journal: LiveJournal) -> None:
        """Note which directories are served, or whether they are copies of those noted."""
        reader, inodes = journal.take(Op.ROOTS), self._files.roots()
        if reader is not None:
            noted = [reader.number() for _ in range(reader.number())]
            self._files.are_copies = self._moved or noted != inodes
            return
        writer = journal.note(Op.ROOTS)
        for number in (len(inodes), *inodes):
            writer.number(number)

    def catch_up(self) -> None:
        """Open for real what is open where an earlier run's notes end."""
        self._files.catch_up()

    # ---------------------------------------------------------- opening and closing

    def dup(self, fd: int) -> int:
        made = self._real.dup(fd)
        self._files.add_root(made)
        return made

    def open(  # type: ignore[override]
        self, path: bytes, flags: int, mode: int = 0o777, *, dir_fd: int
    ) -> int:
        creates = bool(flags & os.O_CREAT)
        call = partial(self._real.open, path, flags, mode, dir_fd=dir_fd)
        again = partial(self._real.open, path, flags & ~ONLY_ONCE, mode, dir_fd=dir_fd)
        return self._open(dir_fd, path, flags, call, again if creates else None)

    def openat2(self, directory: int, path: bytes, flags: int, resolve: int) -> int:
        call = partial(self._real.openat2, directory, path, flags, resolve)
        return self._open(directory, path, flags, call, None)

    def _open(
        self,
        directory: int,
        path: bytes,
        flags: int,
        call: Callable[[], int],
        again: Callable[[], int] | None,
    ) -> int:
        said = (self._files.number(directory), zlib.crc32(path), flags)
        is_stand_in = False

        def stand_in(_: NoteReader) -> int:
            nonlocal is_stand_in
            is_stand_in = True
            return os.open(_STAND_IN, native.O_PATH | os.O_CLOEXEC)

        if again is None:
            fd = self._ask(Op.OPEN, directory, said, call, get=stand_in)
        else:
            fd = self._do(
                Op.OPEN, directory, said, call, get=stand_in, done=errno.EEXIST, again=again
            )
        self._files.add(fd, directory, path, flags, is_stand_in=is_stand_in)
        return fd

    def close(self, fd: int) -> None:
        number = self._files.number(fd)
        was = self._files.remove(fd)
        if self._journal is None:
            self._close(fd, was)
            return
        reader = self._journal.take(Op.CLOSE, number)
        if reader is None:
            self._made(self._journal, Op.CLOSE, None, partial(self._close, fd, was), put_nothing)
        else:
            os.close(fd)
            raise_noted(reader)

    def _close(self, fd: int, opened: OpenFile | None) -> None:
        if opened is not None and (opened.is_stand_in or opened.is_apart):
            os.close(fd)
        else:
            self._real.close(fd)

    # ---------------------------------------------------------- reading

    def fstat(self, fd: int) -> os.stat_result:
        call = partial(self._real.fstat, fd)
        seen = self._ask(
            Op.FSTAT, fd, (self._files.number(fd),), call, NoteWriter.status, NoteReader.status
        )
        if (opened := self._files.get(fd)) is not None:
            opened.inode = seen.st_ino
        return seen

    def stat(self, path: bytes, *, dir_fd: int) -> os.stat_result:  # type: ignore[override]
        call = partial(self._real.stat, path, dir_fd=dir_fd)
        said = (self._files.number(dir_fd), zlib.crc32(path))
        return self._ask(Op.STAT, dir_fd, said, call, NoteWriter.status, NoteReader.status)

    def preadv(self, fd: int, buffers: Buffers, at: int) -> int:  # type: ignore[override]
        call = partial(self._real.preadv, fd, buffers, at)
        length = sum(map(len, buffers))

        def put(writer: NoteWriter, count: int) -> None:
            writer.bytes(b"".join(buffers)[:count])

        def get(reader: NoteReader) -> int:
            data = reader.bytes(length)
            begin = 0
            for buffer in buffers:
                piece = data[begin : begin + len(buffer)]
                buffer[: len(piece)] = piece
                begin += len(piece)
            return len(data)

        return self._ask(Op.READ, fd, (self._files.number(fd), length, at), call, put, get)

    def readlink(self, path: bytes, *, dir_fd: int) -> bytes:  # type: ignore[override]
        call = partial(self._real.readlink, path, dir_fd=dir_fd)
        said = (self._files.number(dir_fd), zlib.crc32(path))
        get = partial(NoteReader.bytes, most=MAX_PATH_BYTES)
        return self._ask(Op.READ_LINK, dir_fd, said, call, NoteWriter.bytes, get)

    @contextmanager
    def scandir(self, fd: int) -> Iterator[Iterator[Any]]:  # type: ignore[override]
        if self._journal is None:
            with self._real.scandir(fd) as listing:
                yield listing
            return
        yield self._listed(fd)

    def _listed(self, fd: int) -> Iterator[NotedEntry]:
        """Yield a directory's entries; each is noted as it is taken."""
        said = (self._files.number(fd),)
        listing: Iterator[os.DirEntry[str]] | None = None
        taken = 0

        def take() -> NotedEntry | None:
            nonlocal listing
            if listing is None:
                if taken:
                    raise TurnJournalDamaged(reason="the list of a directory is cut")
                listing = opened.enter_context(self._real.scandir(fd))
            found = next(listing, None)
            return None if found is None else NotedEntry.of(found)

        with ExitStack() as opened:
            while True:
                found = self._ask(Op.LIST, fd, said, take, NotedEntry.put, NotedEntry.get)
                if found is None:
                    return
                taken += 1
                yield found

    def count_names(  # type: ignore[override]
        self, fd: int, tick: Callable[[], object]
    ) -> dict[tuple[int, int], int]:
        call = partial(self._real.count_names, fd, tick)
        return self._ask(Op.COUNT_NAMES, fd, (self._files.number(fd),), call, put_names, get_names)

    def files_below(  # type: ignore[override]
        self, fd: int, tick: Callable[[], object], limits: dict[str, int]
    ) -> tuple[list[str], int, bool]:
        ticks = 0

        def count() -> None:
            nonlocal ticks
            ticks += 1
            tick()

        def put(writer: NoteWriter, found: tuple[list[str], int, bool]) -> None:
            files, depth, complete = found
            for number in (ticks, depth, complete, len(files)):
                writer.number(number)
            for name in files:
                writer.bytes(name.encode())

        def get(reader: NoteReader) -> tuple[list[str], int, bool]:
            ticked, depth, complete, count = (reader.number() for _ in range(4))
            for _ in range(ticked):
                tick()
            return [reader.bytes().decode() for _ in range(count)], depth, bool(complete)

        call = partial(self._real.files_below, fd, count, limits)
        return self._ask(Op.FILES_BELOW, fd, (self._files.number(fd),), call, put, get)

    def judge(  # type: ignore[override]
        self, measured: Callable[[], str | None], forget: Callable[[], object]
    ) -> str | None:
        """Measure, unless an earlier run did: of its verdicts, only refusals are noted."""
        journal = self._journal
        if journal is None:
            return measured()
        if self._recounts:
            forget()  # what an earlier run changed is in the files, and was counted again
        if journal.replays:
            reader = journal.take(Op.REFUSED) if journal.next_is(Op.REFUSED) else None
            return None if reader is None else _QUOTAS[reader.byte() % len(_QUOTAS)]
        self._recounts = False
        wrong = measured()
        if wrong is not None:
            journal.take(Op.REFUSED)
            journal.note(Op.REFUSED).byte(_QUOTAS.index(wrong))
        return wrong

    # ---------------------------------------------------------- effects

    def pwritev(self, fd: int, buffers: Buffers, at: int) -> int:  # type: ignore[override]
        call = partial(self._real.pwritev, fd, buffers, at)
        said = (self._files.number(fd), _checksum(buffers), at)
        get = partial(NoteReader.number, most=sum(map(len, buffers)))
        return self._repeat(Op.WRITE, fd, said, call, NoteWriter.number, get)

    def ftruncate(self, fd: int, size: int) -> None:
        call = partial(self._real.ftruncate, fd, size)
        return self._repeat(Op.TRUNCATE, fd, (self._files.number(fd), size), call)

    def fsync(self, fd: int) -> None:  # type: ignore[override]
        call = partial(self._real.fsync, fd)
        return self._ask(Op.SYNC, fd, (self._files.number(fd),), call)

    def sendfile(self, target: int, source: int, count: int) -> int:  # type: ignore[override]
        call = partial(self._real.sendfile, target, source, count)
        said = (self._files.number(target), self._files.number(source), count)
        get = partial(NoteReader.number, most=count)
        done = self._do(Op.COPY, target, said, call, NoteWriter.number, get)
        for fd in (target, source):
            if (opened := self._files.get(fd)) is not None:
                opened.offset += done
        return done

    def futimens(self, fd: int, times: tuple[int, int]) -> None:  # type: ignore[override]
        call = partial(self._real.futimens, fd, times)
        return self._repeat(Op.SET_TIMES, fd, (self._files.number(fd), *times), call)

    def utimensat(  # type: ignore[override]
        self, path: bytes, times: tuple[int, int], *, dir_fd: int
    ) -> None:
        call = partial(self._real.utimensat, path, times, dir_fd=dir_fd)
        said = (self._files.number(dir_fd), zlib.crc32(path), *times)
        return self._repeat(Op.SET_TIMES, dir_fd, said, call)

    def mkdir(self, path: bytes, mode: int, *, dir_fd: int) -> None:  # type: ignore[override]
        call = partial(self._real.mkdir, path, mode, dir_fd=dir_fd)
        self._name(Op.MAKE_DIRECTORY, path, dir_fd, call, errno.EEXIST)

    def symlink(self, target: bytes, path: bytes, *, dir_fd: int) -> None:  # type: ignore[override]
        call = partial(self._real.symlink, target, path, dir_fd=dir_fd)
        self._name(Op.SYMLINK, path, dir_fd, call, errno.EEXIST)

    def rmdir(self, path: bytes, *, dir_fd: int) -> None:  # type: ignore[override]
        call = partial(self._real.rmdir, path, dir_fd=dir_fd)
        self._name(Op.REMOVE_DIRECTORY, path, dir_fd, call, errno.ENOENT)
        self._files.unnamed(path, dir_fd)

    def unlink(self, path: bytes, *, dir_fd: int) -> None:  # type: ignore[override]
        call = partial(self._real.unlink, path, dir_fd=dir_fd)
        before = partial(self._files.content_of, path, dir_fd)
        self._name(Op.UNLINK, path, dir_fd, call, errno.ENOENT, before=before)
        self._files.unnamed(path, dir_fd)

    def link(  # type: ignore[override]
        self, source: bytes, target: bytes, *, src_dir_fd: int, dst_dir_fd: int
    ) -> None:
        call = partial(
            self._real.link, source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd
        )
        self._name(Op.LINK, target, dst_dir_fd, call, errno.EEXIST)

    def rename(  # type: ignore[override]
        self, source: bytes, target: bytes, *, src_dir_fd: int, dst_dir_fd: int
    ) -> None:
        call = partial(
            self._real.rename, source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd
        )
        before = partial(self._files.content_of, target, dst_dir_fd)
        self._name(Op.RENAME, target, dst_dir_fd, call, errno.ENOENT, before=before)
        self._files.unnamed(target, dst_dir_fd)
        self._files.renamed(source, src_dir_fd, target, dst_dir_fd)

    def _name(
        self,
        op: Op,
        path: bytes,
        directory: int,
        call: Callable[[], None],
        done: int,
        *,
        before: Callable[[], RemovedContent | None] = nothing,
    ) -> None:
        """Change a name; the second time, an errno says that it is done."""
        said = (self._files.number(directory), zlib.crc32(path))
        self._do(op, directory, said, call, done=done, before=before)
