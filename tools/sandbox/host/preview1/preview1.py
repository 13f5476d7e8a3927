"""The functions of `wasi_snapshot_preview1` and `host.call`, by their names.

Every function answers an errno or ends the turn; addresses and lengths are checked by
`GuestMemory`.
"""

from __future__ import annotations

from typing import Final

from ..engine.engine import HostFunction
from . import preview1_descriptors as descriptors
from . import preview1_paths as paths
from . import preview1_process as process

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
    "fd_advise": descriptors.fd_advise,
    "fd_allocate": descriptors.fd_allocate,
    "fd_close": descriptors.fd_close,
    "fd_renumber": descriptors.fd_renumber,
    "fd_sync": descriptors.fd_sync,
    "fd_datasync": descriptors.fd_datasync,
    "fd_fdstat_get": descriptors.fd_fdstat_get,
    "fd_fdstat_set_flags": descriptors.fd_fdstat_set_flags,
    "fd_fdstat_set_rights": descriptors.fd_fdstat_set_rights,
    "fd_filestat_get": descriptors.fd_filestat_get,
    "fd_filestat_set_size": descriptors.fd_filestat_set_size,
    "fd_filestat_set_times": descriptors.fd_filestat_set_times,
    "fd_read": descriptors.fd_read,
    "fd_pread": descriptors.fd_pread,
    "fd_write": descriptors.fd_write,
    "fd_pwrite": descriptors.fd_pwrite,
    "fd_seek": descriptors.fd_seek,
    "fd_tell": descriptors.fd_tell,
    "fd_prestat_get": descriptors.fd_prestat_get,
    "fd_prestat_dir_name": descriptors.fd_prestat_dir_name,
    "fd_readdir": descriptors.fd_readdir,
    "path_open": paths.path_open,
    "path_filestat_get": paths.path_filestat_get,
    "path_filestat_set_times": paths.path_filestat_set_times,
    "path_create_directory": paths.path_create_directory,
    "path_remove_directory": paths.path_remove_directory,
    "path_unlink_file": paths.path_unlink_file,
    "path_symlink": paths.path_symlink,
    "path_readlink": paths.path_readlink,
    "path_link": paths.path_link,
    "path_rename": paths.path_rename,
    **dict.fromkeys(("sock_accept", "sock_recv", "sock_send", "sock_shutdown"), process.no_socket),
}
"""Every function that the interpreter imports, and what preview1 asks besides but `proc_raise`."""
