# long
# host memory: 300
"""Fill the workspace by directories."""

import os

from attack_kit import escaped, verdict

made = 0
try:
    for number in range(6000):
        os.mkdir(f"d{number}")
        made += 1
except OSError as error:
    print("refused", error.errno)
if made > 4000:
    escaped(f"{made} directories")
verdict()
