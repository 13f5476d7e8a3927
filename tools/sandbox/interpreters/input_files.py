"""Input files of an execution, written into its workspace before its guest runs."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ..errors import InputFileError
from ..host.files.files import NodeKind, Opening
from ..host.files.host_directory import HostTree
from ..host.files.quota import QuotaMeter
from ..host.files.system_calls import LINUX, SystemCalls
from ..workspaces.workspace import ChangeLedger

if TYPE_CHECKING:
    from ..host.files.host_directory import HostDirectory
    from ..workspaces.workspace import ServedDirectory

_REPLACED: Final = Opening(create=True, truncate=True, write=True)


def place_files(
    served: ServedDirectory, files: Mapping[str, bytes], calls: SystemCalls | None = None
) -> None:
    """Write files into a workspace for the host, with parents; none counts as a change.

    They count against the guest's quota. No link is followed, and the host's own file is refused.

    Args:
        served: The workspace.
        files: Content by workspace-relative path, already checked.
        calls: The system calls to use; the real ones if None.

    Raises:
        InputFileError: A file could not be written; the error names those that were.
    """
    tree = HostTree(
        served.root,
        QuotaMeter(served.room),
        ChangeLedger(),
        hides=served.hides,
        calls=calls or LINUX,
    )
    placed: list[str] = []
    try:
        for relative, data in files.items():
            try:
                _place(tree.root, relative.encode(), data)
            except OSError as error:
                reason = error.strerror or "it cannot be written"
                raise InputFileError(relative, reason, placed) from error
            placed.append(relative)
    finally:
        tree.close()


def _place(root: HostDirectory, path: bytes, data: bytes) -> None:
    parts = path.split(b"/")
    for depth in range(1, len(parts)):
        above = b"/".join(parts[:depth])
        try:
            root.make_directory(above)
        except FileExistsError:
            if root.status_of(above, follow=False).kind is not NodeKind.DIRECTORY:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
    file = root.open(path, _REPLACED)
    try:
        content, at = memoryview(data), 0
        while at < len(content):
            count, _ = file.write([content[at:]], at)
            at += count
    finally:
        file.close()
