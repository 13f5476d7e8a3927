"""The host's way into a session's workspace: list, read, write and delete by relative path.

A guest may have left anything in its workspace, links included, and may be running now. So no path
is ever handed to the system: every directory on the way is opened by descriptor without following
a link, and the last name is used relative to the descriptor of its directory. What is swapped for
a link while a call is under way is refused or found missing; it never leads out.

The names `.incoming-…` and `.discarded-…` in the workspace root belong to this module and
`durable`: content on its way in, and trees on their way out.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from ..durable import (
    DirectoryLock,
    DurableError,
    FileSystem,
    OsFileSystem,
    discard_tree,
    hand_over,
)
from ..durable.filesystem import CREATE_FLAGS, DIRECTORY_FLAGS, READ_FLAGS
from ..durable.regular_file import being_written, read_descriptor, write_all
from ..durable.safe_path import Missing, directory_beneath, open_directory
from ..durable.tree_walk import walk_tree
from ..errors import ErrorKind, shown
from ..identifiers import InvalidIdentifier, is_workspace_name
from .deferred_close import close_later
from .errors import SandboxError
from .guest_paths import HIDDEN_NAME, is_hidden
from .sandbox_logging import EventLogger, SandboxLogger
from .workspace_usage import forget_usage

DEFAULT_ROOT: Final = Path("workspace")
"""Where the workspaces of sessions are when the caller names no other directory."""

METADATA_NAME: Final = HIDDEN_NAME
"""The file at the top of a session's workspace that is the host's alone."""

INCOMING_PREFIX: Final = ".incoming-"
"""Begins the names, in the workspace root, of content that is not yet in its place."""

ABANDONED_AFTER: Final = timedelta(hours=1)
"""How old such content is, by its last change, when its writer counts as dead."""

MAX_READ_BYTES: Final = 256 << 20
"""The largest file read whole, unless the caller says otherwise: a guest can make sparse ones."""

MAX_LISTED_ENTRIES: Final = 100_000
"""The most files and directories one listing visits."""

MAX_LISTED_BYTES: Final = 64 << 20
"""The most bytes of paths one listing holds."""

MAX_LISTED_DEPTH: Final = 100
"""The deepest directory one listing enters; it holds one descriptor for each level."""

LOCK_TIMEOUT_S: Final = 30.0
"""How long a removal waits for another one in the same workspace root, in seconds."""

_DRIVE: Final = re.compile(r"[A-Za-z]:(/|\Z)")
_ROOT_FLAGS: Final = DIRECTORY_FLAGS & ~os.O_NOFOLLOW


class InvalidSessionId(SandboxError, InvalidIdentifier):
    """A session id cannot name a workspace; the file system was not touched.

    Attributes:
        given: What was given.
    """

    kind = ErrorKind.USAGE

    def __init__(self, session_id: object) -> None:
        self.given = session_id
        super().__init__(
            f"the session id {shown(session_id)} was refused: it must have 1 to 128 letters, "
            "digits, '-' and '_', the first of them a letter or digit. Nothing was touched; "
            "use an id that create_session_sandbox returned"
        )


class PathEscapesWorkspace(SandboxError, ValueError):
    """A path names something outside a session's workspace, or might; nothing was done.

    Attributes:
        relative_path: The path as it was given.
        reason: What is wrong with it.
    """

    kind = ErrorKind.USAGE

    def __init__(self, relative_path: object, reason: str) -> None:
        self.relative_path = relative_path
        self.reason = reason
        super().__init__(
            f"the path {shown(relative_path)} escapes the session's workspace: {reason}. "
            "Nothing was read or changed; name a path below the workspace that leads over no link"
        )


class ReservedSessionPath(SandboxError, ValueError):
    """A path names the session's metadata, which is not one of its files; nothing was done.

    Attributes:
        relative_path: The path as it was given.
    """

    kind = ErrorKind.USAGE

    def __init__(self, relative_path: object) -> None:
        self.relative_path = relative_path
        super().__init__(
            f"the path {shown(relative_path)} is reserved: it names the session's metadata. "
            "Nothing was read or changed; use read_session_metadata or repair_session_metadata"
        )


class SessionWorkspaceMissing(SandboxError, FileNotFoundError):
    """A session has no workspace under the workspace root.

    Attributes:
        session_id: The session.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        FileNotFoundError.__init__(
            self, errno.ENOENT, "no session has a workspace by this id", session_id
        )


