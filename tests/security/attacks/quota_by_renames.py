# host memory: 300
"""Confuse the count by moving, replacing and removing."""

import os
import shutil

from attack_kit import escaped, verdict

os.makedirs("a", exist_ok=True)
for turn in range(60):
    try:
        with open("a/file", "wb") as file:
            file.write(b"x" * (4 << 20))
        os.replace("a/file", f"kept{turn % 20}")
        os.rename("a", f"dir{turn % 5}")
    except OSError as error:
        print("refused", error.errno)
    os.makedirs("a", exist_ok=True)
    if turn % 7 == 0:
        shutil.rmtree(f"dir{turn % 5}", ignore_errors=True)
total = 0
for directory, _, files in os.walk("."):
    total += sum(os.lstat(os.path.join(directory, name)).st_size for name in files)
if total > 64 << 20:
    escaped(f"{total} bytes")
verdict()
