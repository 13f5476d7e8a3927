"""The functions of `wasi_snapshot_preview1` and `host.call`, by name.

Every function returns an errno or ends the turn; `GuestMemory` checks addresses and lengths.
"""

from __future__ import annotations

from typing import Final

from ..engine.engine import HostFunction
from . import preview1_descriptors, preview1_paths, preview1_process

_BEGINNINGS: Final = ("args_", "clock_", "environ_", "fd_", "path_", "poll_", "proc_", "random_")

FUNCTIONS: Final[dict[str, HostFunction]] = {
    **{
        name: function
        for module in (preview1_descriptors, preview1_paths, preview1_process)
        for name, function in vars(module).items()
        if name.startswith(_BEGINNINGS)
    },
    "call": preview1_process.host_call,
    "sched_yield": preview1_process.sched_yield,
    **dict.fromkeys(
        ("sock_accept", "sock_recv", "sock_send", "sock_shutdown"), preview1_process.no_socket
    ),
}
"""Every function that the interpreter imports, and the rest of preview1 but `proc_raise`.

The functions of the three modules have preview1's names.
"""
