"""Untrusted Python in a fresh WebAssembly interpreter, with one directory of the host.

    from agentforge_sessions.sandbox import create_sandbox

    sandbox = create_sandbox(workspace=Path("work"))
    result = sandbox.execute("open('out.txt', 'w').write('hello')")
    result.success, result.files_created  # True, ('out.txt',)

Importing this package loads no WebAssembly engine; the first execution does. Each name loads its
module on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.exports import on_first_use

if TYPE_CHECKING:
    # Each with an alias, which marks a re-export; `__all__` comes from the table.
    # isort: off
    from ..base.cancellation import CancelToken as CancelToken
    from ..prune import PruneResult as PruneResult, RetentionPolicy as RetentionPolicy
    from .compiled.status import RuntimeInfo as RuntimeInfo
    from .errors import (
        CorruptedMetadata as CorruptedMetadata,
        InputFileError as InputFileError,
        InvalidExecution as InvalidExecution,
        InvalidPolicy as InvalidPolicy,
        InvalidSessionId as InvalidSessionId,
        PathEscapesWorkspace as PathEscapesWorkspace,
        ReservedSessionPath as ReservedSessionPath,
        SandboxClosed as SandboxClosed,
        SandboxError as SandboxError,
        SandboxUnavailable as SandboxUnavailable,
        SessionWorkspaceMissing as SessionWorkspaceMissing,
        WorkspaceBusy as WorkspaceBusy,
        WorkspaceError as WorkspaceError,
    )
    from .interpreters.process_pool import (
        close_pool as close_pool,
        configure_pool as configure_pool,
        pool_stats as pool_stats,
        warm_pool as warm_pool,
    )
    from .interpreters.runtime import prepare as prepare, runtime_info as runtime_info
    from .policy import ExecutionPolicy as ExecutionPolicy
    from .process_exit import end_process as end_process
    from .prune_target import (
        SandboxTarget as SandboxTarget,
        archive_sessions as archive_sessions,
        prune_sessions as prune_sessions,
        restore_session as restore_session,
    )
    from .read_only_mount import ReadOnlyMount as ReadOnlyMount
    from .result import SandboxResult as SandboxResult, Trap as Trap
    from .result_parts import LostWrite as LostWrite, ToolCallRecord as ToolCallRecord
    from .sandbox import (
        BaseSandbox as BaseSandbox,
        Sandbox as Sandbox,
        create_sandbox as create_sandbox,
    )
    from .sandbox_logging import SandboxLogger as SandboxLogger
    from .executor import (
        RuntimeType as RuntimeType,
        UnsupportedRuntime as UnsupportedRuntime,
    )
    from .session_workspaces.session_deletion import (
        delete_session_workspace as delete_session_workspace,
    )
    from .session_workspaces.session_files import (
        delete_session_path as delete_session_path,
        list_session_files as list_session_files,
        read_session_file as read_session_file,
        read_session_text as read_session_text,
        write_session_file as write_session_file,
    )
    from .session_workspaces.session_metadata import SessionMetadata as SessionMetadata
    from .session_workspaces.session_metadata_file import (
        read_session_metadata as read_session_metadata,
    )
    from .session_workspaces.session_repair import (
        repair_session_metadata as repair_session_metadata,
    )
    from .sessions import (
        SessionSandbox as SessionSandbox,
        create_session_sandbox as create_session_sandbox,
        get_session_sandbox as get_session_sandbox,
    )
    from .workspaces.workspace import open_workspace_file as open_workspace_file
    from .workspaces.quota import forget_usage as forget_usage
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
            "executor": "RuntimeType UnsupportedRuntime",
            "session_workspaces.session_deletion": "delete_session_workspace",
            "session_workspaces.session_files": "delete_session_path list_session_files "
            "read_session_file read_session_text write_session_file",
            "session_workspaces.session_metadata": "SessionMetadata",
            "session_workspaces.session_metadata_file": "read_session_metadata",
            "session_workspaces.session_repair": "repair_session_metadata",
            "sessions": "SessionSandbox create_session_sandbox get_session_sandbox",
            "compiled.status": "RuntimeInfo",
            "workspaces.workspace": "open_workspace_file",
            "workspaces.quota": "forget_usage",
        },
    )
