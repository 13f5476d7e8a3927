"""Keep using files that have no name any more."""

import os

from attack_kit import verdict

for turn in range(50):
    fd = os.open("ghost", os.O_RDWR | os.O_CREAT)
    os.write(fd, b"x" * 10_000)
    try:
        os.remove("ghost")
        os.write(fd, b"y" * 10_000)
        os.fsync(fd)
        os.rename("notes.txt", "ghost") if turn == 25 else None
    except OSError as error:
        print("refused", error.errno)
    try:
        os.close(fd)
    except OSError as error:
        print("refused", error.errno)
verdict()
