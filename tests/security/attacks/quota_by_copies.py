# long
# host memory: 300
"""Double the workspace until it is full."""

import os
import shutil

from attack_kit import escaped, verdict

os.mkdir("c0")
with open("c0/file", "wb") as file:
    file.write(b"x" * (1 << 21))
for turn in range(7):
    try:
        shutil.copytree(f"c{turn}", f"c{turn + 1}/one")
        shutil.copytree(f"c{turn}", f"c{turn + 1}/two")
    except (OSError, shutil.Error) as error:
        print("refused", type(error).__name__)
total = 0
for directory, _, files in os.walk("."):
    total += sum(os.lstat(os.path.join(directory, name)).st_size for name in files)
if total > 64 << 20:
    escaped(f"{total} bytes")
verdict()
