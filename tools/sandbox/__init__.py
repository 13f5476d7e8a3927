"""Untrusted Python in a fresh WebAssembly interpreter, with one directory of the host.

    from tools.sandbox import create_sandbox

    sandbox = create_sandbox(workspace=Path("work"))
    result = sandbox.execute("open('out.txt', 'w').write('hello')")
    result.success, result.files_created  # True, ('out.txt',)

Importing this package loads no WebAssembly engine; the first execution does.
"""

from __future__ import annotations

from tools.prune import PruneResult, RetentionPolicy
from tools.sandbox.cancel import CancelToken
from tools.sandbox.ending import end_process
from tools.sandbox.errors import (
    InputFileError,
    InvalidExecution,
    InvalidPolicy,
    SandboxClosed,
    SandboxError,
    SandboxUnavailable,
    WorkspaceBusy,
    WorkspaceError,
)
from tools.sandbox.execution import BaseSandbox, Sandbox
from tools.sandbox.factory import RuntimeType, UnsupportedRuntime, create_sandbox
from tools.sandbox.metadata import (
    CorruptedMetadata,
    RepairResult,
    SessionMetadata,
    read_session_metadata,
    repair_session_metadata,
)
from tools.sandbox.policy import ExecutionPolicy, ReadOnlyMount
from tools.sandbox.pool import PoolStats, close_pool, configure_pool, pool_stats, warm_pool
from tools.sandbox.pruning import (
    SandboxTarget,
    archive_sessions,
    prune_sessions,
    restore_session,
)
from tools.sandbox.result import LostWrite, SandboxResult, ToolCallRecord, Trap
from tools.sandbox.runtime import RuntimeInfo, prepare, runtime_info
from tools.sandbox.sandbox_logging import SandboxLogger
from tools.sandbox.session_files import (
    InvalidSessionId,
    PathEscapesWorkspace,
    ReservedSessionPath,
    SessionWorkspaceMissing,
    delete_session_path,
    list_session_files,
    read_session_file,
    read_session_text,
    write_session_file,
)
from tools.sandbox.sessions import (
    SessionSandbox,
    create_session_sandbox,
    delete_session_workspace,
    get_session_sandbox,
)
from tools.sandbox.usage import forget_usage
from tools.sandbox.workspace import open_workspace_file

__all__ = [
    "BaseSandbox",
    "CancelToken",
    "CorruptedMetadata",
    "ExecutionPolicy",
    "InputFileError",
    "InvalidExecution",
    "InvalidPolicy",
    "InvalidSessionId",
    "LostWrite",
    "PathEscapesWorkspace",
    "PoolStats",
    "PruneResult",
    "ReadOnlyMount",
    "RepairResult",
    "ReservedSessionPath",
    "RetentionPolicy",
    "RuntimeInfo",
    "RuntimeType",
    "Sandbox",
    "SandboxClosed",
    "SandboxError",
    "SandboxLogger",
    "SandboxResult",
    "SandboxTarget",
    "SandboxUnavailable",
    "SessionMetadata",
    "SessionSandbox",
    "SessionWorkspaceMissing",
    "ToolCallRecord",
    "Trap",
    "UnsupportedRuntime",
    "WorkspaceBusy",
    "WorkspaceError",
    "archive_sessions",
    "close_pool",
    "configure_pool",
    "create_sandbox",
    "create_session_sandbox",
    "delete_session_path",
    "delete_session_workspace",
    "end_process",
    "forget_usage",
    "get_session_sandbox",
    "list_session_files",
    "open_workspace_file",
    "pool_stats",
    "prepare",
    "prune_sessions",
    "read_session_file",
    "read_session_metadata",
    "read_session_text",
    "repair_session_metadata",
    "restore_session",
    "runtime_info",
    "warm_pool",
    "write_session_file",
]
