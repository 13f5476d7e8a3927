"""Controls and links on a session's page; a self-contained page has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import frozen

from ...harness.views.checkpoints import CheckpointEntry
from .html import Child


@frozen(kw_only=True)
class Actions:
    """Controls and links that a server adds to a page; none by default.

    Attributes:
        session: Content below the session's heading, such as buttons to pause or abort it.
        checkpoint: Returns content for a checkpoint's row, such as buttons to go back or to fork.
        address_of: Returns the address of another session's page, or None.
    """

    session: Child = None
    checkpoint: Callable[[CheckpointEntry], Child] = lambda _: None
    address_of: Callable[[str], str | None] = lambda _: None


READ_ONLY: Final = Actions()
"""No controls and no links to other sessions."""
