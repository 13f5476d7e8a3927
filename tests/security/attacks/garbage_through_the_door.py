"""Call whatever leads to the host with everything but what it expects."""

import importlib
import sys

from attack_kit import attempt, verdict

GARBAGE = [None, -1, 2**64, b"\xff" * 1000, "x" * 10**6, {}, [], object(), float("nan"), b"{}"]
for name in ("host", "_host", "host.tools", "_wasi", "wasi", "_wasi_python", "_agentforge"):
    try:
        module = importlib.import_module(name)
    except ImportError:
        print("no", name)
        continue
    for entry in dir(module):
        thing = getattr(module, entry, None)
        if not callable(thing) or isinstance(thing, type) or entry.startswith("__"):
            continue
        for value in GARBAGE:
            try:
                thing(value)
            except (Exception, SystemExit) as error:
                print("refused", name, entry, type(error).__name__)
for name in sorted(sys.builtin_module_names):
    if "host" in name:
        print("built in:", name)
attempt("tools", lambda: importlib.import_module("host").tools.secret())  # noqa: PLW0108
verdict()
