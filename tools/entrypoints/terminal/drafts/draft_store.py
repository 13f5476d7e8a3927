"""Stores drafts on disk, so that a lost connection loses nothing that was saved."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ....base.errors import AgentForgeError
from ....base.files import (
    DirectoryLock,
    FileSystem,
    OsFileSystem,
    ReadError,
    WriteError,
    make_durable_directory,
    read_regular_file,
    replace_file,
)
from ....base.identifiers import is_uuid
from .draft import Draft, from_fields, to_fields

MAX_BYTES: Final = 16 * 1024 * 1024
"""Size limit of a draft that is read, in bytes."""

_LOCK_TIMEOUT_S: Final = 5.0
_SUFFIX: Final = ".json"


class DraftUnreadable(AgentForgeError):
    """A draft can't be used; it was renamed out of the way if possible."""

    message = "the draft of session {session_id} can't be used: {reason}. It is in {path} now."
    session_id: str
    path: Path
    """The draft's current path."""
    reason: str


class DraftStore:
    """Drafts in a directory, one file per session.

    Files are replaced atomically and durably, with mode 0600 in a directory of mode 0700. If two
    terminals edit the same session's draft, it stays intact and the last write wins.
    """

    def __init__(self, directory: Path, *, fs: FileSystem | None = None) -> None:
        """Remember the directory; no I/O yet.

        Args:
            directory: The drafts' directory; created when the first draft is saved.
            fs: The file system; the real one by default.
        """
        self.directory = directory
        self._fs = fs or OsFileSystem()

    def path_of(self, session_id: str) -> Path:
        """Return the path of a session's draft.

        Raises:
            ValueError: The id is not that of a question session.
        """
        if not is_uuid(session_id):
            raise ValueError(f"{session_id!r} is not the id of a question session")
        return self.directory / f"{session_id}{_SUFFIX}"

    def unsent_path_of(self, session_id: str) -> Path:
        """Return the path of a session's unsent text."""
        return self.path_of(session_id).with_suffix(".unsent.txt")

    def load(self, session_id: str) -> Draft | None:
        """Return a session's draft; None if there is none.

        Raises:
            DraftUnreadable: The draft can't be used; it was renamed out of the way if possible.
        """
        path = self.path_of(session_id)
        try:
            content = read_regular_file(self._fs, str(path), path=path, max_bytes=MAX_BYTES)
            if content is None:
                return None
            draft = from_fields(json.loads(content), session_id=session_id)
        except (ReadError, ValueError, RecursionError) as error:
            aside = self._set_aside(path)
            raise DraftUnreadable(session_id, path=aside, reason=str(error)) from error
        return draft

    def _set_aside(self, path: Path) -> Path:
        """Rename a draft out of the way of the next one; return its path, old if that fails."""
        aside = path.with_suffix(".unreadable")
        try:
            with self._locked() as directory_fd:
                self._fs.rename(
                    path.name, aside.name, src_dir_fd=directory_fd, dst_dir_fd=directory_fd
                )
        except (OSError, WriteError):
            return path
        return aside

    def save(self, draft: Draft) -> Path:
        """Write a draft and return its path; an empty draft is deleted instead.

        Raises:
            WriteError: The previous draft remains.
        """
        path = self.path_of(draft.session_id)
        if draft.empty:
            self.drop(draft.session_id)
        else:
            text = json.dumps(to_fields(draft), ensure_ascii=True, indent=1)
            self._replace(path, text.encode("ascii"))
        return path

    def keep_unsent(self, session_id: str, text: str) -> Path:
        """Save text that can no longer be sent, delete the draft, and return the text's path.

        Raises:
            WriteError: The text was not written or the draft not deleted; the draft remains.
        """
        path = self.unsent_path_of(session_id)
        self._replace(path, text.encode("utf-8", errors="backslashreplace"))
        self.drop(session_id)
        return path

    def drop(self, session_id: str) -> None:
        """Delete a draft, if there is one.

        Raises:
            WriteError: The draft can't be deleted.
        """
        path = self.path_of(session_id)
        try:
            with suppress(FileNotFoundError):
                self._fs.unlink(str(path))
        except OSError as error:
            raise WriteError(path=path, operation="unlink", cause=error) from error

    def session_ids(self) -> tuple[str, ...]:
        """Return the ids of sessions that have drafts; empty if the directory can't be read."""
        try:
            names = os.listdir(self.directory)
        except OSError:
            return ()
        ids = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
        return tuple(sorted(filter(is_uuid, ids)))

    def _replace(self, path: Path, content: bytes) -> None:
        with self._locked() as directory_fd:
            replace_file(self._fs, directory_fd, path.name, [content], path=path)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        make_durable_directory(self._fs, self.directory)
        try:
            with DirectoryLock(self._fs, self.directory, timeout_s=_LOCK_TIMEOUT_S) as lock:
                yield lock.fd
        except FileNotFoundError as error:
            raise WriteError(path=self.directory, operation="lock", cause=error) from error
