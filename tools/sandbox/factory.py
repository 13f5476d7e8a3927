"""Making sandboxes."""

from __future__ import annotations

import os
from pathlib import Path

from tools.sandbox.execution import Sandbox
from tools.sandbox.policy import ExecutionPolicy
from tools.sandbox.workspace import ensure_workspace


def create_sandbox(
    *,
    workspace: str | os.PathLike[str] = Path("workspace"),
    policy: ExecutionPolicy | None = None,
) -> Sandbox:
    """Make a sandbox over a workspace directory; nothing runs yet.

    Args:
        workspace: The directory the guest will see as `/app`; made with mode 0700 if missing,
            taken as it is if there.
        policy: Limits and environment; the default policy if None.

    Raises:
        WorkspaceError: The workspace is a symbolic link, no directory, or cannot be made.
    """
    return Sandbox(ensure_workspace(Path(workspace)), policy or ExecutionPolicy())
