"""A directory of the host as the guest sees it: the workspace, or a folder that is only read.

Every handle of a file is a descriptor of the same file, so what one writes the others read.
"""

from __future__ import annotations

from typing import Final, Self

from ...workspaces.served_directory import ServedDirectory
from ...workspaces.workspace import ChangeLedger
from .host_directory import HostDirectory
from .host_tree import ServedTree
from .quota import Meter
from .system_calls import LINUX, SystemCalls


class HostTree(ServedTree):
    """One directory of the host and all below it, served to one guest.

    Attributes:
        root: Where the guest's paths begin.
    """

    def __init__(
        self,
        root: int,
        meter: Meter,
        changes: ChangeLedger,
        *,
        hides: bool = False,
        writable: bool = True,
        syncs: bool = False,
        calls: SystemCalls = LINUX,
    ) -> None:
        """Serve a directory; see `ServedTree`."""
        super().__init__(
            root, meter, changes, hides=hides, writable=writable, syncs=syncs, calls=calls
        )
        self.root: Final = HostDirectory(self, self.fd, b"", owned=False)

    @classmethod
    def of(
        cls,
        served: ServedDirectory,
        *,
        writable: bool = True,
        syncs: bool = False,
        calls: SystemCalls = LINUX,
    ) -> Self:
        """The tree of a directory that an execution is given."""
        return cls(
            served.root,
            Meter(served.room),
            served.changes,
            hides=served.hides,
            writable=writable,
            syncs=syncs,
            calls=calls,
        )
