"""Which files a turn has open, and where they are, for a turn that runs again.

A descriptor that is opened from a journal is a stand-in. It becomes a real one where the notes end,
at the path that its file has then. A file that the turn removed while it was open has no path: its
content is noted at that moment, and what is written to it afterwards is written in every run, to a
file without a name.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import ExitStack, suppress
from typing import Final, Self

from ....base.files.linux_calls import memory_file
from ...guest_paths import is_hidden
from ...host.engine import native
from ...host.files.files import refusal
from ...host.files.quota import moved_path
from ...host.files.system_calls import SystemCalls
from .notes import NoteReader, NoteWriter

ONLY_ONCE: Final = os.O_CREAT | os.O_EXCL | os.O_TRUNC
"""What an open does to the file; not repeated."""

_MOST_CONTENT: Final = 16 << 20
"""The largest open file whose content is noted when it is removed."""

_FOLDER: Final = native.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OpenFile:
    """An open file or directory.

    Attributes:
        number: Which one of its turn it is.
        root: The descriptor of its tree's root.
        path: Its path from there; None if it has none.
        flags: How it was opened.
        inode: Its inode, once known.
        offset: How much was copied from or to it.
        is_stand_in: Whether it still has to be opened for real.
        is_apart: Whether it is a file without a name, whose changes are made in every run.
        is_lost: Whether it could not be found again.
    """

    __slots__ = (
        "flags",
        "inode",
        "is_apart",
        "is_lost",
        "is_stand_in",
        "number",
        "offset",
        "path",
        "root",
    )

    def __init__(self, number: int, root: int, path: bytes | None, flags: int) -> None:
        self.number = number
        self.root = root
        self.path = path
        self.flags = flags
        self.inode: int | None = None
        self.offset = 0
        self.is_stand_in = self.is_apart = self.is_lost = False


class RemovedContent:
    """The content of an open file from before it was removed.

    Attributes:
        inode: Its inode.
        content: Its content; None if it was too large.
        fd: A file without a name that has the content; None until it is needed.
    """

    def __init__(self, inode: int, content: bytes | None) -> None:
        self.inode = inode
        self.content = content
        self.fd: int | None = None

    def close(self) -> None:
        """Close the file without a name."""
        if self.fd is not None:
            os.close(self.fd)

    @staticmethod
    def put(writer: NoteWriter, removed: RemovedContent | None) -> None:
        """Note the content, if any."""
        writer.number(0 if removed is None else removed.inode + 1)
        if removed is not None:
            writer.byte(removed.content is not None)
            writer.bytes(removed.content or b"")

    @classmethod
    def get(cls, reader: NoteReader) -> Self | None:
        """Read what `put` noted."""
        inode = reader.number()
        if not inode:
            return None
        has_content, content = reader.byte(), reader.bytes(_MOST_CONTENT)
        return cls(inode - 1, content if has_content else None)


class OpenFiles:
    """The open files of served directories, by descriptor.

    Args:
        real: What makes system calls.

    Attributes:
        are_copies: Whether the files are copies of those that were open, so that inodes differ.
    """

    def __init__(self, real: SystemCalls) -> None:
        self.are_copies = False
        self._real = real
        self._open: dict[int, OpenFile] = {}
        self._removed: list[RemovedContent] = []
        self._numbers = 0

    def begin_turn(self) -> None:
        """Count the files of another turn; those open before it have the number 0."""
        self._numbers = 0
        for removed in self._removed:
            removed.close()
        self._removed.clear()
        for each in self._open.values():
            each.number = 0

    def roots(self) -> list[int]:
        """Return the inodes of the trees' roots."""
        return [os.fstat(fd).st_ino for fd, each in self._open.items() if each.root == fd]

    def get(self, fd: int) -> OpenFile | None:
        """Return what a descriptor has open."""
        return self._open.get(fd)

    def number(self, fd: int) -> int:
        """Return which open file of the turn it is."""
        found = self._open.get(fd)
        return 0 if found is None else found.number

    def require(self, fd: int | None) -> None:
        """Refuse a descriptor whose file was not found again (ESTALE)."""
        found = None if fd is None else self._open.get(fd)
        if found is not None and found.is_lost:
            raise refusal(errno.ESTALE)

    def add_root(self, fd: int) -> None:
        """Note a descriptor of a tree's root."""
        self._open[fd] = OpenFile(0, fd, b"", os.O_DIRECTORY)

    def add(self, fd: int, directory: int, name: bytes, flags: int, *, is_stand_in: bool) -> None:
        """Note what was opened."""
        self._numbers += 1
        root, path = self.place(name, directory) or (directory, None)
        made = self._open[fd] = OpenFile(self._numbers, root, path, flags)
        made.is_stand_in = is_stand_in

    def remove(self, fd: int) -> OpenFile | None:
        """Forget what is closed, and return it."""
        return self._open.pop(fd, None)

    def place(self, name: bytes, directory: int) -> tuple[int, bytes] | None:
        """Return the root and the path of a name in an open directory."""
        above = self._open.get(directory)
        if above is None or above.path is None:
            return None
        return above.root, _join(above.path, name)

    def content_of(self, name: bytes, directory: int) -> RemovedContent | None:
        """Return an open file's content before its name is removed."""
        inodes = {each.inode: fd for fd, each in self._open.items() if each.inode is not None}
        try:
            seen = self._real.stat(name, dir_fd=directory)
        except OSError:
            return None
        if seen.st_nlink > 1 or not stat.S_ISREG(seen.st_mode) or seen.st_ino not in inodes:
            return None
        if seen.st_size > _MOST_CONTENT:
            return RemovedContent(seen.st_ino, None)
        fd = self._real.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        try:
            return RemovedContent(seen.st_ino, os.pread(fd, _MOST_CONTENT, 0))
        finally:
            os.close(fd)

    def read_content(self, reader: NoteReader) -> None:
        """Read the content that an intent holds."""
        removed = RemovedContent.get(reader)
        if removed is not None:
            self._removed.append(removed)

    def unnamed(self, name: bytes, directory: int) -> None:
        """Note that a name is removed; a file that was open under it goes on without a name."""
        place = self.place(name, directory)
        for fd, each in self._open.items():
            if place is not None and (each.root, each.path) == place:
                each.path = None
                if each.is_stand_in:
                    self._set_apart(fd, each)

    def _set_apart(self, fd: int, opened: OpenFile) -> bool:
        """Put a file without a name, with the noted content, behind a stand-in."""
        removed = next((each for each in self._removed if each.inode == opened.inode), None)
        if removed is None or removed.content is None:
            return False
        if removed.fd is None:
            removed.fd = _without_name(opened.root, removed.content)
        os.dup2(removed.fd, fd, inheritable=False)
        opened.is_stand_in, opened.is_apart = False, True
        return True

    def renamed(self, name: bytes, directory: int, new: bytes, new_directory: int) -> None:
        """Note that a name was changed."""
        source, target = self.place(name, directory), self.place(new, new_directory)
        if source is None or target is None:
            return
        for each in self._open.values():
            if each.root == source[0] and each.path is not None:
                each.path = moved_path(each.path, source[1], target[1]) or each.path

    def catch_up(self) -> None:
        """Open for real what is open where an earlier run's notes end."""
        for fd, each in self._open.items():
            if each.is_stand_in and not self._reopen(fd, each) and not self._set_apart(fd, each):
                each.is_lost = True

    def _reopen(self, fd: int, opened: OpenFile) -> bool:
        """Put the file behind a stand-in; return whether it was found."""
        found = None if opened.path is None else self._found_at(opened.path, opened)
        if found is None and opened.inode is not None and not self.are_copies:
            path = _path_of(opened.root, opened.inode)
            found = None if path is None else self._found_at(path, opened)
        if found is None:
            return False
        try:
            os.dup2(found, fd, inheritable=False)
            opened.inode = os.fstat(found).st_ino
        finally:
            os.close(found)
        if opened.offset:
            os.lseek(fd, opened.offset, os.SEEK_SET)
        opened.is_stand_in = False
        return True

    def _found_at(self, path: bytes, opened: OpenFile) -> int | None:
        if is_hidden(os.fsdecode(path.partition(b"/")[0])):
            return None
        try:
            fd = _open_below(opened.root, path, opened.flags & ~ONLY_ONCE)
        except OSError:
            return None
        seen = os.fstat(fd)
        is_same = self.are_copies or opened.inode in (None, seen.st_ino)
        if is_same and (stat.S_ISREG(seen.st_mode) or stat.S_ISDIR(seen.st_mode)):
            return fd
        os.close(fd)
        return None


def _join(above: bytes, name: bytes) -> bytes:
    if name == b".":
        return above
    return above + b"/" + name if above else name


def _open_below(root: int, path: bytes, flags: int) -> int:
    """Open what is at a path, without following a link."""
    *above, name = path.split(b"/") if path else [b"."]
    with ExitStack() as opened:
        here = root
        for part in above:
            here = os.open(part, _FOLDER, dir_fd=here)
            opened.callback(os.close, here)
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)


def _path_of(root: int, inode: int) -> bytes | None:
    """Return the path of what has an inode, below a directory; None if nothing has."""
    for above, folders, files, fd in os.fwalk(b".", dir_fd=root):
        for name in (*folders, *files):
            with suppress(OSError):
                if os.lstat(name, dir_fd=fd).st_ino == inode:
                    return os.path.normpath(os.path.join(above, name))
    return None


def _without_name(root: int, content: bytes) -> int:
    """Create a file without a name on the file system of a directory, else in memory."""
    try:
        fd = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=root)
    except OSError:
        fd = memory_file("removed")
    with open(fd, "wb", buffering=0, closefd=False) as file:
        file.write(content)
    return fd
