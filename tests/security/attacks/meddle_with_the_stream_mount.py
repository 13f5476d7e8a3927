"""Use the place where input comes from and output goes to for something else."""

import os

from attack_kit import attempt, escaped, read, verdict, write

PLACE = "/run/agentforge"

if os.listdir(PLACE):
    escaped("something is there that nobody gave")
for name in ("stdin", "stdout", "stderr", "other", "../../etc/passwd", "../agentforge/stdout"):
    path = f"{PLACE}/{name}"
    attempt(f"read {name}", read, path)
    if not name.startswith("../../"):  # that is a file of the guest's own root
        attempt(f"write {name}", write, path)
attempt("directory", os.mkdir, f"{PLACE}/made")
attempt("remove", os.remove, f"{PLACE}/stdout")
attempt("remove the place", os.rmdir, PLACE)
attempt("rename into it", os.rename, "/app/notes.txt", f"{PLACE}/stdout")
attempt("rename it", os.rename, PLACE, "/app/taken")
attempt("rename over it", os.rename, "/app", PLACE)
attempt("link into it", os.link, "/app/notes.txt", f"{PLACE}/linked")
attempt("link out of it", os.symlink, "/app", f"{PLACE}/out")

try:
    os.mkdir("/tmp/.agentforge-stdin")  # where an input would be put on its way
except OSError as error:
    print("no directory", error.errno)
else:
    os.rmdir("/tmp/.agentforge-stdin")
if os.read(0, 100):
    escaped("an input that nobody gave")
verdict()
