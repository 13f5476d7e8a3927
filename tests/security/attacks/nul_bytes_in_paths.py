"""End a path early with a NUL."""

import os

from attack_kit import BASE, attempt, read, verdict, write

for path in [
    "../outside/secret.txt\0.txt",
    "notes.txt\0/../../outside/secret.txt",
    BASE + "/outside/secret.txt\0",
    b"../outside/secret.txt\0",
    "\0../outside/secret.txt",
]:
    attempt("read " + ascii(path), read, path)
    attempt("write " + ascii(path), write, path)
    attempt("stat " + ascii(path), os.stat, path)
    attempt("rename " + ascii(path), os.rename, "notes.txt", path)
verdict()
