"""Change what the next interpreter will run."""

import os

from attack_kit import attempt, escaped, verdict

zips = [name for name in os.listdir("/usr/local/lib") if name.endswith(".zip")]
for name in zips:
    path = "/usr/local/lib/" + name
    attempt("open for writing", open, path, "r+b")
    attempt("replace", os.replace, "notes.txt", path)
    attempt("remove", os.remove, path)
    attempt("truncate", os.truncate, path, 0)
    attempt("times", os.utime, path, (1, 1))
    attempt("hard link into the workspace", os.link, path, "library.zip")
attempt("new module", open, "/usr/local/lib/sitecustomize.py", "w")
attempt("new directory", os.mkdir, "/usr/local/lib/site-packages")
if not zips:
    escaped("no library to attack: the attack needs a new aim")
verdict()
