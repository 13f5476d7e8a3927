"""Any command in a jail: its own namespaces, one writable folder, limits, no network.

    from agentforge_sessions.jail import (Jail, JailPolicy)

    jail = Jail(JailPolicy(), programs=["node"])
    jail.check()
    result = jail.run(["npm", "test"], workspace=Path("work"))
    result.exit_code, result.stopped

Native code runs at full speed, with the kernel as the only wall; the sandbox (`sandbox`) has a
WebAssembly engine before that. The jail needs Linux and bubblewrap (the extra `jail`, or the
system's). There is no fallback to running without a jail.
"""

from __future__ import annotations

from .command_programs import MissingProgram, is_shell, started_by_text
from .errors import (
    CommandMissing,
    FolderForbidden,
    InvalidJail,
    JailError,
    JailNotEnded,
    JailUnavailable,
    MountPointUnusable,
    Refusal,
)
from .jail import Jail
from .policy import FolderMount, JailLimits, JailPolicy, JailResult, JailUsage, Means, StopReason
from .walls.system_folders import WORKSPACE

__all__ = [
    "WORKSPACE",
    "CommandMissing",
    "FolderForbidden",
    "FolderMount",
    "InvalidJail",
    "Jail",
    "JailError",
    "JailLimits",
    "JailNotEnded",
    "JailPolicy",
    "JailResult",
    "JailUnavailable",
    "JailUsage",
    "Means",
    "MissingProgram",
    "MountPointUnusable",
    "Refusal",
    "StopReason",
    "is_shell",
    "started_by_text",
]
