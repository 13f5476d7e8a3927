"""Where data is kept: a project's in `.agentforge` here or above, a person's outside of all."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

NAME: Final = ".agentforge"
SESSIONS: Final = "sessions"
"""The directory of the sessions, in a project's data folder or the person's folder for it."""
_PROJECTS: Final = "projects"
_REPOSITORY: Final = ".git"
_PERSONAL: Final = "agentforge"
_MAX_NAME_BYTES: Final = 255


def state_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the person's own state directory: `$XDG_STATE_HOME/agentforge`; not created.

    What is in it is this person's word on this machine (what they trust, which sessions are
    theirs): no repository can bring a file into it. A relative `XDG_STATE_HOME` is ignored, as the
    XDG Base Directory Specification demands; the default is `~/.local/state`.
    """
    return _personal("XDG_STATE_HOME", ".local/state", environment)


def state_of(place: Path | str, kind: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of what this person said of one place on this machine; not created.

    It is named by the place's real path, or by the digest of one that is too long for a name.

    Args:
        place: A directory; it need not be there.
        kind: What is said: the name of a folder in the person's state directory.
        environment: Says where that is.
    """
    real = os.fsencode(os.path.realpath(place))
    name = os.fsdecode(real.replace(b"%", b"%25").replace(b"/", b"%2F"))
    if len(os.fsencode(name)) > _MAX_NAME_BYTES:
        import hashlib  # takes long to load, for the hook

        name = hashlib.sha256(real).hexdigest()
    return state_folder(environment) / kind / name


def configuration_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the person's own configuration directory: `$XDG_CONFIG_HOME/agentforge`.

    A relative `XDG_CONFIG_HOME` is ignored; the default is `~/.config`.
    """
    return _personal("XDG_CONFIG_HOME", ".config", environment)


def project_folder(start: Path, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the person's folder for the repository that `start` is in, or None outside of one.

    It is `projects/<name>-<digest>` in the state folder; not created. The digest is of the
    repository's common directory, which linked work trees share. A `.git` file counts as that of a
    linked work tree only where the repository names this work tree, too: a folder that was unpacked
    with such a file can't claim another repository's sessions.

    Args:
        start: An absolute path.
        environment: The environment variables.
    """
    found = next((one for one in (start, *start.parents) if is_repository(one)), None)
    if found is None:
        return None
    import hashlib
    import re

    root, common = _common_directory(found)
    name = re.sub(r"[^A-Za-z0-9._-]", "_", os.path.basename(root)).lstrip(".")[:40] or "project"
    digest = hashlib.sha256(os.fsencode(common)).hexdigest()[:16]
    return state_folder(environment) / _PROJECTS / f"{name}-{digest}"


def folder_apart(start: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the person's folder for what a directory has, where that must not be in it.

    That of its repository, as `project_folder` says, or one that the directory's path names.

    Args:
        start: An absolute path.
        environment: The environment variables.
    """
    return project_folder(start, environment) or state_of(start, _PROJECTS, environment)


def _common_directory(root: Path) -> tuple[str, str]:
    """Return the real paths of a repository's main work tree, and of its common directory.

    That of a submodule, or of a `.git` file that nothing confirms, is its own `.git`.
    """
    own = os.path.realpath(root)
    link = os.path.join(own, _REPOSITORY)
    try:
        gitdir = os.path.join(own, small_file(link).removeprefix("gitdir:").strip())
        back, common = (small_file(os.path.join(gitdir, name)) for name in ("gitdir", "commondir"))
        shared = os.path.realpath(os.path.join(gitdir, common.strip()))
        named = os.path.realpath(os.path.join(gitdir, back.strip()))
        where = os.path.dirname(os.path.realpath(gitdir))
    except (OSError, ValueError):  # a directory; a submodule; no path
        return own, os.path.realpath(link)
    if named != os.path.realpath(link) or where != os.path.join(shared, "worktrees"):
        return own, link
    return os.path.dirname(shared), shared


def small_file(path: str) -> str:
    """Return the beginning of a file that a stranger may have made; a FIFO holds nobody up.

    Raises:
        OSError: It is no regular file, or the system refused.
    """
    return os.fsdecode(read_plain(path, most=8192))


def read_plain(path: str, *, most: int) -> bytes:
    """Return up to so many bytes of a regular file.

    Raises:
        OSError: It is none, or the system refused.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path} is no regular file")
        return file.read(most)


def _personal(variable: str, default: str, environment: Mapping[str, str]) -> Path:
    named = environment.get(variable, "")
    if os.path.isabs(named):
        return Path(named, _PERSONAL)
    return Path(_home(environment), default, _PERSONAL)


def _home(environment: Mapping[str, str]) -> str:
    """Return the person's home, absolute; below a device, where nothing is, if they have none.

    A relative one would be looked for in the working directory, where a stranger may have put it.
    """
    named = environment.get("HOME", "")
    if os.path.isabs(named):
        return named
    import pwd

    try:
        found = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        found = ""
    return found if os.path.isabs(found) else os.devnull


def find_data_folder(
    start: Path, *, user: int | None = None, home: Path | None = None
) -> Path | None:
    """Return the nearest `.agentforge` in `start` or above it, or None.

    The search ends with the root of the repository that `start` is in, or with the user's home:
    what is above belongs to other projects. A folder above `start` counts only if it belongs to
    `user` or to the owner of `start`: what a stranger puts into a shared directory above must not
    decide where sessions go.

    Args:
        start: An absolute path.
        user: The user's number; that of this process if None.
        home: The user's own directory; the one of this user if None.
    """
    trusted = {os.geteuid() if user is None else user}
    own = _status(start)
    if own is not None:
        trusted.add(own.st_uid)
    last = os.path.realpath(os.path.expanduser("~") if home is None else home)
    for directory in (start, *start.parents):
        found = _status(directory / NAME)
        if (
            found is not None
            and stat.S_ISDIR(found.st_mode)
            and not os.path.islink(directory / NAME)
            and (directory == start or found.st_uid in trusted)
        ):
            return directory / NAME
        if is_repository(directory) or str(directory) == last:
            return None
    return None


def data_folder_above(start: Path) -> Path | None:
    """Return the data folder of the project that `start` is a folder in.

    None means that relative paths do: `start` has a data folder itself, or none is above it.
    """
    found = find_data_folder(start)
    return None if found is None or found.parent == start else found


def is_repository(directory: Path) -> bool:
    """Return whether a directory is the root of a repository, or of a work tree of one.

    A `.git` that is a directory without a `HEAD` is none, for git neither.
    """
    git = directory / _REPOSITORY
    found = _status(git)
    if found is None:
        return False
    return stat.S_ISREG(found.st_mode) or os.path.lexists(git / "HEAD")


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
