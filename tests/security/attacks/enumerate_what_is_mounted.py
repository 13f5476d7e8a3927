"""List every directory that is held open by number."""

import os

from attack_kit import escaped, verdict

for fd in range(3, 300):
    for look in (os.listdir, os.scandir):
        try:
            names = [getattr(entry, "name", entry) for entry in look(fd)]
        except (OSError, TypeError, NotImplementedError):
            continue
        if {"canary.txt", "outside", "neighbour", ".metadata.json"} & set(names):
            escaped(f"descriptor {fd} shows {names}")
verdict()
