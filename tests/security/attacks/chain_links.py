"""Reach out by several links, none of which leads out by itself."""

import os

from attack_kit import attempt, read, verdict

os.makedirs("a/b/c", exist_ok=True)
links = [
    ("b/c/../..", "a/here"),
    ("here/..", "a/up"),
    ("up/..", "a/upup"),
    ("a/upup", "start"),
    ("start/../outside", "finish"),
]
for target, name in links:
    try:
        os.symlink(target, name)
    except OSError as error:
        print("no link", name, type(error).__name__)
for path in [
    "a/upup/outside/secret.txt",
    "start/outside/secret.txt",
    "finish/secret.txt",
    "a/here/../../outside/secret.txt",
    "a/up/../outside/secret.txt",
]:
    attempt(path, read, path)
verdict()
