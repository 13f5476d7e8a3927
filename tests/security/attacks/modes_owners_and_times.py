"""Change what a file is, not what it holds."""

import os

from attack_kit import BASE, attempt, verdict


def changed(name, *args):
    getattr(os, name)(*args)


for path in ("../canary.txt", BASE + "/canary.txt", "secret_link", ".metadata.json", "/app"):
    attempt("chown " + path, changed, "chown", path, 0, 0)
    attempt("chflags " + path, changed, "chflags", path, 1)
    try:
        os.chmod(path, 0o6777)
        os.utime(path, ns=(1, 1))  # may be ignored without a word; the host looks for itself
    except OSError as error:
        print("refused times", error.errno)
try:
    os.chmod("notes.txt", 0o6777)
except (OSError, AttributeError) as error:
    print("refused", type(error).__name__)
attempt("umask", changed, "umask", 0)
attempt("setuid", changed, "setuid", 0)
verdict()
