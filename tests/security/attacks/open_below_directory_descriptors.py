"""Use a held directory to look up what a path may not name."""

import os

from attack_kit import attempt, verdict

here = os.open(".", os.O_RDONLY)
for name in ("secret_link", "outside_link/secret.txt", "../canary.txt", ".metadata.json"):
    attempt("open " + name, lambda n=name: os.open(n, os.O_RDONLY, dir_fd=here))
    attempt("stat " + name, lambda n=name: os.stat(n, dir_fd=here))
    attempt("stat itself " + name, lambda n=name: os.stat(n, dir_fd=here, follow_symlinks=False))
    attempt("link text " + name, lambda n=name: os.readlink(n, dir_fd=here))
    attempt("unlink " + name, lambda n=name: os.unlink(n, dir_fd=here))
    attempt("mkdir " + name, lambda n=name: os.mkdir(n + "/x", dir_fd=here))
    attempt(
        "rename " + name,
        lambda n=name: os.rename(n, "mine", src_dir_fd=here, dst_dir_fd=here),
    )
os.close(here)
attempt("through a closed descriptor", lambda: os.open("notes.txt", os.O_RDONLY, dir_fd=here))
verdict()
