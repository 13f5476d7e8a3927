"""Remove or replace links that were there before."""

import os

from attack_kit import INSIDE, attempt, verdict

for name in ("secret_link", "outside_link", "dangling", "dangling_out", "passwd_link"):
    if name in INSIDE:
        continue
    attempt("remove " + name, os.remove, name)
    attempt("rmdir " + name, os.rmdir, name)
    attempt("rename away " + name, os.rename, name, "gone")
    attempt("replace " + name, os.replace, "notes.txt", name)
    attempt("mkdir " + name, os.mkdir, name)
    attempt("makedirs below " + name, os.makedirs, name + "/a/b")
verdict()
