# long
# host memory: 300
"""Fill the workspace by empty files."""

import os

from attack_kit import escaped, verdict

made = 0
try:
    for number in range(6000):
        os.close(os.open(f"s{number}", os.O_CREAT | os.O_WRONLY))
        made += 1
except OSError as error:
    print("refused", error.errno)
if made > 4000:
    escaped(f"{made} files")
verdict()
