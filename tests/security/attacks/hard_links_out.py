"""Make a hard link to a file outside, or to a link that leads there."""

import os

from attack_kit import BASE, attempt, read, verdict, write

for target in ["../outside/secret.txt", BASE + "/outside/secret.txt", "/etc/passwd"]:
    attempt("link " + target, os.link, target, "stolen")
for target in ["secret_link", "secret_abs"]:
    # The link itself may be linked; what it leads to may not be read by the new name either.
    name = "linked_" + target
    try:
        os.link(target, name)
    except OSError as error:
        print("no link", name, type(error).__name__)
        continue
    attempt("read " + name, read, name)
    attempt("write " + name, write, name)
attempt("link out", os.link, "notes.txt", "../outside/notes.txt")
attempt("link out through a link", os.link, "notes.txt", "outside_link/notes.txt")
verdict()
