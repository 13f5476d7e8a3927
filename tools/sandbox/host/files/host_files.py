"""A directory of the host as the guest sees it: the workspace, or a folder that is only read.

Every handle of a file is a descriptor of the same file, so what one writes the others read.
"""

from __future__ import annotations

import functools

from .host_directory import HostDirectory
from .host_tree import ServedTree


class HostTree(ServedTree):
    """One directory of the host and all below it, served to one guest."""

    @functools.cached_property
    def root(self) -> HostDirectory:
        """Where the guest's paths begin."""
        return HostDirectory(self, self.fd, b"", owned=False)
