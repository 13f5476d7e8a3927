"""A read-only host directory for guests; loaded only by policies that have one."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen


@frozen
class ReadOnlyMount:
    """A host directory the guest may read, besides its workspace.

    Served like the workspace: special files and links that lead out are invisible, and files larger
    than the policy's `file_bytes` cannot be opened.

    Attributes:
        source: The host directory, absolute; must not be a symbolic link.
        target: Where the guest sees it: an absolute guest path outside `/app`, `/usr` and `/tmp`.
    """

    source: Path
    target: str
