"""Go round in circles through links that lead to each other."""

import os
import shutil

from attack_kit import INSIDE, append, attempt, read, verdict, write

for name in ("loop", "loop_a", "loop_b"):
    for path in (name, name + "/x", name + "/" + name, "/".join([name] * 100)):
        for label, function in {
            "read": read,
            "write": write,
            "append": append,
            "list": os.listdir,
            "stat": os.stat,
            "lstat": os.lstat,
            "mkdir": os.mkdir,
            "rmdir": os.rmdir,
            "remove": os.remove,
            "rmtree": shutil.rmtree,
            "readlink": os.readlink,
        }.items():
            if path in INSIDE and label not in ("list", "mkdir", "rmdir", "rmtree"):
                continue  # a circle ends there; the link itself may be read and removed
            attempt(f"{label} {path[:40]}", function, path)
verdict()
