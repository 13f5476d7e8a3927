"""Hold the locks the host needs."""

import os

from attack_kit import attempt, verdict


def hold(path, operation):
    import fcntl

    fd = os.open(path, os.O_RDONLY)
    getattr(fcntl, operation)(fd, fcntl.LOCK_EX)
    os.close(fd)


for path in (".", "/app", "notes.txt", "..", ".metadata.json"):
    attempt("flock " + path, hold, path, "flock")
    attempt("lockf " + path, hold, path, "lockf")
verdict()
