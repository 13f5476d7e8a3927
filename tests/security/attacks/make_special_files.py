"""Leave pipes, devices and sockets for the host to fall over."""

import os
import socket
import stat

from attack_kit import attempt, verdict


def make(name, *args):
    getattr(os, name)(*args)


attempt("pipe", make, "mkfifo", "pipe")
attempt("named", make, "mknod", "node", stat.S_IFIFO | 0o600)
attempt("memory device", make, "mknod", "memory", stat.S_IFCHR | 0o600, (1 << 8) | 1)
attempt("disk device", make, "mknod", "disk", stat.S_IFBLK | 0o600, 8 << 8)
attempt("mount", make, "mount", "/", "/app")
attempt("socket", lambda: socket.socket(getattr(socket, "AF_UNIX", 1)).bind("left_socket"))
attempt("pipe pair", make, "pipe")
verdict()
