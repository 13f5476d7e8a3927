"""Reach the session's own file by a second name."""

import os

from attack_kit import attempt, read, verdict, write

attempt("hard link", os.link, ".metadata.json", "second")
attempt("hard link over", os.link, "notes.txt", ".metadata.json")
for target in (".metadata.json", "/app/.metadata.json", "./sub/../.metadata.json"):
    try:
        os.symlink(target, "name")
    except OSError as error:
        print("no link", error.errno)
        continue
    attempt("read by link", read, "name")
    attempt("write by link", write, "name")
attempt("link in its place", os.symlink, "notes.txt", ".metadata.json")
verdict()
