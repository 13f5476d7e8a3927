"""Read who is on the host."""

import os
import platform

from attack_kit import attempt, escaped, verdict


def load(name, function, *args):
    return getattr(__import__(name), function)(*args)


attempt("users", load, "pwd", "getpwall")
attempt("user", load, "pwd", "getpwuid", 0)
attempt("groups", load, "grp", "getgrall")
attempt("log", load, "syslog", "syslog", "planted")
attempt("home", lambda: os.listdir(os.path.expanduser("~root")))
for value in (*platform.uname(), platform.node()):
    if "linux" in value.lower() and "wasm" not in value.lower():
        escaped("the host's system: " + value)
verdict()
