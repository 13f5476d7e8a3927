"""Read files every host has."""

import os

from attack_kit import attempt, read, verdict

for path in [
    "/etc/passwd",
    "/etc/hostname",
    "/proc/self/environ",
    "/proc/self/maps",
    "/proc/1/cmdline",
    "/sys/kernel/version",
    "/dev/urandom",
    "/dev/zero",
    "/root/.bashrc",
    "/usr/bin/env",
]:
    attempt(path, read, path)
for path in ["/etc", "/proc", "/dev", "/root", "/home", "/var", "/sys"]:
    attempt("list " + path, os.listdir, path)
attempt("read a planted link to /etc/passwd", read, "passwd_link")
verdict()
