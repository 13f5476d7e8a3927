"""Rename things out of the workspace, or outside things in."""

import os
import shutil

from attack_kit import BASE, attempt, verdict

attempt("out by climbing", os.rename, "notes.txt", "../notes.txt")
attempt("out by absolute", os.rename, "notes.txt", BASE + "/notes.txt")
attempt("over the canary", os.replace, "notes.txt", "../canary.txt")
attempt("in by climbing", os.rename, "../canary.txt", "canary.txt")
attempt("in by link", os.rename, "outside_link/secret.txt", "secret.txt")
attempt("the workspace itself", os.rename, "/app", "/app2")
attempt("move tree in", shutil.move, "../outside", "inside")
verdict()
