"""Untrusted Python in a fresh WebAssembly interpreter, with one directory of the host.

    from agentforge_sessions.sandbox import create_sandbox

    sandbox = create_sandbox(workspace=Path("work"))
    result = sandbox.execute("open('out.txt', 'w').write('hello')")
    result.success, result.files_created  # True, ('out.txt',)

Importing this package loads no WebAssembly engine; the first execution does. Each name loads its
module when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.exports import on_first_use

if TYPE_CHECKING:
    from ..base.cancellation import CancelToken
    from ..prune import PruneResult, RetentionPolicy
    from .compiled.status import PoolStats, RuntimeInfo
    from .errors import (
        CorruptedMetadata,
        InputFileError,
        InvalidExecution,
        InvalidPolicy,
        InvalidSessionId,
        PathEscapesWorkspace,
        ReservedSessionPath,
        SandboxClosed,
        SandboxError,
        SandboxUnavailable,
        SessionWorkspaceMissing,
        WorkspaceBusy,
        WorkspaceError,
    )
    from .interpreters.process_pool import close_pool, configure_pool, pool_stats, warm_pool
    from .interpreters.runtime import prepare, runtime_info
    from .policy import ExecutionPolicy
    from .process_exit import end_process
    from .prune_target import (
        SandboxTarget,
        archive_sessions,
        prune_sessions,
        restore_session,
    )
    from .read_only_mount import ReadOnlyMount
    from .result import SandboxResult, Trap
    from .result_parts import LostWrite, ToolCallRecord
    from .sandbox import BaseSandbox, Sandbox, create_sandbox
    from .sandbox_logging import SandboxLogger
    from .sandbox_options import RuntimeType, UnsupportedRuntime
    from .session_workspaces.session_deletion import delete_session_workspace
    from .session_workspaces.session_files import (
        delete_session_path,
        list_session_files,
        read_session_file,
        read_session_text,
        write_session_file,
    )
    from .session_workspaces.session_metadata import SessionMetadata
    from .session_workspaces.session_metadata_file import read_session_metadata
    from .session_workspaces.session_repair import RepairResult, repair_session_metadata
    from .sessions import SessionSandbox, create_session_sandbox, get_session_sandbox
    from .workspaces.workspace import open_workspace_file
    from .workspaces.workspace_usage import forget_usage
else:
    __getattr__ = on_first_use(
        __name__,
        {
            ".base.cancellation": "CancelToken",
            "errors": "CorruptedMetadata InputFileError InvalidExecution InvalidPolicy "
            "InvalidSessionId PathEscapesWorkspace ReservedSessionPath "
            "SandboxClosed SandboxError SandboxUnavailable SessionWorkspaceMissing "
            "WorkspaceBusy WorkspaceError",
            "policy": "ExecutionPolicy",
            "process_exit": "end_process",
            "interpreters.process_pool": "close_pool configure_pool pool_stats warm_pool",
            "prune_target": "PruneResult RetentionPolicy SandboxTarget archive_sessions "
            "prune_sessions restore_session",
            "read_only_mount": "ReadOnlyMount",
            "result": "SandboxResult Trap",
            "result_parts": "LostWrite ToolCallRecord",
            "interpreters.runtime": "prepare runtime_info",
            "sandbox": "BaseSandbox Sandbox create_sandbox",
            "sandbox_logging": "SandboxLogger",
            "sandbox_options": "RuntimeType UnsupportedRuntime",
            "session_workspaces.session_deletion": "delete_session_workspace",
            "session_workspaces.session_files": "delete_session_path list_session_files "
            "read_session_file read_session_text write_session_file",
            "session_workspaces.session_metadata": "SessionMetadata",
            "session_workspaces.session_metadata_file": "read_session_metadata",
            "session_workspaces.session_repair": "RepairResult repair_session_metadata",
            "sessions": "SessionSandbox create_session_sandbox get_session_sandbox",
            "compiled.status": "PoolStats RuntimeInfo",
            "workspaces.workspace": "open_workspace_file",
            "workspaces.workspace_usage": "forget_usage",
        },
    )

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
