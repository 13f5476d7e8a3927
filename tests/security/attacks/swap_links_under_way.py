"""Swap a directory for a link while a path through it is in use."""

import os

from attack_kit import attempt, read, verdict

os.makedirs("real", exist_ok=True)
with open("real/secret.txt", "w") as file:
    file.write("mine")
handle = os.open("real", os.O_RDONLY)
os.rename("real", "moved")
try:
    os.symlink("../outside", "real")
except OSError as error:
    print("no link", type(error).__name__)
attempt("through the swapped name", read, "real/secret.txt")


def below(name):
    fd = os.open(name, os.O_RDONLY, dir_fd=handle)
    try:
        return os.read(fd, 100)
    finally:
        os.close(fd)


attempt("climb from a held directory", below, "../../outside/secret.txt")
attempt("absolute from a held directory", below, "/../outside/secret.txt")
verdict()
