"""Reach, and forge, the names the host uses on the way."""

import os

from attack_kit import BASE, attempt, read, verdict, write

for name in (".incoming-canary", ".discarded-canary"):
    for way in ("../" + name, BASE + "/" + name):
        attempt("read " + way, read, way + "/inside.txt")
        attempt("read file " + way, read, way)
        attempt("list " + way, os.listdir, way)
        if way.startswith(BASE):
            attempt("write " + way, write, way)
# The same names on its own ground are ordinary; the host must not take them for its own.
for name in (".incoming-1", ".discarded-1", ".lock", ".metadata.json.tmp", ".tmp-metadata"):
    os.makedirs(name + "/x", exist_ok=True)
    write(name + "/x/file")
verdict()
