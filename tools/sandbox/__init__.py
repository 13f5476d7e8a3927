"""Untrusted Python in a fresh WebAssembly interpreter, with one directory of the host.

    from tools.sandbox import create_sandbox

    sandbox = create_sandbox(workspace=Path("work"))
    result = sandbox.execute("open('out.txt', 'w').write('hello')")
    result.success, result.files_created  # True, ('out.txt',)

Importing this package loads no WebAssembly engine; the first execution does.
"""

from __future__ import annotations

from tools.sandbox.errors import (
    InvalidExecution,
    InvalidPolicy,
    SandboxError,
    SandboxUnavailable,
    WorkspaceError,
)
from tools.sandbox.execution import Sandbox
from tools.sandbox.factory import create_sandbox
from tools.sandbox.policy import ExecutionPolicy
from tools.sandbox.result import SandboxResult, Trap
from tools.sandbox.runtime import RuntimeInfo, prepare, runtime_info
from tools.sandbox.workspace import open_workspace_file

__all__ = [
    "ExecutionPolicy",
    "InvalidExecution",
    "InvalidPolicy",
    "RuntimeInfo",
    "Sandbox",
    "SandboxError",
    "SandboxResult",
    "SandboxUnavailable",
    "Trap",
    "WorkspaceError",
    "create_sandbox",
    "open_workspace_file",
    "prepare",
    "runtime_info",
]
