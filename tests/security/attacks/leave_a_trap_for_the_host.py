"""Leave files a careless host would run or follow."""

import os

from attack_kit import verdict

for name in ["sitecustomize.py", "usercustomize.py", "conftest.py", "site.py", "os.py", ".pdbrc"]:
    with open(name, "w") as file:
        file.write("print('ESCAPED: ran on the host')\n")
os.makedirs("attrs", exist_ok=True)
with open("attrs/__init__.py", "w") as file:
    file.write("raise RuntimeError('ESCAPED')\n")
try:
    os.symlink("../outside/secret.txt", "report.txt")
except OSError as error:
    print("no link", error.errno)
verdict()
