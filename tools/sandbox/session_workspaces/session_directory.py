"""A sandbox session's workspace, opened for the host: the only way to everything in it.

A guest may have left anything in its workspace, links included, and may be running now. So no path
is ever passed to the system: every directory on the way is opened by descriptor without following a
link, and the last name is used relative to its directory's descriptor. Anything swapped for a link
during a call is refused or found missing; it never leads out.

The names `.incoming-…` and `.discarded-…` in the workspace root belong to this package and
`durable`: content on its way in, and trees on their way out.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from ...base.files import DurableError, FileSystem, OsFileSystem, hand_over
from ...base.files.filesystem import CREATE_FLAGS, DIRECTORY_FLAGS
from ...base.files.regular_file import being_written, write_all
from ...base.files.safe_path import open_directory
from ...base.files.trees import walk_tree
from ..errors import PathEscapesWorkspace, SessionWorkspaceMissing
from ..guest_paths import is_hidden
from .session_paths import validate_session_id

_MOST_WAITING: Final = 64
"""The most descriptors that may wait; beyond it callers close their own."""

_IDLE_SECONDS: Final = 60.0


class DeferredCloser:
    """A thread that closes descriptors; it starts on demand and ends when idle.

    Closing the last descriptor of a replaced file frees its blocks. On a journaling file system
    that waits for other writers, for up to some milliseconds, and nothing depends on the result.

    Args:
        most: The most descriptors that may wait.
        idle_s: How long the thread waits for another one, in seconds.
    """

    def __init__(self, *, most: int = _MOST_WAITING, idle_s: float = _IDLE_SECONDS) -> None:
        self._lock = threading.RLock()
        self._condition = threading.Condition(self._lock)
        self._waiting: deque[int] = deque()
        self._most = most
        self._idle_s = idle_s
        self._thread: threading.Thread | None = None

    def close(self, fd: int) -> None:
        """Close a descriptor soon; at once if too many wait or no thread can start."""
        with self._lock:  # not the condition: a handler raising on its entry leaves it locked
            if len(self._waiting) < self._most and self._started():
                self._waiting.append(fd)
                self._condition.notify_all()  # all: an interrupted wait leaves a stale waiter
                return
        _close(fd)

    def _started(self) -> bool:
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="sandbox-closer", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads, or the process is ending
                return False
            self._thread = thread
        return True

    def _work(self) -> None:
        while True:
            with self._condition:
                if not self._condition.wait_for(lambda: bool(self._waiting), self._idle_s):
                    self._thread = None
                    return
                fd = self._waiting.popleft()
            _close(fd)


def _close(fd: int) -> None:
    with contextlib.suppress(OSError):  # it is closed even on an error
        os.close(fd)


_closer = DeferredCloser()


def close_later(fd: int) -> None:
    """Close a descriptor of a file without a name on another thread of this process."""
    _closer.close(fd)


def _after_fork() -> None:
    """Start again: the thread is the parent's, and its waiting descriptors close at exit."""
    global _closer  # noqa: PLW0603 (a child starts its own)
    _closer = DeferredCloser()


os.register_at_fork(after_in_child=_after_fork)


DEFAULT_ROOT: Final = Path("workspace")
"""The directory of sandbox sessions' workspaces, unless the caller names another."""

INCOMING_PREFIX: Final = ".incoming-"
"""Prefix of names, in the workspace root, of content not yet moved into place."""

ABANDONED_AFTER: Final = timedelta(hours=1)
"""Age of such content, since its last change, at which its writer counts as dead."""

MAX_LISTED_ENTRIES: Final = 100_000
"""The most files and directories one listing visits."""

MAX_LISTED_BYTES: Final = 64 << 20
"""The most bytes of paths in one listing."""

MAX_LISTED_DEPTH: Final = 100
"""The deepest directory one listing enters; it takes one descriptor per level."""

LOCK_TIMEOUT_S: Final = 30.0
"""How long a removal waits for another in the same workspace root, in seconds."""

_ROOT_FLAGS: Final = DIRECTORY_FLAGS & ~os.O_NOFOLLOW


