"""Have the library put its temporary files where it should not."""

import os
import tempfile

from attack_kit import BASE, attempt, verdict

for place in (BASE, BASE + "/outside", "../outside", "outside_link", "/proc", "/dev/shm"):
    attempt("file " + place, lambda p=place: tempfile.NamedTemporaryFile(dir=p))  # noqa: SIM115
    attempt("directory " + place, lambda p=place: tempfile.mkdtemp(dir=p))
    os.environ["TMPDIR"] = place
    tempfile.tempdir = None
    if tempfile.gettempdir() == place:
        attempt("default " + place, tempfile.mkdtemp)
verdict()
