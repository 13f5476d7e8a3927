"""Folders for one command: made fresh, filled with a workspace's files, and removed with all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ...base.files import OsFileSystem, empty_directory
from ...base.files.filesystem import DIRECTORY_FLAGS
from ...base.files.safe_path import Missing, directory_beneath
from ...base.files.tree_copy import TreeTooLarge, copy_tree
from ...base.files.tree_walk import Entry
from ...workflows.gate_port import GateUnavailable
from ...workflows.gates.gate_directory import gate_directory

GIT: Final = ".git"


@contextmanager
def scratch_folder() -> Iterator[tuple[Path, int]]:
    """A new folder, with its descriptor; it is removed when the block is left, however deep it is.

    That of a process that was killed is removed by a later one (`gate_directory`).
    """
    with gate_directory() as scratch:
        workspace = scratch / "workspace"
        workspace.mkdir(mode=0o700)
        root = os.open(workspace, DIRECTORY_FLAGS)
        try:
            yield workspace, root
        finally:
            try:
                empty_directory(OsFileSystem(), root)
            finally:
                os.close(root)


def copy_workspace(
    folder: Path, target_fd: int, *, left_out: Callable[[str], bool] = lambda _path: False
) -> None:
    """Copy a workspace's files, but for what a `.git` of any spelling holds.

    Args:
        folder: The workspace.
        target_fd: The folder that takes them, open and empty.
        left_out: Whether a path is passed over.

    Raises:
        GateUnavailable: It holds too much.
        OSError: The system refused.
    """

    def passed_over(entry: Entry) -> bool:
        return is_git(entry.name) or left_out("/".join(entry.names))

    source = os.open(folder, DIRECTORY_FLAGS)
    try:
        copy_tree(OsFileSystem(), source, target_fd, left_out=passed_over)
    except TreeTooLarge as error:
        raise GateUnavailable(f"the workspace {folder} {error.problem}") from error
    finally:
        os.close(source)


def is_git(name: str) -> bool:
    """Return whether a name is git's own, in a spelling that some system takes for it."""
    return name.lower() == GIT


def put_file(root_fd: int, path: str, content: bytes) -> None:
    """Write a file of a scratch folder, over no link."""
    fs = OsFileSystem()
    *above, name = path.split("/")
    with directory_beneath(fs, root_fd, above, missing=Missing.MADE) as fd:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(fs.open(name, flags, 0o644, dir_fd=fd), "wb") as file:
            file.write(content)
