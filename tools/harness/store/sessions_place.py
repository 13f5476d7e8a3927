"""Determines where a project's sessions are, unless the person named a place."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from ...base.data_folder import NAME, SESSIONS, find_data_folder, folder_apart, project_folder
from .own_sessions import OwnSessions


def sessions_directory(start: Path, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return where the sessions of the project around `start` are; None: in `start` itself.

    In a repository this is the person's folder for it, so that neither the repository nor tools
    that scan a checkout (test runners, linters, compilers) see the files that sessions work on. If
    the project's `.agentforge` has a directory `sessions` of this person, that is used
    (`sessions_inside`); without a repository, the nearest `.agentforge`. A link in place of either
    directory is not followed: the person's folder is used.

    Args:
        start: An absolute path.
        environment: The environment variables.
    """
    data = find_data_folder(start)
    inside = start / NAME / SESSIONS if data is None else data / SESSIONS
    apart = project_folder(start, environment)
    if apart is not None:
        is_ours = data is not None and sessions_inside(inside, environment)
        if not is_ours:
            return apart / SESSIONS
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
    if data is None or project_folder(start, environment) is None:
        return None
    inside = data / SESSIONS
    is_there = inside.is_dir() and not inside.is_symlink()
    return inside if is_there and not sessions_inside(inside, environment) else None


__all__ = ["brought_with", "sessions_directory", "sessions_inside"]
