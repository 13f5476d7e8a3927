"""Map files into memory and change them there."""

import mmap
import os

from attack_kit import BASE, attempt, verdict


def mapped(path):
    fd = os.open(path, os.O_RDWR)
    try:
        with mmap.mmap(fd, 0) as view:
            view[0:1] = b"X"
            view.flush()
    finally:
        os.close(fd)


for path in ("../canary.txt", BASE + "/canary.txt", "secret_link", ".metadata.json"):
    attempt("map " + path, mapped, path)
for fd in range(3, 64):
    attempt(f"map {fd}", mmap.mmap, fd, 1)
try:
    with mmap.mmap(-1, 1 << 20) as view:
        view[:3] = b"abc"
except (OSError, ValueError, MemoryError) as error:
    print("no anonymous memory", type(error).__name__)
verdict()
