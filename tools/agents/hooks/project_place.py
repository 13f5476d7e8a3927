"""The project that a conversation is about, and its branch, found from files alone.

    $XDG_STATE_HOME/agentforge/projects/<name>-<digest of the git common directory>/
        chosen.json     the session of each branch, as the person's conversations last chose it
        sessions/       the sessions, unless the project's `.agentforge` has a folder for them

The folder is outside the project: nothing that a clone brings can say which session is a branch's.
The folder is also the lock under which a session is created.
"""

# Annotations are evaluated here: as strings, each field's would have to be compiled.

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from ...base.data_folder import (
    NAME,
    find_data_folder,
    find_repository,
    folder_apart,
    git_directory,
    read_plain,
    small_file,
)

BRANCH: Final = "branch:"
COMMIT: Final = "commit:"
_CHOSEN: Final = "chosen.json"
_LOCK_TIMEOUT_S: Final = 2.0
_MAX_BYTES: Final = 1024 * 1024
_MAX_CHOICES: Final = 500
_HEADS: Final = "refs/heads/"
_MAX_BRANCH_CHARS: Final = 56
_SHORT_COMMIT: Final = 12
_HIDDEN: Final = frozenset(" ~^:?*[\\,")
_INTERRUPTED: Final = ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START")
"""Files that name the branch during what detaches `HEAD` for a while."""


class ProjectPlace(NamedTuple):
    """A project.

    Attributes:
        folder: Its folder: that of its `.agentforge`, else the root of the work tree.
        identity: What all work trees of it share: the git common directory, or its `.agentforge`.
        work_tree: The root of the work tree, or None outside of a repository.
    """

    folder: Path
    identity: Path
    work_tree: Path | None

    @property
    def data_folder(self) -> Path:
        """The project's `.agentforge`; it may not exist."""
        return self.folder / NAME

    def branch(self) -> str:
        """Return the tag of the branch or the detached commit; empty if there is none to read."""
        return "" if self.work_tree is None else branch_tag(self.work_tree)

    def state(self, environment: Mapping[str, str]) -> Path:
        """Return the person's folder for the project; it may not exist."""
        return folder_apart(self.folder, environment)

    def chosen(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the id of the session that was last chosen for each branch, by its tag."""
        try:
            found = json.loads(
                read_plain(os.fspath(self.state(environment) / _CHOSEN), most=_MAX_BYTES)
            )
        except (OSError, ValueError, RecursionError):
            return {}
        pairs = found.items() if isinstance(found, dict) else ()
        return {name: one for name, one in pairs if isinstance(one, str)}

    @contextmanager
    def locked(self, environment: Mapping[str, str]) -> "Iterator[ProjectLock]":
        """Hold the project's lock.

        Raises:
            WriteError: The system refused.
            LockTimeout: Another process held it for too long.
        """
        from ...base.files import DirectoryLock, OsFileSystem, make_durable_directory

        fs, state = OsFileSystem(), self.state(environment)
        make_durable_directory(fs, state)
        with DirectoryLock(fs, state, timeout_s=_LOCK_TIMEOUT_S) as lock:
            yield ProjectLock(state, lock.fd, self.chosen(environment))


class ProjectLock(NamedTuple):
    """The lock of a project, while it is held.

    Attributes:
        state: The person's folder for the project.
        fd: The same, open.
        chosen: The sessions that were chosen, by branch.
    """

    state: Path
    fd: int
    chosen: dict[str, str]

    def choose(self, branch: str, session_id: str) -> None:
        """Make a session the one of a branch.

        Raises:
            WriteError: It could not be saved.
        """
        from ...base.files import OsFileSystem, replace_file
        from ...base.files.atomic_file import random_token

        self.chosen.pop(branch, None)
        self.chosen[branch] = session_id
        newest = dict(list(self.chosen.items())[-_MAX_CHOICES:])
        data = json.dumps(newest, indent=1).encode()
        path = self.state / _CHOSEN
        replace_file(OsFileSystem(), self.fd, _CHOSEN, [data], path=path, token=random_token)


def find_project(folder: Path) -> ProjectPlace | None:
    """Return the project that a folder belongs to; None outside of one.

    A project is a Git repository, or a folder with an `.agentforge`.

    Args:
        folder: An absolute path.
    """
    data, repository = find_data_folder(folder), find_repository(folder)
    if repository is not None:
        root = repository.root if data is None else data.parent
        return ProjectPlace(root, Path(repository.common), repository.root)
    return None if data is None else ProjectPlace(data.parent, data, None)


def branch_tag(work_tree: Path) -> str:
    """Return the tag of a work tree's branch, or of its commit if no branch is checked out.

    During a rebase or a bisection it is the branch that these began on. A repository of a stranger
    can say what it wants in these files: anything but a name of a branch or a commit counts as "".
    """
    try:
        git = git_directory(os.fspath(work_tree))
        head = small_file(os.path.join(git, "HEAD"))
    except (OSError, ValueError):
        return ""
    reference, _, rest = head.partition("\n")
    if rest:
        return ""
    name = reference.removeprefix("ref:").strip()
    if name != reference:
        return _tag_of(name.removeprefix(_HEADS)) if name.startswith(_HEADS) else ""
    if len(name) not in {40, 64} or not set(name) <= set("0123456789abcdef"):
        return ""
    for file in _INTERRUPTED:
        with suppress(OSError, ValueError):
            before = small_file(os.path.join(git, file)).strip().removeprefix(_HEADS)
            if before != name and (tag := _tag_of(before)):
                return tag
    return f"{COMMIT}{name[:_SHORT_COMMIT]}"


def _tag_of(branch: str) -> str:
    """Return the tag of a branch; empty for what can't be the name of one."""
    is_name = branch.isprintable() and not _HIDDEN.intersection(branch) and ".." not in branch
    parts = branch.split("/")
    if not is_name or any(not one or one.startswith(".") for one in parts):
        return ""
    if len(branch) <= _MAX_BRANCH_CHARS:
        return f"{BRANCH}{branch}"
    from hashlib import sha256  # few names are that long

    digest = sha256(branch.encode("utf-8", "surrogateescape")).hexdigest()[:_SHORT_COMMIT]
    return f"{BRANCH}{branch[: _MAX_BRANCH_CHARS - len(digest) - 1]}#{digest}"


def has_branch(tags: Iterable[str]) -> bool:
    """Return whether a session with these tags is that of a branch or a commit."""
    return any(one.startswith((BRANCH, COMMIT)) for one in tags)


def is_same_work(before: str, now: str) -> bool:
    """Return whether a conversation that was on one branch is about the same work on another.

    It is if either is not known, and on a detached `HEAD`, which moves with each commit.
    """
    both_detached = before.startswith(COMMIT) and now.startswith(COMMIT)
    return before == now or not (before and now) or both_detached
