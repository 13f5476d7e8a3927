"""Host access to a sandbox session's workspace: list, read, write and delete files."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from ...base.files import DirectoryLock, DurableError, FileSystem, discard_tree
from ...base.files.filesystem import READ_FLAGS
from ...base.files.regular_file import read_descriptor
from ...base.files.safe_path import Missing, directory_beneath
from ..errors import PathEscapesWorkspace, SandboxError
from ..sandbox_logging import EventLogger, SandboxLogger
from ..workspaces.quota import forget_usage
from .session_directory import (
    DEFAULT_ROOT,
    INCOMING_PREFIX,
    LOCK_TIMEOUT_S,
    OS_FILES,
    SessionFileSystem,
    close_quietly,
    named_error,
    open_session,
    random_token,
    stage_file,
    walk_files,
)
from .session_paths import path_matcher, validate_session_id, validate_session_path

MAX_READ_BYTES: Final = 256 << 20
"""The largest file read by default, in bytes: a guest can create sparse ones."""


class _OpenPlace(NamedTuple):
    """Where a path leads: its open directory and the name in it.

    Attributes:
        root_fd: The workspace root.
        fd: The directory of the path's last name.
        name: That name.
        path: The normal form of the path.
    """

    root_fd: int
    fd: int
    name: str
    path: Path

    @property
    def printable(self) -> str:
        """The path, printable for a log."""
        return os.fsencode(self.path).decode("utf-8", "backslashreplace")


@contextmanager
def _place_of(
    session_id: str,
    relative_path: str,
    workspace_root: str | os.PathLike[str],
    fs: SessionFileSystem,
    *,
    missing: Missing = Missing.REFUSED,
) -> Iterator[_OpenPlace]:
    """Hold open the directory of a path's last name; errors name the path as given."""
    validate_session_id(session_id)
    path = validate_session_path(relative_path)
    with (
        _naming(relative_path),
        open_session(session_id, workspace_root, fs=fs) as session,
        directory_beneath(fs, session.fd, path.parts[:-1], missing=missing) as parent,
    ):
        yield _OpenPlace(session.root_fd, parent, path.parts[-1], path)


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Make the system's errors name only what the caller named."""
    try:
        yield
    except SandboxError:
        raise
    except (OSError, DurableError) as error:
        raise named_error(error, name) from None


def list_session_files(
    session_id: str,
    workspace_root: str | os.PathLike[str] = DEFAULT_ROOT,
    pattern: str | None = None,
    logger: SandboxLogger | EventLogger | None = None,
    *,
    fs: SessionFileSystem = OS_FILES,
) -> list[str]:
    """Return the regular files in a sandbox session's workspace.

    Directories, links, pipes and the metadata are not listed, and no link is followed.

    Args:
        session_id: The session.
        workspace_root: The directory the sessions' workspaces are in.
        pattern: Only paths that match this, from the top of the workspace: `*`, `?` and `[…]` match
            within a name, `**` as a full component matches any number of directories. Case matters;
            names that begin with a dot match like others.
        logger: Logs `session.file.list`.
        fs: The file system.

    Returns:
        Workspace-relative posix paths, sorted. Bytes that are not UTF-8 are surrogates, as in `os`.

    Raises:
        InvalidSessionId: The id cannot name a workspace.
        PathEscapesWorkspace: The pattern is absolute, climbs or is empty.
        SessionWorkspaceMissing: There is no such session.
        OSError: The system refused, or the tree is larger than `MAX_LISTED_ENTRIES`,
            `MAX_LISTED_BYTES` or `MAX_LISTED_DEPTH` allow (`EOVERFLOW`).
    """
    validate_session_id(session_id)
    matches = None if pattern is None else path_matcher(pattern)
    with _naming(session_id), open_session(session_id, workspace_root, fs=fs) as session:
        found = [
            "/".join(parts)
            for parts, _ in walk_files(fs, session.fd)
            if matches is None or matches(parts)
        ]
    found.sort()
    SandboxLogger.of(logger).info(
        "session.file.list", session_id=session_id, pattern=pattern, count=len(found)
    )
    return found


