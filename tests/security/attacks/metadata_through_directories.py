"""Reach the session's own file from a directory below or above."""

import os

from attack_kit import attempt, escaped, read, verdict, write

os.makedirs("sub/deeper")
for path in (
    "sub/../.metadata.json",
    "sub/deeper/../../.metadata.json",
    "/app/sub/.././.metadata.json",
    "/tmp/../app/.metadata.json",
    "/../app/.metadata.json",
    "../app/.metadata.json",
):
    attempt("read " + path, read, path)
    attempt("write " + path, write, path)
os.chdir("sub")
attempt("from below", read, "../.metadata.json")
attempt("write from below", write, "../.metadata.json")
held = os.open("..", os.O_RDONLY)
attempt("by descriptor", lambda: os.open(".metadata.json", os.O_RDONLY, dir_fd=held))
attempt("made", lambda: os.open(".metadata.json", os.O_CREAT | os.O_WRONLY, dir_fd=held))
os.chdir("/")
attempt("from above", read, "app/.metadata.json")
os.chdir("/app")
for place in (".", "/app", "/app/", "sub/.."):
    if any("metadata" in name for name in os.listdir(place)):
        escaped("it is listed in " + place)
with open("sub/.metadata.json", "w") as file:
    file.write("an ordinary file of this name")
verdict()
