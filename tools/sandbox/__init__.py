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
    from ..prune import PruneResult as PruneResult
    from .compiled.status import RuntimeInfo as RuntimeInfo
    from .sandbox_logging import SandboxLogger as SandboxLogger
    from .workspaces.workspace import open_workspace_file as open_workspace_file
    from .errors import (
        CorruptedMetadata as CorruptedMetadata,
        InputFileError as InputFileError,
        InvalidExecution as InvalidExecution,
        InvalidPolicy as InvalidPolicy,
        InvalidSessionId as InvalidSessionId,
        PathEscapesWorkspace as PathEscapesWorkspace,
        ProgramElsewhere as ProgramElsewhere,
        ProgramSuspended as ProgramSuspended,
        ReservedSessionPath as ReservedSessionPath,
        SandboxClosed as SandboxClosed,
        SandboxError as SandboxError,
        SandboxUnavailable as SandboxUnavailable,
        SessionWorkspaceMissing as SessionWorkspaceMissing,
        UnknownRequest as UnknownRequest,
        WorkspaceBusy as WorkspaceBusy,
        WorkspaceError as WorkspaceError,
    )
    from .interpreters.runtime import (
        announced as announced,
        prepare as prepare,
        runtime_info as runtime_info,
    )
    from .policy import ExecutionPolicy as ExecutionPolicy
    from .prune_target import (
        SandboxTarget as SandboxTarget,
        prune_sessions as prune_sessions,
    )
    from .read_only_mount import ReadOnlyMount as ReadOnlyMount
    from .live.live_door import current_call as current_call
    from .live.errors import ProgramSnapshotRefused as ProgramSnapshotRefused
    from .live.snapshot_file import ProgramSnapshot as ProgramSnapshot
    from .result import SandboxResult as SandboxResult, Trap as Trap
    from .result_parts import (
        ProgramFrame as ProgramFrame,
        ProgramRequest as ProgramRequest,
        RequestFailed as RequestFailed,
        Suspension as Suspension,
    )
    from .sandbox import (
        BaseSandbox as BaseSandbox,
        Sandbox as Sandbox,
        create_sandbox as create_sandbox,
    )
    from .executor import RuntimeType as RuntimeType
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
else:
    __getattr__ = on_first_use(
        __name__,
        {
            "errors": "CorruptedMetadata InputFileError InvalidExecution InvalidPolicy "
            "InvalidSessionId PathEscapesWorkspace ProgramElsewhere ProgramSuspended "
            "ReservedSessionPath SandboxClosed SandboxError SandboxUnavailable "
            "SessionWorkspaceMissing UnknownRequest WorkspaceBusy WorkspaceError",
            "policy": "ExecutionPolicy",
            "prune_target": "PruneResult SandboxTarget prune_sessions",
            "read_only_mount": "ReadOnlyMount",
            "sandbox_logging": "SandboxLogger",
            "compiled.status": "RuntimeInfo",
            "workspaces.workspace": "open_workspace_file",
            "live.errors": "ProgramSnapshotRefused",
            "live.live_door": "current_call",
            "live.snapshot_file": "ProgramSnapshot",
            "result": "SandboxResult Trap",
            "result_parts": "ProgramFrame ProgramRequest RequestFailed Suspension",
            "interpreters.runtime": "announced prepare runtime_info",
            "sandbox": "BaseSandbox Sandbox create_sandbox",
            "executor": "RuntimeType",
            "session_workspaces.session_deletion": "delete_session_workspace",
            "session_workspaces.session_files": "delete_session_path list_session_files "
            "read_session_file read_session_text write_session_file",
            "session_workspaces.session_metadata_file": "read_session_metadata",
            "session_workspaces.session_repair": "repair_session_metadata",
            "sessions": "SessionSandbox create_session_sandbox get_session_sandbox",
        },
    )
