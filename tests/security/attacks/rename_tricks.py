"""Rename what must stay: the ground, its parents, what is under itself."""

import os

from attack_kit import attempt, verdict

os.makedirs("a/b/c")
with open("a/file", "w") as file:
    file.write("x")
attempt("into itself", os.rename, "a", "a/b/a")
attempt("into its child's child", os.rename, "a", "a/b/c/a")
attempt("over its parent", os.rename, "a/b", "a")
attempt("directory over file", os.rename, "a/b", "a/file")
attempt("file over directory", os.rename, "a/file", "a/b")
attempt("over a full directory", os.rename, "a/b/c", "a")
for ground in (".", "/app", "/app/", "/", "..", "/app/.", "/app/..", "a/../..", "./a/../."):
    attempt("from " + ground, os.rename, ground, "elsewhere")
    attempt("to " + ground, os.rename, "a", ground)
    attempt("out of the mount " + ground, os.rename, ground, "/tmp/elsewhere")
attempt("across to /tmp", os.rename, "a", "/tmp/a")
attempt("across to /usr", os.rename, "notes.txt", "/usr/local/notes.txt")
attempt("nothing", os.rename, "", "x")
attempt("to nothing", os.rename, "a", "")
verdict()
