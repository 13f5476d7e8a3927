# long
# host memory: 300
"""Make files long without writing to them."""

import os

from attack_kit import escaped, verdict

for number in range(20):
    try:
        with open(f"hole{number}", "wb") as file:
            file.truncate(12 << 20)
    except OSError as error:
        print("refused", error.errno)
    for size in (1 << 30, 1 << 40, 2**62, -1):
        try:
            os.truncate(f"hole{number}", size)
        except OSError as error:
            print("refused", error.errno)
        else:
            escaped(f"{size} bytes")
total = sum(os.path.getsize(name) for name in os.listdir(".") if name.startswith("hole"))
if total > 64 << 20:
    escaped(f"{total} bytes")
verdict()
