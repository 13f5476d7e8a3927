"""Write through links that were in the workspace before."""

import os
import shutil

from attack_kit import append, attempt, verdict, write

for name in ["secret_link", "secret_abs", "dangling_out", "dangling_out_abs"]:
    attempt("write " + name, write, name)
    attempt("append " + name, append, name)
    attempt("truncate " + name, os.truncate, name, 0)
    try:
        os.utime(name, (1, 1))  # may be ignored without a word; the host looks at the times
    except OSError as error:
        print("refused times", name, type(error).__name__)
for name in ["outside_link", "outside_abs"]:
    attempt("create below " + name, write, name + "/planted.txt")
    attempt("mkdir below " + name, os.mkdir, name + "/planted")
    attempt("remove below " + name, os.remove, name + "/secret.txt")
    attempt("rmtree below " + name, shutil.rmtree, name + "/inner")
    attempt("rename below " + name, os.rename, name + "/secret.txt", "mine.txt")
    attempt("rename into " + name, os.rename, "notes.txt", name + "/notes.txt")
verdict()
