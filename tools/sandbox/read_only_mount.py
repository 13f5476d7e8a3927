"""A directory of the host that code may read; most policies have none, and do not load it."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen


@frozen
class ReadOnlyMount:
    """A host directory the guest may read, beside its workspace.

    Served as the workspace is: special files and links that lead out of it are not seen, and
    files larger than the policy's `file_bytes` cannot be opened.

    Attributes:
        source: The host directory, absolute; it may not be a symbolic link.
        target: Where the guest sees it: an absolute guest path outside `/app`, `/usr` and `/tmp`.
    """

    source: Path
    target: str