class SessionFileSystem(FileSystem, Protocol):
    """The system calls of durable files, and three more; every method may raise `OSError`."""

    def link(self, source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        """Link as `os.link` does; never follow a link in the last component."""
        ...

    def fchmod(self, fd: int, mode: int) -> None:
        """Change the mode as `os.fchmod` does."""
        ...

    def close_later(self, fd: int) -> None:
        """Close a descriptor whose file was replaced, at once or soon; never raises."""
        ...


class OsSessionFileSystem(OsFileSystem):
    """The real system calls."""

    fchmod = staticmethod(os.fchmod)
    close_later = staticmethod(close_later)

    @staticmethod
    def link(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        """Give a file a second name."""
        os.link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=False)


OS_FILES: Final = OsSessionFileSystem()


class SessionDirectory(NamedTuple):
    """A sandbox session's workspace, open.

    Attributes:
        root_fd: The workspace root.
        fd: The session's workspace.
    """

    root_fd: int
    fd: int


def close_quietly(fs: FileSystem, fd: int) -> None:
    """Close a descriptor nothing was written through; ignore errors: it is closed anyway."""
    try:  # noqa: SIM105 (speed: dating ten thousand workspaces closes as many)
        fs.close(fd)
    except OSError:
        pass


def random_token() -> str:
    """Return a text for a unique name in a workspace root."""
    return secrets.token_hex(16)


@contextmanager
def open_session(
    session_id: str, workspace_root: str | os.PathLike[str], *, fs: FileSystem = OS_FILES
) -> Iterator[SessionDirectory]:
    """Open a sandbox session's workspace for the block.

    Args:
        session_id: The session.
        workspace_root: The directory the sessions' workspaces are in.
        fs: The file system.

    Raises:
        InvalidSessionId: The id cannot name a workspace.
        SessionWorkspaceMissing: There is no such workspace.
        PathEscapesWorkspace: Its path is a symbolic link.
        OSError: The system refused.
    """
    validate_session_id(session_id)
    try:
        root_fd = fs.open(os.fspath(workspace_root), _ROOT_FLAGS)
    except FileNotFoundError:
        raise SessionWorkspaceMissing(session_id) from None
    except OSError as error:
        raise _renamed(error, session_id) from None
    try:
        try:
            fd = open_directory(fs, session_id, dir_fd=root_fd)
        except FileNotFoundError:
            raise SessionWorkspaceMissing(session_id) from None
        except OSError as error:
            raise named_error(error, session_id) from None
        try:
            yield SessionDirectory(root_fd, fd)
        finally:
            close_quietly(fs, fd)
    finally:
        close_quietly(fs, root_fd)


def named_error(error: OSError | DurableError, name: str) -> Exception:
    """Return the error with only the name that the caller used."""
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return PathEscapesWorkspace(name, "it leads over a symbolic link")
    return _renamed(error, name)


def _renamed(error: OSError | DurableError, name: str) -> OSError:
    """Return an error of the same kind with only the name that the caller used."""
    cause = error if isinstance(error, OSError) else getattr(error, "cause", None)
    number = getattr(cause, "errno", None)
    if isinstance(cause, TimeoutError):
        number = errno.ETIMEDOUT
    if not isinstance(number, int):
        number = errno.EIO
    words = getattr(cause, "strerror", None) or os.strerror(number)
    return OSError(number, words, name)


def walk_files(
    fs: FileSystem,
    session_fd: int,
    *,
    max_entries: int = MAX_LISTED_ENTRIES,
    max_bytes: int = MAX_LISTED_BYTES,
    max_depth: int = MAX_LISTED_DEPTH,
) -> Iterator[tuple[tuple[str, ...], os.stat_result]]:
    """Yield every regular file of a session's workspace but its metadata, with its status.

    Files that vanish during the walk are skipped.

    Raises:
        OSError: The system refused, or a limit was reached (`EOVERFLOW`).
    """
    for entry in walk_tree(
        fs, session_fd, enter=lambda entry: not is_hidden(entry.names[0]), onerror=_pass_over
    ):
        names = entry.names
        if is_hidden(names[0]):
            continue
        max_entries -= 1
        max_bytes -= sum(map(len, names)) + len(names)
        if max_entries < 0 or max_bytes < 0:
            raise OSError(errno.EOVERFLOW, "the workspace holds too many files to list")
        if stat.S_ISREG(entry.status.st_mode):
            yield names, entry.status
        elif entry.is_directory and len(names) > max_depth:
            raise OSError(errno.EOVERFLOW, "the workspace is nested too deep to list")


def _pass_over(error: OSError) -> None:
    """Skip what has vanished or was swapped for a link; raise any other error."""
    if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
        raise error


def stage_file(
    fs: SessionFileSystem,
    directory_fd: int,
    content: bytes,
    *,
    mode: int,
    owner_fd: int | None = None,
) -> str:
    """Write content under a new name in a directory, unsynced; return the name.

    Args:
        fs: The file system.
        directory_fd: The directory.
        content: What to write.
        mode: The file's permissions.
        owner_fd: A directory whose owner gets a file written by root; None leaves it root's.

    Raises:
        OSError: The system's error; nothing is left.
    """
    name = f"{INCOMING_PREFIX}{random_token()}"
    write_new_file(fs, directory_fd, name, content, mode=mode, owner_fd=owner_fd)
    return name


def write_new_file(
    fs: SessionFileSystem,
    directory_fd: int,
    name: str,
    content: bytes,
    *,
    mode: int = 0o600,
    owner_fd: int | None = None,
) -> None:
    """Write a file that does not exist yet, unsynced; its owner is as in `stage_file`.

    Raises:
        OSError: The system's error; a partial file is removed.
    """
    fd = fs.open(name, CREATE_FLAGS, 0o600, dir_fd=directory_fd)
    with being_written(fs, fd, directory_fd, name):
        if owner_fd is not None:
            hand_over(fs, fd, owner_fd)
        write_all(fs, fd, [content])
        if mode != 0o600:
            fs.fchmod(fd, mode)
