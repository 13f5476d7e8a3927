"""The private directory of a root: sessions being removed, the trash, the pins, the audit log.

    {root}/.prune/
        audit.jsonl          what was removed, when, why and by whom; .1 to .9 are former ones
        audit.reserve        room reserved for the log, for when the disk is full
        going/{id}~{inode}-{token}   sessions being removed; the next prune finishes them
        trash/{id}~{inode}-{token}.{kind}.{trashed}.{purge}.{size}   what can be restored
        coming/{token}       sessions being restored from an archive
        pins/{id}            empty files: sessions that no prune removes

It is in the root so that one rename within one file system takes a session out of sight, and no
session can have its name. Each prune holds an `flock` on it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from ...base.errors import reason_of
from ...base.files import DirectoryLock, FileSystem, LockTimeout, OsFileSystem, hand_over, try_lock
from ...base.files.filesystem import DIRECTORY_FLAGS, close_reader, opened
from ..audit_log import make_log
from ..audit_reserve import FULL, RESERVE_NAME, is_there, make_reserve
from ..errors import (
    PruneBusy,
    PruneError,
    PruneRootMissing,
    PruneRootUnusable,
    SessionInTheWay,
)
from .environment import PruneEnvironment, owners_of

PRIVATE: Final = ".prune"
GOING: Final = "going"
TRASH: Final = "trash"
COMING: Final = "coming"
_SEPARATOR: Final = "~"
_INODE_END: Final = "-"
_ROOT_FLAGS: Final = DIRECTORY_FLAGS & ~os.O_NOFOLLOW


def _open_root(fs: FileSystem, root: Path) -> int:
    """Open a root; its path may contain links, since it is the caller's.

    Raises:
        PruneRootMissing: It does not exist.
        PruneRootUnusable: It is no directory, or the system refused.
    """
    try:
        return fs.open(os.fspath(root), _ROOT_FLAGS)
    except FileNotFoundError:
        raise PruneRootMissing(root) from None
    except OSError as error:
        raise PruneRootUnusable(root, reason_of(error)) from error
    except ValueError as error:  # a null byte
        raise PruneRootUnusable(root, str(error)) from error


@contextmanager
def root_opened(fs: FileSystem, root: Path) -> Iterator[int]:
    """Hold a root open; raise a system error in the meantime as `PruneRootUnusable`.

    Raises:
        PruneRootMissing: It does not exist.
        PruneRootUnusable: It is no directory, or the system refused.
    """
    root_fd = _open_root(fs, root)
    try:
        yield root_fd
    except OSError as error:
        if isinstance(error, PruneError):
            raise
        raise PruneRootUnusable(root, reason_of(error)) from error
    finally:
        close_reader(fs, root_fd)


class PrivateDirectory:
    """A root's private directory, created if missing and locked while it is open.

    Attributes:
        root: The root.
        root_fd: The root, open.
        fd: The directory, open.
    """

    def __init__(
        self, outside: PruneEnvironment, root: Path, root_fd: int, *, timeout_s: float
    ) -> None:
        """Open it.

        Raises:
            PruneBusy: Another prune holds it.
            PruneRootUnusable: It can't be created or opened, or something else has its name.
        """
        self._fs = fs = outside.fs
        self.root = root
        self.root_fd = root_fd
        self._owners = owners_of(fs, root_fd)
        self._mount_of = outside.mount_of
        self._open: dict[str, int] = {}
        path = root / PRIVATE
        try:
            _make(fs, root_fd, PRIVATE)
            # By the root's descriptor: the path may have been swapped since it was opened.
            self._lock = DirectoryLock(
                fs,
                Path(PRIVATE),
                dir_fd=root_fd,
                timeout_s=timeout_s,
                monotonic=outside.monotonic,
                sleep=outside.sleep,
            ).acquire()
        except LockTimeout as error:
            raise PruneBusy(root, timeout_s) from error
        except Exception as error:
            cause = getattr(error, "cause", None) or error
            if not isinstance(cause, OSError):
                raise
            raise PruneRootUnusable(root, refused(path, cause), cause=cause) from error
        self.fd = self._lock.fd
        try:
            self._require_own(self.fd, path)
            self._require_same_mount(self.fd, root_fd, path)
        except BaseException:
            self._lock.release()
            raise

    def _require_own(self, fd: int, path: Path) -> None:
        if self._fs.fstat(fd).st_uid not in self._owners:
            raise PruneRootUnusable(self.root, f"{path} belongs to another user")

    def _require_same_mount(self, fd: int, parent_fd: int, path: Path) -> None:
        if self._mount_of(fd) != self._mount_of(parent_fd):
            raise PruneRootUnusable(self.root, _mounted(path))

    def directory(self, name: str) -> int:
        """Open one of the directories in it, created if missing; it is closed with this one.

        Raises:
            PruneRootUnusable: It can't be created or opened, or something else has its name.
        """
        fd = self._open.get(name)
        if fd is None:
            path = self.root / PRIVATE / name
            try:
                _make(self._fs, self.fd, name)
                fd = self._fs.open(name, DIRECTORY_FLAGS, dir_fd=self.fd)
                self._open[name] = fd  # closed with this one in any case
                self._require_own(fd, path)
                self._require_same_mount(fd, self.fd, path)
            except PruneError:
                raise
            except OSError as error:
                raise PruneRootUnusable(self.root, refused(path, error), cause=error) from error
        return fd

    def existing(self, name: str) -> int | None:
        """Open one of the directories in it; return None if it is missing.

        Raises:
            PruneRootUnusable: It can't be opened, or something else has its name.
        """
        if name not in self._open:
            try:
                if not is_there(self._fs, self.fd, name):
                    return None
            except OSError as error:
                path = self.root / PRIVATE / name
                raise PruneRootUnusable(self.root, refused(path, error)) from error
        return self.directory(name)

    def require_free(self, session_id: str) -> None:
        """Raise `SessionInTheWay` if something in the root has a session's name."""
        if is_there(self._fs, self.root_fd, session_id):
            raise SessionInTheWay(session_id, self.root / session_id)

    def close(self) -> None:
        """Close it and let others prune."""
        for fd in self._open.values():
            close_reader(self._fs, fd)
        self._open.clear()
        self._lock.release()


