"""Where a project's sessions are, and which of a directory's sessions are this person's own.

A session that was created on this machine has an ownership mark outside of the directory, and so
has one that the person adopted. One from a clone, an archive or a copied folder has none: no file
in a repository can make one. If a power failure loses a mark, `agentforge session adopt` restores
it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ...base.data_folder import NAME, SESSIONS, find_data_folder, find_repository, folder_apart
from ...base.files.marks import GitIndex, PersonMarks
from ...base.identifiers import is_session_id

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


def sessions_directory(start: Path, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return where the sessions of the project around `start` are; None: in `start` itself.

    In a repository this is the person's folder for it, so that neither the repository nor tools
    that scan a checkout (test runners, linters, compilers) see the files that sessions work on. If
    the project's `.agentforge` has a directory `sessions` of this person, that is used
    (`sessions_inside`), and in a linked work tree, that of the main one first; without a
    repository, the nearest `.agentforge`. A link in place of either directory is not followed: the
    person's folder is used.

    Args:
        start: An absolute path.
        environment: The environment variables.
    """
    data = find_data_folder(start)
    inside = start / NAME / SESSIONS if data is None else data / SESSIONS
    repository = find_repository(start)
    if repository is not None:
        if repository.is_linked:
            shared = Path(repository.main, NAME, SESSIONS)
            if not shared.parent.is_symlink() and sessions_inside(shared, environment):
                return shared
        is_ours = data is not None and sessions_inside(inside, environment)
        if not is_ours:
            return folder_apart(start, environment) / SESSIONS
    elif inside.is_symlink() or inside.parent.is_symlink():
        return folder_apart(inside.parent.parent, environment) / SESSIONS
    elif data is None:
        return None
    return None if inside.parent.parent == start else inside


def sessions_inside(directory: Path, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a directory in a repository holds a person's sessions of the project.

    It does if Git tracks nothing in it, or a session in it is this person's own: the content of a
    clone does not decide where new sessions are created.
    """
    try:
        if not stat.S_ISDIR(os.lstat(directory).st_mode):
            return False
    except OSError:
        return False
    own = OwnSessions(directory, environment=environment)
    return not own.come_from_git or own.has_any()


def brought_with(start: Path, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return where sessions from the repository around `start` itself are; None if it has none.

    Args:
        start: An absolute path.
        environment: The environment variables.
    """
    data = find_data_folder(start)
    if data is None or find_repository(start) is None:
        return None
    inside = data / SESSIONS
    is_there = inside.is_dir() and not inside.is_symlink()
    return inside if is_there and not sessions_inside(inside, environment) else None


__all__ = ["OwnSessions", "brought_with", "sessions_directory", "sessions_inside"]
