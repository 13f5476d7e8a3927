"""A host directory as the guest sees it: the workspace, or a read-only folder.

All handles of a file are descriptors of the same file, so each reads what any other wrote.
"""

from __future__ import annotations

import functools

from .host_directory import HostDirectory
from .host_tree import ServedTree


class HostTree(ServedTree):
    """A host directory and everything below it, served to one guest."""

    @functools.cached_property
    def root(self) -> HostDirectory:
        """The root, where the guest's paths begin."""
        return HostDirectory(self, self.fd, b"", owned=False)
