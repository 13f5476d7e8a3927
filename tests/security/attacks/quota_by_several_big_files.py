# host memory: 300
"""Fill the workspace by files that are each allowed."""

import os

from attack_kit import escaped, verdict

kept = 0
for number in range(40):
    try:
        with open(f"big{number}", "wb") as file:
            file.write(b"x" * (8 << 20))
    except OSError as error:
        print("refused", error.errno)
    kept += os.path.getsize(f"big{number}") if os.path.exists(f"big{number}") else 0
if kept > 64 << 20:
    escaped(f"{kept} bytes")
verdict()
