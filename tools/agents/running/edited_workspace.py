"""The changes that an agent left in its folder, as an answer.

Only files whose inode, size or times changed are compared, by descriptors and without following
links; the agent's `.git` is skipped in every spelling. Changes that the phase may not make are
named with the reason; their content is not read and not taken.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from attrs import define, field, frozen

from ...base.files import OsFileSystem
from ...base.files.filesystem import READ_FLAGS
from ...base.files.safe_path import directory_beneath
from ...sandbox.workspaces.workspace_tree import take_snapshot
from ...workflows.agents.port import EditedFile, WorkspaceChange
from ...workflows.gate_port import GateUnavailable
from ...workflows.prompts.answers import MAX_FILE_BYTES
from ...workflows.prompts.context_folder import ContextFolder
from .scratch_folder import is_git

MAX_ENTRIES: Final = 400_000
MAX_LISTED_BYTES: Final = 256 << 20
MAX_NAMED: Final = 1_000
"""How many rejected paths of each kind are named."""
_LINK: Final = "a symbolic link is not taken"
_TYPE: Final = "it is no regular file"


def look_at(root_fd: int) -> dict[bytes, tuple[int, ...]]:
    """Return what identifies each file's state, by path.

    Raises:
        GateUnavailable: There are too many files.
    """
    seen = take_snapshot(root_fd, max_entries=MAX_ENTRIES, max_listed_bytes=MAX_LISTED_BYTES)
    if not seen.complete:
        raise GateUnavailable(
            f"its folder holds more than {MAX_ENTRIES:,} files, or too long paths"
        )
    return dict(seen.files)


def change_between(
    original_fd: int,
    root_fd: int,
    before: Mapping[bytes, tuple[int, ...]],
    *,
    refuse: Callable[[str], str | None],
    anything: bool = False,
) -> WorkspaceChange:
    """Return the difference between a workspace and the copy that an agent worked in.

    Args:
        original_fd: The workspace, open.
        root_fd: The copy, open.
        before: The copy's state before the agent ran, from `look_at`.
        refuse: Returns why a path may not be written or deleted, or None.
        anything: Whether it may write any file: then new ones that the project's rules, or those
            of a cache's own folder, ignore are dropped.

    Raises:
        GateUnavailable: There are too many files.
    """
    after = {path: stamp for path, stamp in look_at(root_fd).items() if not _is_gits(path)}
    changed = [path for path in after if after[path] != before.get(path)]
    gone = [path for path in before if path not in after]
    judge = root_fd if anything else original_fd
    rules = ContextFolder(fs=OsFileSystem(), fd=judge, path=Path())
    found = _Findings(original_fd, root_fd, refuse, rules, anything)
    for path in sorted(changed):
        found.take_changed(path)
    for path in sorted(gone):
        found.take_gone(path)
    return WorkspaceChange(
        written=found.written,
        deleted=found.deleted,
        refused=found.refused[:MAX_NAMED],
        dropped=found.dropped[:MAX_NAMED],
    )


def _is_gits(path: bytes) -> bool:
    return any(is_git(part) for part in os.fsdecode(path).split("/"))


@define
class _Findings:
    """The differences, sorted into accepted changes, changes to restore, and ignored files."""

    _original_fd: int
    _root_fd: int
    _refuse: Callable[[str], str | None]
    _rules: ContextFolder
    _anything: bool
    written: list[EditedFile] = field(factory=list, init=False)
    deleted: list[str] = field(factory=list, init=False)
    refused: list[tuple[str, str]] = field(factory=list, init=False)
    dropped: list[str] = field(factory=list, init=False)

    def take_changed(self, raw: bytes) -> None:
        was = _state_of(self._original_fd, raw)
        now = _state_of(self._root_fd, raw)
        if was == now:
            return
        path = self._allowed(raw, new=was is None)
        if path is None or now is None:
            return
        if isinstance(now, str):
            self.refused.append((path, now))
        elif len(now.content) > MAX_FILE_BYTES:
            self.refused.append((path, f"it has more than {MAX_FILE_BYTES:,} bytes"))
        else:
            self.written.append(
                EditedFile(path=path, content=now.content, executable=now.executable)
            )

    def take_gone(self, raw: bytes) -> None:
        path = self._allowed(raw, new=False)
        if path is not None:
            self.deleted.append(path)

    def _allowed(self, raw: bytes, *, new: bool) -> str | None:
        """Return the path if the phase may change it; else record it as refused or dropped."""
        try:
            path = raw.decode()
        except UnicodeDecodeError:
            self.refused.append((os.fsdecode(raw), "its name is not UTF-8"))
            return None
        problem = self._refuse(path)
        judged = problem is not None or self._anything
        if judged and new and (_is_of_agents(path) or self._rules.ignores(path)):
            self.dropped.append(path)
        elif problem is not None:
            self.refused.append((path, problem))
        else:
            return path
        return None


def _is_of_agents(path: str) -> bool:
    """Return whether a path belongs to an editing program's own notes."""
    return path.split("/", 1)[0].startswith(".aider")


@frozen
class _File:
    """A regular file: its beginning, one byte more than the limit, and what identifies it."""

    content: bytes
    digest: str
    executable: bool


def _state_of(root_fd: int, raw: bytes) -> _File | str | None:
    """Return a file, a text that says why it can't be taken, or None if there is none."""
    *above, name = os.fsdecode(raw).split("/")
    fs = OsFileSystem()
    try:
        with directory_beneath(fs, root_fd, above) as directory_fd:
            status = fs.stat(name, dir_fd=directory_fd)
            if stat.S_ISLNK(status.st_mode):
                return f"{_LINK}: it leads to {os.readlink(name, dir_fd=directory_fd)[:200]!a}"
            if not stat.S_ISREG(status.st_mode):
                return _TYPE
            with os.fdopen(fs.open(name, READ_FLAGS, dir_fd=directory_fd), "rb") as file:
                content = file.read(MAX_FILE_BYTES + 1)
                file.seek(0)
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            return _File(content, digest, bool(status.st_mode & 0o100))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None  # a link is above it; that is a change of its own
        return f"it can't be read ({error.strerror})"