class SessionFileSystem(FileSystem, Protocol):
    """The system calls of durable files, and three more; every method may raise `OSError`."""

    def link(self, source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        """See `os.link`: never follows a link in the last component."""
        ...

    def fchmod(self, fd: int, mode: int) -> None:
        """See `os.fchmod`."""
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
    """A session's workspace, open.

    Attributes:
        root_fd: The workspace root.
        fd: The session's workspace in it.
    """

    root_fd: int
    fd: int


def close_quietly(fs: FileSystem, fd: int) -> None:
    """Close a descriptor nothing was written through; it is closed whatever the system answers."""
    try:  # noqa: SIM105 (whoever dates ten thousand workspaces closes as many)
        fs.close(fd)
    except OSError:
        pass


def random_token() -> str:
    """A text that no other name in a workspace root has."""
    return secrets.token_hex(16)


def validate_session_id(session_id: object) -> str:
    """The session id, if it can name a workspace.

    Raises:
        InvalidSessionId: It cannot.
    """
    if isinstance(session_id, str) and is_workspace_name(session_id):
        return session_id
    raise InvalidSessionId(session_id)


def validate_session_path(relative_path: str) -> Path:
    r"""The normal form of a path in a session's workspace; the file system is not asked.

    Backslashes count as slashes; `.` and empty components vanish, and so does `x/..`. Links are
    not known here: they are refused when the path is opened.

    Args:
        relative_path: Such as `results/data.csv`, `results\\data.csv` or `results/`.

    Returns:
        A relative path of at least one component, none of them `..`.

    Raises:
        PathEscapesWorkspace: It is absolute, climbs out, is empty, or can be no path at all.
        ReservedSessionPath: It names the metadata, in whatever spelling.
    """
    parts: list[str] = []
    for part in _components(relative_path):
        if part == "..":
            if not parts:
                raise PathEscapesWorkspace(relative_path, "it climbs out")
            parts.pop()
        else:
            parts.append(part)
    if not parts:
        raise PathEscapesWorkspace(relative_path, "it names the workspace itself")
    if is_hidden(parts[0]):
        raise ReservedSessionPath(relative_path)
    return Path(*parts)


def _components(text: object) -> list[str]:
    if not isinstance(text, str):
        raise PathEscapesWorkspace(text, f"it is no text but {type(text).__name__}")
    if "\0" in text:
        raise PathEscapesWorkspace(text, "it holds a NUL character")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise PathEscapesWorkspace(text, "it holds a character no name can have") from None
    plain = text.replace("\\", "/")
    if plain.startswith("/") or _DRIVE.match(plain):
        raise PathEscapesWorkspace(text, "absolute paths are not allowed")
    return [part for part in plain.split("/") if part not in ("", ".")]


@contextmanager
def open_session(
    session_id: str, workspace_root: str | os.PathLike[str], *, fs: FileSystem = OS_FILES
) -> Iterator[SessionDirectory]:
    """Hold a session's workspace open.

    Args:
        session_id: The session.
        workspace_root: The directory the sessions' workspaces are in.
        fs: The file system.

    Raises:
        InvalidSessionId: The id cannot name a workspace.
        SessionWorkspaceMissing: There is no such workspace.
        PathEscapesWorkspace: A symbolic link stands in its place.
        OSError: The system refused.
    """
    validate_session_id(session_id)
    try:
        root_fd = fs.open(os.fspath(workspace_root), _ROOT_FLAGS)
    except FileNotFoundError:
        raise SessionWorkspaceMissing(session_id) from None
    except OSError as error:
        raise _retold(error, session_id) from None
    try:
        try:
            fd = open_directory(fs, session_id, dir_fd=root_fd)
        except FileNotFoundError:
            raise SessionWorkspaceMissing(session_id) from None
        except OSError as error:
            raise _named(error, session_id) from None
        try:
            yield SessionDirectory(root_fd, fd)
        finally:
            close_quietly(fs, fd)
    finally:
        close_quietly(fs, root_fd)


def _refuse_link(status: os.stat_result, shown_path: str) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise PathEscapesWorkspace(shown_path, "it leads over a symbolic link")


@contextmanager
def _told_of(relative_path: str) -> Iterator[None]:
    """Have errors name the path the caller gave, and nothing of the host's."""
    try:
        yield
    except SandboxError:
        raise
    except (OSError, DurableError) as error:
        raise _named(error, relative_path) from None


def _named(error: OSError | DurableError, name: str) -> Exception:
    """An error that names only what the caller named."""
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return PathEscapesWorkspace(name, "it leads over a symbolic link")
    return _retold(error, name)


def _retold(error: OSError | DurableError, name: str) -> OSError:
    """An error of the same kind that names only what the caller named."""
    cause = error if isinstance(error, OSError) else getattr(error, "cause", None)
    number = getattr(cause, "errno", None)
    if isinstance(cause, TimeoutError):
        number = errno.ETIMEDOUT
    if not isinstance(number, int):
        number = errno.EIO
    words = getattr(cause, "strerror", None) or os.strerror(number)
    return OSError(number, words, name)


def list_session_files(
    session_id: str,
    workspace_root: str | os.PathLike[str] = DEFAULT_ROOT,
    pattern: str | None = None,
    logger: SandboxLogger | EventLogger | None = None,
    *,
    fs: SessionFileSystem = OS_FILES,
) -> list[str]:
    """Name the regular files in a session's workspace.

    Directories, links, pipes and the metadata are not listed, and no link is followed.

    Args:
        session_id: The session.
        workspace_root: The directory the sessions' workspaces are in.
        pattern: Only what matches this, from the top of the workspace: `*`, `?` and `[…]` stay
            within a name, `**` as a whole component stands for any number of directories. Upper
            and lower case differ; names that begin with a dot match like others.
        logger: Told `session.file.list`.
        fs: The file system.

    Returns:
        Workspace-relative posix paths, sorted. Bytes that are no UTF-8 are surrogates, as `os`
        has them.

    Raises:
        InvalidSessionId: The id cannot name a workspace.
        PathEscapesWorkspace: The pattern is absolute, climbs or is empty.
        SessionWorkspaceMissing: There is no such session.
        OSError: The system refused, or the tree is larger than `MAX_LISTED_ENTRIES`,
            `MAX_LISTED_BYTES` or `MAX_LISTED_DEPTH` allow (`EOVERFLOW`).
    """
    validate_session_id(session_id)
    matches = None if pattern is None else _matcher(pattern)
    with _told_of(session_id), open_session(session_id, workspace_root, fs=fs) as session:
        found = [
            "/".join(parts)
            for parts, _ in walk_files(fs, session.fd)
            if matches is None or matches(parts)
        ]
    found.sort()
    SandboxLogger.of(logger).files_listed(session_id, pattern=pattern, count=len(found))
    return found


def _matcher(pattern: str) -> Callable[[Sequence[str]], bool]:
    """A test of a path's components against a glob; its cost is their two lengths multiplied."""
    names = _components(pattern)
    if not names or ".." in names:
        raise PathEscapesWorkspace(pattern, "a pattern may not climb or be empty")
    if names[-1] == "**":
        names.append("*")
    tests = [None if name == "**" else re.compile(fnmatch.translate(name)).match for name in names]

    def reached(positions: set[int]) -> set[int]:
        for position in sorted(positions):
            here = position
            while here < len(tests) and tests[here] is None:  # `**` may stand for nothing
                here += 1
                positions.add(here)
        return positions

    def matches(parts: Sequence[str]) -> bool:
        positions = reached({0})
        for part in parts:
            after = set()
            for position in positions:
                if position == len(tests):
                    continue
                test = tests[position]
                if test is None:
                    after.add(position)
                elif test(part):
                    after.add(position + 1)
            positions = reached(after)
        return len(tests) in positions

    return matches


def walk_files(
    fs: FileSystem,
    session_fd: int,
    *,
    max_entries: int = MAX_LISTED_ENTRIES,
    max_bytes: int = MAX_LISTED_BYTES,
    max_depth: int = MAX_LISTED_DEPTH,
) -> Iterator[tuple[tuple[str, ...], os.stat_result]]:
    """Every regular file below a session's workspace but its metadata, with its status.

    What vanishes under the walk is passed over.

    Raises:
        OSError: The system refused, or a limit was met (`EOVERFLOW`).
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
    """Go on past what vanished, or was swapped for a link."""
    if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
        raise error


def read_session_file(
    session_id: str,
    relative_path: str,
    workspace_root: str | os.PathLike[str] = DEFAULT_ROOT,
    logger: SandboxLogger | EventLogger | None = None,
    *,
    max_bytes: int = MAX_READ_BYTES,
    fs: SessionFileSystem = OS_FILES,
) -> bytes:
    """Read a whole file of a session's workspace; never blocks on a pipe.

    Args:
        session_id: The session.
        relative_path: The file, from the top of the workspace.
        workspace_root: The directory the sessions' workspaces are in.
        logger: Told `session.file.read`.
        max_bytes: The largest file that is read.
        fs: The file system.

    Raises:
        InvalidSessionId: The id cannot name a workspace.
        PathEscapesWorkspace: The path leads out, or over a link.
        ReservedSessionPath: The path names the metadata.
        SessionWorkspaceMissing: There is no such session.
        FileNotFoundError: There is no such file.
        IsADirectoryError: It is a directory.
        OSError: It is no regular file (`EINVAL`), too large (`EFBIG`), or the system refused.
    """
    validate_session_id(session_id)
    path = validate_session_path(relative_path)
    with (
        _told_of(relative_path),
        open_session(session_id, workspace_root, fs=fs) as session,
        directory_beneath(fs, session.fd, path.parts[:-1]) as parent,
    ):
        _require_regular(fs.stat(path.name, dir_fd=parent), relative_path)
        fd = fs.open(path.name, READ_FLAGS, dir_fd=parent)
        try:
            status = fs.fstat(fd)
            _require_regular(status, relative_path)
            if status.st_size > max_bytes:
                raise OSError(
                    errno.EFBIG, f"it has {status.st_size:,} bytes, the limit is {max_bytes:,}"
                )
            data = read_descriptor(fs, fd, status.st_size)
        finally:
            close_quietly(fs, fd)
    SandboxLogger.of(logger).file_read(session_id, path=_printable(path), size_bytes=len(data))
    return data


def read_session_text(
    session_id: str,
    relative_path: str,
    workspace_root: str | os.PathLike[str] = DEFAULT_ROOT,
    logger: SandboxLogger | EventLogger | None = None,
    *,
    encoding: str = "utf-8",
    errors: str = "strict",
    max_bytes: int = MAX_READ_BYTES,
    fs: SessionFileSystem = OS_FILES,
) -> str:
    """Read a whole text file of a session's workspace; line ends stay as they are.

    Args:
        session_id: The session.
        relative_path: The file, from the top of the workspace.
        workspace_root: The directory the sessions' workspaces are in.
        logger: Told `session.file.read`.
        encoding: How its bytes are decoded.
        errors: What becomes of bytes that cannot be, as `bytes.decode` takes it.
        max_bytes: The largest file that is read.
        fs: The file system.

    Raises:
        UnicodeDecodeError: The file is not in this encoding.
        Exception: As `read_session_file`.
    """
    data = read_session_file(
        session_id, relative_path, workspace_root, logger, max_bytes=max_bytes, fs=fs
    )
    return data.decode(encoding, errors)


def _require_regular(status: os.stat_result, shown_path: str) -> None:
    _refuse_link(status, shown_path)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")


def write_session_file(
    session_id: str,
    relative_path: str,
    data: bytes | str,
    workspace_root: str | os.PathLike[str] = DEFAULT_ROOT,
    overwrite: bool = True,
    logger: SandboxLogger | EventLogger | None = None,
    *,
    token: Callable[[], str] = random_token,
    fs: SessionFileSystem = OS_FILES,
) -> None:
    """Write a whole file into a session's workspace, making the directories on the way.

    A reader sees the old content or the new one, never a part: the content is made outside every
    workspace and renamed into place. It is not synced: after a power failure either may be there,
    or an empty file. A file that is replaced keeps its mode; a new one has 0600.

    Args:
        session_id: The session.
        relative_path: The file, from the top of the workspace.
        data: The content; text is encoded as UTF-8.
        workspace_root: The directory the sessions' workspaces are in.
        overwrite: Whether a file that is there may be replaced.
        logger: Told `session.file.write`.
        token: Gives a fresh random text for the name on the way.
        fs: The file system.

    Raises:
        TypeError: The data is neither bytes nor text.
        UnicodeEncodeError: The text has lone surrogates.
        InvalidSessionId: The id cannot name a workspace.
        PathEscapesWorkspace: The path leads out, or over a link.
        ReservedSessionPath: The path names the metadata.
        SessionWorkspaceMissing: There is no such session.
        FileExistsError: The file is there and `overwrite` is false.
        PermissionError: The file is read-only, or the system refused.
        OSError: Something else is in its place, or the system refused; the old content is kept.
    """
    validate_session_id(session_id)
    path = validate_session_path(relative_path)
    if not isinstance(data, (bytes, bytearray, memoryview, str)):
        raise TypeError(f"data must be bytes or str, not {type(data).__name__}")
    content = data.encode("utf-8") if isinstance(data, str) else bytes(data)
    with (
        _told_of(relative_path),
        open_session(session_id, workspace_root, fs=fs) as session,
        directory_beneath(fs, session.fd, path.parts[:-1], missing=Missing.MADE) as parent,
    ):
        mode = _mode_to_keep(fs, parent, path.name, relative_path, overwrite=overwrite)
        incoming = stage_file(fs, session.root_fd, content, mode=mode, token=token)
        try:
            if overwrite:
                fs.rename(incoming, path.name, src_dir_fd=session.root_fd, dst_dir_fd=parent)
            else:  # a rename would take the place of a file made meanwhile
                fs.link(incoming, path.name, src_dir_fd=session.root_fd, dst_dir_fd=parent)
        finally:
            with suppress(FileNotFoundError):
                fs.unlink(incoming, dir_fd=session.root_fd)
    forget_usage(Path(workspace_root) / session_id)
    SandboxLogger.of(logger).file_written(
        session_id, path=_printable(path), size_bytes=len(content)
    )


def _mode_to_keep(
    fs: FileSystem, parent: int, name: str, shown_path: str, *, overwrite: bool
) -> int:
    """The mode of the file that is to be replaced, or that of a new one."""
    try:
        status = fs.stat(name, dir_fd=parent)
    except FileNotFoundError:
        return 0o600
    _refuse_link(status, shown_path)
    if not overwrite:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    _require_regular(status, shown_path)
    if not status.st_mode & stat.S_IWUSR:  # a rename would not ask, nor does the system ask root
        raise PermissionError(errno.EACCES, "Permission denied: the file is read-only")
    return stat.S_IMODE(status.st_mode) & 0o777


def stage_file(
    fs: SessionFileSystem,
    directory_fd: int,
    content: bytes,
    *,
    mode: int,
    token: Callable[[], str],
    owner_fd: int | None = None,
) -> str:
    """Write content under a fresh name in a directory, unsynced, and return the name.

    Args:
        fs: The file system.
        directory_fd: The directory.
        content: What to write.
        mode: The file's permissions.
        token: Gives a fresh random text for the name.
        owner_fd: A directory to whose owner it belongs where root makes it; None for nobody's.

    Raises:
        OSError: As the system answered; nothing is left.
    """
    name = f"{INCOMING_PREFIX}{token()}"
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
    """Write a file that is not there yet, unsynced; its owner is as `stage_file` has it.

    Raises:
        OSError: As the system answered; a file that was begun is gone again.
    """
    fd = fs.open(name, CREATE_FLAGS, 0o600, dir_fd=directory_fd)
    with being_written(fs, fd, directory_fd, name):
        if owner_fd is not None:
            hand_over(fs, fd, owner_fd)
        write_all(fs, fd, [content])
        if mode != 0o600:
            fs.fchmod(fd, mode)


def delete_session_path(
    session_id: str,
    relative_path: str,
    workspace_root: str | os.PathLike[str] = DEFAULT_ROOT,
    recursive: bool = False,
    logger: SandboxLogger | EventLogger | None = None,
    *,
    token: Callable[[], str] = random_token,
    fs: SessionFileSystem = OS_FILES,
) -> None:
    """Delete a file or a directory of a session's workspace.

    A directory with content goes as a whole: it is renamed out of the workspace first, then
    emptied. Links in it are deleted, never followed.

    Args:
        session_id: The session.
        relative_path: The file or directory, from the top of the workspace.
        workspace_root: The directory the sessions' workspaces are in.
        recursive: Whether a directory may have content.
        logger: Told `session.file.delete`.
        token: Gives a fresh random text for the name out of sight.
        fs: The file system.

    Raises:
        InvalidSessionId: The id cannot name a workspace.
        PathEscapesWorkspace: The path leads out, or to or over a link.
        ReservedSessionPath: The path names the metadata.
        SessionWorkspaceMissing: There is no such session.
        FileNotFoundError: There is nothing by this path.
        OSError: A directory has content (`ENOTEMPTY`), or the system refused.
    """
    validate_session_id(session_id)
    path = validate_session_path(relative_path)
    with (
        _told_of(relative_path),
        open_session(session_id, workspace_root, fs=fs) as session,
        directory_beneath(fs, session.fd, path.parts[:-1]) as parent,
    ):
        status = fs.stat(path.name, dir_fd=parent)
        _refuse_link(status, relative_path)
        if not stat.S_ISDIR(status.st_mode):
            fs.unlink(path.name, dir_fd=parent)
        elif not recursive:
            fs.rmdir(path.name, dir_fd=parent)
        else:
            root = Path(workspace_root)
            with DirectoryLock(fs, root, timeout_s=LOCK_TIMEOUT_S, follow=True) as lock:
                outgoing = f"{INCOMING_PREFIX}{token()}"
                fs.rename(path.name, outgoing, src_dir_fd=parent, dst_dir_fd=lock.fd)
                discard_tree(fs, lock.fd, outgoing, parent=root, token=token)
    forget_usage(Path(workspace_root) / session_id)
    SandboxLogger.of(logger).path_deleted(session_id, path=_printable(path), recursive=recursive)


def _printable(path: Path) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
