"""Cut files off that are not the guest's."""

import os

from attack_kit import BASE, attempt, verdict

for path in [
    "../canary.txt",
    BASE + "/canary.txt",
    "outside_link/secret.txt",
    "secret_link",
    "../neighbour/theirs.txt",
]:
    attempt("truncate " + path, os.truncate, path, 0)
    attempt("grow " + path, os.truncate, path, 100)
for fd in range(3, 64):
    attempt(f"descriptor {fd}", os.ftruncate, fd, 0)
verdict()
