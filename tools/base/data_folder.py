"""Where data is stored: a project's in the nearest `.agentforge`, a person's outside projects."""

# Annotations are evaluated here: as strings, each field's would have to be compiled.

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

NAME: Final = ".agentforge"
SESSIONS: Final = "sessions"
"""The directory of the sessions, in a project's data folder or the person's folder for it."""
_PROJECTS: Final = "projects"
_REPOSITORY: Final = ".git"
_PERSONAL: Final = "agentforge"
_MAX_NAME_BYTES: Final = 255


def state_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the person's own state directory: `$XDG_STATE_HOME/agentforge`; not created.

    It holds this person's decisions on this machine (what they trust, which sessions are theirs):
    no repository can put a file into it. A relative `XDG_STATE_HOME` is ignored, as the XDG Base
    Directory Specification demands; the default is `~/.local/state`.
    """
    return _personal("XDG_STATE_HOME", ".local/state", environment)


def state_of(place: Path | str, kind: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of one kind of this person's decisions about `place`; not created.

    It is named after the place's real path, or after its digest where that path is too long for a
    name.

    Args:
        place: A directory; it need not exist.
        kind: The name of a folder in the person's state directory.
        environment: Locates the state directory.
    """
    real = os.fsencode(os.path.realpath(place))
    name = os.fsdecode(real.replace(b"%", b"%25").replace(b"/", b"%2F"))
    if len(os.fsencode(name)) > _MAX_NAME_BYTES:
        import hashlib  # slow import; the hook avoids it

        name = hashlib.sha256(real).hexdigest()
    return state_folder(environment) / kind / name


def configuration_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the person's own configuration directory: `$XDG_CONFIG_HOME/agentforge`.

    A relative `XDG_CONFIG_HOME` is ignored; the default is `~/.config`.
    """
    return _personal("XDG_CONFIG_HOME", ".config", environment)


class Repository(NamedTuple):
    """A Git repository, found from its files alone.

    Attributes:
        root: The root of the work tree.
        main: The real path of the main work tree; that of `root` if it is not a linked one.
        common: The path of the common directory, which all linked work trees share.
    """

    root: Path
    main: str
    common: str

    @property
    def is_linked(self) -> bool:
        """Whether the work tree is a linked one, of a repository that has a main one."""
        is_main = self.main == os.path.realpath(self.root)
        return not is_main and os.path.basename(self.common) == _REPOSITORY


def find_repository(start: Path) -> Repository | None:
    """Return the repository that `start` is in, or None.

    A `.git` file makes a directory a linked work tree only where the repository lists that work
    tree, too: an unpacked folder with such a file can't claim another repository's sessions.

    Args:
        start: An absolute path.
    """
    found = next((one for one in (start, *start.parents) if is_repository(one)), None)
    return None if found is None else Repository(found, *_common_directory(found))


def project_folder(start: Path, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the person's folder for the repository that `start` is in, or None outside of one.

    It is `projects/<name>-<digest>` in the state folder; not created. The digest is of the
    repository's common directory, which linked work trees share.

    Args:
        start: An absolute path.
        environment: The environment variables.
    """
    found = find_repository(start)
    if found is None:
        return None
    import hashlib
    import re

    name = re.sub(r"[^A-Za-z0-9._-]", "_", os.path.basename(found.main)).lstrip(".")[:40]
    digest = hashlib.sha256(os.fsencode(found.common)).hexdigest()[:16]
    return state_folder(environment) / _PROJECTS / f"{name or 'project'}-{digest}"


def folder_apart(start: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the person's folder for a directory's data, where that must not be inside it.

    It is the folder of the directory's repository, as in `project_folder`, or one named after the
    directory's path.

    Args:
        start: An absolute path.
        environment: The environment variables.
    """
    return project_folder(start, environment) or state_of(start, _PROJECTS, environment)


def git_directory(root: str) -> str:
    """Return the directory of a work tree's own `HEAD`: `.git` itself, or what a file there names.

    Raises:
        OSError: `.git` can't be read.
    """
    link = os.path.join(root, _REPOSITORY)
    if os.path.isdir(link):
        return link
    return os.path.join(root, small_file(link).removeprefix("gitdir:").strip())


def _common_directory(root: Path) -> tuple[str, str]:
    """Return the real paths of a repository's main work tree, and of its common directory.

    For a submodule, or an unconfirmed `.git` file, the common directory is its own `.git`.
    """
    own = os.path.realpath(root)
    link = os.path.join(own, _REPOSITORY)
    try:
        gitdir = git_directory(own)
        back, common = (small_file(os.path.join(gitdir, name)) for name in ("gitdir", "commondir"))
        shared = os.path.realpath(os.path.join(gitdir, common.strip()))
        named = os.path.realpath(os.path.join(gitdir, back.strip()))
        where = os.path.dirname(os.path.realpath(gitdir))
    except (OSError, ValueError):  # `.git` is a directory, a submodule's file, or an invalid path
        return own, link
    if named != os.path.realpath(link) or where != os.path.join(shared, "worktrees"):
        return own, link
    return os.path.dirname(shared), shared


def small_file(path: str) -> str:
    """Return the start of a file that a stranger may have made; a FIFO does not block.

    Raises:
        OSError: It is not a regular file, or the system refused.
    """
    return os.fsdecode(read_plain(path, most=8192))


def read_plain(path: str, *, most: int, flags: int = 0) -> bytes:
    """Return up to `most` bytes of a regular file, opened with more `flags`.

    Raises:
        OSError: It is not a regular file, or the system refused.
    """

    def opened(named: str, mode: int) -> int:
        return os.open(named, mode | os.O_NONBLOCK | flags)

    with open(path, "rb", opener=opened) as file:  # unlike os.fdopen, it closes a folder's, too
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{path} is no regular file")
        return file.read(most)


def _personal(variable: str, default: str, environment: Mapping[str, str]) -> Path:
    named = environment.get(variable, "")
    if os.path.isabs(named):
        return Path(named, _PERSONAL)
    return Path(_home(environment), default, _PERSONAL)


def _home(environment: Mapping[str, str]) -> str:
    """Return the person's absolute home, or, without one, a path below a device that can't exist.

    A relative home would resolve against the working directory, where a stranger may have put it.
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

    The search ends at the root of the repository that `start` is in, or at the user's home: folders
    above those belong to other projects. A folder above `start` counts only if it belongs to `user`
    or to the owner of `start`: what a stranger puts into a shared directory above must not decide
    where sessions are stored.

    Args:
        start: An absolute path.
        user: The user id; this process's if None.
        home: The user's home; this user's if None.
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
    """Return the data folder of the project that contains `start` as a subfolder.

    Return None if relative paths need none: `start` has a data folder itself, or none is above it.
    """
    found = find_data_folder(start)
    return None if found is None or found.parent == start else found


def is_repository(directory: Path) -> bool:
    """Return whether a directory is the root of a repository, or of a work tree of one.

    As in git, a `.git` directory without a `HEAD` is no repository.
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
