"""What root makes where somebody else lives."""

from __future__ import annotations

import os

from .filesystem import FileSystem


def hand_over(fs: FileSystem, fd: int, directory_fd: int) -> None:
    """Give what was just made to the owner of a directory, where root made it.

    What the owner could not open would shut them out of their own directory. Does nothing for any
    other user, and in a directory of root's.

    Args:
        fs: The file system.
        fd: What was made, open; empty still, so that nothing is given away if it was swapped.
        directory_fd: The directory it belongs to.

    Raises:
        OSError: The system refused.
    """
    if os.geteuid() != 0:
        return
    owner = fs.fstat(directory_fd)
    if owner.st_uid != 0:
        os.fchown(fd, owner.st_uid, owner.st_gid)
