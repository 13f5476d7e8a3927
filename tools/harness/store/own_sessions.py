"""Which sessions of a directory are this person's own: marks outside of every repository.

A session that was made on this machine has a mark, and so has one that the person adopted. One that
came with a clone, an archive or a copied folder has none: no file in a repository can make one. A
mark that a power failure took is made again by `agentforge adopt`.
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
    """The marks of one directory of sessions: each says the inode of the session's directory.

    Guarantees: a session is own only if its directory is the one that was marked, at the path where
    it was marked, and the Git repository around it tracks the versions of its files that it tracked
    then, which are none of a session that was made here. So a commit of another person that is
    pulled, and changes a session, makes it foreign until it is adopted anew.

    Not guaranteed: that an own session's file was written by nobody else since.

    Args:
        base: The directory of the sessions.
        environment: Says where the person's state directory is.
    """

    def __init__(self, base: Path, *, environment: Mapping[str, str] = os.environ) -> None:
        self._base = base
        self._marks = PersonMarks(base, FOLDER, environment=environment)
        self._index = GitIndex(base)
        self._unwritten: dict[str, str] = {}

    @property
    def folder(self) -> Path:
        """Where the marks are; it need not be there."""
        return self._marks.folder

    @property
    def come_from_git(self) -> bool:
        """Whether Git tracks anything in the directory."""
        return bool(self._index.tracked())

    def add(self, session_id: str, inode: int) -> None:
        """Mark the session whose directory has an inode as own.

        Raises:
            OSError: The person's state directory can't be written. This process knows that the
                session is own, and no other will.
        """
        try:
            self._marks.write(session_id, str(inode))
        except OSError:
            self._unwritten[session_id] = str(inode)
            raise

    def adopt(self, session_id: str, inode: int) -> None:
        """Mark the session whose directory has an inode as own, as Git tracks it now.

        Raises:
            OSError: The person's state directory can't be written; nothing was marked.
        """
        self._marks.write(session_id, f"{inode}{self._tracked(session_id)}")

    def remove(self, session_ids: Iterable[str]) -> None:
        """Remove the marks of sessions that are gone, as far as the system lets us."""
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
        """Return what names the versions of a session's files that Git tracks; empty for none."""
        version = self._index.tracked().version(session_id)
        return f":{version}" if version else ""


__all__ = ["OwnSessions"]
