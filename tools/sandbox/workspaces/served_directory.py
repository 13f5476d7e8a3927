"""One directory of the host as it is given to one execution: what it may fill, what changed."""

from __future__ import annotations

from typing import Final

from .quota import Quota, Room
from .workspace import ChangeLedger
from .workspace_usage import UsageCounter


class ServedDirectory:
    """A directory that an execution is given, with its quota and what changed in it.

    Attributes:
        root: A descriptor of the directory.
        hides: Whether the host's own file at the root is hidden.
        room: What may still be filled.
        changes: What changed.
    """

    def __init__(
        self, root: int, quota: Quota, usage: UsageCounter | None = None, *, hide: bool = True
    ) -> None:
        """Serve a directory.

        Args:
            root: A descriptor of the directory; it stays the caller's.
            quota: What the guest may fill.
            usage: The usage known of the directory; None for one that is only read.
            hide: Whether the host's own file at the root is hidden.
        """
        self.root: Final = root
        self.hides: Final = hide
        self.room: Final = Room(root, quota, usage)
        self.changes = ChangeLedger()
