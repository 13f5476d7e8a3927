"""Delete what is outside."""

import os
import shutil

from attack_kit import BASE, attempt, verdict

for path in ["../canary.txt", BASE + "/canary.txt", "outside_link/secret.txt"]:
    attempt("remove " + path, os.remove, path)
for path in ["../outside/inner", "outside_link/inner", "outside_abs/inner"]:
    attempt("rmdir " + path, os.rmdir, path)
for path in ["../outside", BASE + "/outside", "outside_link", "outside_link/inner"]:
    attempt("rmtree " + path, shutil.rmtree, path)
verdict()
