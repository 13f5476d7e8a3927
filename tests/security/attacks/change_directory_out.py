"""Leave by changing the working directory."""

import os

from attack_kit import BASE, attempt, escaped, read, verdict

for target in (BASE, BASE + "/outside", "../outside", "outside_link", "secret_link", "/proc"):
    attempt("chdir " + target, os.chdir, target)
try:
    for _ in range(50):
        os.chdir("..")
except OSError as error:
    print("refused", error.errno)
os.chdir("/")
if "outside" in os.listdir("."):
    escaped("sees its surroundings")
attempt("after climbing", read, "outside/secret.txt")
attempt("down again", read, BASE[1:] + "/outside/secret.txt")
attempt("chroot", lambda: os.chroot("/"))
attempt("fchdir", lambda: os.fchdir(3))
os.chdir("/app")
verdict()
