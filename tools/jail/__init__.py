"""Any command in a jail: its own namespaces, one writable folder, limits, no network.

    from agentforge_sessions.jail import (Jail, JailPolicy)

    jail = Jail(JailPolicy(), programs=["node"])
    jail.check()
    result = jail.run(["npm", "test"], workspace=Path("work"))
    result.exit_code, result.stopped

Native code runs at full speed, with the kernel as the only wall; the sandbox (`sandbox`) has a
WebAssembly engine before that. The jail needs Linux and bubblewrap (installed with this package, or
the system's). Nothing falls back to running without a jail: `NoWalls` is for a person who says so.
"""

from __future__ import annotations

from .command_programs import MissingProgram, is_shell, started_by_text
from .command_walls import CommandWalls, NoWalls, command_walls
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
    "CommandWalls",
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
    "NoWalls",
    "Refusal",
    "StopReason",
    "command_walls",
    "is_shell",
    "started_by_text",
]
