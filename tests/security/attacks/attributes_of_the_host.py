"""Forge the marks the host keeps on the workspace."""

import os

from attack_kit import attempt, verdict

for path in (".", "/app", "notes.txt", "../canary.txt"):
    attempt("set " + path, lambda p=path: os.setxattr(p, "user.agentforge.execution", b"x"))
    attempt("get " + path, lambda p=path: os.getxattr(p, "user.agentforge.execution"))
    attempt("list " + path, lambda p=path: os.listxattr(p))
    attempt("remove " + path, lambda p=path: os.removexattr(p, "user.agentforge.execution"))
verdict()
