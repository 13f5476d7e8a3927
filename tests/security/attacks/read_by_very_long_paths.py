"""Climb with paths longer than any path may be."""

import os

from attack_kit import BASE, attempt, read, verdict

for path in [
    "../" * 5000 + "outside/secret.txt",
    "./" * 4000 + "../outside/secret.txt",
    "/" * 8000 + BASE + "/outside/secret.txt",
    "a/../" * 2000 + "../outside/secret.txt",
    "a" * 300 + "/../../outside/secret.txt",
    "a" * 70_000,
    "x/" * 100_000 + "y",
]:
    attempt(f"read {len(path)}", read, path)
    attempt(f"list {len(path)}", os.listdir, path)
    attempt(f"make {len(path)}", os.mkdir, path)
    attempt(f"move {len(path)}", os.rename, "notes.txt", path)
verdict()