def read_session_file(
    session_id: str,
    relative_path: str,
    workspace_root: str | os.PathLike[str] = DEFAULT_ROOT,
    logger: SandboxLogger | EventLogger | None = None,
    *,
    max_bytes: int = MAX_READ_BYTES,
    fs: SessionFileSystem = OS_FILES,
) -> bytes:
    """Read a file of a sandbox session's workspace; never block on a pipe.

    Args:
        session_id: The session.
        relative_path: The file, from the top of the workspace.
        workspace_root: The directory the sessions' workspaces are in.
        logger: Logs `session.file.read`.
        max_bytes: The largest file to read.
        fs: The file system.

    Raises:
        InvalidSessionId: The id cannot name a workspace.
        PathEscapesWorkspace: The path leads out, or over a link.
        ReservedSessionPath: The path names the metadata.
        SessionWorkspaceMissing: There is no such session.
        FileNotFoundError: There is no such file.
        IsADirectoryError: It is a directory.
        OSError: It is not a regular file (`EINVAL`), too large (`EFBIG`), or the system refused.
    """
    with _place_of(session_id, relative_path, workspace_root, fs) as place:
        _require_regular(fs.stat(place.name, dir_fd=place.fd), relative_path)
        fd = fs.open(place.name, READ_FLAGS, dir_fd=place.fd)
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
    SandboxLogger.of(logger).info(
        "session.file.read", session_id=session_id, path=place.printable, size_bytes=len(data)
    )
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
    """Read a text file as `read_session_file` does; line ends are not converted.

    Decodes like `bytes.decode(encoding, errors)`.

    Raises:
        UnicodeDecodeError: The file is not in this encoding.
        Exception: As from `read_session_file`.
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
    fs: SessionFileSystem = OS_FILES,
) -> None:
    """Write a file into a sandbox session's workspace, creating directories on the way.

    A reader sees the old content or the new, never a part: the content is written outside every
    workspace and renamed into place. It is not synced: after a power failure the file may have the
    old or the new content, or be empty. A replaced file's mode is preserved; a new file has 0600.

    Args:
        session_id: The session.
        relative_path: The file, from the top of the workspace.
        data: The content; text is encoded as UTF-8.
        workspace_root: The directory the sessions' workspaces are in.
        overwrite: Whether an existing file may be replaced.
        logger: Logs `session.file.write`.
        fs: The file system.

    Raises:
        TypeError: The data is neither bytes nor text.
        UnicodeEncodeError: The text has lone surrogates.
        InvalidSessionId: The id cannot name a workspace.
        PathEscapesWorkspace: The path leads out, or over a link.
        ReservedSessionPath: The path names the metadata.
        SessionWorkspaceMissing: There is no such session.
        FileExistsError: The file exists and `overwrite` is false.
        PermissionError: The file is read-only, or the system refused.
        OSError: The path is not a file, or the system refused; the old content is unchanged.
    """
    if not isinstance(data, (bytes, bytearray, memoryview, str)):
        raise TypeError(f"data must be bytes or str, not {type(data).__name__}")
    content = data.encode("utf-8") if isinstance(data, str) else bytes(data)
    with _place_of(session_id, relative_path, workspace_root, fs, missing=Missing.MADE) as place:
        mode = _mode_to_keep(fs, place, relative_path, overwrite=overwrite)
        incoming = stage_file(fs, place.root_fd, content, mode=mode)
        try:
            # Without `overwrite`, a rename could replace a file created meanwhile; a link cannot.
            put = fs.rename if overwrite else fs.link
            put(incoming, place.name, src_dir_fd=place.root_fd, dst_dir_fd=place.fd)
        finally:
            with suppress(FileNotFoundError):
                fs.unlink(incoming, dir_fd=place.root_fd)
    forget_usage(Path(workspace_root) / session_id)
    SandboxLogger.of(logger).info(
        "session.file.write", session_id=session_id, path=place.printable, size_bytes=len(content)
    )


def _mode_to_keep(fs: FileSystem, place: _OpenPlace, shown_path: str, *, overwrite: bool) -> int:
    """Return the mode of the file to be replaced, or of a new one."""
    try:
        status = fs.stat(place.name, dir_fd=place.fd)
    except FileNotFoundError:
        return 0o600
    _refuse_link(status, shown_path)
    if not overwrite:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    _require_regular(status, shown_path)
    if not status.st_mode & stat.S_IWUSR:  # a rename ignores this, and so does root
        raise PermissionError(errno.EACCES, "Permission denied: the file is read-only")
    return stat.S_IMODE(status.st_mode) & 0o777


def delete_session_path(
    session_id: str,
    relative_path: str,
    workspace_root: str | os.PathLike[str] = DEFAULT_ROOT,
    recursive: bool = False,
    logger: SandboxLogger | EventLogger | None = None,
    *,
    fs: SessionFileSystem = OS_FILES,
) -> None:
    """Delete a file or a directory of a sandbox session's workspace.

    A directory with content is first renamed out of the workspace, so it disappears at once, and
    then emptied. Links in it are deleted, never followed.

    Args:
        session_id: The session.
        relative_path: The file or directory, from the top of the workspace.
        workspace_root: The directory the sessions' workspaces are in.
        recursive: Whether a directory may have content.
        logger: Logs `session.file.delete`.
        fs: The file system.

    Raises:
        InvalidSessionId: The id cannot name a workspace.
        PathEscapesWorkspace: The path leads out, or to or over a link.
        ReservedSessionPath: The path names the metadata.
        SessionWorkspaceMissing: There is no such session.
        FileNotFoundError: The path does not exist.
        OSError: A directory has content (`ENOTEMPTY`), or the system refused.
    """
    with _place_of(session_id, relative_path, workspace_root, fs) as place:
        status = fs.stat(place.name, dir_fd=place.fd)
        _refuse_link(status, relative_path)
        if not stat.S_ISDIR(status.st_mode):
            fs.unlink(place.name, dir_fd=place.fd)
        elif not recursive:
            fs.rmdir(place.name, dir_fd=place.fd)
        else:
            root = Path(workspace_root)
            with DirectoryLock(fs, root, timeout_s=LOCK_TIMEOUT_S, follow=True) as lock:
                outgoing = f"{INCOMING_PREFIX}{random_token()}"
                fs.rename(place.name, outgoing, src_dir_fd=place.fd, dst_dir_fd=lock.fd)
                discard_tree(fs, lock.fd, outgoing, parent=root, token=random_token)
    forget_usage(Path(workspace_root) / session_id)
    SandboxLogger.of(logger).info(
        "session.file.delete", session_id=session_id, path=place.printable, recursive=recursive
    )


def _refuse_link(status: os.stat_result, shown_path: str) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise PathEscapesWorkspace(shown_path, "it leads over a symbolic link")
