"""Leave modules of the library's names, broken ones."""

import os

from attack_kit import verdict

for name in ("os", "sys", "io", "abc", "codecs", "encodings", "site", "posixpath", "types"):
    with open(f"/app/{name}.py", "w") as file:
        file.write("raise SystemExit('ESCAPED: shadowed')\n")
for name in ("atexit", "gc", "_io", "builtins", "marshal", "zipimport"):
    os.makedirs(f"/app/{name}", exist_ok=True)
    with open(f"/app/{name}/__init__.py", "w") as file:
        file.write("raise SystemExit('ESCAPED: shadowed')\n")
verdict()
