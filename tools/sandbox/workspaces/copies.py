"""Copies of a workspace, for the forks of its program."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import count, islice
from pathlib import Path

from ...base.files import OsFileSystem
from ...base.files.trees import CopyLimits, TreeTooLarge, copy_tree
from ..errors import WorkspaceError
from ..guest_paths import MAX_DEPTH, is_hidden
from .workspace import ensure_workspace, open_workspace
from .workspace_tree import MAX_ENTRIES


def names_beside(workspace: Path, many: int) -> list[Path]:
    """Return unused paths beside a workspace."""
    named = (workspace.with_name(f"{workspace.name}-fork-{number}") for number in count(1))
    return list(islice((path for path in named if not os.path.lexists(path)), many))


def copies_of(root: int, paths: Sequence[Path]) -> list[Path]:
    """Return workspaces; each that is missing is made as a copy of a claimed one.

    Args:
        root: A descriptor of the workspace.
        paths: The workspaces.

    Raises:
        WorkspaceError: One cannot be made; the copies made before it remain.
    """
    return [
        ensure_workspace(path) if os.path.lexists(path) else _copy(root, path) for path in paths
    ]


def _copy(root: int, path: Path) -> Path:
    made = ensure_workspace(path)
    target = open_workspace(made)
    try:
        copy_tree(
            OsFileSystem(),
            root,
            target,
            left_out=lambda entry: is_hidden(entry.names[0]),
            limits=CopyLimits(max_entries=MAX_ENTRIES, max_depth=MAX_DEPTH),
        )
    except (OSError, TreeTooLarge) as error:
        raise WorkspaceError(
            path, f"the workspace cannot be copied to it ({error})", "free space, or name a copy"
        ) from error
    finally:
        os.close(target)
    return made
