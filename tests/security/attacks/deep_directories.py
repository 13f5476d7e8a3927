"""Leave a tree deeper than any path may be long."""

import os

from attack_kit import verdict

part = "d" * 200
depth = 0
above = None
here = os.open(".", os.O_RDONLY)
try:
    for _ in range(400):
        os.mkdir(part, dir_fd=here)
        below = os.open(part, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
        depth += 1
    fd = os.open("bottom.txt", os.O_CREAT | os.O_WRONLY, dir_fd=here)
    os.close(fd)
except OSError as error:
    print("stopped", error.errno)
print("depth", depth)
verdict()
