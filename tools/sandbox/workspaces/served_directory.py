"""A host directory as it is served to one execution: its quota and its changes."""

from __future__ import annotations

from typing import Final

from .quota import Quota, Room
from .workspace import ChangeLedger
from .workspace_usage import UsageCounter


class ServedDirectory:
    """A directory served to an execution, with its quota and its changes.

    Attributes:
        root: A descriptor of the directory.
        hides: Whether the host's own file at the root is hidden.
        room: The remaining room.
        changes: The changes.
    """

    def __init__(
        self, root: int, quota: Quota, usage: UsageCounter | None = None, *, hide: bool = True
    ) -> None:
        """Serve a directory.

        Args:
            root: A descriptor of the directory; the caller owns it.
            quota: The guest's quota.
            usage: The directory's usage counter; None for a read-only directory.
            hide: Whether the host's own file at the root is hidden.
        """
        self.root: Final = root
        self.hides: Final = hide
        self.room: Final = Room(root, quota, usage)
        self.changes = ChangeLedger()
