"""Set the times of what is hidden, missing, planted or outside, by path and by descriptor."""

import os

from attack_kit import BASE, attempt, verdict


def touch(path, **more):
    os.utime(path, ns=(1, 1), **more)


for path in (
    ".metadata.json",
    "./.METADATA.JSON",
    "/app/.metadata.json",
    "missing",
    "missing/x",
    "notes.txt/",
    "notes.txt/.",
    "secret_link",
    "outside_link",
    "outside_link/secret.txt",
    "passwd_link",
    "dangling_out",
    "..",
    "../canary.txt",
    BASE + "/canary.txt",
    BASE,
    "/",
    "/usr",
    "/run/agentforge",
    "/run/agentforge/stdout",
):
    attempt("times " + path, touch, path)
top = os.open("/app", os.O_RDONLY)
attempt("times below a descriptor", lambda: os.utime(".metadata.json", ns=(1, 1), dir_fd=top))
held = os.open("held", os.O_WRONLY | os.O_CREAT)
os.unlink("held")
os.utime(held, ns=(1, 1))  # of nothing that has a name
for times in ((2**63, 2**63), (2**64 - 1, 0), (0, 2**63 - 1)):
    try:
        os.utime("notes.txt", ns=times)
    except (OSError, OverflowError) as error:
        print("refused", type(error).__name__)
verdict()
