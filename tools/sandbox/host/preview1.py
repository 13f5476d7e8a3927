"""The functions of `wasi_snapshot_preview1` and `host.call`, by their names.

Every function answers an errno or ends the turn; addresses and lengths are checked by
`GuestMemory`.
"""

from __future__ import annotations

from typing import Final

from . import preview1_files as files
from . import preview1_process as process
from .engine import HostFunction

FUNCTIONS: Final[dict[str, HostFunction]] = {
    "call": process.host_call,
    "args_get": process.args_get,
    "args_sizes_get": process.args_sizes_get,
    "environ_get": process.environ_get,
    "environ_sizes_get": process.environ_sizes_get,
    "clock_res_get": process.clock_res_get,
    "clock_time_get": process.clock_time_get,
    "random_get": process.random_get,
    "sched_yield": process.sched_yield,
    "proc_exit": process.proc_exit,
    "poll_oneoff": process.poll_oneoff,
    "fd_advise": files.fd_advise,
    "fd_close": files.fd_close,
    "fd_sync": files.fd_sync,
    "fd_fdstat_get": files.fd_fdstat_get,
    "fd_fdstat_set_flags": files.fd_fdstat_set_flags,
    "fd_filestat_get": files.fd_filestat_get,
    "fd_filestat_set_size": files.fd_filestat_set_size,
    "fd_filestat_set_times": files.fd_filestat_set_times,
    "fd_read": files.fd_read,
    "fd_pread": files.fd_pread,
    "fd_write": files.fd_write,
    "fd_pwrite": files.fd_pwrite,
    "fd_seek": files.fd_seek,
    "fd_tell": files.fd_tell,
    "fd_prestat_get": files.fd_prestat_get,
    "fd_prestat_dir_name": files.fd_prestat_dir_name,
    "fd_readdir": files.fd_readdir,
    "path_open": files.path_open,
    "path_filestat_get": files.path_filestat_get,
    "path_filestat_set_times": files.path_filestat_set_times,
    "path_create_directory": files.path_create_directory,
    "path_remove_directory": files.path_remove_directory,
    "path_unlink_file": files.path_unlink_file,
    "path_symlink": files.path_symlink,
    "path_readlink": files.path_readlink,
    "path_link": files.path_link,
    "path_rename": files.path_rename,
    "fd_datasync": files.fd_sync,
    **dict.fromkeys(("sock_accept", "sock_recv", "sock_send", "sock_shutdown"), process.no_socket),
}
"""Every function that the interpreter imports."""
