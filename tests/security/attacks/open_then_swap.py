"""Move an open file's directory away before it is written back."""

import os

from attack_kit import verdict

os.makedirs("one/two")
file = open("one/two/file.txt", "w")  # noqa: SIM115
file.write("first")
os.rename("one", "moved")
for target in ("../outside", "/etc", "outside_link"):
    try:
        os.symlink(target, "one")
    except OSError as error:
        print("no link", error.errno)
try:
    file.close()
except OSError as error:
    print("nowhere to go", error.errno)
held = open("held.txt", "w")  # noqa: SIM115
held.write("second")
os.remove("held.txt") if os.path.exists("held.txt") else None
try:
    os.rename("secret_link", "held.txt")
except OSError as error:
    print("no link to move", error.errno)
try:
    held.close()
except OSError as error:
    print("gone", error.errno)
verdict()
