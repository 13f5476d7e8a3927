"""Start a process or a program."""

import multiprocessing
import os
import subprocess

from attack_kit import attempt, verdict


def call(name, *args):
    return getattr(os, name)(*args)


for name, args in {
    "fork": (),
    "forkpty": (),
    "vfork": (),
    "execv": ("/bin/sh", ["sh"]),
    "execvpe": ("sh", ["sh"], {}),
    "posix_spawn": ("/bin/true", ["true"], {}),
    "spawnv": (0, "/bin/true", ["true"]),
    "system": ("true",),
    "popen": ("true",),
    "kill": (1, 0),
    "pidfd_open": (1,),
    "ptrace": (),
}.items():
    attempt(name, call, name, *args)
attempt("subprocess", subprocess.run, ["true"])
attempt(
    "shell",
    subprocess.check_output,
    "true",
)
attempt("multiprocessing", lambda: multiprocessing.Process(target=print).start())
verdict()
