"""Leave files the next interpreter might run by itself."""

import os
import sys

from attack_kit import verdict

TRAP = "import builtins\nbuiltins.left = True\nprint('ESCAPED: ran by itself')\n"
home = os.path.expanduser("~")
for place in ("/app", home, "/tmp", home + "/.local/lib/python3.15/site-packages", *sys.path):
    try:
        os.makedirs(place, exist_ok=True)
    except OSError:
        continue
    for name in (
        "sitecustomize.py",
        "usercustomize.py",
        "conftest.py",
        "__init__.py",
        "__main__.py",
        "pyvenv.cfg",
        "python._pth",
        "trap.pth",
        ".pythonrc.py",
        "setup.cfg",
        "encodings.py",
        "site.py",
    ):
        try:
            with open(os.path.join(place, name), "w") as file:
                file.write(
                    TRAP if name.endswith(".py") else "import trap_module; print('ESCAPED')\n"
                )
        except OSError:
            continue
with open("/app/trap_module.py", "w") as file:
    file.write(TRAP)
verdict()
