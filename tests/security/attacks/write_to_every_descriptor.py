"""Write to every descriptor that might be something of the host's."""

import os

from attack_kit import attempt, verdict

for fd in range(3, 300):
    attempt(f"write {fd}", os.write, fd, b"x")
    if hasattr(os, "pwrite"):
        attempt(f"pwrite {fd}", os.pwrite, fd, b"x", 0)
for fd in (-1, 2**31 - 1):
    attempt(f"write {fd}", os.write, fd, b"x")
for fd in range(3, 300):
    if hasattr(os, "posix_fallocate"):
        attempt(f"allocate {fd}", os.posix_fallocate, fd, 0, 100)
verdict()
