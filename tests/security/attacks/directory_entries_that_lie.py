"""Trust what a listing says of an entry, then use the entry."""

import os

from attack_kit import INSIDE, attempt, escaped, verdict

names = {"secret_link", "secret_abs", "outside_link", "dangling_out", "loop", "neighbour_link"}
names -= INSIDE
for entry in os.scandir("."):
    if entry.name in names or (entry.is_symlink() and entry.name not in INSIDE):
        escaped("lists " + entry.name)
for name in sorted(names):
    for ask in ("exists", "isfile", "isdir", "islink", "lexists"):
        if getattr(os.path, ask)(name):
            escaped(f"{ask} {name}")
    attempt("readlink " + name, os.readlink, name)
    attempt("size " + name, os.path.getsize, name)
verdict()
