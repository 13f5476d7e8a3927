"""What the page of a session offers besides reading; a page that stands alone offers nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import frozen

from ...harness.views.checkpoints import CheckpointEntry
from .html import Child


@frozen(kw_only=True)
class Actions:
    """What a page offers, part by part; nothing by default.

    Attributes:
        session: What follows the session's name, as buttons to pause or abort it.
        checkpoint: What stands in a checkpoint's row, as buttons to go back or to fork.
        address_of: The address of another session's page, or None.
    """

    session: Child = None
    checkpoint: Callable[[CheckpointEntry], Child] = lambda _: None
    address_of: Callable[[str], str | None] = lambda _: None


READ_ONLY: Final = Actions()
"""Nothing besides reading."""