def prepare_root(root: Path, fs: FileSystem | None = None) -> None:
    """Create what a prune needs on a full disk, while there is room: called when a root is used.

    That is the private directory, its directories that sessions are moved to, the audit log and its
    reserve. If the reserve exists, nothing is done, which takes one system call. Nothing is raised:
    a root that can't be prepared can be used all the same.

    Args:
        root: The root.
        fs: The file system; the real one if None.
    """
    fs = fs or OsFileSystem()
    with suppress(OSError, ValueError):
        fs.stat(os.path.join(root, PRIVATE, RESERVE_NAME))
        return
    with suppress(OSError, ValueError), opened(fs, os.fspath(root), _ROOT_FLAGS) as root_fd:
        _make(fs, root_fd, PRIVATE)
        with opened(fs, PRIVATE, DIRECTORY_FLAGS, dir_fd=root_fd) as private_fd:
            ours = fs.fstat(private_fd).st_uid in owners_of(fs, root_fd)
            if ours and try_lock(fs, private_fd):
                furnish(fs, private_fd)


def furnish(fs: FileSystem, private_fd: int) -> None:
    """Create what is missing in a private directory that the caller has locked.

    Raises:
        OSError: The system refused; what was created by then stays.
    """
    for name in (GOING, TRASH):
        _make(fs, private_fd, name)
    made = make_reserve(fs, private_fd)
    if make_log(fs, private_fd) or made:
        fs.fsync(private_fd)


def _make(fs: FileSystem, parent_fd: int, name: str) -> None:
    if is_there(fs, parent_fd, name):
        return
    with suppress(FileExistsError):
        fs.mkdir(name, 0o700, dir_fd=parent_fd)
        _hand_over(fs, parent_fd, name)
        fs.fsync(parent_fd)


def _hand_over(fs: FileSystem, parent_fd: int, name: str) -> None:
    """Give a directory that root has just made, and that is empty, to its parent's owner."""
    user = os.geteuid()
    if user != 0 or fs.fstat(parent_fd).st_uid == user:
        return
    with opened(fs, name, DIRECTORY_FLAGS, dir_fd=parent_fd) as fd:
        if fs.fstat(fd).st_uid == user and not fs.listdir(fd):
            hand_over(fs, fd, parent_fd)


def _mounted(path: Path) -> str:
    return f"something is mounted at {path}, and what is removed goes there by a rename"


def refused(path: Path, cause: OSError) -> str:
    """Return why a private directory, or one in it, can't be opened or created."""
    if cause.errno in {errno.ENOTDIR, errno.ELOOP}:
        return f"{path} is no directory, and it is where what is removed goes first"
    if cause.errno in FULL:
        return (
            f"{path}: {cause.strerror}; put the audit log on another disk, and sessions can go "
            "(agentforge prune --audit-log, Disposal.audit_path)"
        )
    return f"{path}: {cause.strerror or cause}"


@contextmanager
def opened_as_it_is(fs: FileSystem, root: Path, root_fd: int, name: str) -> Iterator[int | None]:
    """Hold open a directory in a root's private one, without a lock; None if it is missing.

    Raises:
        OSError: It can't be opened, or something else has its name; its text names the path.
    """
    with ExitStack() as opened:
        fd, path = root_fd, root
        for part in (PRIVATE, name):
            path = path / part
            try:
                fd = fs.open(part, DIRECTORY_FLAGS, dir_fd=fd)
            except FileNotFoundError:
                fd = -1
                break
            except OSError as error:
                raise OSError(error.errno, refused(path, error)) from error
            opened.callback(close_reader, fs, fd)
        yield fd if fd >= 0 else None


@contextmanager
def opened_root(
    root: Path, outside: PruneEnvironment, timeout_s: float
) -> Iterator[PrivateDirectory]:
    """Open a root and its private directory, alone; raise system errors as typed ones."""
    with root_opened(outside.fs, root) as root_fd:
        private = PrivateDirectory(outside, root, root_fd, timeout_s=timeout_s)
        with closing(private):
            yield private


# --------------------------------------------------------------------------- names out of sight


def hidden_name(session_id: str, token: str) -> str:
    """Return a session's name out of sight; it contains the id."""
    return f"{session_id}{_SEPARATOR}{token}"


def session_of(hidden: str) -> str:
    """Return the session id in a name out of sight; bytes that are no text are escaped."""
    return _shown(hidden.rsplit(_SEPARATOR, 1)[0])


def _shown(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def going_path(hidden: str) -> str:
    """Return the path in its root of something that is being removed, for messages."""
    return f"{PRIVATE}/{GOING}/{_shown(hidden)}"


def still_going(hidden: str) -> str:
    """Return where an incompletely removed session is, and what happens to it next."""
    return f"it is out of sight in {going_path(hidden)}, the next prune tries again"


def token_of(inode: int, token: str) -> str:
    """Put the inode of what is to be removed into a token, so that nothing else is taken for it."""
    return f"{inode:x}{_INODE_END}{token}"


def inode_of(hidden: str) -> int | None:
    """Return the inode in a name out of sight; None if it has none."""
    number, found, _ = hidden.rsplit(_SEPARATOR, 1)[-1].partition(_INODE_END)
    try:
        return int(number, 16) if found else None
    except ValueError:
        return None
