# long
# host memory: 300
"""Grow files a little at a time, each time within what is allowed."""

import os

from attack_kit import escaped, verdict

refused = 0
for turn in range(20):  # noqa: B007
    for number in range(6):
        try:
            with open(f"log{number}", "ab") as file:
                file.write(b"x" * (1 << 20))
        except OSError:
            refused += 1
total = sum(os.path.getsize(f"log{number}") for number in range(6))
print(refused, total)
if total > 64 << 20:
    escaped(f"{total} bytes")
verdict()
