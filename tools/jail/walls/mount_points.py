"""The folders of a workspace that others are mounted on, made without following a link.

An earlier command in a jail may have written the workspace; bubblewrap, asked to make a mount point
below a link that leads out, would make it on the host.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ...base.files import OsFileSystem
from ...base.files.filesystem import DIRECTORY_FLAGS
from ...base.files.safe_path import Missing, directory_beneath
from ..errors import MountPointUnusable


def make_mount_points(workspace: Path, targets: Iterable[str]) -> None:
    """Make the folders that are missing.

    Args:
        workspace: The workspace, a directory.
        targets: Plain relative paths.

    Raises:
        MountPointUnusable: A link or a file is in the way.
        OSError: The workspace can't be opened.
    """
    fs = OsFileSystem()
    root = os.open(workspace, DIRECTORY_FLAGS)
    try:
        for target in targets:
            try:
                with directory_beneath(fs, root, target.split("/"), missing=Missing.MADE):
                    pass
            except OSError as error:
                raise MountPointUnusable(target, error.strerror or str(error)) from error
    finally:
        os.close(root)
