"""Visit another session's workspace."""

import os
import shutil

from attack_kit import BASE, attempt, read, verdict, write

for door in ("../neighbour", BASE + "/neighbour", "neighbour_link", "/neighbour"):
    attempt("list " + door, os.listdir, door)
    attempt("read " + door, read, door + "/theirs.txt")
    attempt("metadata " + door, read, door + "/.metadata.json")
    if door != "/neighbour":
        attempt("write " + door, write, door + "/planted.txt")
        attempt("rename into " + door, os.rename, "notes.txt", door + "/notes.txt")
    attempt("take " + door, os.rename, door + "/theirs.txt", "theirs.txt")
    attempt("remove " + door, shutil.rmtree, door)
attempt("become it", os.rename, "/app", "../neighbour")
verdict()
