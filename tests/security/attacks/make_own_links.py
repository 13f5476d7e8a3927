"""Make links that lead out, then use them."""

import os

from attack_kit import BASE, attempt, read, verdict, write


def try_link(target, name):
    try:
        os.symlink(target, name)
    except OSError as error:
        print("no link", target, type(error).__name__)
        return False
    return True


for number, target in enumerate(
    ["../outside/secret.txt", BASE + "/outside/secret.txt", "/etc/passwd", "/proc/self/environ"]
):
    if try_link(target, f"file{number}"):
        attempt("read link to " + target, read, f"file{number}")
for number, target in enumerate(["..", "../outside", BASE, BASE + "/outside", "/"]):
    if try_link(target, f"dir{number}"):
        attempt("read below link to " + target, read, f"dir{number}/outside/secret.txt")
        attempt("read in link to " + target, read, f"dir{number}/secret.txt")
        attempt("write below link to " + target, write, f"dir{number}/planted.txt")
if try_link("../outside/planted.txt", "create"):
    attempt("create through a link", write, "create")
verdict()
