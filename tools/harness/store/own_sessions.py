"""Ownership marks: which sessions of a directory are this person's own, recorded outside of it.

A session that was created on this machine has a mark, and so has one that the person adopted. One
from a clone, an archive or a copied folder has none: no file in a repository can make one. If a
power failure loses a mark, `agentforge adopt` restores it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ...base.identifiers import is_session_id
from ...base.marks.git_index import GitIndex
from ...base.marks.person_marks import PersonMarks

FOLDER: Final = "sessions"


class OwnSessions:
    """The marks of one directory of sessions: each holds the inode of a session's directory.

    Guarantees: a session is own only if its directory is the marked one, at the path where it was
    marked, and the Git repository around it tracks the versions of its files that it tracked then
    (none for a session created here). So a pulled commit of another person that changes a session
    makes it foreign until it is adopted again.

    Not guaranteed: that no one else has written an own session's file since.

    Args:
        base: The directory of the sessions.
        environment: Determines the person's state directory.
    """

    def __init__(self, base: Path, *, environment: Mapping[str, str] = os.environ) -> None:
        self._base = base
        self._marks = PersonMarks(base, FOLDER, environment=environment)
        self._index = GitIndex(base)
        self._unwritten: dict[str, str] = {}

    @property
    def folder(self) -> Path:
        """The directory of the marks; it may not exist."""
        return self._marks.folder

    @property
    def come_from_git(self) -> bool:
        """Whether Git tracks anything in the directory."""
        return bool(self._index.tracked())

    def add(self, session_id: str, inode: int) -> None:
        """Mark the session whose directory has this inode as own.

        Raises:
            OSError: The person's state directory can't be written. Only this process treats the
                session as own then.
        """
        try:
            self._marks.write(session_id, str(inode))
        except OSError:
            self._unwritten[session_id] = str(inode)
            raise

    def adopt(self, session_id: str, inode: int) -> None:
        """Mark the session whose directory has this inode as own, as Git tracks it now.

        Raises:
            OSError: The person's state directory can't be written; nothing was marked.
        """
        self._marks.write(session_id, f"{inode}{self._tracked(session_id)}")

    def remove(self, session_ids: Iterable[str]) -> None:
        """Remove the marks of removed sessions, as far as the system permits."""
        self._marks.remove(one for one in session_ids if is_session_id(one))

    def has(self, session_id: str) -> bool:
        """Return whether a session is own."""
        if not is_session_id(session_id):
            return False
        said = self._marks.said(session_id) or self._unwritten.get(session_id)
        if said is None:
            return False
        try:
            found = os.lstat(self._base / session_id)
        except OSError:
            return False
        if not stat.S_ISDIR(found.st_mode) or said.partition(":")[0] != str(found.st_ino):
            return False
        return said == f"{found.st_ino}{self._tracked(session_id)}"

    def has_any(self) -> bool:
        """Return whether any session of the directory is own."""
        return any(self.has(one) for one in self._marks.names())

    def _tracked(self, session_id: str) -> str:
        """Return a text that identifies a session's files as Git tracks them; empty for none."""
        version = self._index.tracked().version(session_id)
        return f":{version}" if version else ""


__all__ = ["OwnSessions"]
