"""Have the library do the climbing."""

import fnmatch
import glob
import os
import pathlib

from attack_kit import BASE, attempt, escaped, verdict

for pattern in (
    "../**/secret*",
    BASE + "/**/*",
    "/**/canary*",
    "*/../../*/secret.txt",
    "outside*/*",
):
    found = glob.glob(pattern, recursive=True)
    if any("secret.txt" in name or "canary" in name for name in found):
        escaped(pattern)
for start in ("..", "outside_link", BASE, "/"):
    names = []
    try:
        for count, path in enumerate(pathlib.Path(start).rglob("*", recurse_symlinks=True)):
            names.append(path.name)
            if count > 5000:
                break
    except OSError as error:
        print("refused", start, error.errno)
    if fnmatch.filter(names, "canary*") or "secret.txt" in names:
        escaped("rglob " + start)
attempt("resolve strictly", lambda: pathlib.Path("secret_link").resolve(strict=True))
attempt("samefile", lambda: os.path.samefile("secret_link", "notes.txt"))
verdict()
