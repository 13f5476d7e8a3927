"""Read through links that were in the workspace before."""

import os
import shutil

from attack_kit import attempt, read, verdict

for name in ["secret_link", "secret_abs", "passwd_link"]:
    attempt("read " + name, read, name)
    attempt("stat " + name, os.stat, name)
    attempt("copy " + name, shutil.copyfile, name, "stolen.txt")
for name in ["outside_link", "outside_abs"]:
    attempt("list " + name, os.listdir, name)
    attempt("scan " + name, lambda name=name: list(os.scandir(name)))
    attempt("read below " + name, read, name + "/secret.txt")
    attempt("chdir " + name, lambda name=name: (os.chdir(name), read("secret.txt")))
    os.chdir("/app")
    attempt("back and forth " + name, read, name + "/../canary.txt")
verdict()
