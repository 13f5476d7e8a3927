"""Open what is outside with every combination of flags."""

import itertools
import os

from attack_kit import BASE, attempt, verdict

NAMES = ("O_CREAT", "O_EXCL", "O_TRUNC", "O_APPEND", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK")
FLAGS = [getattr(os, name) for name in NAMES if hasattr(os, name)]
TARGETS = [
    "../outside/secret.txt",
    BASE + "/outside/secret.txt",
    "secret_link",
    "outside_link/secret.txt",
    "dangling_out",
]
for count in range(4):
    for chosen in itertools.combinations(FLAGS, count):
        for access in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
            flags = access
            for flag in chosen:
                flags |= flag
            for target in TARGETS:
                attempt(f"{target} {flags:x}", os.open, target, flags)
for target in TARGETS[:3]:
    for flags in (-1, 2**31 - 1, 0o777777777):
        attempt(f"{target} {flags}", os.open, target, flags)
verdict()
