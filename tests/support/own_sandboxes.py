"""Sandboxes on the own host whose files are served with other system calls than the system's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentforge_sessions.sandbox import ExecutionPolicy, RuntimeType, Sandbox
from agentforge_sessions.sandbox.executor import checked_settings
from agentforge_sessions.sandbox.workspaces.workspace import ensure_workspace


def sandbox_with(
    system_calls: Any, workspace: Path, policy: ExecutionPolicy | None = None, **options: Any
) -> Sandbox:
    """What `create_sandbox` makes, on these system calls."""
    settings = checked_settings(RuntimeType.PYTHON, **options)
    return Sandbox(
        ensure_workspace(workspace),
        policy or ExecutionPolicy(),
        settings._replace(system_calls=system_calls),
    )
